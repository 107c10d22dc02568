//! Request bodies: media type and encoding first, then bytes counted and timed as they arrive.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures::stream::{Stream, StreamExt, TryStreamExt};
use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TRANSFER_ENCODING};
use mapwright_engine::json;
use mapwright_engine::problem::Problem;
use serde_json::Value;

/// Media types that a route reads.
pub(super) const JSON: &[&str] = &["application/json"];
pub(super) const JSON_OR_MERGE_PATCH: &[&str] = &["application/json", "application/merge-patch+json"];

/// How much of an unwanted body is read and thrown away, and for how long.
const DISCARD_BYTES: usize = 16 << 20;
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// The body of one request, not read yet.
pub(super) struct Body {
    pub(super) headers: HeaderMap,
    bytes: Pin<Box<dyn Stream<Item = Result<Bytes, warp::Error>> + Send + Sync>>,
    max_bytes: usize,
    max_time: Option<Duration>,
    rest: Rest,
}

/// What is left of a body on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Nothing,
    Unread,
    /// Unread, and too long or too slow for the connection to be used again.
    Unwanted,
}

impl Body {
    pub(super) fn new<S, B>(
        headers: HeaderMap,
        bytes: S,
        max_bytes: usize,
        max_time: Option<Duration>,
    ) -> Self
    where
        S: Stream<Item = Result<B, warp::Error>> + Send + Sync + 'static,
        B: Buf,
    {
        let bytes = Box::pin(bytes.map_ok(|mut chunk| chunk.copy_to_bytes(chunk.remaining())));
        let sent = headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING);
        let rest = if sent { Rest::Unread } else { Rest::Nothing };
        Self { headers, bytes, max_bytes, max_time, rest }
    }

    /// The JSON document of the body.
    pub(super) async fn json(&mut self, media_types: &[&str]) -> Result<Value, Problem> {
        json::read_body(&self.read(media_types).await?)
    }

    /// The JSON document of a body that may be left out.
    pub(super) async fn optional_json(&mut self) -> Result<Option<Value>, Problem> {
        let bytes = self.read(JSON).await?;
        if bytes.is_empty() { Ok(None) } else { json::read_body(&bytes).map(Some) }
    }

    /// Whether the connection must not be used for a further request.
    pub(super) fn ends_connection(&self) -> bool {
        self.rest == Rest::Unwanted
    }

    /// Lets a client that still sends finish, within bounds, while the answer is already on its way.
    ///
    /// A socket closed with unread bytes in it is reset, and a reset may destroy the answer before the
    /// client has read it. A client that waits for `100 Continue` sends nothing, and must not be told to.
    pub(super) fn discard(self) {
        if self.rest == Rest::Nothing || self.headers.contains_key(EXPECT) {
            return;
        }
        let mut bytes = self.bytes;
        tokio::spawn(tokio::time::timeout(DISCARD_TIME, async move {
            let mut discarded = 0;
            while let Some(Ok(chunk)) = bytes.next().await {
                discarded += chunk.len();
                if discarded > DISCARD_BYTES {
                    break;
                }
            }
        }));
    }

    async fn read(&mut self, media_types: &[&str]) -> Result<Bytes, Problem> {
        check_encoding(&self.headers)?;
        check_media_type(&self.headers, media_types)?;
        let Some(max_time) = self.max_time else { return self.collect().await };
        match tokio::time::timeout(max_time, self.collect()).await {
            Ok(collected) => collected,
            Err(_) => {
                self.rest = Rest::Unwanted;
                Err(Problem::invalid_argument(format!(
                    "the body did not arrive within {} s; send it again, faster",
                    max_time.as_secs()
                )))
            }
        }
    }

    async fn collect(&mut self) -> Result<Bytes, Problem> {
        // A length that is announced is refused before its first byte is asked for.
        let length = self.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        if length.and_then(|length| length.parse::<u64>().ok()) > u64::try_from(self.max_bytes).ok() {
            return Err(self.too_large());
        }
        let mut collected = BytesMut::new();
        while let Some(chunk) = self.bytes.next().await {
            let Ok(chunk) = chunk else {
                self.rest = Rest::Nothing;
                return Err(Problem::invalid_argument(
                    "the body ended before it was complete; send it again",
                ));
            };
            if collected.len() + chunk.len() > self.max_bytes {
                return Err(self.too_large());
            }
            collected.extend_from_slice(&chunk);
        }
        self.rest = Rest::Nothing;
        Ok(collected.freeze())
    }

    fn too_large(&mut self) -> Problem {
        self.rest = Rest::Unwanted;
        Problem::payload_too_large(format!(
            "the body is larger than {} bytes; send a smaller one",
            self.max_bytes
        ))
    }
}

fn check_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    let codings =
        headers.get_all(CONTENT_ENCODING).iter().flat_map(|value| value.as_bytes().split(|b| *b == b','));
    let plain = |coding: &[u8]| {
        coding.trim_ascii().eq_ignore_ascii_case(b"identity") || coding.trim_ascii().is_empty()
    };
    if codings.into_iter().all(plain) {
        return Ok(());
    }
    Err(Problem::unsupported_media_type(
        "bodies are read without a Content-Encoding; send the body plain, or with identity",
    ))
}

/// A body without a media type is taken for JSON: the reader will say so if it is not.
fn check_media_type(headers: &HeaderMap, media_types: &[&str]) -> Result<(), Problem> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let Some(value) = values.next() else { return Ok(()) };
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let known = media_types.iter().any(|media_type| essence.eq_ignore_ascii_case(media_type.as_bytes()));
    if known && values.next().is_none() {
        return Ok(());
    }
    Err(Problem::unsupported_media_type(format!(
        "the body's media type is not read here; send one Content-Type of {}",
        media_types.join(" or ")
    )))
}
