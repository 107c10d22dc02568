//! A body of JSON lines, one document at a time, with a limit to how long it may keep silent.

use bytes::{Buf as _, BytesMut};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::time::timeout;

use super::connection::{Answer, watch_silence};
use super::refusal::{Refusal, RefusalKind, classify};

/// The documents of a watch's answer as they arrive.
pub(crate) struct Lines {
    body: Answer,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no end of line, so that a long line is not searched anew
    /// with every piece of it.
    searched: usize,
}

/// The largest object that etcd takes is 1.5 MB, and JSON of it is hardly ten times that.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

impl Lines {
    pub(crate) fn new(body: Answer) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0 }
    }

    /// The next document; None at the end, with or without a last line that was cut off.
    ///
    /// # Errors
    /// When the peer is silent for too long, the connection breaks, or a line is no JSON.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>, Refusal> {
        loop {
            if let Some(line) = self.take_line() {
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return serde_json::from_slice(&line).map(Some).map_err(|error| {
                    Refusal::new(RefusalKind::Other, format!("a line of the watch is no JSON: {error}"))
                });
            }
            if self.buffer.len() > LONGEST_LINE {
                return Err(Refusal::new(RefusalKind::TooLarge, "a line of the watch has no end"));
            }
            let Some(more) = self.read().await? else {
                return Ok(None);
            };
            self.buffer.extend_from_slice(&more);
        }
    }

    async fn read(&mut self) -> Result<Option<bytes::Bytes>, Refusal> {
        let frame = timeout(watch_silence(), self.body.frame()).await.map_err(|_| {
            let text = format!("the watch was silent for {} s", watch_silence().as_secs());
            Refusal::new(RefusalKind::Unavailable, text)
        })?;
        match frame {
            None => Ok(None),
            Some(Err(error)) => Err(classify(&error)),
            // Trailers carry nothing of interest.
            Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
        }
    }

    fn take_line(&mut self) -> Option<BytesMut> {
        let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + end);
        self.buffer.advance(1);
        self.searched = 0;
        Some(line)
    }
}
