//! How the bus proves to a real nats-server who it is, and that every proof is rotated without a restart.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use mapwright::bus::*;
use mapwright_testbed::certificates::{Authority, Pair};
use mapwright_testbed::ground::has_servers;
use mapwright_testbed::process::Scratch;
use mapwright_testbed::{Nats, eventually, secs};
use nkeys::KeyPair;
use serde_json::{Value, json};

const SUBJECT: &str = "dcm.sample";

/// Longer than a client that was sent away takes to come back.
const BACK: Duration = secs(20);

async fn bus(url: String, credentials: Credentials, tls: Tls) -> Bus {
    let options =
        Options { servers: vec![url], name: "suite".to_owned(), credentials, tls, deadline: secs(2) };
    Bus::connect(options).await.unwrap()
}

async fn until(bus: &Bus, up: bool) {
    let mut link = bus.link();
    let waited = tokio::time::timeout(BACK, link.wait_for(|link| link.up == up)).await;
    waited.unwrap_or_else(|_| panic!("the link stays {:?}", bus.link().borrow().clone())).unwrap();
}

/// Publishes until the server takes it.
async fn publishes(bus: &Bus) -> Delivery {
    let payload = Bytes::from_static(b"{}");
    let message = Message { subject: SUBJECT.to_owned(), id: "a".to_owned(), payload, announced: false };
    let published = async || bus.publish(&message).await.ok();
    eventually("a message is taken", BACK, published).await.unwrap()
}

/// The server's configuration changes to what only the new proof satisfies: the old connection is cut, and
/// the next one brings what the file says now.
async fn rotated(mut nats: Nats, bus: Bus, config: &str, change: impl FnOnce()) {
    until(&bus, true).await;
    assert_eq!(publishes(&bus).await, Delivery::Flushed);
    let mut link = bus.link();
    link.mark_unchanged();
    nats.reconfigure(config).unwrap();
    tokio::time::timeout(BACK, link.wait_for(|link| !link.up))
        .await
        .expect("the old one is sent away")
        .unwrap();
    change();
    until(&bus, true).await;
    assert_eq!(publishes(&bus).await, Delivery::Flushed, "{}", nats.log());
}

fn held(scratch: &Scratch, text: &str) -> (PathBuf, impl FnOnce(&str) + use<>) {
    let path = scratch.write("secret", text).unwrap();
    let file = path.clone();
    (path, move |text: &str| std::fs::write(file, text).unwrap())
}

#[tokio::test]
async fn a_token_in_a_file_is_rotated() {
    if !has_servers() {
        return;
    }
    let config = |token: &str| format!("authorization {{ token: {token:?} }}\n");
    let nats = Nats::configured(&config("first")).await.unwrap();
    let scratch = Scratch::new("token").unwrap();
    let (path, write) = held(&scratch, "first\n");
    let bus = bus(nats.url(), Credentials::Token(Held::File(path)), Tls::default()).await;
    rotated(nats, bus, &config("second"), || write("second\n")).await;
}

#[tokio::test]
async fn a_password_in_a_file_is_rotated() {
    if !has_servers() {
        return;
    }
    let config = |password: &str| format!("authorization {{ user: provider, password: {password:?} }}\n");
    let nats = Nats::configured(&config("first")).await.unwrap();
    let scratch = Scratch::new("password").unwrap();
    let (path, write) = held(&scratch, "first");
    let credentials = Credentials::UserPassword { user: "provider".to_owned(), password: Held::File(path) };
    let bus = bus(nats.url(), credentials, Tls::default()).await;
    rotated(nats, bus, &config("second"), || write("second")).await;
}

#[tokio::test]
async fn an_nkey_is_rotated() {
    if !has_servers() {
        return;
    }
    let (first, second) = (KeyPair::new_user(), KeyPair::new_user());
    let config =
        |pair: &KeyPair| format!("authorization {{ users: [ {{ nkey: {} }} ] }}\n", pair.public_key());
    let nats = Nats::configured(&config(&first)).await.unwrap();
    let scratch = Scratch::new("nkey").unwrap();
    let (path, write) = held(&scratch, &first.seed().unwrap());
    let bus = bus(nats.url(), Credentials::Nkey(path), Tls::default()).await;
    rotated(nats, bus, &config(&second), || write(&second.seed().unwrap())).await;
}

/// Base64 for URLs, without padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..=chunk.len() {
            let letter = bits >> (18 - 6 * at) & 63;
            text.push(char::from(LETTERS[usize::try_from(letter).unwrap()]));
        }
    }
    text
}

/// A claim about `subject` that `issuer` signed, as nsc makes it.
fn claim(issuer: &KeyPair, subject: &KeyPair, expires: Option<u64>, nats: Value) -> String {
    let mut claims = json!({
        "jti": "suite", "iat": now(), "name": "suite", "iss": issuer.public_key(), "sub": subject.public_key(),
        "nats": nats,
    });
    if let Some(expires) = expires {
        claims["exp"] = expires.into();
    }
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let signed =
        format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()));
    format!("{signed}.{}", base64(&issuer.sign(signed.as_bytes()).unwrap()))
}

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

