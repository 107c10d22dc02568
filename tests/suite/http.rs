//! The REST room by its bytes: routes, bodies and answers. Connections are in `connections`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

mod connections;
mod malformed;
mod memory;
mod negotiation;

use mapwright::http::Limits;
use memory::{Server, bare, get, with_body};
use serde_json::json;

const THINGS: &str = "/api/v1alpha1/things";

async fn started() -> Server {
    Server::start(Limits::default()).await
}

async fn with_thing(id: &str) -> Server {
    let server = started().await;
    let answer = server.ask(with_body("POST", &format!("{THINGS}?id={id}"), "", "{}")).await;
    assert_eq!(answer.status, 201);
    server
}

#[tokio::test]
async fn head_answers_as_get_without_a_body() {
    let server = with_thing("my-app").await;
    for path in ["/health", THINGS, "/api/v1alpha1/things/health", "/api/v1alpha1/things/my-app"] {
        let (head, full) = (server.ask_head(path).await, server.ask(get(path)).await);
        assert_eq!((head.status, full.status), (200, 200), "{path}");
        for header in ["content-type", "content-length"] {
            assert_eq!(head.header(header), full.header(header), "{path} {header}");
        }
    }
    assert_eq!(server.ask_head("/api/v1alpha1/things/unknown").await.status, 404);
}

#[tokio::test]
async fn percent_encoded_ids_name_the_same_instance() {
    let server = with_thing("my-app").await;
    for id in ["my%2Dapp", "%6Dy-app", "my%2dapp"] {
        assert_eq!(server.ask(get(&format!("{THINGS}/{id}"))).await.json()["id"], "my-app");
    }
    assert_eq!(server.ask(get("/api/v1alpha1/%74hings/my-app")).await.status, 200);
    assert_eq!(server.ask(with_body("POST", &format!("{THINGS}?id=my%2Dapp2"), "", "{}")).await.status, 201);
    assert!(server.memory.holds("my-app2"));
    assert_eq!(server.ask(bare("DELETE", &format!("{THINGS}/my%2Dapp"))).await.status, 204);
    assert!(!server.memory.holds("my-app"));
}

#[tokio::test]
async fn malformed_escapes_are_invalid_arguments_with_the_path_as_sent() {
    let server = started().await;
    for id in ["my%2Fapp", "my-app%00", "%ZZ", "my-app%0A", "%", "%4", "%+1", "%FF", "a%7F"] {
        let path = format!("{THINGS}/{id}?x=%41");
        assert_eq!(server.ask(get(&path)).await.problem(400)["instance"], path, "{id}");
    }
    server.ask(get("/api/v1alpha1/%ZZ/a")).await.problem(400);
    server.ask(get(&format!("{THINGS}?page_token=%ZZ"))).await.problem(400);
}

#[tokio::test]
async fn a_wrong_method_is_405_and_allow_names_the_right_ones() {
    let server = started().await;
    for (method, path, allow) in [
        ("PUT", "/api/v1alpha1/things/a", "DELETE, GET, HEAD, OPTIONS"),
        ("PATCH", "/api/v1alpha1/things/a", "DELETE, GET, HEAD, OPTIONS"),
        ("DELETE", "/api/v1alpha1/plain/a", "GET, HEAD, OPTIONS, PATCH"),
        ("DELETE", "/api/v1alpha1/things", "GET, HEAD, OPTIONS, POST"),
        ("POST", "/api/v1alpha1/things/health", "GET, HEAD, OPTIONS"),
        ("POST", "/health", "GET, HEAD, OPTIONS"),
        ("GET", "/api/v1alpha1/things/a:stop", "OPTIONS, POST"),
        ("POST", "/api/v1alpha1/things/a:logs", "GET, HEAD, OPTIONS"),
    ] {
        let answer = server.ask(bare(method, path)).await;
        answer.problem(405);
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
    }
}

#[tokio::test]
async fn unknown_routes_and_actions_are_404_problems() {
    let server = started().await;
    for path in ["/", "/x", "//health", "/health/", "/api/v1alpha1", "/api/v1alpha1/none/health"] {
        let document = server.ask(get(path)).await.problem(404);
        assert_eq!(document["type"], "https://dcm-project.github.io/problems/not-found");
    }
    for path in ["/api/v1alpha1/things/", "/api/v1alpha1/things/a/b", "/api/v1beta1/things"] {
        server.ask(get(path)).await.problem(404);
    }
    let undeclared = server.ask(bare("POST", "/api/v1alpha1/things/a:exec")).await.problem(404);
    assert!(undeclared["detail"].as_str().unwrap().ends_with("declared are: stop, logs"), "{undeclared}");
    assert_eq!(server.ask(get("/api/v1alpha1/plain/a/b")).await.problem(404)["type"], "NOT_FOUND");
}

