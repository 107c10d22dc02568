//! Who may call: names in certificates of clients, tokens of a file, tokens that the cluster knows.
//!
//! Judged from a request's head alone, before anything of its body is read. The room knows no route and no
//! service type: which right a request needs, it is told.

mod peer;
mod review;
mod tokens;

use std::fmt;
use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

use crate::engine::problem::Problem;
use crate::files::reread::{Reread, Standing};

pub use peer::Peer;
pub use review::Reviews;
pub use tokens::Tokens;

/// The ways to prove who one is. Any of them will do; without any, everybody may call.
#[derive(Default)]
pub struct Access {
    /// The names in certificates that may call.
    pub names: Option<Names>,
    pub tokens: Option<Arc<Reread<Tokens>>>,
    pub reviews: Option<Reviews>,
}

/// Names of an allow-list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// Whoever has a certificate of the authority.
    All,
    Listed(Vec<String>),
}

/// What a request asks to be allowed, in the words of Kubernetes' rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Right {
    pub verb: &'static str,
    /// A collection, or what else is served.
    pub resource: String,
    /// Of an instance, where one is asked for.
    pub action: Option<String>,
}

/// Whoever calls, as a log may name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller(pub String);

impl Access {
    /// Whether everybody may call.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.names.is_none() && self.tokens.is_none() && self.reviews.is_none()
    }

    /// The value of `WWW-Authenticate`: what a caller without proof may try.
    #[must_use]
    pub fn challenge(&self) -> &'static str {
        match self.tokens.is_some() || self.reviews.is_some() {
            true => "Bearer realm=\"mapwright\"",
            false => "Certificate realm=\"mapwright\"",
        }
    }

    /// How the file of tokens stands, where there is one.
    #[must_use]
    pub fn standing(&self) -> Option<Standing> {
        self.tokens.as_ref().map(|tokens| tokens.standing())
    }

    /// Who calls, if that one may. None as the right asks only who it is.
    ///
    /// # Errors
    /// 401 where it is not known who calls, 403 where that is known and not enough, 503 where the cluster
    /// had to be asked and did not answer.
    pub async fn judge(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        right: Option<&Right>,
    ) -> Result<Option<Caller>, Problem> {
        if self.is_open() {
            return Ok(None);
        }
        if let Some(name) = self.names.as_ref().and_then(|names| names.find(peer)) {
            return Ok(Some(Caller(name.to_owned())));
        }
        match bearer(headers)? {
            Some(token) => self.judge_token(token, right).await.map(Some),
            None if peer.is_known() => Err(Problem::permission_denied(
                "no name in the certificate of this client is allowed to call; use another certificate, or \
                 have one of its names allowed",
            )),
            None => Err(Problem::unauthenticated(self.wanted())),
        }
    }

    async fn judge_token(&self, token: &str, right: Option<&Right>) -> Result<Caller, Problem> {
        if let Some(name) = self.tokens.as_ref().and_then(|tokens| tokens.current().find(token)) {
            return Ok(Caller(name));
        }
        match &self.reviews {
            Some(reviews) => reviews.judge(token, right).await,
            None => Err(Problem::unauthenticated("the bearer token is not known; send a current one")),
        }
    }

    fn wanted(&self) -> String {
        let ways = [
            (self.names.is_some(), "a client certificate"),
            (self.tokens.is_some() || self.reviews.is_some(), "Authorization: Bearer with a token"),
        ];
        let ways: Vec<&str> = ways.into_iter().filter(|(is, _)| *is).map(|(_, way)| way).collect();
        format!("it is not known who calls; send {}", ways.join(" or "))
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        self.action.as_ref().map_or(Ok(()), |action| write!(f, "/{action}"))
    }
}

impl Names {
    /// The first name of the peer that may call.
    fn find<'p>(&self, peer: &'p Peer) -> Option<&'p str> {
        let mut names = peer.names();
        match self {
            // A certificate without a name is known by its authority alone.
            Self::All => peer.is_known().then(|| names.next().unwrap_or("a client without a name")),
            Self::Listed(allowed) => names.find(|name| allowed.iter().any(|allowed| allowed == name)),
        }
    }
}

/// The token of an `Authorization` header; none where there is no header.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let token =
        value.to_str().ok().and_then(|text| text.trim().split_once(' ')).and_then(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
        });
    match token {
        Some(token) if values.next().is_none() => Ok(Some(token)),
        _ => Err(Problem::unauthenticated(
            "the Authorization header is not one that is read here; send it once, as Bearer with a token",
        )),
    }
}
