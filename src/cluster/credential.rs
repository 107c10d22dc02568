//! Tokens of a credential plugin, shared by all clients and renewed just before they expire.
//!
//! kube runs a plugin again for every call within the last minute of its token, once per client, and lets
//! it write on our standard error. Tokens that live for seconds then cost a process a call, and two
//! clients take each other's token away.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use kube::Config;
use kube::config::ExecConfig;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::refusal::{Refusal, RefusalKind};

/// One plugin of a kubeconfig, and the token it gave last.
pub(crate) struct Plugin {
    exec: ExecConfig,
    held: Mutex<Held>,
}

/// Longest run of a plugin: it may ask a remote service.
const RUN_TIMEOUT: Duration = Duration::from_secs(10);

/// Shortest time between two runs, so that a plugin that fails, or whose tokens are refused, is not run
/// for every call.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Held {
    token: Option<Token>,
    last_run: Option<Instant>,
    failure: Option<Refusal>,
}

struct Token {
    header: HeaderValue,
    /// When to ask for the next one; None for a token that does not expire.
    renew_at: Option<Timestamp>,
}

impl Plugin {
    /// Takes the plugin out of the configuration, so that kube does not run it as well. A plugin that
    /// answers with certificates, or wants to know the cluster, stays where it is: kube serves those.
    pub(crate) async fn take_from(config: &mut Config) -> Option<Self> {
        let exec = config.auth_info.exec.clone()?;
        if exec.provide_cluster_info {
            return None;
        }
        let plugin = Self { exec, held: Mutex::default() };
        if let Ok(answer) = plugin.run().await
            && answer.pointer("/status/clientCertificateData").is_some()
        {
            return None;
        }
        config.auth_info.exec = None;
        Some(plugin)
    }

    /// The Authorization header of a call that is made now. The plugin runs to its end also when the call
    /// gives up: else calls with short deadlines would kill a slow plugin again and again.
    ///
    /// # Errors
    /// When the plugin cannot be run, or gives no token.
    pub(crate) async fn header(self: &Arc<Self>) -> Result<HeaderValue, Refusal> {
        let plugin = Arc::clone(self);
        tokio::spawn(async move { plugin.current().await }).await.unwrap_or_else(|error| {
            let text = format!("the kubeconfig's credential plugin was given up: {error}");
            Err(Refusal::new(RefusalKind::Unauthorized, text))
        })
    }

    async fn current(&self) -> Result<HeaderValue, Refusal> {
        let mut held = self.held.lock().await;
        if let Some(token) = &held.token
            && token.renew_at.is_none_or(|at| Timestamp::now() < at)
        {
            return Ok(token.header.clone());
        }
        if let (Some(last), Some(failure)) = (held.last_run, &held.failure)
            && last.elapsed() < PAUSE
        {
            return Err(failure.clone());
        }
        held.last_run = Some(Instant::now());
        let token = self.run().await.and_then(|answer| token(&answer));
        held.failure = token.as_ref().err().cloned();
        let token = token?;
        let header = token.header.clone();
        held.token = Some(token);
        Ok(header)
    }

    /// The server refused the token: the next call asks for a new one, unless this one is brand new.
    pub(crate) async fn forget(&self) {
        let mut held = self.held.lock().await;
        if held.last_run.is_none_or(|last| last.elapsed() >= PAUSE) {
            held.token = None;
        }
    }

    /// Runs the plugin. What it prints beside its answer is dropped: it may hold a password.
    async fn run(&self) -> Result<Value, Refusal> {
        let name = self.exec.command.as_deref().unwrap_or_default();
        let failed = |what: String| {
            let text = format!("the kubeconfig's credential plugin {name} {what}");
            Refusal::new(RefusalKind::Unauthorized, text)
        };
        let run = timeout(RUN_TIMEOUT, self.command(name).output()).await;
        let output = run
            .map_err(|_| failed(format!("did not end within {} s", RUN_TIMEOUT.as_secs())))?
            .map_err(|error| failed(format!("cannot be run: {error}")))?;
        if !output.status.success() {
            return Err(failed(format!("ended with {}", output.status)));
        }
        serde_json::from_slice(&output.stdout).map_err(|_| failed("printed no JSON".to_owned()))
    }

    fn command(&self, name: &str) -> Command {
        let request = json!({
            "apiVersion": self.exec.api_version,
            "kind": "ExecCredential",
            "spec": { "interactive": false },
        });
        let mut command = Command::new(name);
        command.args(self.exec.args.iter().flatten()).env("KUBERNETES_EXEC_INFO", request.to_string());
        for variable in self.exec.env.iter().flatten() {
            if let (Some(key), Some(value)) = (variable.get("name"), variable.get("value")) {
                command.env(key, value);
            }
        }
        command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        command
    }
}

fn token(answer: &Value) -> Result<Token, Refusal> {
    let refused = |what: &str| {
        Refusal::new(RefusalKind::Unauthorized, format!("the kubeconfig's credential plugin {what}"))
    };
    let text = answer.pointer("/status/token").and_then(Value::as_str);
    let text = text.ok_or_else(|| refused("gave no token"))?;
    let mut header = HeaderValue::try_from(format!("Bearer {text}"))
        .map_err(|_| refused("gave a token that does not fit a header"))?;
    header.set_sensitive(true);
    let expires = answer.pointer("/status/expirationTimestamp").and_then(Value::as_str);
    let renew_at = expires
        .map(|text| text.parse().map(|at| renewal(Timestamp::now(), at)))
        .transpose()
        .map_err(|_| refused("gave an expirationTimestamp that is no time"))?;
    Ok(Token { header, renew_at })
}

/// A fifth of a token's life is left when it is renewed, and never more than a minute.
fn renewal(now: Timestamp, expires: Timestamp) -> Timestamp {
    let life = expires.duration_since(now);
    expires - (life / 5).clamp(SignedDuration::ZERO, SignedDuration::from_mins(1))
}
