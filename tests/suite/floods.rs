//! Many clients that mean no good, or are slow, against the running program; good ones go on beside them.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::Request;
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use mapwright_testbed::certificates::Authority;
use mapwright_testbed::process::{Scratch, memory};
use mapwright_testbed::{Launch, Provider, eventually, secs};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::tls::client::Client;
use crate::tls::serving;

const POST: &str = "POST /api/v1alpha1/containers HTTP/1.1\r\nHost: x\r\n";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Longer than a good client waits on a machine that is busy with two thousand others.
const PATIENCE: Duration = secs(5);

async fn alone(scratch: &Scratch, change: impl FnOnce(Launch) -> Launch) -> Provider {
    let launch = Launch::alone(env!("CARGO_BIN_EXE_mapwright"), scratch).unwrap();
    change(launch).listen().await.unwrap()
}

async fn open(provider: &Provider) -> TcpStream {
    TcpStream::connect(("127.0.0.1", provider.port())).await.unwrap()
}

/// Waits until the peer has hung up, however it does.
async fn is_closed(stream: &mut TcpStream) {
    let mut bytes = [0; 1024];
    while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}

/// A client that asks again and again until it is stopped, and how often it was answered.
fn good_client(port: u16, stop: &Arc<AtomicBool>) -> JoinHandle<usize> {
    let stop = Arc::clone(stop);
    let http = mapwright_testbed::Http::new(format!("http://127.0.0.1:{port}"));
    tokio::spawn(async move {
        let mut answered = 0;
        while !stop.load(Ordering::Relaxed) {
            let answer = timeout(PATIENCE, http.get("/metrics")).await.expect("an answer in time");
            assert_eq!(answer.unwrap().status, 200);
            answered += 1;
        }
        answered
    })
}

/// Opens two thousand connections that say the half of something each, and sees all of them closed.
async fn two_thousand(port: u16, halves: &[&[u8]]) {
    let mut clients = Vec::new();
    for number in 0..2000 {
        let half = halves[number % halves.len()].to_vec();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let opened = Instant::now();
        clients.push(tokio::spawn(async move {
            let _ = stream.write_all(&half).await;
            is_closed(&mut stream).await;
            opened.elapsed()
        }));
    }
    for client in clients {
        let took = client.await.unwrap();
        assert!(took < secs(10), "{took:?}");
    }
}

#[tokio::test]
async fn two_thousand_half_open_connections_are_closed_while_good_clients_go_on() {
    let scratch = Scratch::new("half-open").unwrap();
    let provider = alone(&scratch, |launch| launch).await;
    let stop = Arc::new(AtomicBool::new(false));
    let good = [good_client(provider.port(), &stop), good_client(provider.port(), &stop)];
    let halves: [&[u8]; 5] = [b"", b"GET /hea", b"POST /x HTTP/1.1\r\nHost: x\r\n", &PREFACE[..12], PREFACE];
    two_thousand(provider.port(), &halves).await;
    stop.store(true, Ordering::Relaxed);
    for client in good {
        assert!(client.await.unwrap() > 10);
    }
}

#[tokio::test]
async fn two_thousand_half_handshakes_are_closed_while_good_clients_go_on() {
    let (scratch, authority) = (Scratch::new("half-tls").unwrap(), Authority::new("ours").unwrap());
    authority.issue("/CN=provider", "DNS:localhost").unwrap().write(scratch.path()).unwrap();
    let provider = serving(&scratch, scratch.path(), |launch| launch).await;
    let port = provider.port();
    let flood = tokio::spawn(async move {
        // The beginning of a record that announces more, and of a greeting in it.
        let halves: [&[u8]; 3] = [b"", b"\x16\x03\x01", b"\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03"];
        two_thousand(port, &halves).await;
    });
    let mut answered = 0;
    while !flood.is_finished() {
        let answer = timeout(PATIENCE, Client::new(&authority, port).try_get("/health")).await;
        assert_eq!(answer.expect("an answer in time").unwrap().status, 200);
        answered += 1;
    }
    flood.await.unwrap();
    assert!(answered > 10, "{answered}");
    // Half a head behind a whole handshake.
    let mut stream = Client::new(&authority, port).open().await.unwrap();
    stream.write_all(b"GET /hea").await.unwrap();
    let mut rest = Vec::new();
    let _ = timeout(secs(10), stream.read_to_end(&mut rest)).await.expect("the connection ends");
}

/// How much more memory the process ever had while something was done to it, in KiB.
async fn grown(provider: &Provider, done: impl Future<Output = ()>) -> i64 {
    let before = memory(provider.pid(), "VmRSS").unwrap();
    // Forgets the highest mark so far.
    std::fs::write(format!("/proc/{}/clear_refs", provider.pid()), "5").unwrap();
    done.await;
    memory(provider.pid(), "VmHWM").unwrap() - before
}

