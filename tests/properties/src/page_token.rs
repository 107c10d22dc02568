//! Page tokens: one that we made is read back, and any other is refused.

use mapwright_engine::token::{position, signed};

const KEY: &str = "b7f1c4a2d9e84d0c";
const COLLECTION: &str = "volumes";

/// Characters of a token before the id.
const SIGNATURE: usize = 32;

/// An id up to the first zero byte; what follows are edits of its token, three bytes each.
pub fn holds(bytes: &[u8]) {
    // A fuzzer sees what a text is compared with, and so may make up a token that is valid: it must then be
    // the very one that we would have written.
    let text = String::from_utf8_lossy(bytes);
    if let Some(id) = position(KEY, COLLECTION, &text) {
        assert_eq!(signed(KEY, COLLECTION, &id), text, "two tokens for one position");
    }

    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let id = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let token = signed(KEY, COLLECTION, &id);
    assert_eq!(position(KEY, COLLECTION, &token).as_ref(), Some(&id), "a token of ours is not read back");
    assert_eq!(position("another key", COLLECTION, &token), None, "a token under another key is read");
    assert_eq!(position(KEY, "containers", &token), None, "a token of another collection is read");

    let altered = altered(&token, bytes.get(end + 1..).unwrap_or_default());
    let read = position(KEY, COLLECTION, &altered);
    let half = altered.get(..SIGNATURE) == token.get(..SIGNATURE)
        || altered.get(SIGNATURE..) == token.get(SIGNATURE..);
    assert!(altered == token || !half || read.is_none(), "an altered token is read: {altered}");
}

fn altered(token: &str, edits: &[u8]) -> String {
    let mut letters: Vec<char> = token.chars().collect();
    for edit in edits.chunks_exact(3) {
        let (at, letter) = (usize::from(edit[1]) % (letters.len() + 1), char::from(edit[2]));
        match edit[0] % 4 {
            0 => letters.insert(at, letter),
            1 => letters.truncate(at),
            _ if at == letters.len() => {}
            2 => letters[at] = letter,
            // The other way to write the same digit.
            _ => letters[at] = letters[at].to_ascii_uppercase(),
        }
    }
    letters.into_iter().collect()
}
