//! TLS of the accept loop: certificate, key and the authority of clients, as their files say now.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::files::reread::{Reread, Standing};

/// PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Whose certificates clients may show.
    pub client_authority: Option<PathBuf>,
}

/// What every handshake begins with. Clones share it.
#[derive(Clone)]
pub struct Tls(Arc<Reread<ServerConfig>>);

impl Tls {
    /// # Errors
    /// What is wrong with the files.
    pub fn open(files: TlsFiles) -> Result<Self, String> {
        let mut named = vec![files.certificate.clone(), files.key.clone()];
        named.extend(files.client_authority.clone());
        Reread::open(named, move || config(&files)).map(|config| Self(Arc::new(config)))
    }

    /// Looks whether the files are others by now. A handshake that has begun goes on with what it began with.
    pub fn look(&self) {
        self.0.look();
    }

    #[must_use]
    pub fn standing(&self) -> Standing {
        self.0.standing()
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.0.current()).accept(stream).await
    }
}

fn config(files: &TlsFiles) -> Result<ServerConfig, String> {
    let provider = Arc::new(default_provider());
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| format!("{} holds no private key in PEM: {error}", files.key.display()))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    let builder = match &files.client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let unfit = |error: &dyn std::error::Error| {
                format!("{} is not the certificate of an authority: {error}", path.display())
            };
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| unfit(&error))?;
            }
            // Whoever shows no certificate is judged by the head of its request: it may have a token, or ask
            // for health alone. A certificate that is shown must be the authority's.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(
                verifier.allow_unauthenticated().build().map_err(|error| unfit(&error))?,
            )
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        format!("{} and {} are no pair: {error}", files.certificate.display(), files.key.display())
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let shown = path.display();
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => Err(format!("{shown} holds no certificate in PEM")),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("{shown} holds no certificate in PEM: {error}")),
    }
}
