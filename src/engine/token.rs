//! Page tokens: a position in a list, signed, so that only one that we issued is followed.

use std::fmt::Write as _;

use crate::names::fingerprint;

/// Characters of the signature that a token carries: 128 bits.
const SIGNATURE: usize = 32;

/// The token of the page after this id of a collection: the signature, then the id in hexadecimal.
///
/// The key stands at both ends and every part carries its length, so that no signature can be lengthened
/// into another one.
pub fn signed(key: &str, collection: &str, last: &str) -> String {
    let digest = fingerprint(&[key, collection, last, key]);
    let mut token: String = digest.chars().take(SIGNATURE).collect();
    for byte in last.bytes() {
        // Writing to a String cannot fail.
        let _ = write!(token, "{byte:02x}");
    }
    token
}

/// The id after which the page begins; none where the token was not signed with this key for this collection.
pub fn position(key: &str, collection: &str, token: &str) -> Option<String> {
    let last = unsigned(token)?;
    (signed(key, collection, &last) == token).then_some(last)
}

fn unsigned(token: &str) -> Option<String> {
    let hexadecimal = token.get(SIGNATURE..)?;
    let pairs = (0..hexadecimal.len()).step_by(2);
    let bytes: Option<Vec<u8>> =
        pairs.map(|at| u8::from_str_radix(hexadecimal.get(at..at + 2)?, 16).ok()).collect();
    String::from_utf8(bytes?).ok()
}
