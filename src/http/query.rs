//! The query string: pairs decoded as forms encode them, and parameters that may be given once.

use mapwright_engine::problem::Problem;

/// The pairs of a query in their order. Parameters that no route asks for are ignored.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((form_decode(name)?, form_decode(value)?))
        });
        decoded.collect::<Option<_>>().map(Self).ok_or_else(|| {
            Problem::invalid_argument(
                "the query has a malformed escape; an escape is % and two hexadecimal digits, in UTF-8",
            )
        })
    }

    /// The value of a parameter. Of two values neither is more right, so two are refused.
    pub(super) fn once(&self, name: &str) -> Result<Option<String>, Problem> {
        let mut values = self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(Problem::invalid_argument(format!(
                "the query parameter {name} is given more than once; keep one of them"
            ))),
            (value, None) => Ok(value.cloned()),
        }
    }

    pub(super) fn into_pairs(self) -> Vec<(String, String)> {
        self.0
    }
}

/// Decodes `%XX`, and `+` for a space.
pub(crate) fn form_decode(text: &str) -> Option<String> {
    percent_decode(&text.replace('+', " "))
}

/// Decodes `%XX`; none where an escape is malformed or the result is not UTF-8.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => hexadecimal(bytes.next()?)? * 16 + hexadecimal(bytes.next()?)?,
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
