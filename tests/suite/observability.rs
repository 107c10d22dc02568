//! What an operator sees: probes, lines of the log, spans, and the dashboards made of the figures.

use std::collections::{BTreeMap, BTreeSet};

use mapwright_testbed::process::free_port;
use mapwright_testbed::{Http, Launch, Registry, Shared, eventually, secs};
use serde_json::{Value, json};

use crate::dcm::{CONTAINERS, Dcm, SOON, web};
use crate::source::text;

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test]
async fn a_provider_is_alive_at_once_and_ready_when_its_watches_have_read_everything() {
    let shared = Shared::get().await.unwrap();
    // Nobody answers there.
    let nowhere = format!("http://127.0.0.1:{}", free_port().unwrap());
    let kubeconfig = shared.control_plane.kubeconfig_for("admin", &nowhere).unwrap();
    let launch = Launch::shared(env!("CARGO_BIN_EXE_mapwright"), shared, "probes-away").unwrap();
    let away = launch.cluster(&kubeconfig, "probes-away").types(&["storage"]).start().await.unwrap();
    assert_eq!(away.http().get("/livez").await.unwrap().json(), json!({ "status": "ok" }));
    let unready = away.http().get("/readyz").await.unwrap();
    assert_eq!(unready.status, 503, "{}", unready.text());
    let detail = unready.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("not ready: storage has not read all of "), "{detail}");
    assert!(detail.contains("PersistentVolumeClaim"), "{detail}");
    let figures = away.http().get("/metrics").await.unwrap().text();
    assert!(figures.contains("\nmapwright_ready 0\n"), "{figures}");

    let dcm = Dcm::start("probes").await;
    let ready = async || (dcm.get("/readyz").await.status == 200).then_some(());
    eventually("it is ready", SOON, ready).await.unwrap();
    assert!(dcm.get("/metrics").await.text().contains("\nmapwright_ready 1\n"));
}

#[tokio::test]
async fn a_provider_that_was_asked_to_end_is_alive_and_not_ready_until_its_delay_is_over() {
    let dcm = Dcm::start_with("probes-end", |launch| launch.env("SP_SERVER_SHUTDOWN_DELAY", "4s")).await;
    let (mut provider, http) = (dcm.provider, dcm.http);
    let ready = async || (http.get("/readyz").await.unwrap().status == 200).then_some(());
    eventually("it is ready", SOON, ready).await.unwrap();
    let asked = tokio::spawn(async move { (provider.terminate(secs(40)).await, provider) });
    let ending = async || {
        let answer = http.get("/readyz").await.ok().filter(|answer| answer.status == 503)?;
        Some(answer.json()["detail"].to_string())
    };
    let detail = eventually("it says that it ends", SOON, ending).await.unwrap();
    assert!(detail.contains("the process is ending"), "{detail}");
    assert_eq!(http.get("/livez").await.unwrap().status, 200);
    let (ended, provider) = asked.await.unwrap();
    assert!(ended.unwrap().success(), "{}", provider.log());
}

/// The lines that were written under a request's id.
fn lines_of(log: &str, request: &str) -> Vec<(Value, Value)> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of = |line: Value| {
        let span = line["spans"].as_array()?.iter().find(|span| span["id"] == request)?.clone();
        Some((line, span))
    };
    lines.filter_map(of).collect()
}

