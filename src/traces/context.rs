//! The trace that a request belongs to, as W3C's `traceparent` says it.

/// A caller's trace, or one of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// 32 hexadecimal digits.
    pub trace: String,
    /// The caller's span, 16 hexadecimal digits; none where the trace begins here.
    pub parent: Option<String>,
    /// Whether the caller keeps the trace: where it does not, neither do we.
    pub sampled: bool,
}

impl Context {
    /// Reads the header; None where it is not exactly what the specification says of version 00.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, length| {
            text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_id = |text: &str, length| is_hex(text, length) && text.bytes().any(|byte| byte != b'0');
        let sane = version == "00" && is_id(trace, 32) && is_id(parent, 16) && is_hex(flags, 2);
        let flags = u8::from_str_radix(flags, 16).ok().filter(|_| sane && parts.next().is_none())?;
        Some(Self { trace: trace.to_owned(), parent: Some(parent.to_owned()), sampled: flags & 1 == 1 })
    }

    /// A trace that begins here.
    #[must_use]
    pub fn begin() -> Self {
        Self { trace: crate::clock::unique("trace").simple().to_string(), parent: None, sampled: true }
    }
}
