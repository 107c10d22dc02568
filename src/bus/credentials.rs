//! How this process proves to NATS who it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_nats::{Auth, AuthError, ConnectOptions, ServerAddr};
use nkeys::KeyPair;

use super::{BusError, BusErrorKind};

/// One way of authentication. Deliberately without `Debug`: it holds secrets.
pub enum Credentials {
    /// None, or what the first URL carries (`nats://user:password@host`).
    Url,
    Token(Held),
    UserPassword {
        user: String,
        password: Held,
    },
    /// A file with the seed of an nkey.
    Nkey(PathBuf),
    /// A file of the form that `nsc` writes.
    File(PathBuf),
}

/// Where a secret is. A file is read at each connect, so that a rotated one is picked up.
pub enum Held {
    Here(String),
    File(PathBuf),
}

pub(super) fn connect_options(
    credentials: Credentials,
    servers: &[ServerAddr],
) -> Result<ConnectOptions, BusError> {
    if let Credentials::Url = credentials {
        return Ok(from_url(servers));
    }
    // A file that is wrong now is a mistake of the start; one that is wrong later is tried again.
    credentials.answer(b"").map_err(|detail| BusError::new(BusErrorKind::Options, detail))?;
    let credentials = Arc::new(credentials);
    Ok(ConnectOptions::with_auth_callback(move |nonce| {
        let credentials = Arc::clone(&credentials);
        async move { credentials.answer(&nonce).map_err(AuthError::new) }
    }))
}

impl Credentials {
    /// What is said to a server that sent this nonce. Files are small and read once a connect, so they are
    /// read in place.
    fn answer(&self, nonce: &[u8]) -> Result<Auth, String> {
        let mut auth = Auth::new();
        match self {
            Self::Url => {}
            Self::Token(token) => auth.token = Some(token.read()?),
            Self::UserPassword { user, password } => {
                auth.username = Some(user.clone());
                auth.password = Some(password.read()?);
            }
            Self::Nkey(path) => {
                let text = read(path)?;
                let pair = key_pair(text.trim(), path)?;
                auth.nkey = Some(pair.public_key());
                auth.signature = Some(sign(&pair, nonce, path)?);
            }
            Self::File(path) => {
                let text = read(path)?;
                let block = |title: &str| {
                    let missing = || format!("{} has no block `{title}`", path.display());
                    below(&text, title).ok_or_else(missing)
                };
                let pair = key_pair(block("USER NKEY SEED")?, path)?;
                auth.jwt = Some(block("NATS USER JWT")?.to_owned());
                auth.signature = Some(sign(&pair, nonce, path)?);
            }
        }
        Ok(auth)
    }
}

impl Held {
    fn read(&self) -> Result<String, String> {
        match self {
            Self::Here(text) => Ok(text.clone()),
            Self::File(path) => {
                let text = read(path)?;
                match text.trim() {
                    "" => Err(format!("{} is empty, and should hold what signs in to NATS", path.display())),
                    text => Ok(text.to_owned()),
                }
            }
        }
    }
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

fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {shown}, which should hold what signs in to NATS: {error}"))
}

fn key_pair(seed: &str, path: &Path) -> Result<KeyPair, String> {
    let unfit = |_| format!("the seed in {} is not that of an nkey", path.display());
    KeyPair::from_seed(seed).map_err(unfit)
}

fn sign(pair: &KeyPair, nonce: &[u8], path: &Path) -> Result<Vec<u8>, String> {
    pair.sign(nonce).map_err(|_| format!("the seed in {} cannot sign", path.display()))
}

/// The line below `-----BEGIN title-----`.
fn below<'a>(text: &'a str, title: &str) -> Option<&'a str> {
    let (_, behind) = text.split_once(&format!("BEGIN {title}"))?;
    let line = behind.lines().nth(1)?.trim();
    Some(line).filter(|line| !line.is_empty())
}
