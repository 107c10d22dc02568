//! Cases from the field, requests: encodings, odd forms of HTTP, patterns, pointers and long names.

use mapwright_testbed::{Answer, Kind, Objects};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::dcm::{
    CONTAINERS, Dcm, VOLUMES, disk, faults, make_classes, name_of, problem, web, web_with_ports, with,
    without,
};

#[tokio::test]
async fn head_is_get_without_a_body_and_equal_uris_name_the_same() {
    let dcm = Dcm::start("p22").await;
    dcm.container("my-app", web()).await;
    for path in [format!("{CONTAINERS}/my-app"), CONTAINERS.to_owned(), format!("{CONTAINERS}/health")] {
        let head = dcm.http.request("HEAD", &path, &[], "").await.unwrap();
        let get = dcm.get(&path).await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"));
    }
    let missing = dcm.http.request("HEAD", &format!("{CONTAINERS}/nobody"), &[], "").await.unwrap();
    assert_eq!((missing.status, missing.body.len()), (404, 0));
    for id in ["my%2Dapp", "%6Dy-app"] {
        let answer = dcm.get(&format!("{CONTAINERS}/{id}")).await;
        assert_eq!((answer.status, &answer.json()["id"]), (200, &json!("my-app")));
    }
    for id in ["my%2Fapp", "my-app%00", "%ZZ", "my-app%0A", "%FF"] {
        let path = format!("{CONTAINERS}/{id}");
        let answer = dcm.get(&path).await;
        let code = if answer.status == 400 { "invalid-argument" } else { "not-found" };
        let status = if answer.status == 400 { 400 } else { 404 };
        assert_eq!(problem(&answer, status, code)["instance"], path);
    }
    let put = dcm.http.request("PUT", &format!("{CONTAINERS}/my-app"), &[], "").await.unwrap();
    problem(&put, 405, "method-not-allowed");
    assert_eq!(put.header("allow"), "DELETE, GET, HEAD, OPTIONS");
    let answer = dcm.post(&format!("{CONTAINERS}?id=my%2Dapp2"), &web()).await;
    assert_eq!((answer.status, &answer.json()["id"]), (201, &json!("my-app2")));
    let answer = dcm.http.delete(&format!("{CONTAINERS}/my%2Dapp")).await.unwrap();
    assert_eq!(answer.status, 204);
}

