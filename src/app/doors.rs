//! Who is let in, and how: TLS and the ways to prove who one is, from their settings and files.

use std::sync::Arc;
use std::time::Duration;

use super::StartError;
use crate::access::{Access, Names, Reviews, Tokens};
use crate::api::Standings;
use crate::cluster::Cluster;
use crate::files::reread::Reread;
use crate::http::{Tls, TlsFiles};
use crate::settings::{ServerTls, Settings};

/// Kept for as long as the process serves. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Doors {
    pub(super) access: Arc<Access>,
    pub(super) tls: Option<Tls>,
}

/// How often files are looked at: a swap is to be noticed within two seconds, on a busy machine too.
const PAUSE: Duration = Duration::from_millis(500);

impl Doors {
    /// Opens every file. Without a cluster nobody can be asked, and the start fails for that anyway.
    pub(super) fn open(all: &Settings, cluster: Option<&Cluster>) -> Result<Self, StartError> {
        let (server, namespace) = (&all.server, &all.cluster.namespace);
        let mut faults = Vec::new();
        let tls = server.tls.as_ref().and_then(|files| {
            Tls::open(tls_files(files)).map_err(|why| faults.push(format!("SP_SERVER_TLS_CERT: {why}"))).ok()
        });
        let settings = &server.access;
        let tokens = settings.tokens_file.clone().and_then(|path| {
            let file = path.clone();
            Reread::open(vec![path], move || Tokens::read(&file))
                .map_err(|why| faults.push(format!("SP_SERVER_TOKENS_FILE: {why}")))
                .ok()
        });
        let names = settings.client_names.clone().map(|names| match names.is_empty() {
            true => Names::All,
            false => Names::Listed(names),
        });
        let reviews = cluster.filter(|_| settings.token_review).map(|cluster| {
            Reviews::new(cluster.clone(), settings.token_audiences.clone(), namespace.clone())
        });
        if !faults.is_empty() {
            return Err(StartError::Other(faults.join("\n")));
        }
        Ok(Self { access: Arc::new(Access { names, tokens: tokens.map(Arc::new), reviews }), tls })
    }

    /// Says at a start what an operator should not overlook.
    pub(super) fn warn(&self, settings: &Settings) {
        let server = &settings.server;
        if server.address.is_loopback() {
            return;
        }
        if self.access.is_open() && server.access.allow_unauthenticated {
            tracing::warn!(
                address = %server.address,
                "everybody who reaches this address may call, since SP_SERVER_ALLOW_UNAUTHENTICATED is true"
            );
        }
        if self.tls.is_none() && !self.access.is_open() {
            tracing::warn!(
                address = %server.address,
                "tokens are read without TLS; set SP_SERVER_TLS_CERT, unless something in front speaks TLS"
            );
        }
        let plain = settings.providers.iter().find(|provider| provider.endpoint.starts_with("http://"));
        if let (Some(provider), Some(_)) = (plain, &self.tls) {
            tracing::warn!(
                endpoint = provider.endpoint,
                "SP_ENDPOINT says http, but this process speaks TLS; set it to https, unless something in \
                 front speaks TLS again"
            );
        }
    }

    /// Looks at the files again and again, beside the runtime: a file system may hang.
    pub(super) async fn look(self) {
        loop {
            tokio::time::sleep(PAUSE).await;
            let doors = self.clone();
            let looked = tokio::task::spawn_blocking(move || {
                if let Some(tls) = &doors.tls {
                    tls.look();
                }
                if let Some(tokens) = &doors.access.tokens {
                    tokens.look();
                }
            });
            if let Err(error) = looked.await {
                tracing::error!(%error, "certificates and tokens cannot be looked at");
            }
        }
    }

    /// How the files stand, by what they are for; where there are none, nothing is wrong with them.
    pub(super) fn standings(&self) -> Standings {
        let doors = self.clone();
        Box::new(move || {
            let tls = doors.tls.as_ref().map(Tls::standing).unwrap_or_default();
            vec![("certificates", tls), ("tokens", doors.access.standing().unwrap_or_default())]
        })
    }
}

fn tls_files(files: &ServerTls) -> TlsFiles {
    let ServerTls { certificate, key, client_authority } = files.clone();
    TlsFiles { certificate, key, client_authority }
}
