//! What a caller accepts: codings, media types, and which methods a resource has.

use super::memory::{Server, bare, with_body};
use super::{THINGS, started};

/// An instance whose answer is as long as this, and its path.
async fn with_answer_of(length: usize) -> (Server, String) {
    let server = started().await;
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(length));
    assert_eq!(server.ask(with_body("POST", &format!("{THINGS}?id=a"), "", body)).await.status, 201);
    (server, format!("{THINGS}/a"))
}

fn asking(method: &str, path: &str, header: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{header}\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn long_answers_are_compressed_where_it_is_asked_for() {
    let (server, path) = with_answer_of(4000).await;
    let length =
        |answer: &super::memory::Answer| answer.header("content-length").unwrap().parse::<usize>().unwrap();
    let plain = server.ask(bare("GET", &path)).await;
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), (None, Some("accept-encoding")));
    for asked in ["gzip", "br, gzip;q=0.5", "*", "x-gzip", "GZIP"] {
        let head = server.ask_head_with(&path, &format!("Accept-Encoding: {asked}")).await;
        assert_eq!(head.header("content-encoding"), Some("gzip"), "{asked}");
        assert!(length(&head) < length(&plain) / 10, "{asked}");
    }
    for asked in ["identity", "gzip;q=0", "*;q=0", "br", "gzip;q=0.000, *"] {
        let answer = server.ask(asking("GET", &path, &format!("Accept-Encoding: {asked}"))).await;
        assert_eq!((answer.header("content-encoding"), &answer.body), (None, &plain.body), "{asked}");
    }
}

#[tokio::test]
async fn what_was_compressed_is_the_same_document() {
    let (server, path) = with_answer_of(200_000).await;
    let plain = server.ask(bare("GET", &path)).await;
    let mut client = server.open().await;
    client.send(asking("GET", &path, "Accept-Encoding: gzip")).await;
    let coded = client.bytes().await.expect("an answer");
    let mut decoded = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(coded.as_slice()), &mut decoded).unwrap();
    assert_eq!(decoded, plain.body);
}

#[tokio::test]
async fn short_answers_stay_plain() {
    let (server, path) = with_answer_of(10).await;
    let answer = server.ask(asking("GET", &path, "Accept-Encoding: gzip")).await;
    assert_eq!((answer.header("content-encoding"), answer.header("vary")), (None, None));
}

#[tokio::test]
async fn an_accept_that_excludes_json_is_406_before_anything_is_done() {
    let (server, path) = with_answer_of(10).await;
    for accept in [
        "application/json",
        "application/*",
        "*/*",
        "text/html, */*;q=0.1",
        "application/json; charset=utf-8",
        "",
    ] {
        let answer = server.ask(asking("GET", &path, &format!("Accept: {accept}"))).await;
        assert_eq!(answer.status, 200, "{accept}");
    }
    for accept in
        ["text/html", "application/xml, text/*", "application/json;q=0", "application/json;q=0.0, */*"]
    {
        let refused = server.ask(asking("GET", &path, &format!("Accept: {accept}"))).await.problem(406);
        assert!(refused["type"].as_str().unwrap().ends_with("not-acceptable"), "{accept}");
    }
    let create = with_body("POST", &format!("{THINGS}?id=never"), "Accept: text/html\r\n", "{}");
    server.ask(create).await.problem(406);
    assert!(!server.memory.holds("never"));
    let logs = server.ask(asking("GET", &format!("{path}:logs"), "Accept: text/plain")).await;
    assert_eq!(logs.status, 200);
    // It has no body, so there is nothing that could be unacceptable.
    assert_eq!(server.ask(asking("DELETE", &path, "Accept: text/html")).await.status, 204);
}

#[tokio::test]
async fn options_tells_the_methods_of_a_resource() {
    let server = started().await;
    for (path, allow) in [
        (THINGS, "GET, HEAD, OPTIONS, POST"),
        ("/api/v1alpha1/things/a", "DELETE, GET, HEAD, OPTIONS"),
        ("/api/v1alpha1/things/a:stop", "OPTIONS, POST"),
        ("/health", "GET, HEAD, OPTIONS"),
        ("*", "DELETE, GET, HEAD, OPTIONS, PATCH, POST"),
    ] {
        let answer = server.ask(bare("OPTIONS", path)).await;
        assert_eq!((answer.status, answer.header("allow")), (204, Some(allow)), "{path}");
    }
    server.ask(bare("OPTIONS", "/none")).await.problem(404);
}
