//! Who holds a token, and what Kubernetes' rules let that one do.

use std::time::Duration;

use hyper::Method;
use serde_json::{Map, Value, json};

use super::connection::{Cluster, with_body};
use super::refusal::{Refusal, RefusalKind};

/// A user or service account, as a review names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    /// Everything that the review of a token said of the holder; a review of rights wants it back.
    user: Map<String, Value>,
}

/// What an account wants to do, as a rule would name it.
#[derive(Clone, Copy, Debug)]
pub struct Meant<'m> {
    pub namespace: &'m str,
    pub group: &'m str,
    pub verb: &'m str,
    pub resource: &'m str,
    /// Empty where there is none.
    pub subresource: &'m str,
}

/// A caller waits for this before its own request begins.
const DEADLINE: Duration = Duration::from_secs(5);

const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const RIGHTS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

impl Cluster {
    /// The holder of a token that was made for one of the audiences; none where the cluster does not know it.
    ///
    /// # Errors
    /// When the cluster cannot be asked.
    pub async fn account_of(&self, token: &str, audiences: &[String]) -> Result<Option<Account>, Refusal> {
        let mut spec = json!({ "token": token });
        if !audiences.is_empty() {
            spec["audiences"] = json!(audiences);
        }
        let status = self.review(TOKENS, "authentication.k8s.io/v1", "TokenReview", spec).await?;
        if status.get("authenticated") != Some(&Value::Bool(true)) {
            return Ok(None);
        }
        // A server that knows nothing of audiences leaves them out, and has not looked at them.
        let said = status.get("audiences").and_then(Value::as_array);
        let meant = |said: &Vec<Value>| said.iter().any(|said| audiences.iter().any(|meant| said == meant));
        if !audiences.is_empty() && !said.is_some_and(meant) {
            return Ok(None);
        }
        let user = status.get("user").and_then(Value::as_object).cloned().unwrap_or_default();
        let name = user.get("username").and_then(Value::as_str).filter(|name| !name.is_empty());
        Ok(name.map(str::to_owned).map(|name| Account { name, user }))
    }

    /// Whether a rule lets the account do something.
    ///
    /// # Errors
    /// When the cluster cannot be asked.
    pub async fn may(&self, account: &Account, meant: &Meant<'_>) -> Result<bool, Refusal> {
        let Meant { namespace, group, verb, resource, subresource } = meant;
        let mut spec = json!({
            "user": account.name,
            "resourceAttributes": {
                "namespace": namespace, "group": group, "verb": verb,
                "resource": resource, "subresource": subresource,
            },
        });
        for member in ["uid", "groups", "extra"] {
            if let Some(value) = account.user.get(member) {
                spec[member] = value.clone();
            }
        }
        let status = self.review(RIGHTS, "authorization.k8s.io/v1", "SubjectAccessReview", spec).await?;
        Ok(status.get("allowed") == Some(&Value::Bool(true)))
    }

    /// Asks by creating what is never stored; the answer is its status.
    async fn review(&self, path: &str, version: &str, kind: &str, spec: Value) -> Result<Value, Refusal> {
        let body = json!({ "apiVersion": version, "kind": kind, "spec": spec });
        let request = with_body(Method::POST, path, "application/json", &body)?;
        let mut answer = self.call_within(DEADLINE, request).await?;
        match answer.get_mut("status") {
            Some(status) => Ok(status.take()),
            None => Err(Refusal::new(
                RefusalKind::Other,
                format!("the cluster answered a {kind} without a status"),
            )),
        }
    }
}
