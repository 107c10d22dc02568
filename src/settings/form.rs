//! The forms that values may have. Each reader says what is wrong; the table says what would be right.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;

use super::{IdFrom, Secret};

/// Where to listen, as Go writes it: without a host it means all interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    pub host: Option<String>,
    pub port: u16,
}

impl ListenAddress {
    /// Whether only this machine reaches it. A name other than that of loopback may be anywhere.
    pub fn is_loopback(&self) -> bool {
        let Some(host) = self.host.as_deref() else { return false };
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.as_deref() {
            Some(host) if host.contains(':') => write!(formatter, "[{host}]:{}", self.port),
            host => write!(formatter, "{}:{}", host.unwrap_or_default(), self.port),
        }
    }
}

pub(super) fn listen_address(text: &str) -> Result<ListenAddress, String> {
    let wrong = || format!("is `{text}`, which is not an address to listen on");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match bracketed {
        Some(host) if host.parse::<std::net::Ipv6Addr>().is_ok() => host,
        None if !host.contains([':', '/', '[', ']', ' ']) => host,
        _ => return Err(wrong()),
    };
    let port = port.parse().map_err(|_| wrong())?;
    Ok(ListenAddress { host: Some(host).filter(|host| !host.is_empty()).map(str::to_owned), port })
}

/// Reads a duration as Go writes it: `1h30m`, `1.5s`, `500ms`, `0`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("is `{text}`, which is not a duration");
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number_ends = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, behind) = rest.split_at(number_ends);
        let unit_ends = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_ends);
        let part = amount(number, unit).ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(|| format!("is `{text}`, which is too long"))?;
        rest = behind;
    }
    Ok(total)
}

/// One number with its unit, exact to the nanosecond.
fn amount(number: &str, unit: &str) -> Option<Duration> {
    let nanoseconds: u64 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let digits = |text: &str| {
        if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() }
    };
    let whole = digits(whole)?.checked_mul(nanoseconds)?;
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction = u128::from(digits(fraction)?) * u128::from(nanoseconds) / scale;
    Some(Duration::from_nanos(whole.checked_add(u64::try_from(fraction).ok()?)?))
}

pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err(format!("is `{text}`, which is no time at all")),
        duration => Ok(duration),
    }
}

pub(super) fn milliseconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(milliseconds) if milliseconds <= 60_000 => Ok(Duration::from_millis(milliseconds)),
        _ => Err(format!("is `{text}`, which is not a number of milliseconds in that range")),
    }
}

pub(super) fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("is `{text}`, which is not a whole number"))
}

/// The words that Go's `ParseBool` takes.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("is `{text}`, which is neither true nor false")),
    }
}

pub(super) fn text(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

pub(super) fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text))
}

pub(super) fn words(text: &str) -> Result<Vec<String>, String> {
    let words = text.split(',').map(str::trim).map(str::to_owned).collect::<Vec<_>>();
    let alone = words.len() == 1;
    match words.iter().find(|word| word.is_empty() || (word.as_str() == "*" && !alone)) {
        Some(word) => Err(format!("is `{text}`, in which `{word}` is no name of several")),
        None => Ok(words),
    }
}

pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    Ok(PathBuf::from(text))
}

pub(super) fn id_from(text: &str) -> Result<IdFrom, String> {
    match text {
        "random" => Ok(IdFrom::Random),
        "idempotency-key" => Ok(IdFrom::IdempotencyKey),
        _ => Err(format!("is `{text}`")),
    }
}

pub(super) fn dns_label(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edges = !text.starts_with('-') && !text.ends_with('-');
    match text.len() <= 63 && edges && text.chars().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "is `{text}`, which is not a name of at most 63 lower-case letters, digits and hyphens"
        )),
    }
}

pub(super) fn bucket_name(text: &str) -> Result<String, String> {
    match text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        true => Ok(text.to_owned()),
        false => Err(format!("is `{text}`, which is not the name of a bucket")),
    }
}

/// Without the slash at the end, so that a path can follow.
pub(super) fn http_url(text: &str) -> Result<String, String> {
    let url = text.parse::<Uri>().map_err(|_| "is not a URL".to_owned())?;
    let shown = without_user(text);
    if !matches!(url.scheme_str(), Some("http" | "https")) {
        return Err(format!("is `{shown}`, which has neither the scheme http nor https"));
    }
    if url.host().is_none_or(str::is_empty) {
        return Err(format!("is `{shown}`, which names no host"));
    }
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(format!("is `{shown}` with a user part, which would not be sent"));
    }
    if url.query().is_some() || text.contains('#') {
        return Err(format!("is `{shown}`, to which no path can be added"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

pub(super) fn nats_servers(text: &str) -> Result<Vec<Secret>, String> {
    let servers = text.split(',').map(str::trim).filter(|server| !server.is_empty());
    let servers = servers.map(nats_server).collect::<Result<Vec<_>, _>>()?;
    if servers.is_empty() { Err("names no server".to_owned()) } else { Ok(servers) }
}

fn nats_server(text: &str) -> Result<Secret, String> {
    let shown = without_user(text);
    let rest = text.strip_prefix("nats://").or_else(|| text.strip_prefix("tls://"));
    let Some(rest) = rest else {
        return Err(format!("holds `{shown}`, which has neither the scheme nats nor tls"));
    };
    let address = rest.rsplit_once('@').map_or(rest, |(_, address)| address).trim_end_matches('/');
    // The port may be left out; a stand-in lets one rule judge both spellings.
    let has_port =
        address.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    let whole = if has_port { address.to_owned() } else { format!("{address}:4222") };
    match listen_address(&whole) {
        Ok(ListenAddress { host: Some(_), .. }) => Ok(Secret::new(text)),
        _ => Err(format!("holds `{shown}`, which names no host and port")),
    }
}

/// A URL may carry a password, and a fault is printed.
pub(super) fn without_user(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        (None, Some((_, rest))) => format!("***@{rest}"),
        _ => url.to_owned(),
    }
}