#[tokio::test]
async fn a_body_of_a_gibibyte_costs_four_mebibytes_at_most() {
    let scratch = Scratch::new("gibibyte").unwrap();
    let provider = alone(&scratch, |launch| launch).await;
    for _ in 0..20 {
        assert_eq!(provider.http().get("/metrics").await.unwrap().status, 200);
    }
    // A process that has read a body of the allowed size once.
    let body = vec![b' '; 1 << 20];
    for _ in 0..3 {
        let headers = [("content-type", "application/json")];
        let answer =
            provider.http().request("POST", "/api/v1alpha1/containers", &headers, body.clone()).await;
        assert_eq!(answer.unwrap().status, 400);
    }
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x1_0000], b"\r\n"].concat();
    let whole = vec![b' '; 0x1_0000];
    let cases = [("Content-Length: 1073741824", &whole), ("Transfer-Encoding: chunked", &chunk)];
    for (header, piece) in cases {
        let sending = async {
            let mut stream = open(&provider).await;
            stream.write_all(format!("{POST}{header}\r\n\r\n").as_bytes()).await.unwrap();
            let (mut from, mut to) = stream.split();
            let sent = async {
                for _ in 0..1 << 14 {
                    if to.write_all(piece).await.is_err() {
                        return;
                    }
                }
            };
            let mut answer = [0; 12];
            let (_, read) = tokio::join!(timeout(secs(60), sent), from.read_exact(&mut answer));
            read.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 413", "{header}");
        };
        let grown = grown(&provider, sending).await;
        assert!(grown <= 4 << 10, "{header}: {grown} KiB");
    }
    assert_eq!(provider.http().get("/metrics").await.unwrap().status, 200);
}

#[tokio::test]
async fn a_gibibyte_over_http2_costs_no_more() {
    let scratch = Scratch::new("gibibyte-h2").unwrap();
    let provider = alone(&scratch, |launch| launch).await;
    let send = async |pieces: usize| {
        let stream = TokioIo::new(open(&provider).await);
        let connecting = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
        let (mut sender, connection) = connecting.await.unwrap();
        let connection = tokio::spawn(connection);
        let piece = Bytes::from(vec![b' '; 0x1_0000]);
        let pieces = (0..pieces).map(move |_| Ok::<_, Infallible>(Frame::data(piece.clone())));
        let body = StreamBody::new(futures::stream::iter(pieces));
        let request = Request::post("http://x/api/v1alpha1/containers").body(body).unwrap();
        let status =
            timeout(secs(30), sender.send_request(request)).await.expect("an answer").unwrap().status();
        drop(sender);
        connection.abort();
        status
    };
    for _ in 0..3 {
        assert_eq!(send(16).await, 400, "a mebibyte of spaces is read");
    }
    let grown = grown(&provider, async { assert_eq!(send(1 << 14).await, 413) }).await;
    assert!(grown <= 4 << 10, "{grown} KiB");
}

#[tokio::test]
async fn bodies_that_drip_are_refused_in_time() {
    let scratch = Scratch::new("drip").unwrap();
    let provider = alone(&scratch, |launch| launch.env("SP_SERVER_READ_TIMEOUT", "1s")).await;
    let mut clients = Vec::new();
    for number in 0..100 {
        let length = if number % 2 == 0 { "Content-Length: 1000" } else { "Transfer-Encoding: chunked" };
        let mut stream = open(&provider).await;
        clients.push(tokio::spawn(async move {
            stream.write_all(format!("{POST}{length}\r\n\r\n").as_bytes()).await.unwrap();
            let (mut from, mut to) = stream.split();
            let dripping = async {
                while to.write_all(b"1\r\n \r\n").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            };
            let mut answer = Vec::new();
            let reading = async {
                let _ = from.read_to_end(&mut answer).await;
            };
            let ended = async {
                tokio::select! { () = dripping => {}, () = reading => {} }
            };
            timeout(secs(20), ended).await.expect("the connection ends");
            String::from_utf8(answer).unwrap()
        }));
    }
    assert_eq!(provider.http().get("/metrics").await.unwrap().status, 200);
    for client in clients {
        let answer = client.await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400") || answer.is_empty(), "{answer}");
    }
}

