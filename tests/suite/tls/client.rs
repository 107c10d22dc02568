//! A client that speaks TLS and shows what came of it.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

use mapwright_testbed::certificates::{Authority, Pair};

/// How a client comes.
#[derive(Clone, Copy)]
pub(crate) struct Client<'t> {
    pub(crate) authority: &'t Authority,
    pub(crate) port: u16,
    pub(crate) own: Option<&'t Pair>,
    pub(crate) version: &'static SupportedProtocolVersion,
    pub(crate) protocol: &'static str,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) challenge: Option<String>,
    pub(crate) body: String,
}

impl<'t> Client<'t> {
    pub(crate) fn new(authority: &'t Authority, port: u16) -> Self {
        Self { authority, port, own: None, version: &TLS13, protocol: "http/1.1" }
    }

    pub(crate) fn with(self, own: &'t Pair) -> Self {
        Self { own: Some(own), ..self }
    }

    pub(crate) fn old(self) -> Self {
        Self { version: &TLS12, ..self }
    }

    pub(crate) fn h2(self) -> Self {
        Self { protocol: "h2", ..self }
    }

    pub(crate) async fn open(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.authority.file()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[self.version])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match self.own {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![self.protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// The certificate that the server shows now.
    pub(crate) async fn shown(&self) -> std::io::Result<Vec<u8>> {
        let stream = self.open().await?;
        Ok(stream.get_ref().1.peer_certificates().unwrap()[0].to_vec())
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.try_get(path).await.unwrap()
    }

    /// One GET on a connection of its own.
    pub(crate) async fn try_get(&self, path: &str) -> Result<Answer, Box<dyn std::error::Error>> {
        let stream = self.open().await?;
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        assert_eq!(agreed.as_deref(), Some(self.protocol.as_bytes()));
        let request = Request::get(format!("https://localhost{path}")).header("host", "localhost");
        let request = request.body(Full::<Bytes>::default())?;
        let stream = TokioIo::new(stream);
        let response = if self.protocol == "h2" {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await?;
            tokio::spawn(connection);
            sender.send_request(request).await?
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
            tokio::spawn(connection);
            sender.send_request(request).await?
        };
        let (head, body) = response.into_parts();
        let body = String::from_utf8(body.collect().await?.to_bytes().to_vec())?;
        let challenge = head.headers.get("www-authenticate").map(|value| value.to_str().unwrap().to_owned());
        Ok(Answer { status: head.status.as_u16(), challenge, body })
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect(&self.body)
    }
}
