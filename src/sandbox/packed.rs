//! The text of an object at rest: what differs from another object of its kind. Objects of one kind are much
//! alike, and ten thousand of them lie in memory.

use std::sync::Arc;

use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};

/// A text and what it is packed against.
#[derive(Debug)]
pub(super) struct Packed {
    example: Arc<[u8]>,
    bytes: Box<[u8]>,
    len: usize,
}

/// What the texts of one kind are packed against.
#[derive(Default)]
pub(super) struct Example(Arc<[u8]>);

/// No example is longer: looking through it costs time at each write.
const LONGEST: usize = 8 << 10;

impl Packed {
    pub(super) fn new(text: &[u8], example: &Example) -> Self {
        let bytes = compress_prepend_size_with_dict(text, &example.0).into_boxed_slice();
        Self { example: example.0.clone(), bytes, len: text.len() }
    }

    /// Its size when it is unpacked.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The bytes are our own, so they unpack.
    pub(super) fn unpack(&self) -> Vec<u8> {
        decompress_size_prepended_with_dict(&self.bytes, &self.example).unwrap_or_default()
    }
}

impl Example {
    /// A text that is a good deal longer says more of its kind. What was packed against a former example keeps
    /// it.
    pub(super) fn learn(&mut self, text: &[u8]) {
        if text.len() > self.0.len() + self.0.len() / 8 && text.len() <= LONGEST {
            self.0 = text.into();
        }
    }
}
