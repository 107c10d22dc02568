//! A file of bearer tokens: of each only its hash, with the name of whoever holds it.

use std::hint::black_box;
use std::path::Path;

use crate::engine::names::sha256;

/// Tokens as a file lists them, one a line: the SHA-256 of the token in hexadecimal, and a name.
#[derive(Debug)]
pub struct Tokens(Vec<(Hash, String)>);

type Hash = [u8; 32];

impl Tokens {
    /// # Errors
    /// The first line that is none, by its number: what it holds may be a token, and is not repeated.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let mut tokens = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = entry(line).ok_or_else(|| {
                format!(
                    "{shown}:{}: a line is the SHA-256 of a token in 64 hexadecimal digits, and a name",
                    number + 1
                )
            })?;
            tokens.push(entry);
        }
        Ok(Self(tokens))
    }

    /// Whose token this is. Every line is compared, and every byte of it: how long that takes tells nothing.
    #[must_use]
    pub fn find(&self, token: &str) -> Option<String> {
        let hash = sha256(token);
        let mut found = None;
        for (known, name) in &self.0 {
            if is_same(known, &hash) {
                found = Some(name);
            }
        }
        found.cloned()
    }
}

fn is_same(one: &Hash, other: &Hash) -> bool {
    let differing = one.iter().zip(other).fold(0, |bits, (a, b)| black_box(bits | (a ^ b)));
    black_box(differing) == 0
}

fn entry(line: &str) -> Option<(Hash, String)> {
    let (digits, name) = line.split_once(char::is_whitespace)?;
    let (digits, name) = (digits.as_bytes(), name.trim());
    let fits = digits.len() == 64 && !name.is_empty() && name.chars().all(|letter| letter.is_ascii_graphic());
    if !fits {
        return None;
    }
    let mut hash = Hash::default();
    for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
        let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some((hash, name.to_owned()))
}
