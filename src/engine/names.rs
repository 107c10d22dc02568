//! Names of objects, records and instances: derived, never random, so that rendering repeats itself.

use sha2::{Digest, Sha256};

/// Kubernetes' own alphabet for generated suffixes: no vowels, no look-alikes.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
const LABEL: usize = 63;

/// The suffix of a generated name is derived from these; another attempt gives the next candidate.
#[derive(Clone, Copy, Debug)]
pub struct NameSeed<'a> {
    pub instance: &'a str,
    pub life: u64,
    pub object: &'a str,
    pub attempt: u32,
}

/// A name for `generateName`: the prefix, shortened where it must be, and five characters.
pub fn generated(prefix: &str, seed: NameSeed<'_>) -> String {
    let base = prefix.trim_end_matches('-');
    let room = LABEL - SUFFIX - 1;
    let base: String = base.chars().take(room).collect();
    let base = base.trim_end_matches(['-', '.']);
    let life = seed.life.to_string();
    let attempt = seed.attempt.to_string();
    let digest = digest(&[seed.instance, &life, seed.object, &attempt]);
    let suffix: String = digest
        .iter()
        .take(SUFFIX)
        .map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]))
        .collect();
    format!("{base}-{suffix}")
}

/// The name of the one record that claims an id: the cluster's uniqueness of names is the claim.
pub fn record(service_type: &str, id: &str) -> String {
    format!("dcm-record-{}", hex(&digest(&[service_type, id]), 20))
}

/// Text as an RFC 1123 label; where it had to be cut, a digest keeps different texts apart.
pub fn dns_label(text: &str) -> String {
    let mut label = String::new();
    for c in text.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' => label.push(c),
            _ if label.ends_with('-') || label.is_empty() => {}
            _ => label.push('-'),
        }
    }
    let label = label.trim_end_matches('-');
    if label.len() <= LABEL {
        return label.to_owned();
    }
    let kept = label[..LABEL - 9].trim_end_matches('-');
    format!("{kept}-{}", hex(&digest(&[text]), 8))
}

/// A pattern that names must match, written once.
#[derive(Clone, Copy, Debug)]
pub struct Label;

/// An RFC 1123 label: what DCM takes for an id and Kubernetes for a name.
pub const DNS_LABEL: Label = Label;

impl Label {
    pub fn accepts(self, text: &str) -> bool {
        let edge = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        let bytes = text.as_bytes();
        (1..=LABEL).contains(&bytes.len())
            && bytes.iter().all(|c| edge(*c) || *c == b'-')
            && bytes.first().is_some_and(|c| edge(*c))
            && bytes.last().is_some_and(|c| edge(*c))
    }
}

/// The hexadecimal digest of parts, for keys of idempotency and revisions.
pub fn fingerprint(parts: &[&str]) -> String {
    hex(&digest(parts), 64)
}

/// SHA-256 of one text and nothing else, as every other tool makes it.
pub fn sha256(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

fn digest(parts: &[&str]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        // The length in front keeps ("ab", "c") and ("a", "bc") apart.
        hasher.update(part.len().to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().into()
}

fn hex(bytes: &[u8], length: usize) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|n| char::from(b"0123456789abcdef"[usize::from(n)]))
        .take(length)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed(instance: &str) -> NameSeed<'_> {
        NameSeed { instance, life: 1, object: "deployment", attempt: 0 }
    }

    #[test]
    fn a_long_name_keeps_its_suffix_and_no_trailing_hyphen() {
        for at in [55, 56, 57, 58, 59] {
            let mut long = "a".repeat(63);
            long.replace_range(at..=at, "-");
            let name = generated(&format!("{long}-"), seed("x"));
            assert!(DNS_LABEL.accepts(&name), "{name}");
            let bytes = name.as_bytes();
            assert_eq!(bytes[bytes.len() - 6], b'-');
            assert_ne!(bytes[bytes.len() - 7], b'-');
        }
    }

    #[test]
    fn the_same_id_gives_the_same_name_and_another_id_another() {
        assert_eq!(generated("web-", seed("a")), generated("web-", seed("a")));
        assert_ne!(generated("web-", seed("a")), generated("web-", seed("b")));
    }

    #[test]
    fn long_texts_that_differ_stay_different_labels() {
        let (a, b) = (format!("{}a", "x".repeat(80)), format!("{}b", "x".repeat(80)));
        assert_ne!(dns_label(&a), dns_label(&b));
        assert!(DNS_LABEL.accepts(&dns_label(&a)));
        assert_eq!(dns_label("Web App!"), "web-app");
    }
}
