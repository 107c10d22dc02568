//! Who is at the other end of a connection, by the certificate that it proved to hold.

use std::sync::Arc;

use tokio_rustls::rustls::pki_types::CertificateDer;

/// The names in the certificate of a client, which TLS has verified; or nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer(Option<Arc<[String]>>);

impl Peer {
    /// Reads the first certificate of a verified chain: DNS names and URIs; where it has neither, the common
    /// name of its subject.
    #[must_use]
    pub fn of(chain: Option<&[CertificateDer<'_>]>) -> Self {
        let Some(first) = chain.and_then(<[_]>::first) else { return Self(None) };
        let Ok(certificate) = webpki::EndEntityCert::try_from(first) else { return Self(None) };
        let mut names: Vec<String> =
            certificate.valid_dns_names().chain(certificate.valid_uri_names()).map(str::to_owned).collect();
        if names.is_empty() {
            names.extend(common_name(certificate.subject()).map(str::to_owned));
        }
        Self(Some(names.into()))
    }

    /// Whether there was a certificate.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.0.is_some()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|names| names.iter()).map(String::as_str)
    }
}

/// The identifier 2.5.4.3 in DER.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const IDENTIFIER: u8 = 0x06;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;

/// The last common name of a subject: sets of pairs of an identifier and a text.
fn common_name(mut subject: &[u8]) -> Option<&str> {
    let mut found = None;
    while !subject.is_empty() {
        let (mut set, rest) = value(SET, subject)?;
        subject = rest;
        while !set.is_empty() {
            let (pair, rest) = value(SEQUENCE, set)?;
            set = rest;
            let (identifier, text) = value(IDENTIFIER, pair)?;
            if identifier == COMMON_NAME {
                let (text, _) = value(UTF8, text).or_else(|| value(PRINTABLE, text))?;
                found = std::str::from_utf8(text).ok();
            }
        }
    }
    found
}

/// The content of the value that stands first, and what is behind it; none where it is of another kind.
fn value(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[found, length], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    (found == tag).then(|| rest.split_at_checked(length))?
}
