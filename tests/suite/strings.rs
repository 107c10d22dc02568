//! Values that break template engines: whatever a caller sends arrives as it was sent, or is refused at its
//! place; it never changes the shape of an object or the type of a field.

use futures::stream::{StreamExt as _, iter};
use mapwright::engine::samples::HOSTILE;
use mapwright_testbed::{Answer, Kind, Objects};
use serde_json::{Value, json};

use crate::dcm::{CONTAINERS, Dcm, VOLUMES, disk, faults, make_classes, problem, web, with};

fn hostile() -> Vec<String> {
    HOSTILE.iter().map(ToString::to_string).chain(["x".repeat(100 << 10)]).collect()
}

#[tokio::test]
async fn a_process_gets_every_string_as_it_was_sent() {
    let dcm = Dcm::start("strings").await;
    let strings = hostile();
    let env: Vec<Value> = strings
        .iter()
        .enumerate()
        .map(|(number, text)| json!({ "name": format!("V{number}"), "value": text }))
        .collect();
    let process = json!({ "command": strings, "args": strings, "env": env });
    let answer = dcm.container("all", with(web(), "/process", process.clone())).await;
    assert_eq!(answer["spec"]["process"], process);
    let deployment = dcm.only(&Kind::DEPLOYMENT, "all").await;
    assert_eq!(deployment["spec"]["replicas"], 1);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((&container["command"], &container["args"]), (&json!(strings), &json!(strings)));
    for (stored, text) in container["env"].as_array().unwrap().iter().zip(&strings) {
        assert_eq!(stored.get("value").and_then(Value::as_str).unwrap_or_default(), text);
    }
}

/// One field of a spec: where it stands, and where its value arrives.
struct Field {
    pointer: &'static str,
    /// The value that carries a text, and the pointer at which a refusal may stand.
    sent: fn(&str) -> (Value, String),
    arrives: &'static str,
}

fn plain(text: &str) -> (Value, String) {
    (json!(text), String::new())
}

const CONTAINER_FIELDS: [Field; 7] = [
    Field { pointer: "/service_type", sent: plain, arrives: "" },
    Field { pointer: "/metadata/name", sent: plain, arrives: "/spec/template/spec/containers/0/name" },
    Field {
        pointer: "/metadata/labels",
        sent: |text| (json!({ "key": text }), "/key".to_owned()),
        arrives: "/spec/template/metadata/labels/key",
    },
    Field {
        pointer: "/metadata/labels",
        sent: |text| (json!({ text: "value" }), format!("/{}", escaped(text))),
        arrives: "",
    },
    Field { pointer: "/image/reference", sent: plain, arrives: "/spec/template/spec/containers/0/image" },
    Field {
        pointer: "/process/env",
        sent: |text| (json!([{ "name": text, "value": "1" }]), "/0/name".to_owned()),
        arrives: "/spec/template/spec/containers/0/env/0/name",
    },
    Field {
        pointer: "/resources/cpu/max",
        sent: plain,
        arrives: "/spec/template/spec/containers/0/resources/limits/cpu",
    },
];

const VOLUME_FIELDS: [Field; 6] = [
    Field { pointer: "/capacity", sent: plain, arrives: "" },
    Field { pointer: "/metadata/name", sent: plain, arrives: "/metadata/name" },
    Field {
        pointer: "/metadata/labels",
        sent: |text| (json!({ "key": text }), "/key".to_owned()),
        arrives: "/metadata/labels/key",
    },
    Field {
        pointer: "/provider_hints/kubernetes/storage_class",
        sent: plain,
        arrives: "/spec/storageClassName",
    },
    Field { pointer: "/provider_hints/kubernetes/volume_mode", sent: plain, arrives: "/spec/volumeMode" },
    Field { pointer: "/provider_hints/kubernetes/access_mode", sent: plain, arrives: "/spec/accessModes/0" },
];

/// A pointer's part in a URI fragment.
fn escaped(text: &str) -> String {
    let mut fragment = String::new();
    for byte in text.replace('~', "~0").replace('/', "~1").bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(&byte) {
            true => fragment.push(char::from(byte)),
            false => fragment.push_str(&format!("%{byte:02X}")),
        }
    }
    fragment
}

