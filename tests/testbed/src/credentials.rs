//! The files that a control plane needs before it starts: tokens, the service-account key, kubeconfigs.

use k8s_openapi::ByteString;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use crate::failure::{Failure, Result};

/// What stands before the point in the DER of every P-256 public key.
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A service-account key as PEM: the private half, the public half.
pub(crate) fn service_account_key() -> Result<(String, String)> {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let private = EcdsaKeyPair::generate_pkcs8(algorithm, &random);
    let private = private.map_err(|_| Failure::new("cannot make a service-account key"))?;
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, private.as_ref(), &random);
    let pair =
        pair.map_err(|reason| Failure::new(format!("the service-account key is refused: {reason}")))?;
    let public = [&P256_PREFIX[..], pair.public_key().as_ref()].concat();
    Ok((pem("PRIVATE KEY", private.as_ref())?, pem("PUBLIC KEY", &public)?))
}

fn pem(label: &str, der: &[u8]) -> Result<String> {
    // Kubernetes' JSON form of bytes is base64.
    let Value::String(text) = serde_json::to_value(ByteString(der.to_vec()))? else {
        return Err(Failure::new("bytes are written as a string"));
    };
    let mut lines = String::new();
    for line in text.as_bytes().chunks(64) {
        lines.push_str(&String::from_utf8_lossy(line));
        lines.push('\n');
    }
    Ok(format!("-----BEGIN {label}-----\n{lines}-----END {label}-----\n"))
}

pub(crate) fn token_of(user: &str) -> String {
    format!("token-of-{user}")
}

/// The API server's token file: `admin` may do everything, the others nothing until a test binds a role.
pub(crate) fn token_file(users: &[String]) -> String {
    let mut lines = format!("{},admin,admin,\"system:masters\"\n", token_of("admin"));
    for user in users {
        lines.push_str(&format!("{},{user},{user}\n", token_of(user)));
    }
    lines
}

/// A kubeconfig is YAML, and JSON is YAML that nobody has to write by hand. Without TLS there is no authority.
pub(crate) fn kubeconfig(server: &str, authority: Option<&str>, user: &str) -> String {
    let mut cluster = json!({"server": server});
    if let Some(authority) = authority {
        cluster["certificate-authority"] = authority.into();
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token_of(user)}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": user}}],
        "current-context": "testbed",
    });
    format!("{config:#}\n")
}