#[tokio::test]
async fn encoded_deep_and_absolute_requests_are_answered_well() {
    let dcm = Dcm::start("p25").await;
    let plain = with(web(), "/provider_hints", json!({ "k": "v" })).to_string();
    let post = async |headers: &[(&str, &str)], body: Vec<u8>| -> Answer {
        let all: Vec<(&str, &str)> =
            [("content-type", "application/json")].iter().chain(headers).copied().collect();
        dcm.http.request("POST", CONTAINERS, &all, body).await.unwrap()
    };
    // The bytes of an empty gzip member: nobody looks at them.
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0".to_vec();
    let document = problem(&post(&[("content-encoding", "gzip")], gzip).await, 415, "unsupported-media-type");
    assert!(document["detail"].as_str().unwrap().is_ascii(), "{document}");
    assert_eq!(post(&[("content-encoding", "identity")], plain.clone().into_bytes()).await.status, 201);

    let nested = |depth: usize| {
        let hints = format!("{{\"k\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        plain.replace(r#"{"k":"v"}"#, &hints)
    };
    let began = std::time::Instant::now();
    problem(&post(&[], nested(20_000).into_bytes()).await, 400, "invalid-argument");
    assert!(began.elapsed() < mapwright_testbed::secs(1), "{:?}", began.elapsed());
    let deep = post(&[], nested(100).into_bytes()).await;
    assert_eq!(deep.status, 201, "{}", deep.text());
    let sent: Value = serde_json::from_str(&nested(100)).unwrap();
    assert_eq!(deep.json()["spec"]["provider_hints"], sent["provider_hints"]);

    let utf16: Vec<u8> = plain.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let broken = plain
        .replace("web:1", "we\u{0}b")
        .into_bytes()
        .into_iter()
        .map(|byte| if byte == 0 { 0xff } else { byte });
    for body in [[b"\xef\xbb\xbf", plain.as_bytes()].concat(), utf16, broken.collect()] {
        problem(&post(&[], body).await, 400, "invalid-argument");
    }
    let absolute = raw(&dcm, &format!("GET http://host.example{CONTAINERS}/health HTTP/1.1")).await;
    assert!(absolute.starts_with("HTTP/1.1 200 "), "{absolute}");
    let options = raw(&dcm, "OPTIONS * HTTP/1.1").await;
    assert!(options.starts_with("HTTP/1.1 ") && !options.starts_with("HTTP/1.1 500"), "{options}");
}

/// One request line as no client would write it; answers with what came back.
async fn raw(dcm: &Dcm, line: &str) -> String {
    let address = dcm.provider.base_url().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let request = format!("{line}\r\nhost: host.example\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn patterns_take_ascii_and_the_whole_text() {
    let dcm = Dcm::start("p27").await;
    let cases = [
        ("/resources/memory/max", "1GB\n"),
        ("/resources/memory/max", "\u{661}GB"),
        ("/resources/memory/max", "1gb"),
        ("/resources/memory/max", " 1GB"),
        ("/resources/cpu/max", "1 "),
        ("/resources/cpu/max", "\u{ff11}"),
        ("/metadata/name", "web\n"),
        ("/metadata/name", "w\u{e9}b"),
        ("/metadata/name", "\u{ff57}\u{ff45}\u{ff42}"),
    ];
    for (member, text) in cases {
        let answer = dcm.post(CONTAINERS, &json!({ "spec": with(web(), member, json!(text)) })).await;
        assert_eq!(faults(&answer), [format!("#/spec{member}")], "{text:?}: {}", answer.text());
    }
}

#[tokio::test]
async fn every_fault_is_named_once_at_its_place_in_the_order_of_the_body() {
    let dcm = Dcm::start("p27b").await;
    let labels = json!({ "dcm.project/managed-by": "x", "bad~key!": "y" });
    let labelled = with(web(), "/metadata/labels", labels);
    let answer = dcm.post(CONTAINERS, &json!({ "spec": labelled })).await;
    let expected = ["/metadata/labels/dcm.project~1managed-by", "/metadata/labels/bad~0key!"];
    assert_eq!(faults(&answer), expected.map(|pointer| format!("#/spec{pointer}")));
    assert_eq!(faults(&dcm.post(CONTAINERS, &labelled).await), expected.map(|pointer| format!("#{pointer}")));

    let mut spec = web_with_ports(&[(80, "none"), (81, "none"), (1, "none")]);
    for missing in ["/service_type", "/metadata/name", "/image/reference"] {
        spec = without(spec, missing);
    }
    spec = with(spec, "/resources/cpu", json!({ "min": 4, "max": 2 }));
    spec = with(spec, "/network/ports/2/container_port", json!(0));
    let answer = dcm.post(CONTAINERS, &json!({ "spec": spec })).await;
    let expected = [
        "#/spec",
        "#/spec/metadata",
        "#/spec/image",
        "#/spec/resources/cpu/min",
        "#/spec/network/ports/2/container_port",
    ];
    assert_eq!(faults(&answer), expected);

    make_classes(&dcm.objects).await;
    let hints = json!({ "access_mode": "Bad", "foo": 1, "storage_class": "fast" });
    let answer = dcm
        .post(VOLUMES, &json!({ "spec": with(disk("a", "1Gi"), "/provider_hints/kubernetes", hints) }))
        .await;
    let expected = ["access_mode", "foo"].map(|name| format!("#/spec/provider_hints/kubernetes/{name}"));
    assert_eq!(faults(&answer), expected);
}

#[tokio::test]
async fn long_names_are_cut_well_and_stay_apart() {
    let dcm = Dcm::start("p31").await;
    let long = "a".repeat(63);
    let mut names = vec![long.clone()];
    for position in [56, 57, 58, 59] {
        let mut name = long.clone();
        name.replace_range(position..=position, "-");
        names.push(name);
    }
    names.extend([format!("{}b", &long[1..]), format!("b{}", &long[1..]), format!("c{}", &long[1..])]);
    for (number, name) in names.iter().enumerate() {
        let id = format!("long-{number}");
        let spec = with(web_with_ports(&[(80, "internal")]), "/metadata/name", json!(name));
        assert_eq!(dcm.container(&id, spec).await["spec"]["metadata"]["name"], name.as_str());
        let deployment = dcm.only(&Kind::DEPLOYMENT, &id).await;
        assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["name"], name.as_str());
        for object in [deployment, dcm.only(&Kind::SERVICE, &id).await] {
            well_cut(name_of(&object));
        }
    }
    for (number, name) in names.iter().enumerate() {
        let id = format!("long-{number}");
        assert_eq!(dcm.read(CONTAINERS, &id).await["spec"]["metadata"]["name"], name.as_str());
        assert_eq!(dcm.delete(CONTAINERS, &id).await.status, 204);
        dcm.is_gone(CONTAINERS, &id).await;
    }
    let whole = "i".repeat(63);
    dcm.container(&whole, web()).await;
    let deployment = dcm.only(&Kind::DEPLOYMENT, &whole).await;
    assert_eq!(deployment["metadata"]["labels"]["dcm.project/dcm-instance-id"], whole.as_str());
}

fn well_cut(name: &str) {
    let (base, suffix) = name.rsplit_once('-').unwrap();
    assert!(name.len() <= 63 && suffix.len() == 5 && !base.ends_with('-') && !base.is_empty(), "{name}");
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(name.chars().all(legal) && name.starts_with(|c: char| c != '-'), "{name}");
}

#[tokio::test]
async fn a_name_that_begins_with_a_digit_is_as_good_as_the_cluster_takes_it() {
    let dcm = Dcm::start("p31d").await;
    let named = |ports: &[(u16, &str)]| with(web_with_ports(ports), "/metadata/name", json!("1abc"));
    dcm.container("bare", named(&[])).await;
    let body = json!({ "spec": named(&[(80, "internal")]) });
    let answer = dcm.post(&format!("{CONTAINERS}?id=served"), &body).await;
    if takes_digits(&dcm.objects).await {
        assert_eq!(answer.status, 201, "{}", answer.text());
        return;
    }
    assert_eq!(faults(&answer), ["#/spec/metadata/name"]);
    assert_eq!(dcm.of(&Kind::DEPLOYMENT, "served").await, Vec::<Value>::new());
}

/// Whether the API server takes a Service whose name begins with a digit.
async fn takes_digits(objects: &Objects) -> bool {
    let service = json!({ "metadata": { "name": "1abc-x" }, "spec": { "ports": [{ "port": 1 }] } });
    objects.create(&Kind::SERVICE, service).await.is_ok()
}