#[tokio::test]
async fn every_field_of_a_container_takes_a_string_or_refuses_it_at_its_place() {
    let dcm = Dcm::start_quietly("c-strings", |launch| launch).await;
    each_field(&dcm, CONTAINERS, &Kind::DEPLOYMENT, &CONTAINER_FIELDS, web()).await;
}

#[tokio::test]
async fn every_field_of_a_volume_takes_a_string_or_refuses_it_at_its_place() {
    let dcm = Dcm::start_quietly("v-strings", |launch| launch).await;
    make_classes(&dcm.objects).await;
    let cluster = Objects::cluster(dcm.objects.client().clone());
    for name in ["yes", "null", "1e3"] {
        let class = json!({ "metadata": { "name": name }, "provisioner": "example.com/none" });
        cluster.create(&Kind::STORAGE_CLASS, class).await.unwrap();
    }
    each_field(&dcm, VOLUMES, &Kind::CLAIM, &VOLUME_FIELDS, disk("name", "1Gi")).await;
}

async fn each_field(dcm: &Dcm, collection: &str, kind: &Kind, fields: &[Field], base: Value) {
    let strings = hostile();
    let mut cases = Vec::new();
    for (number, field) in fields.iter().enumerate() {
        for (index, text) in strings.iter().enumerate() {
            let id = format!("f{number}-{index}");
            // A claim's name is unique, so each case has its own.
            let base = with(base.clone(), "/metadata/name", json!(id));
            cases.push((id, field, text, base));
        }
    }
    let taken = iter(cases)
        .map(async |(id, field, text, base)| one_field(dcm, collection, kind, &id, field, text, base).await)
        .buffer_unordered(6);
    let taken: usize = taken.map(usize::from).fold(0, async |sum, one| sum + one).await;
    assert!(taken > fields.len(), "only {taken} were taken at all");
}

/// Whether the text was taken; panics if it arrived otherwise than it was sent, or was refused elsewhere.
async fn one_field(
    dcm: &Dcm,
    collection: &str,
    kind: &Kind,
    id: &str,
    field: &Field,
    text: &str,
    base: Value,
) -> bool {
    let (sent, at) = (field.sent)(text);
    let spec = with(base, field.pointer, sent.clone());
    let answer = dcm.post(&format!("{collection}?id={id}"), &json!({ "spec": spec })).await;
    if answer.status != 201 {
        refused_at(&answer, &format!("#/spec{}{at}", field.pointer), text);
        return false;
    }
    assert_eq!(answer.json()["spec"].pointer(field.pointer), Some(&sent));
    let object = dcm.only(kind, id).await;
    if !field.arrives.is_empty() {
        let arrived = object.pointer(field.arrives).and_then(Value::as_str);
        assert_eq!(arrived, Some(text), "{}", field.pointer);
    }
    true
}

fn refused_at(answer: &Answer, pointer: &str, text: &str) {
    // A class that does not exist is a precondition, not a fault of the value.
    if answer.status == 422 {
        assert_eq!(problem(answer, 422, "failed-precondition")["pointer"], pointer);
        return;
    }
    assert_eq!(faults(answer), [pointer], "{text:?}: {}", answer.text());
}

#[tokio::test]
async fn an_integer_keeps_every_digit_or_is_refused() {
    let dcm = Dcm::start("digits").await;
    let body = |number: &str| {
        let spec = with(web(), "/provider_hints", json!({ "n": "HERE" })).to_string();
        format!("{{\"spec\":{}}}", spec.replace("\"HERE\"", number))
    };
    let post = async |id: &str, number: &str| {
        let json = [("content-type", "application/json")];
        dcm.http.request("POST", &format!("{CONTAINERS}?id={id}"), &json, body(number)).await.unwrap()
    };
    let numbers =
        ["356136738", "9007199254740993", "-9223372036854775808", "18446744073709551615", "0.1", "-2.5"];
    for (index, number) in numbers.into_iter().enumerate() {
        let id = format!("n{index}");
        let answer = post(&id, number).await;
        assert_eq!(answer.status, 201, "{number}: {}", answer.text());
        let shown = dcm.get(&format!("{CONTAINERS}/{id}")).await.text();
        assert!(shown.contains(&format!("\"n\":{number}}}")), "{number}: {shown}");
    }
    for number in
        ["18446744073709551616", "123456789012345678901234567890", "0.1000000000000000055511", "1e400"]
    {
        assert_eq!(faults(&post("big", number).await), ["#/spec/provider_hints/n"], "{number}");
    }
}
