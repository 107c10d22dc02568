//! Connections: limits in size and time, reuse, both versions of HTTP, and the end.

use std::time::{Duration, Instant};

use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use mapwright::http::Limits;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::memory::{Server, get, with_body};
use super::{THINGS, started};

/// Shorter than the slow create, longer than a busy machine's hiccups.
const SHORT: Duration = Duration::from_millis(500);

fn short() -> Limits {
    Limits { header_read: SHORT, idle: Some(SHORT), ..Limits::default() }
}

#[tokio::test]
async fn a_chunked_body_over_the_limit_is_413_before_its_end() {
    let server = started().await;
    let mut client = server.open().await;
    client.send(format!("POST {THINGS} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")).await;
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
    for _ in 0..17 {
        client.send(&chunk).await;
    }
    let answer = client.answer(false).await.expect("an answer while the body is under way");
    answer.problem(413);
    assert_eq!(answer.header("connection"), Some("close"));
    // What is still under way is taken, so that no reset destroys the answer.
    client.send(&chunk).await;
    client.send(b"0\r\n\r\n").await;
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_long_body_is_413_also_for_a_client_that_first_sends_all_of_it() {
    let server = started().await;
    let answer = server.ask(with_body("POST", THINGS, "", vec![b' '; 2 << 20])).await;
    answer.problem(413);
    let mut exact = b"{}".to_vec();
    exact.resize(1 << 20, b' ');
    assert_eq!(server.ask(with_body("POST", THINGS, "", exact)).await.status, 201);
}

#[tokio::test]
async fn a_client_that_waits_to_continue_is_refused_without_being_told_to() {
    let server = started().await;
    let mut client = server.open().await;
    let head = format!("POST {THINGS} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n");
    client.send(format!("{head}Content-Length: 2000000\r\n\r\n")).await;
    client.answer(false).await.expect("an answer").problem(413);
    assert!(client.is_closed().await);
    let mut client = server.open().await;
    client.send(format!("{head}Content-Length: 2\r\n\r\n")).await;
    assert_eq!(client.answer(false).await.unwrap().status, 100);
    client.send("{}").await;
    assert_eq!(client.answer(false).await.unwrap().status, 201);
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_refused_in_time() {
    let server = Server::start(Limits { body_read: Some(SHORT), ..Limits::default() }).await;
    let mut client = server.open().await;
    client.send(format!("POST {THINGS} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{")).await;
    let answer = client.answer(false).await.expect("an answer");
    answer.problem(400);
    assert_eq!(answer.header("connection"), Some("close"));
}

#[tokio::test]
async fn half_a_header_is_closed_in_time_while_others_are_served() {
    let server = Server::start(short()).await;
    let begun = Instant::now();
    let mut idlers = Vec::new();
    for half in [
        "",
        "GET /hea",
        "GET /health HTTP/1.1\r\nHost: x\r\n",
        "PRI * HT",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut client = server.open().await;
        client.send(half).await;
        idlers.push((half, client));
    }
    assert_eq!(server.ask(get("/health")).await.status, 200);
    for (half, client) in &mut idlers {
        let answer = client.answer(false).await;
        assert!(answer.is_none() || answer.is_some_and(|answer| answer.status == 408), "{half:?}");
    }
    assert!(begun.elapsed() < SHORT * 5, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_connection_in_use_is_never_idle() {
    let server = Server::start(short()).await;
    let mut client = server.open().await;
    for _ in 0..8 {
        client.send(get("/health")).await;
        assert_eq!(client.answer(false).await.expect("the connection stays").status, 200);
        tokio::time::sleep(SHORT / 3).await;
    }
    // Nor is one whose request takes longer than a connection may be idle.
    client.send(with_body("POST", &format!("{THINGS}?id=slow"), "", "{}")).await;
    assert_eq!(client.answer(false).await.expect("the connection stays").status, 201);
}

#[tokio::test]
async fn at_the_limit_of_connections_those_that_say_nothing_make_room() {
    let server = Server::start(Limits { connections: 3, ..Limits::default() }).await;
    let mut busy = server.open().await;
    busy.send(with_body("POST", &format!("{THINGS}?id=slow"), "", "{}")).await;
    let (mut first, mut second) = (server.open().await, server.open().await);
    for _ in 0..3 {
        assert_eq!(server.ask(get("/health")).await.status, 200);
    }
    assert!(first.is_closed().await && second.is_closed().await);
    assert_eq!(busy.answer(false).await.expect("who is being answered stays").status, 201);
}

#[tokio::test]
async fn where_everybody_is_being_answered_a_client_waits_its_turn() {
    let server = Server::start(Limits { connections: 2, ..Limits::default() }).await;
    let mut busy = Vec::new();
    for id in ["slow-1", "slow-2"] {
        let mut client = server.open().await;
        let create = with_body("POST", &format!("{THINGS}?id={id}"), "Connection: close\r\n", "{}");
        client.send(create).await;
        busy.push(client);
    }
    let begun = Instant::now();
    assert_eq!(server.ask(get("/health")).await.status, 200);
    assert!(begun.elapsed() >= SHORT / 2, "{:?}", begun.elapsed());
    for client in &mut busy {
        assert_eq!(client.answer(false).await.expect("an answer").status, 201);
    }
}

#[tokio::test]
async fn an_idle_connection_outlives_the_time_of_a_head_and_half_a_further_head_does_not() {
    let limits = Limits { header_read: SHORT, idle: Some(SHORT * 20), ..Limits::default() };
    let server = Server::start(limits).await;
    let mut client = server.open().await;
    client.send(get("/health")).await;
    client.answer(false).await.expect("an answer");
    tokio::time::sleep(SHORT * 3).await;
    client.send(get("/health")).await;
    assert_eq!(client.answer(false).await.expect("the connection stays").status, 200);
    let begun = Instant::now();
    client.send("GET /hea").await;
    assert!(client.is_closed().await);
    assert!(begun.elapsed() < SHORT * 10, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answer_is_given_up() {
    let server =
        Server::start(Limits { write: Some(SHORT), body_bytes: 32 << 20, ..Limits::default() }).await;
    let mut client = server.open().await;
    // The answer repeats the body, and is more than the buffers of two sockets hold.
    let body = format!("{{\"a\":\"{}\"}}", "x".repeat(24 << 20));
    client.send(with_body("POST", THINGS, "", body)).await;
    // It speaks on without listening, until nobody is there any more.
    let begun = Instant::now();
    while client.stream.write_all(b"G").await.is_ok() {
        assert!(begun.elapsed() < SHORT * 60, "{:?}", begun.elapsed());
        tokio::time::sleep(SHORT / 10).await;
    }
    assert!(client.answer(false).await.is_none(), "what is missing of the answer does not come");
    assert_eq!(server.ask(get("/health")).await.status, 200);
}

#[tokio::test]
async fn a_header_that_is_too_large_is_refused() {
    let server = started().await;
    let request = format!("GET /health HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(40 << 10));
    assert_eq!(server.ask(request).await.status, 431);
}

#[tokio::test]
async fn a_connection_serves_one_request_after_another_also_after_a_refusal() {
    let server = started().await;
    let mut client = server.open().await;
    client.send(with_body("POST", THINGS, "Content-Type: text/plain\r\n", vec![b'x'; 200_000])).await;
    client.answer(false).await.expect("an answer").problem(415);
    client.send(with_body("PUT", "/none", "", "some body")).await;
    client.answer(false).await.expect("the connection stays").problem(404);
    client.send(get("/health")).await;
    assert_eq!(client.answer(false).await.expect("the connection stays").status, 200);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    let server = started().await;
    let mut client = server.open().await;
    let slow = with_body("POST", &format!("{THINGS}?id=slow"), "", "{}");
    client
        .send(
            [get("/health").into_bytes(), slow, get("/none").into_bytes(), get(THINGS).into_bytes()].concat(),
        )
        .await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(client.answer(false).await.expect("an answer each").status);
    }
    assert_eq!(statuses, [200, 201, 404, 200]);
}

#[tokio::test]
async fn http2_by_prior_knowledge_has_the_same_answers_and_ends_when_idle() {
    let server = Server::start(short()).await;
    let stream = TokioIo::new(TcpStream::connect(server.address).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let ask = |method: &str, path: &str, body: Vec<u8>| {
        let request = Request::builder().method(method).uri(format!("http://x{path}"));
        request.body(http_body_util::Full::<bytes::Bytes>::from(body)).unwrap()
    };
    let head = sender.send_request(ask("HEAD", "/health", Vec::new())).await.unwrap();
    assert_eq!(head.status(), 200);
    assert!(head.headers().contains_key("content-length"));
    let created = sender.send_request(ask("POST", THINGS, b"{}".to_vec())).await.unwrap();
    assert_eq!(created.status(), 201);
    let refused = sender.send_request(ask("POST", THINGS, vec![b' '; 2 << 20])).await.unwrap();
    assert_eq!(refused.status(), 413);
    assert_eq!(sender.send_request(ask("GET", "/none", Vec::new())).await.unwrap().status(), 404);
    tokio::time::timeout(SHORT * 10, connection).await.expect("the idle connection ends").unwrap().unwrap();
}

#[tokio::test]
async fn a_request_over_its_time_is_unavailable_and_its_work_goes_on() {
    let server = Server::start(Limits { request: SHORT, ..Limits::default() }).await;
    let answer = server.ask(with_body("POST", &format!("{THINGS}?id=slow"), "", "{}")).await;
    answer.problem(503);
    assert_eq!(answer.header("retry-after"), Some("1"));
    tokio::time::sleep(SHORT * 2).await;
    assert!(server.memory.holds("slow"));
}

#[tokio::test]
async fn a_caller_who_hangs_up_does_not_stop_the_work() {
    let server = started().await;
    let mut client = server.open().await;
    client.send(with_body("POST", &format!("{THINGS}?id=slow"), "", "{}")).await;
    tokio::time::sleep(SHORT / 3).await;
    drop(client);
    tokio::time::sleep(SHORT * 2).await;
    assert!(server.memory.holds("slow"));
}

#[tokio::test]
async fn at_the_end_running_requests_are_answered_and_no_new_ones_taken() {
    let server = started().await;
    let (address, mut idle, mut busy) = (server.address, server.open().await, server.open().await);
    idle.send(get("/health")).await;
    idle.answer(false).await.expect("an answer");
    busy.send(with_body("POST", &format!("{THINGS}?id=slow"), "", "{}")).await;
    tokio::time::sleep(SHORT / 3).await;
    let running = server.stop();
    assert!(idle.is_closed().await);
    assert!(TcpStream::connect(address).await.is_err());
    let answer = busy.answer(false).await.expect("the running request is answered");
    assert_eq!((answer.status, answer.header("connection")), (201, Some("close")));
    tokio::time::timeout(SHORT, running).await.expect("the loop ends").unwrap();
}

#[tokio::test]
async fn the_end_does_not_wait_for_those_that_never_finish() {
    let server = Server::start(Limits { drain: SHORT, ..Limits::default() }).await;
    let mut client = server.open().await;
    client.send(format!("POST {THINGS} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{")).await;
    let _ = client.stream.flush().await;
    tokio::time::sleep(SHORT / 3).await;
    tokio::time::timeout(SHORT * 3, server.stop()).await.expect("the loop ends").unwrap();
    assert!(client.answer(false).await.is_none());
}

/// Runs the next test in a process that may open few files, since the limit is the whole process's.
#[test]
fn running_out_of_descriptors_is_survived() {
    let run = "ulimit -n 64; exec \"$0\" --ignored --exact http::connections::with_few_descriptors";
    let suite = std::env::current_exe().unwrap();
    let output = std::process::Command::new("sh").arg("-c").arg(run).arg(suite).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}

#[tokio::test]
#[ignore = "needs a low limit of open files; running_out_of_descriptors_is_survived sets it"]
async fn with_few_descriptors() {
    let server = started().await;
    let mut clients = Vec::new();
    while let Ok(client) = TcpStream::connect(server.address).await {
        clients.push(client);
        assert!(clients.len() < 64, "the limit of open files is not low");
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(SHORT).await;
    clients.truncate(clients.len() / 2);
    assert_eq!(server.ask(get("/health")).await.status, 200);
}