#[tokio::test]
async fn each_line_of_a_request_names_its_id_its_trace_and_its_instance() {
    let dcm = Dcm::start_with("lines", |launch| launch.env("RUST_LOG", "debug,h2=off,hyper_util=off")).await;
    let headers = [("x-request-id", "ask-1"), ("traceparent", CALLER)];
    let body = json!({ "spec": web() });
    let created =
        dcm.http.request("POST", &format!("{CONTAINERS}?id=one"), &headers, body.to_string()).await.unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!((created.header("x-request-id"), created.header("traceparent")), ("ask-1", CALLER));
    let told = async || {
        let lines = lines_of(&dcm.provider.log(), "ask-1");
        lines.iter().any(|(line, _)| line["message"] == "answered").then_some(lines)
    };
    let lines = eventually("the answer is told", SOON, told).await.unwrap();
    let (line, span) = lines.iter().find(|(line, _)| line["message"] == "answered").unwrap();
    assert_eq!((&line["status"], &span["instance"]), (&json!(201), &json!("one")));
    assert_eq!(span["trace"], "4bf92f3577b34da6a3ce929d0e0e4736");

    // A header that is malformed, or tries to begin a line of its own, is neither echoed nor written down.
    for bad in
        ["00-4bf9-00f0-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "x y", "\u{1b}[2J"]
    {
        let headers = [("x-request-id", "ask 2"), ("traceparent", bad)];
        let Ok(answer) = dcm.http.request("GET", &format!("{CONTAINERS}/one"), &headers, "").await else {
            continue;
        };
        assert_eq!(answer.header("traceparent"), "");
        assert_eq!(answer.header("x-request-id").len(), 36);
    }
    assert!(!dcm.provider.log().contains("ask 2"));
    assert!(!dcm.provider.log().contains('\u{1b}'));
}

/// What OpenTelemetry's protocol asks of an export request, as far as a trace uses it.
fn otlp() -> Value {
    let value = json!({ "type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
        "properties": {
            "stringValue": { "type": "string" }, "boolValue": { "type": "boolean" },
            "intValue": { "type": "string", "pattern": "^-?[0-9]+$" }, "doubleValue": { "type": "number" },
        } });
    let attributes = json!({ "type": "array", "items": { "type": "object", "required": ["key", "value"],
        "additionalProperties": false,
        "properties": { "key": { "type": "string", "minLength": 1 }, "value": value } } });
    let nanoseconds = json!({ "type": "string", "pattern": "^[0-9]{19}$" });
    let span = json!({ "type": "object", "additionalProperties": false,
        "required": ["traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano"],
        "properties": {
            "traceId": { "type": "string", "pattern": "^[0-9a-f]{32}$" },
            "spanId": { "type": "string", "pattern": "^[0-9a-f]{16}$" },
            "parentSpanId": { "type": "string", "pattern": "^[0-9a-f]{16}$" },
            "name": { "type": "string", "minLength": 1 }, "kind": { "enum": [1, 2, 3, 4, 5] },
            "startTimeUnixNano": nanoseconds, "endTimeUnixNano": nanoseconds,
            "attributes": attributes,
            "status": { "type": "object", "properties": { "code": { "enum": [0, 1, 2] } } },
        } });
    let scope =
        json!({ "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } });
    let spans = json!({ "type": "object", "required": ["scope", "spans"], "additionalProperties": false,
        "properties": { "scope": scope, "spans": { "type": "array", "minItems": 1, "items": span } } });
    json!({ "type": "object", "required": ["resourceSpans"], "additionalProperties": false, "properties": {
        "resourceSpans": { "type": "array", "minItems": 1, "items": { "type": "object",
            "required": ["resource", "scopeSpans"], "properties": {
                "resource": { "type": "object", "properties": { "attributes": attributes } },
                "scopeSpans": { "type": "array", "items": spans } } } } } })
}

/// All spans that a collector was sent so far, each request of the right form.
fn spans(collector: &Registry) -> Vec<Value> {
    let form = jsonschema::validator_for(&otlp()).unwrap();
    let mut spans = Vec::new();
    for request in collector.requests() {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/traces"));
        assert_eq!(request.headers["content-type"], "application/json");
        let faults: Vec<String> = form.iter_errors(&request.body).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{faults:?} in {}", request.body);
        let sent = request.body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        spans.extend(sent);
    }
    spans
}

fn attribute(span: &Value, key: &str) -> String {
    let found = span["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == key);
    let value = found.map(|attribute| &attribute["value"]);
    let text = value.and_then(|value| value.get("stringValue").or(value.get("intValue"))?.as_str());
    text.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_request_and_its_calls_of_the_cluster_become_spans_of_the_callers_trace() {
    let collector = Registry::start().await.unwrap();
    let base = collector.url().trim_end_matches("/api/v1alpha1").to_owned();
    let dcm = Dcm::start_with("traces", |launch| launch.env("SP_TRACES_URL", &base)).await;
    let body = json!({ "spec": web() });
    let path = format!("{CONTAINERS}?id=one");
    let headers = [("traceparent", CALLER)];
    let created = dcm.http.request("POST", &path, &headers, body.to_string()).await.unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    // A caller that keeps no trace has none here.
    let unkept = [("traceparent", "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-00")];
    dcm.http.request("GET", &format!("{CONTAINERS}/one"), &unkept, "").await.unwrap();

    let of_trace = |spans: &[Value]| -> Vec<Value> {
        spans.iter().filter(|span| span["traceId"] == "4bf92f3577b34da6a3ce929d0e0e4736").cloned().collect()
    };
    let arrived = async || {
        let trace = of_trace(&spans(&collector));
        trace.iter().any(|span| span["kind"] == 2).then_some(trace)
    };
    let trace = eventually("the request's span arrives", SOON, arrived).await.unwrap();
    let root = trace.iter().find(|span| span["kind"] == 2).unwrap();
    assert_eq!(root["name"], "POST /api/v1alpha1/containers");
    assert_eq!(root["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(attribute(root, "http.response.status_code"), "201");
    assert_eq!(attribute(root, "mapwright.instance.id"), "one");
    let calls: Vec<&Value> = trace.iter().filter(|span| span["kind"] == 3).collect();
    assert!(calls.iter().any(|span| attribute(span, "url.path").ends_with("/deployments")), "{trace:?}");
    assert!(calls.iter().all(|span| span["parentSpanId"] == root["spanId"]), "{trace:?}");
    assert!(spans(&collector).iter().all(|span| span["traceId"] != "a".repeat(32)));

    // An event has a trace of its own: no request waits for it.
    let published = async || {
        let spans = spans(&collector);
        spans.iter().any(|span| span["name"] == "publish" && span["kind"] == 4).then_some(())
    };
    eventually("a delivery becomes a span", SOON, published).await.unwrap();
}

/// What stands in a page of figures: the names of all lines, and the labels of each.
async fn exposed() -> BTreeMap<String, BTreeSet<String>> {
    let dcm = Dcm::start("dashboards").await;
    dcm.container("one", web()).await;
    dcm.says(CONTAINERS, "one", "PENDING", &[]).await;
    // A request is counted when it has been answered.
    let text = Http::new(dcm.provider.base_url()).get("/metrics").await.unwrap().text();
    let mut exposed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = line.split_once('{').unwrap_or((line.split(' ').next().unwrap(), ""));
        let labels = labels.split("\",").filter_map(|label| Some(label.split_once("=\"")?.0.to_owned()));
        exposed.entry(name.to_owned()).or_default().extend(labels);
    }
    exposed
}

/// Labels that Prometheus itself adds to what it collects.
const ADDED: [&str; 4] = ["job", "instance", "namespace", "pod"];

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// What is wrong with a query: a figure that does not exist, or a label that none of its figures has.
fn faults(query: &str, legend: &str, exposed: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut faults = Vec::new();
    let names: Vec<&str> =
        query.split(|letter| !is_word(letter)).filter(|word| word.starts_with("mapwright_")).collect();
    if names.is_empty() {
        faults.push("reads no figure".to_owned());
    }
    faults.extend(names.iter().filter(|name| !exposed.contains_key(**name)).map(|name| format!("no {name}")));
    let mut known: BTreeSet<&str> = ADDED.into();
    known.extend(names.iter().filter_map(|name| exposed.get(*name)).flatten().map(String::as_str));
    let groups = query.split(" by (").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    let mut labels: Vec<&str> = groups.flat_map(|group| group.split(',')).map(str::trim).collect();
    let matchers = query.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    labels.extend(
        matchers
            .flat_map(|matcher| matcher.split(','))
            .map(|one| one.trim().split(|letter| !is_word(letter)).next().unwrap_or_default()),
    );
    let holes = legend.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0));
    labels.extend(holes.map(|hole| hole.trim().trim_start_matches("$labels.")));
    faults.extend(
        labels.iter().filter(|label| !known.contains(**label)).map(|label| format!("no label {label}")),
    );
    faults.into_iter().map(|fault| format!("{fault}: {query}")).collect()
}

#[tokio::test]
async fn the_dashboard_and_the_alerts_read_figures_that_there_are() {
    let exposed = exposed().await;
    let mut complaints = Vec::new();
    let dashboard: Value = serde_json::from_str(&text("deploy/grafana/dashboard.json")).unwrap();
    let targets: Vec<&Value> = dashboard["panels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .collect();
    assert!(targets.len() > 10);
    for target in targets {
        let part = |name: &str| target[name].as_str().unwrap();
        complaints.extend(faults(part("expr"), part("legendFormat"), &exposed));
    }
    let alerts: Value = serde_yaml::from_str(&text("deploy/prometheus/alerts.yaml")).unwrap();
    let rules = alerts["groups"][0]["rules"].as_array().unwrap();
    assert!(rules.len() > 5);
    for rule in rules {
        let part = |name: &str| rule["annotations"][name].as_str().unwrap();
        let told = format!("{} {}", part("summary"), part("description"));
        complaints.extend(faults(rule["expr"].as_str().unwrap(), &told, &exposed));
        assert!(rule["for"].is_string() && rule["labels"]["severity"].is_string(), "{rule}");
        for name in told.split(|letter| !is_word(letter)).filter(|word| word.starts_with("mapwright_")) {
            assert!(exposed.contains_key(name), "{name} in {told}");
        }
    }
    crate::source::no_complaints(complaints);

    assert_eq!(faults("sum(mapwright_redy)", "", &exposed).len(), 1);
    assert_eq!(faults("sum by (colour) (mapwright_leads{service=\"a\"})", "{{shape}}", &exposed).len(), 3);
}
