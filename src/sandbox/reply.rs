//! Answers on the wire, and which of the forms that a client accepts they have.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, WARNING};
use hyper::{Response, StatusCode};
use serde_json::Value;

use super::refusal::Refusal;

pub(super) type Body = BoxBody<Bytes, Infallible>;
pub(super) type Reply = Response<Body>;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The objects themselves.
    Objects,
    /// Rows, as `kubectl get` prints them.
    Table,
    /// Objects without anything but their metadata.
    Metadata,
    /// Discovery of everything in one document.
    Discovery,
}

const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

impl Form {
    /// The first form that the client accepts and that there is.
    pub(super) fn accepted(headers: &HeaderMap) -> Result<Self, Refusal> {
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let accepted: Vec<String> = values.flat_map(|value| value.split(',')).map(str::to_owned).collect();
        if accepted.is_empty() {
            return Ok(Self::Objects);
        }
        accepted.iter().find_map(|media| Self::read(media)).ok_or_else(|| {
            let known = "application/json";
            let text = format!("only the following media types are accepted: {known}");
            Refusal::new(406, "NotAcceptable", text)
        })
    }

    fn read(media: &str) -> Option<Self> {
        let mut parts = media.split(';').map(str::trim);
        if !["application/json", "*/*", "application/*"].contains(&parts.next()?) {
            return None;
        }
        let mut form = Self::Objects;
        for part in parts {
            match part {
                "as=Table" => form = Self::Table,
                "as=PartialObjectMetadata" | "as=PartialObjectMetadataList" => form = Self::Metadata,
                "as=APIGroupDiscoveryList" => form = Self::Discovery,
                "v=v2beta1" | "v=v1beta1" => return None,
                "stream=watch" => {}
                _ => {}
            }
        }
        Some(form)
    }
}

pub(super) fn json(code: u16, value: &Value) -> Reply {
    text(code, "application/json", value.to_string())
}

pub(super) fn discovery(value: &Value) -> Reply {
    text(200, DISCOVERY, value.to_string())
}

pub(super) fn text(code: u16, media_type: &'static str, text: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(text.into()).boxed());
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    reply
}

pub(super) fn refusal(refusal: &Refusal) -> Reply {
    let mut reply = json(refusal.code, &refusal.to_json());
    if refusal.code == 429 {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

/// Puts what the server says beside its answer into headers.
pub(super) fn warn(mut reply: Reply, warnings: &[String]) -> Reply {
    for warning in warnings.iter().take(20) {
        let text = format!("299 - {warning:?}");
        if let Ok(value) = HeaderValue::from_str(&text) {
            reply.headers_mut().append(WARNING, value);
        }
    }
    reply
}
