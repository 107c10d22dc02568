//! Requests at their limits: how deep a body may nest, and how many faults it may hold.

use mapwright_testbed::{Answer, Http, Kind, eventually, secs};
use serde_json::{Value, json};

use crate::dcm::{CONTAINERS, Dcm, GROWING, SOON, VOLUMES, disk, make_classes, problem, web};
use crate::volumes::bind;

/// A body whose arrays and objects nest to exactly this depth, bare or wrapped.
fn nested(spec: &Value, wrapped: bool, depth: usize) -> String {
    let mut marked = spec.clone();
    marked["provider_hints"]["other"] = json!("HERE");
    let (text, around) =
        if wrapped { (json!({ "spec": marked }).to_string(), 3) } else { (marked.to_string(), 2) };
    text.replace("\"HERE\"", &lists(depth - around))
}

fn lists(count: usize) -> String {
    format!("{}{}", "[".repeat(count), "]".repeat(count))
}

async fn post(http: &Http, path: &str, body: String) -> Answer {
    http.request("POST", path, &[("content-type", "application/json")], body).await.unwrap()
}

#[tokio::test]
async fn whatever_depth_is_accepted_is_read_back() {
    let mut dcm = Dcm::start("deep").await;
    make_classes(&dcm.objects).await;
    // Readers of JSON give up at 128 levels, that of the contract as well: the texts are compared.
    let http = Http::new(dcm.provider.base_url());
    let mut made = Vec::new();
    for (collection, kind) in [(CONTAINERS, "web"), (VOLUMES, "disk")] {
        for wrapped in [false, true] {
            for depth in [5, 64, 65, 66, 100, 124, 125, 126, 127, 128, 129, 130, 1000] {
                let id = format!("{kind}-{depth}-{wrapped}");
                let spec = if kind == "web" { web() } else { disk(&id, "1Gi") };
                let answer =
                    post(&http, &format!("{collection}?id={id}"), nested(&spec, wrapped, depth)).await;
                let expected = if depth > 128 { 400 } else { 201 };
                assert_eq!(answer.status, expected, "{id}: {}", answer.text());
                let path = format!("{collection}/{id}");
                if depth > 128 {
                    assert_eq!(http.get(&path).await.unwrap().status, 404, "{id}");
                } else {
                    made.push((path, lists(depth - if wrapped { 3 } else { 2 })));
                }
            }
        }
    }
    let all_are_read = async || {
        let list = http.get(&format!("{CONTAINERS}?max_page_size=1000")).await.unwrap().text();
        let volumes = http.get(&format!("{VOLUMES}?max_page_size=1000")).await.unwrap().text();
        for (path, sent) in &made {
            let answer = http.get(path).await.unwrap();
            let expected = format!("\"other\":{sent}");
            assert!(answer.status == 200 && answer.text().contains(&expected), "{path}: {}", answer.text());
            let path = path.trim_start_matches("/api/v1alpha1/");
            assert!(list.contains(path) || volumes.contains(path), "{path} is not listed");
        }
    };
    all_are_read().await;
    let claim = dcm.only(&Kind::CLAIM, "disk-128-false").await;
    bind(&dcm.objects, &format!("{}-deep", dcm.objects.namespace()), &claim, GROWING, "1Gi").await;
    let bound = async || {
        let answer = http.get(&format!("{VOLUMES}/disk-128-false")).await.ok()?;
        answer.text().contains("RUNNING").then_some(())
    };
    eventually("the deep volume is bound", SOON, bound).await.unwrap();
    let patched =
        http.patch(&format!("{VOLUMES}/disk-128-false"), &json!({ "capacity": "2Gi" })).await.unwrap();
    assert_eq!(patched.status, 200, "{}", patched.text());
    dcm.provider.terminate(secs(30)).await.unwrap();
    dcm.provider.restart().await.unwrap();
    all_are_read().await;
    for (path, _) in &made {
        assert_eq!(http.delete(path).await.unwrap().status, 204, "{path}");
    }
}

#[tokio::test]
async fn as_many_faults_as_a_body_can_hold_are_all_told() {
    let dcm = Dcm::start("many").await;
    let many = |count: usize, item: &dyn Fn(usize) -> Value| (0..count).map(item).collect::<Vec<_>>();
    let mut ports = web();
    ports["network"]["ports"] =
        json!(many(15_000, &|_| json!({ "container_port": 70_000, "visibility": "x" })));
    let mut labels = web();
    let bad = (0..20_000).map(|number| (format!("l {number}"), json!("v"))).collect();
    labels["metadata"]["labels"] = Value::Object(bad);
    let mut twins = web();
    twins["process"]["env"] = json!(many(9_000, &|_| json!({ "name": "A", "value": "" })));
    for (body, first, count) in [
        (ports, "#/network/ports/0/container_port", 30_000),
        (labels, "#/metadata/labels/l%200", 20_000),
        (twins, "#/process/env/1/name", 8_999),
    ] {
        let answer = dcm.post(CONTAINERS, &body).await;
        let document = problem(&answer, 400, "invalid-argument");
        let errors = document["errors"].as_array().unwrap();
        assert_eq!((errors.len(), &errors[0]["pointer"]), (count, &json!(first)));
    }
}