#[tokio::test]
async fn actions_reach_their_instance_with_query_and_body() {
    let server = started().await;
    let logs = server.ask(get("/api/v1alpha1/things/a:logs?tail=5&container=a+b&tail=%36")).await;
    assert_eq!(logs.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(logs.body, r#"a [("tail", "5"), ("container", "a b"), ("tail", "6")]"#);
    let stopped = server.ask(bare("POST", "/api/v1alpha1/things/a:stop")).await.json();
    assert_eq!(stopped, json!({ "id": "a", "did": "stop", "body": null }));
    let stopped =
        server.ask(with_body("POST", "/api/v1alpha1/things/a%3Ab:stop", "", "{\"now\":true}")).await;
    assert_eq!(stopped.json(), json!({ "id": "a:b", "did": "stop", "body": { "now": true } }));
}

#[tokio::test]
async fn encodings_and_media_types_other_than_plain_json_are_415() {
    let server = started().await;
    let post = |headers: &str, body: &[u8]| with_body("POST", THINGS, headers, body);
    let gzipped = b"\x1f\x8b\x08\x00secret";
    let refused = server.ask(post("Content-Encoding: gzip\r\n", gzipped)).await;
    assert!(!refused.problem(415).to_string().contains("secret"));
    for headers in [
        "Content-Encoding: identity, br\r\n",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/merge-patch+json\r\n",
        "Content-Type: application/jsonx\r\n",
        "Content-Type: application/json\r\nContent-Type: text/plain\r\n",
    ] {
        server.ask(post(headers, b"{}")).await.problem(415);
    }
    for headers in ["", "Content-Encoding: identity\r\n", "Content-Type: Application/JSON; charset=utf-8\r\n"]
    {
        assert_eq!(server.ask(post(headers, b"{}")).await.status, 201, "{headers}");
    }
    let patch =
        with_body("PATCH", "/api/v1alpha1/plain/a", "Content-Type: application/merge-patch+json\r\n", "{}");
    assert_eq!(server.ask(patch).await.status, 200);
}

#[tokio::test]
async fn bodies_that_are_not_strict_json_are_400() {
    let server = started().await;
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    let utf16: Vec<u8> = "{\"a\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let bodies: [&[u8]; 8] = [
        b"",
        b"{bad",
        b"{}x",
        deep.as_bytes(),
        b"\xEF\xBB\xBF{}",
        &utf16,
        b"{\"a\":\"\xff\"}",
        b"{\"a\":1e999}",
    ];
    for body in bodies {
        server.ask(with_body("POST", THINGS, "", body)).await.problem(400);
    }
    let twice = server.ask(with_body("POST", THINGS, "", r#"{"a":{"b":1,"b":2}}"#)).await.problem(400);
    assert_eq!(twice["pointer"], "#/a/b");
    let nested = format!("{{\"a\":{}{}}}", "[".repeat(99), "]".repeat(99));
    let echoed = server.ask(with_body("POST", THINGS, "", &nested)).await;
    assert_eq!((echoed.status, echoed.body), (201, format!("{{\"id\":\"made\",\"body\":{nested}}}")));
}

#[tokio::test]
async fn absolute_and_asterisk_targets_are_understood() {
    let server = started().await;
    assert_eq!(server.ask(get("http://host.example/api/v1alpha1/things/health")).await.status, 200);
    assert_eq!(server.ask(bare("OPTIONS", "*")).await.status, 204);
    server.ask(bare("CONNECT", "host.example:443")).await.problem(404);
}

#[tokio::test]
async fn query_parameters_are_decoded_once_each_and_unknown_ones_ignored() {
    let server = started().await;
    let page =
        server.ask(get(&format!("{THINGS}?max_page_size=%35&page_token=a%2Bb+c&x=1&x=2"))).await.json();
    assert_eq!(page, json!({ "things": [], "size": "5", "token": "a+b c" }));
    let twice = server.ask(with_body("POST", &format!("{THINGS}?id=a&id=a"), "", "{}")).await.problem(400);
    assert!(twice["detail"].as_str().unwrap().contains("id"), "{twice}");
    assert_eq!(twice["instance"], format!("{THINGS}?id=a&id=a"));
}

#[tokio::test]
async fn idempotency_keys_are_visible_and_given_once() {
    let server = started().await;
    let post = |key: &str| with_body("POST", THINGS, &format!("Idempotency-Key: {key}\r\n"), "{}");
    assert_eq!(server.ask(post(&"k".repeat(255))).await.status, 201);
    let seen = server.memory.last_create.lock().unwrap().take().unwrap();
    assert_eq!((seen.idempotency_key, seen.id), (Some("k".repeat(255)), None));
    for key in ["", &"k".repeat(256), "a b", "schlüssel", "a\r\nIdempotency-Key: b"] {
        server.ask(post(key)).await.problem(400);
    }
}

#[tokio::test]
async fn every_answer_has_a_request_id_and_keeps_a_well_formed_one() {
    let server = started().await;
    let with_id = |id: &str| format!("GET /health HTTP/1.1\r\nHost: x\r\nX-Request-Id: {id}\r\n\r\n");
    assert_eq!(server.ask(with_id("abc-1")).await.header("x-request-id"), Some("abc-1"));
    for id in ["a b", &"x".repeat(129)] {
        assert_eq!(server.ask(with_id(id)).await.header("x-request-id").unwrap().len(), 36);
    }
    assert_eq!(server.ask(get("/none")).await.header("x-request-id").unwrap().len(), 36);
}

#[tokio::test]
async fn a_call_that_panics_is_an_internal_problem_and_serving_goes_on() {
    let server = started().await;
    let answer = server.ask(with_body("POST", &format!("{THINGS}?id=broken"), "", "{}")).await;
    assert!(!answer.problem(500).to_string().contains("assert"));
    assert_eq!(server.ask(get("/api/v1alpha1/openapi.json")).await.json()["openapi"], "3.1.0");
}
