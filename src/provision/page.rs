//! Page tokens: a position in a list, signed, so that only one that we issued is followed.

use std::fmt::Write as _;

use crate::engine::names::fingerprint;
use crate::engine::problem::Problem;

/// Writes and reads page tokens under a key that all replicas share.
#[derive(Clone)]
pub struct PageTokens {
    key: String,
}

/// Characters of the signature that a token carries: 128 bits.
const SIGNATURE: usize = 32;

impl PageTokens {
    pub fn new(key: String) -> Self {
        Self { key }
    }

    /// The token of the page after this id of a collection.
    pub fn write(&self, collection: &str, last: &str) -> String {
        let mut token = self.sign(collection, last);
        for byte in last.bytes() {
            // Writing to a String cannot fail.
            let _ = write!(token, "{byte:02x}");
        }
        token
    }

    /// The id after which the page begins.
    pub fn read(&self, collection: &str, token: &str) -> Result<String, Problem> {
        let refused =
            || Problem::invalid_argument("the page_token was not issued for this list; begin without one");
        let (signature, position) = token.split_at_checked(SIGNATURE).ok_or_else(refused)?;
        let bytes: Option<Vec<u8>> = (0..position.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(position.get(at..at + 2)?, 16).ok())
            .collect();
        let last = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(refused)?;
        if self.write(collection, &last) == token && self.sign(collection, &last) == signature {
            return Ok(last);
        }
        Err(refused())
    }

    /// The key stands at both ends, and every part carries its length, so that no signature can be
    /// lengthened into another one.
    fn sign(&self, collection: &str, last: &str) -> String {
        fingerprint(&[&self.key, collection, last, &self.key]).chars().take(SIGNATURE).collect()
    }
}