#[tokio::test]
async fn a_credentials_file_is_rotated_before_it_expires_or_after() {
    if !has_servers() {
        return;
    }
    let (operator, account) = (KeyPair::new_operator(), KeyPair::new_account());
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
        "conn": -1, "leaf": -1,
    });
    let of_operator = claim(&operator, &operator, None, json!({ "type": "operator", "version": 2 }));
    let of_account =
        claim(&operator, &account, None, json!({ "limits": limits, "type": "account", "version": 2 }));
    let config = format!(
        "operator: {of_operator}\nresolver: MEMORY\nresolver_preload: {{ {}: {of_account} }}\n",
        account.public_key()
    );
    let nats = Nats::configured(&config).await.unwrap();
    let creds = |seconds: u64| {
        let user = KeyPair::new_user();
        let nats = json!({
            "pub": { "allow": ["dcm.>", "$JS.API.STREAM.NAMES"] }, "sub": { "allow": ["_INBOX.>"] },
            "subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2,
        });
        let claim = claim(&account, &user, Some(now() + seconds), nats);
        let seed = user.seed().unwrap();
        format!(
            "-----BEGIN NATS USER JWT-----\n{claim}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    };
    let scratch = Scratch::new("creds").unwrap();
    let path = scratch.write("user.creds", &creds(4)).unwrap();
    let bus = bus(nats.url(), Credentials::File(path.clone()), Tls::default()).await;
    until(&bus, true).await;
    assert_eq!(publishes(&bus).await, Delivery::Flushed);
    // The file expires, and nobody renews it for a while.
    until(&bus, false).await;
    assert!(bus.link().borrow().complaint.as_ref().is_some_and(|why| why.to_lowercase().contains("expired")));
    std::fs::write(&path, creds(600)).unwrap();
    until(&bus, true).await;
    assert_eq!(publishes(&bus).await, Delivery::Flushed, "{}", nats.log());
}

fn tls_config(scratch: &Scratch, server: &Pair, clients: &Authority) -> String {
    let (certificate, key) = server.write(&scratch.join("server")).unwrap();
    format!(
        "tls {{ cert_file: {certificate:?}, key_file: {key:?}, ca_file: {:?}, verify: true }}\n",
        clients.file()
    )
}

#[tokio::test]
async fn tls_with_a_certificate_of_the_client_is_rotated_and_a_foreign_server_is_not_trusted() {
    if !has_servers() {
        return;
    }
    let scratch = Scratch::new("nats-tls").unwrap();
    let (servers, clients, later) =
        ["servers", "clients", "later"].map(|name| Authority::new(name).unwrap()).into();
    let server = servers.issue("/CN=nats", "DNS:localhost,IP:127.0.0.1").unwrap();
    let mut nats = Nats::configured(&tls_config(&scratch, &server, &clients)).await.unwrap();
    let own = |authority: &Authority| {
        authority.issue("/CN=provider", "").unwrap().write(&scratch.join("client")).unwrap()
    };
    let certificate_and_key = Some(own(&clients));
    let tls = Tls { authority: Some(servers.file()), certificate_and_key: certificate_and_key.clone() };
    let url = nats.url().replace("nats://", "tls://");
    let trusting = bus(url.clone(), Credentials::Url, tls).await;
    until(&trusting, true).await;
    assert_eq!(publishes(&trusting).await, Delivery::Flushed);

    let foreign = Tls { authority: Some(clients.file()), certificate_and_key };
    let doubting = bus(url, Credentials::Url, foreign).await;

    // The server trusts another authority from now on, and the client brings a certificate of that one.
    nats.kill();
    until(&trusting, false).await;
    nats.reconfigure(&tls_config(&scratch, &server, &later)).unwrap();
    own(&later);
    nats.restart().await.unwrap();
    until(&trusting, true).await;
    assert_eq!(publishes(&trusting).await, Delivery::Flushed, "{}", nats.log());
    assert!(!doubting.link().borrow().up, "a server of a foreign authority is not trusted");
}

/// What docs/security.md says that a user of NATS needs: the fence of that name.
fn documented(name: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/security.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, behind) = page.split_once(&format!("```text {name}\n")).expect("the page has the fence");
    behind.split("```").next().unwrap().to_owned()
}

#[tokio::test]
async fn the_documented_rights_suffice_for_events_and_the_ledger() {
    if !has_servers() {
        return;
    }
    let config = |fence: &str| format!("jetstream {{}}\n{}", documented(fence));
    let open = async |nats: &Nats| {
        let bus = bus(nats.url().replace("//", "//provider:secret@"), Credentials::Url, Tls::default()).await;
        until(&bus, true).await;
        let scratch = Scratch::new("nats-rights").unwrap();
        let open = async || LedgerStore::open(&bus, "mapwright-ledger", scratch.path()).await.ok();
        let store = eventually("the ledger opens", BACK, open).await.unwrap();
        let first = store.put("a", Bytes::from_static(b"1"), None).await.unwrap();
        store.put("a", Bytes::from_static(b"2"), Some(first)).await.unwrap();
        assert_eq!(store.load_all("").await.unwrap()["a"].value, Bytes::from_static(b"2"));
        let followed = store.follow().await;
        assert!(followed.is_ok(), "{:?}", bus.link().borrow().clone());
        store.delete("a").await.unwrap();
        let complaint = bus.link().borrow().complaint.clone();
        (bus, store.is_shared(), complaint)
    };
    let nats = Nats::configured(&config("nats-rights")).await.unwrap();
    let (bus, shared, complaint) = open(&nats).await;
    assert!(shared, "{complaint:?}");
    assert_eq!(publishes(&bus).await, Delivery::NoStreamYet);
    assert_eq!(complaint, None, "something is asked for that the page does not list");

    let nats = Nats::configured(&config("nats-fewest-rights")).await.unwrap();
    let (_, shared, _) = open(&nats).await;
    assert!(!shared);
}
