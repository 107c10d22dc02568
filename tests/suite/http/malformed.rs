//! What is no HTTP, or too much of it: answered before there is a request, without a document.

use mapwright::http::Limits;

use super::memory::{Answer, Server, get};
use super::{THINGS, started};

/// The answer to bytes that are refused before the request is known; the connection ends behind it.
async fn refused(server: &Server, request: &[u8]) -> Answer {
    let mut client = server.open().await;
    client.send(request).await;
    let told = || String::from_utf8_lossy(&request[..request.len().min(60)]).into_owned();
    let answer = client.answer(false).await.unwrap_or_else(|| panic!("no answer to {:?}", told()));
    // An end or a reset: what was not read of the request may come back as one.
    assert!(client.answer(false).await.is_none(), "{:?} is followed by something", told());
    answer
}

fn headers(count: usize) -> String {
    let lines: String = (0..count).map(|number| format!("X-{number}: x\r\n")).collect();
    format!("GET /health HTTP/1.1\r\nHost: x\r\n{lines}\r\n")
}

#[tokio::test]
async fn a_head_that_is_no_http_is_400_without_a_body() {
    let server = started().await;
    let heads: [&[u8]; 13] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /health\r\n\r\n",
        b"GET /health HTTP/1.2\r\nHost: x\r\n\r\n",
        b"GET /health HTTP/3\r\nHost: x\r\n\r\n",
        b"GET  /health HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /he alth HTTP/1.1\r\nHost: x\r\n\r\n",
        b"G@T /health HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nNo colon\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\nX Y: z\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
    ];
    let mut wrong = Vec::new();
    for head in heads {
        let answer = refused(&server, head).await;
        if (answer.status, answer.body.as_str(), answer.header("content-type")) != (400, "", None) {
            wrong.push((String::from_utf8_lossy(head), answer));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(server.ask(get("/health")).await.status, 200);
}

#[tokio::test]
async fn a_body_whose_length_is_unclear_is_400_without_a_body() {
    let server = started().await;
    let mut wrong = Vec::new();
    for lines in [
        "Content-Length: two",
        "Content-Length: -1",
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: 18446744073709551616",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: chunked, gzip",
    ] {
        let request = format!("POST {THINGS} HTTP/1.1\r\nHost: x\r\n{lines}\r\n\r\n{{}}");
        let answer = refused(&server, request.as_bytes()).await;
        if (answer.status, answer.body.as_str()) != (400, "") {
            wrong.push((lines, answer));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Nothing of these was done.
    assert!(!server.memory.holds("made"));
}

#[tokio::test]
async fn a_head_that_is_too_large_is_431_without_a_body() {
    let server = started().await;
    let long = "x".repeat(Limits::default().header_bytes);
    let heads = [
        format!("GET /health HTTP/1.1\r\nHost: x\r\nX: {long}\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"),
        // Without an end, it is refused as soon as the limit is passed.
        format!("GET /health HTTP/1.1\r\nHost: x\r\nX: {long}"),
        headers(100),
    ];
    for head in heads {
        let answer = refused(&server, head.as_bytes()).await;
        assert_eq!((answer.status, answer.body.as_str()), (431, ""), "{answer:?}");
        assert_eq!(answer.header("content-type"), None);
    }
    // One that just fits is read.
    let fits = "x".repeat(Limits::default().header_bytes - 200);
    let fits = format!("GET /health HTTP/1.1\r\nHost: x\r\nX: {fits}\r\n\r\n");
    assert_eq!(server.ask(fits).await.status, 200);
    assert_eq!(server.ask(headers(99)).await.status, 200);
}
