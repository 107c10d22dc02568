//! How this process proves to NATS who it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_nats::{Auth, AuthError, ConnectOptions, ServerAddr};

use super::{BusError, BusErrorKind};

/// One way of authentication. Deliberately without `Debug`: it holds secrets.
pub enum Credentials {
    /// None, or what the first URL carries (`nats://user:password@host`).
    Url,
    Token(String),
    UserPassword {
        user: String,
        password: String,
    },
    /// A file of the form that `nsc` writes. Read at each connect, so that a rotated one is picked up.
    File(PathBuf),
}

pub(super) fn connect_options(
    credentials: Credentials,
    servers: &[ServerAddr],
) -> Result<ConnectOptions, BusError> {
    Ok(match credentials {
        Credentials::Url => from_url(servers),
        Credentials::Token(token) => ConnectOptions::with_token(token),
        Credentials::UserPassword { user, password } => {
            ConnectOptions::with_user_and_password(user, password)
        }
        Credentials::File(path) => {
            // A file that is wrong now is a mistake of the start; one that is wrong later is tried again.
            sign_in(&path, b"").map_err(|detail| BusError::new(BusErrorKind::Options, detail))?;
            let path = Arc::new(path);
            ConnectOptions::with_auth_callback(move |nonce| {
                let path = Arc::clone(&path);
                async move { sign_in(&path, &nonce).map_err(AuthError::new) }
            })
        }
    })
}

/// async-nats leaves the user part of a URL alone; every other client honours it.
fn from_url(servers: &[ServerAddr]) -> ConnectOptions {
    let server = servers.first();
    let user = server.and_then(ServerAddr::username).map(str::to_owned);
    let password = server.and_then(ServerAddr::password).map(str::to_owned);
    match (user, password) {
        (Some(user), Some(password)) => ConnectOptions::with_user_and_password(user, password),
        (Some(token), None) => ConnectOptions::with_token(token),
        (None, _) => ConnectOptions::new(),
    }
}

/// Answers the server's nonce with the user's token and signature. The file is small and read once a
/// connect, so it is read in place.
fn sign_in(path: &Path, nonce: &[u8]) -> Result<Auth, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the NATS credentials file {shown}: {error}"))?;
    let block = |title: &str| {
        below(&text, title).ok_or_else(|| format!("the NATS credentials file {shown} has no block `{title}`"))
    };
    let pair = nkeys::KeyPair::from_seed(block("USER NKEY SEED")?)
        .map_err(|_| format!("the seed in the NATS credentials file {shown} is not one"))?;
    let mut auth = Auth::new();
    auth.jwt = Some(block("NATS USER JWT")?.to_owned());
    let signature = pair.sign(nonce);
    auth.signature = Some(signature.map_err(|_| format!("the seed in {shown} cannot sign"))?);
    Ok(auth)
}

/// The line below `-----BEGIN title-----`.
fn below<'a>(text: &'a str, title: &str) -> Option<&'a str> {
    let (_, behind) = text.split_once(&format!("BEGIN {title}"))?;
    let line = behind.lines().nth(1)?.trim();
    Some(line).filter(|line| !line.is_empty())
}
