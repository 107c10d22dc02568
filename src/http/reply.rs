//! Answers to the wire; every error leaves through [`problem`].

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::{
    ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY,
};
use mapwright_engine::problem::{Problem, ProblemStyle};
use serde_json::Value;
use warp::reply::Response;

/// Bodies below this size gain nothing from being compressed.
const WORTH_COMPRESSING: u64 = 1024;

pub(super) fn json(status: StatusCode, value: &Value) -> Response {
    with_body(status, "application/json", value.to_string())
}

/// A JSON document that is text already.
pub(super) fn document(text: String) -> Response {
    with_body(StatusCode::OK, "application/json", text)
}

pub(super) fn text(text: String) -> Response {
    with_body(StatusCode::OK, "text/plain; charset=utf-8", text)
}

pub(super) fn no_content() -> Response {
    let mut response = Response::new(Bytes::new().into());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// The methods of a resource.
pub(super) fn options(allow: &[&'static str]) -> Response {
    let mut response = no_content();
    insert_allow(&mut response, allow);
    response
}

pub(super) fn problem(problem: &Problem, style: &ProblemStyle, instance: &str) -> Response {
    let status = StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let document = problem.to_json(style, instance).to_string();
    let mut response = with_body(status, "application/problem+json", document);
    if let Some(seconds) = problem.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        insert_allow(&mut response, &problem.allow);
    }
    response
}

/// The answer in the coding that was asked for. Caches learn that the coding decides, also where it is plain.
pub(super) async fn coded(response: Response, gzip: bool) -> Response {
    if response.body().size_hint().lower() < WORTH_COMPRESSING {
        return response;
    }
    let (mut head, body) = response.into_parts();
    head.headers.insert(VARY, HeaderValue::from_name(ACCEPT_ENCODING));
    if !gzip {
        return Response::from_parts(head, body);
    }
    // The body is in memory as a whole, so there is nothing to wait for, and nothing to fail.
    let plain = body.collect().await.map(|collected| collected.to_bytes()).unwrap_or_default();
    let Some(coded) = compress(&plain) else { return Response::from_parts(head, plain.into()) };
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(head, coded.into())
}

/// Fast rather than small: JSON shrinks to a tenth either way, and the caller waits.
fn compress(plain: &Bytes) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    encoder.write_all(plain).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

/// The answer to HEAD: that of GET, its length told and its body left out.
pub(super) fn without_body(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(head, Bytes::new().into())
}

fn with_body(status: StatusCode, media_type: &'static str, body: String) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

fn insert_allow(response: &mut Response, allow: &[&'static str]) {
    if let Ok(methods) = HeaderValue::from_str(&allow.join(", ")) {
        response.headers_mut().insert(ALLOW, methods);
    }
}
