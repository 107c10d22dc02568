//! A small HTTP client: one connection for each request, every answer as it came.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Method, Request};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::contract::Contract;
use crate::failure::{Context, Failure, Result};

/// Longer than any answer may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Asks one server. It belongs to the runtime that it is used in.
#[derive(Debug, Clone)]
pub struct Http {
    base: String,
    client: Client<HttpConnector, Full<Bytes>>,
    contract: Option<Arc<Contract>>,
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Http {
    /// `base` is what stands before each path, such as `http://127.0.0.1:8080`.
    pub fn new(base: impl Into<String>) -> Self {
        // A kept connection to a server that was restarted meanwhile would be a failure of the test's own.
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        Self { base: base.into(), client, contract: None }
    }

    /// Every answer is held against this contract from now on, and one that breaks it is a failure.
    #[must_use]
    pub fn held_to(self, contract: Option<Arc<Contract>>) -> Self {
        Self { contract, ..self }
    }

    pub async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer> {
        let url = format!("{}{path}", self.base);
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes())?).uri(&url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into()))?;
        let exchange = async {
            let response = self.client.request(request).await?;
            let (head, body) = response.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok::<_, Failure>(Answer { status: head.status.as_u16(), headers: head.headers, body })
        };
        let answer = tokio::time::timeout(DEADLINE, exchange).await;
        let answer = answer.context(format!("{method} {url}"))?.context(format!("{method} {url}"))?;
        if let Some(contract) = &self.contract {
            contract.check(method, path, &answer)?;
        }
        Ok(answer)
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.request("GET", path, &[], "").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        self.request("POST", path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Result<Answer> {
        self.request("PATCH", path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.request("DELETE", path, &[], "").await
    }
}

impl Answer {
    /// The body as JSON; what is no JSON comes as a string, so that a failed comparison shows it.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| Value::String(self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's value; empty if it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}
