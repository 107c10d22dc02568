//! Answers to the wire; every error leaves through [`problem`].

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use mapwright_engine::problem::{Problem, ProblemStyle};
use serde_json::Value;
use warp::reply::Response;

pub(super) fn json(status: StatusCode, value: &Value) -> Response {
    with_body(status, "application/json", value.to_string())
}

pub(super) fn text(text: String) -> Response {
    with_body(StatusCode::OK, "text/plain; charset=utf-8", text)
}

pub(super) fn no_content() -> Response {
    let mut response = Response::new(Bytes::new().into());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

pub(super) fn problem(problem: &Problem, style: &ProblemStyle, instance: &str) -> Response {
    let status = StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let document = problem.to_json(style, instance).to_string();
    let mut response = with_body(status, "application/problem+json", document);
    if let Some(seconds) = problem.retry_after {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED
        && let Ok(methods) = HeaderValue::from_str(&problem.allow.join(", "))
    {
        response.headers_mut().insert(ALLOW, methods);
    }
    response
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
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