#[tokio::test]
async fn a_process_that_may_open_few_files_goes_on() {
    let scratch = Scratch::new("few-files").unwrap();
    let binary = env!("CARGO_BIN_EXE_mapwright");
    let script = scratch.write("few", &format!("#!/bin/sh\nulimit -n 80\nexec {binary} \"$@\"\n")).unwrap();
    let mut mode = std::fs::metadata(&script).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let root = concat!(env!("CARGO_MANIFEST_DIR"));
    let provider = Launch::alone(script, &scratch).unwrap().folder(root).listen().await.unwrap();
    let mut crowd = Vec::new();
    for _ in 0..200 {
        crowd.push(open(&provider).await);
    }
    for _ in 0..5 {
        let answer = timeout(PATIENCE, provider.http().get("/metrics")).await.expect("an answer in time");
        assert_eq!(answer.unwrap().status, 200);
    }
    assert!(provider.log().contains("cannot accept a connection"), "the limit was not reached");
    drop(crowd);
    assert_eq!(provider.http().get("/metrics").await.unwrap().status, 200);
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `GET /metrics`, in the fixed words of the header compression.
fn head() -> Vec<u8> {
    [b"\x82\x86\x41\x01x\x04\x08".as_slice(), b"/metrics"].concat()
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Sends the frames for as long as the server takes them, and waits for its end.
async fn pour(provider: &Provider, frames: impl Iterator<Item = Vec<u8>>) -> bool {
    let mut stream = open(provider).await;
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await.unwrap();
    let (mut from, mut to) = stream.split();
    let mut refused = false;
    let pouring = async {
        for bytes in frames {
            if to.write_all(&bytes).await.is_err() {
                refused = true;
                return;
            }
        }
    };
    let reading = async {
        let mut bytes = vec![0; 1 << 16];
        while from.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
    };
    let ended = async { tokio::join!(pouring, reading) };
    timeout(secs(30), ended).await.expect("the server ends the connection");
    refused
}

#[tokio::test]
async fn streams_that_are_opened_and_reset_at_once_end_their_connection() {
    let scratch = Scratch::new("resets").unwrap();
    let provider = alone(&scratch, |launch| launch).await;
    let stop = Arc::new(AtomicBool::new(false));
    let good = good_client(provider.port(), &stop);
    let resets = (0..200_000_u32).map(|number| {
        let stream = number * 2 + 1;
        let opened = frame(HEADERS, END_STREAM | END_HEADERS, stream, &head());
        [opened, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
    });
    let pouring = async {
        assert!(pour(&provider, resets).await, "two hundred thousand resets are taken");
    };
    let grown = grown(&provider, pouring).await;
    assert!(grown <= 16 << 10, "{grown} KiB");
    stop.store(true, Ordering::Relaxed);
    assert!(good.await.unwrap() > 0);
}

#[tokio::test]
async fn a_client_that_opens_no_window_for_its_answers_is_given_up() {
    let scratch = Scratch::new("no-window").unwrap();
    let provider = alone(&scratch, |launch| launch.env("SP_SERVER_WRITE_TIMEOUT", "1s")).await;
    let mut stream = open(&provider).await;
    // The fourth setting is the window of each stream.
    let no_window = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let asked = frame(HEADERS, END_STREAM | END_HEADERS, 1, &head());
    stream.write_all(&[PREFACE, &no_window, &asked].concat()).await.unwrap();
    timeout(secs(15), is_closed(&mut stream)).await.expect("the server ends the connection");
    assert_eq!(provider.http().get("/metrics").await.unwrap().status, 200);
}

#[tokio::test]
async fn a_head_without_an_end_ends_its_connection() {
    let scratch = Scratch::new("endless-head").unwrap();
    let provider = alone(&scratch, |launch| launch).await;
    // A header that is not indexed, with an empty name's worth of letters.
    let field = [b"\x00\x01a\x7f\x81\x7f".as_slice(), &[b'x'; 16384][..]].concat();
    let begun = std::iter::once(frame(HEADERS, END_STREAM, 1, &head()));
    let endless = (0..20_000).map(|_| frame(CONTINUATION, 0, 1, &field[..16000]));
    let pouring = async {
        assert!(pour(&provider, begun.chain(endless)).await, "320 MB of a head are taken");
    };
    let grown = grown(&provider, pouring).await;
    assert!(grown <= 16 << 10, "{grown} KiB");
    assert_eq!(provider.http().get("/metrics").await.unwrap().status, 200);
}

#[tokio::test]
async fn at_the_end_what_is_under_way_is_answered_and_half_a_head_is_not_waited_for() {
    let scratch = Scratch::new("drain").unwrap();
    let mut provider = alone(&scratch, |launch| launch).await;
    let (mut half, mut busy, mut idle) =
        (open(&provider).await, open(&provider).await, open(&provider).await);
    half.write_all(b"GET /hea").await.unwrap();
    busy.write_all(format!("{POST}Content-Length: 4\r\n\r\n{{").as_bytes()).await.unwrap();
    idle.write_all(b"GET /api/v1alpha1/none HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = vec![0; 12];
    idle.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 404");
    let port = provider.port();
    let begun = Instant::now();
    let ending = tokio::spawn(async move { provider.terminate(secs(12)).await });
    let refused = async || TcpStream::connect(("127.0.0.1", port)).await.is_err().then_some(());
    eventually("no new connection is taken", secs(5), refused).await.unwrap();
    is_closed(&mut idle).await;
    is_closed(&mut half).await;
    busy.write_all(b"\"a}").await.unwrap();
    busy.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 400", "it ends in the middle of a text");
    is_closed(&mut busy).await;
    let status = ending.await.unwrap().unwrap();
    assert!(status.success() && begun.elapsed() < secs(12), "{status} {:?}", begun.elapsed());
}
