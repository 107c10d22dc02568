//! Who may call the running program: certificates, tokens of a file, tokens of the cluster.

use std::path::Path;
use std::time::Duration;

use mapwright::access::Peer;
use mapwright_testbed::certificates::Authority;
use mapwright_testbed::ground::is_sandbox;
use mapwright_testbed::process::Scratch;
use mapwright_testbed::{Answer, Http, Launch, Provider, Shared, eventually, secs};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use crate::offline::{mapwright, text};
use crate::tls::client::Client;
use crate::tls::serving;

const OPENAPI: &str = "/api/v1alpha1/openapi.json";

fn alone(scratch: &Scratch) -> Launch {
    Launch::alone(env!("CARGO_BIN_EXE_mapwright"), scratch).unwrap()
}

/// A line of a tokens file, as the documented command makes it.
fn line(token: &str, name: &str) -> String {
    let made = std::process::Command::new("sh")
        .args(["-c", "printf %s \"$0\" | sha256sum | sed \"s/-/$1/\"", token, name])
        .output()
        .unwrap();
    text(&made.stdout)
}

async fn with_tokens(scratch: &Scratch, tokens: &Path) -> Provider {
    alone(scratch).env("SP_SERVER_TOKENS_FILE", tokens.to_str().unwrap()).listen().await.unwrap()
}

async fn ask(http: &Http, path: &str, authorization: &str) -> Answer {
    http.request("GET", path, &[("authorization", authorization)], "").await.unwrap()
}

#[tokio::test]
async fn a_client_is_known_by_the_names_in_its_certificate() {
    let (scratch, authority) = (Scratch::new("mtls").unwrap(), Authority::new("ours").unwrap());
    authority.issue("/CN=provider", "DNS:localhost").unwrap().write(scratch.path()).unwrap();
    let provider = serving(&scratch, scratch.path(), |launch| {
        launch
            .env("SP_SERVER_TLS_CLIENT_CA", authority.file().to_str().unwrap())
            .env("SP_SERVER_TLS_CLIENT_NAMES", "dcm.example.com, spiffe://dcm/agent, an-old-one")
    })
    .await;
    let stranger = Client::new(&authority, provider.port());
    for (subject, names, status) in [
        ("/CN=x", "DNS:dcm.example.com", 200),
        ("/CN=x", "DNS:other.example.com,URI:spiffe://dcm/agent", 200),
        ("/O=old/CN=an-old-one", "", 200),
        ("/CN=an-old-one", "DNS:other.example.com", 403),
        ("/CN=dcm.example.com", "URI:spiffe://dcm/else", 403),
        ("/CN=x", "DNS:dcm.example.com.evil.org", 403),
        ("/O=nobody", "", 403),
    ] {
        let own = authority.issue(subject, names).unwrap();
        for client in [stranger.with(&own), stranger.with(&own).old(), stranger.with(&own).h2()] {
            assert_eq!(client.get(OPENAPI).await.status, status, "{subject} {names}");
        }
    }
    let unknown = stranger.get(OPENAPI).await;
    assert_eq!(
        (unknown.status, unknown.challenge.as_deref()),
        (401, Some("Certificate realm=\"mapwright\""))
    );
    assert_eq!(unknown.json()["type"], "https://dcm-project.github.io/problems/unauthenticated");

    let health = stranger.get("/health").await;
    let members: Vec<String> = health.json().as_object().unwrap().keys().cloned().collect();
    assert_eq!((health.status, members.join(" ").as_str()), (200, "type status path version uptime"));
    let own = authority.issue("/CN=x", "DNS:dcm.example.com").unwrap();
    assert!(stranger.with(&own).get("/health").await.json()["services"].is_array());

    // The same names, by somebody else's authority.
    let theirs = Authority::new("theirs").unwrap().issue("/CN=x", "DNS:dcm.example.com").unwrap();
    assert!(stranger.with(&theirs).try_get(OPENAPI).await.is_err());
    assert!(stranger.old().with(&theirs).try_get(OPENAPI).await.is_err());
}

#[test]
fn a_damaged_certificate_has_no_name_that_was_not_in_it() {
    let authority = Authority::new("ours").unwrap();
    let pair = authority.issue("/O=one/CN=a-common-name", "").unwrap();
    let whole = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap().to_vec();
    let names = |bytes: &[u8]| -> Vec<String> {
        Peer::of(Some(&[CertificateDer::from(bytes)])).names().map(str::to_owned).collect()
    };
    assert_eq!(names(&whole), ["a-common-name"]);
    for end in 0..whole.len() {
        assert!(names(&whole[..end]).is_empty(), "{end}");
    }
    for at in 0..whole.len() {
        for byte in [0, 1, 0x7f, 0x80, 0x82, 0xff, whole[at] ^ 1] {
            let mut damaged = whole.clone();
            damaged[at] = byte;
            // Whatever is read of it, the reading ends and is one name at most.
            assert!(names(&damaged).len() <= 1);
        }
    }
}

#[tokio::test]
async fn every_certificate_of_the_authority_will_do_where_the_settings_say_so() {
    let (scratch, authority) = (Scratch::new("all-names").unwrap(), Authority::new("ours").unwrap());
    authority.issue("/CN=provider", "DNS:localhost").unwrap().write(scratch.path()).unwrap();
    let ca = authority.file();
    let provider = serving(&scratch, scratch.path(), |launch| {
        launch.env("SP_SERVER_TLS_CLIENT_CA", ca.to_str().unwrap()).env("SP_SERVER_TLS_CLIENT_NAMES", "*")
    })
    .await;
    let own = authority.issue("/O=anybody", "").unwrap();
    let client = Client::new(&authority, provider.port());
    assert_eq!(client.with(&own).get(OPENAPI).await.status, 200);
    assert_eq!(client.get(OPENAPI).await.status, 401);
}

#[tokio::test]
async fn a_bearer_token_is_known_by_its_hash_and_rotated_without_a_restart() {
    let scratch = Scratch::new("tokens").unwrap();
    let file = format!("# who may call\n\n{}{}", line("first", "dcm"), line("zweit-\u{fc}", "agent"));
    let tokens = scratch.write("tokens", &file).unwrap();
    let provider = with_tokens(&scratch, &tokens).await;
    let http = provider.http();
    assert_eq!(http.get("/health").await.unwrap().status, 200);
    for (path, status) in [(OPENAPI, 200), ("/metrics", 200), ("/api/v1alpha1/none", 404)] {
        assert_eq!(ask(&http, path, "Bearer first").await.status, status, "{path}");
        assert_eq!(ask(&http, path, "bearer first").await.status, status, "{path}");
        for wrong in ["Bearer second", "Bearer", "Bearer ", "Basic first", "first", "Bearer first x"] {
            let answer = ask(&http, path, wrong).await;
            assert_eq!(answer.status, 401, "{wrong} {path}");
            assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"mapwright\"");
            assert!(!answer.text().contains("second"), "{}", answer.text());
        }
        let answer = http.get(path).await.unwrap();
        assert_eq!((answer.status, answer.json()["status"].as_u64()), (401, Some(401)), "{path}");
    }
    let two = [("authorization", "Bearer first"), ("authorization", "Bearer first")];
    assert_eq!(http.request("GET", OPENAPI, &two, "").await.unwrap().status, 401);

    std::fs::write(&tokens, line("second", "dcm")).unwrap();
    let rotated = async || (ask(&http, OPENAPI, "Bearer second").await.status == 200).then_some(());
    eventually("the new token is known", secs(2), rotated).await.unwrap();
    assert_eq!(ask(&http, OPENAPI, "Bearer first").await.status, 401);

    std::fs::write(&tokens, "an-unhashed-token dcm\n").unwrap();
    let refused = async || provider.log().contains("tokens:1: a line is").then_some(());
    eventually("the broken file is told", secs(10), refused).await.unwrap();
    assert_eq!(ask(&http, OPENAPI, "Bearer second").await.status, 200);
    let metrics = ask(&http, "/metrics", "Bearer second").await.text();
    assert!(metrics.contains("mapwright_files_refused{files=\"tokens\"} 1\n"), "{metrics}");
    for secret in ["unhashed", "first", "second"] {
        assert!(!provider.log().contains(secret), "{secret}: {}", provider.log());
    }
}

#[tokio::test]
async fn a_stranger_is_refused_before_a_byte_of_the_body_is_read() {
    let scratch = Scratch::new("unread").unwrap();
    let tokens = scratch.write("tokens", &line("first", "dcm")).unwrap();
    let provider = with_tokens(&scratch, &tokens).await;
    for length in ["Content-Length: 1073741824", "Transfer-Encoding: chunked"] {
        let mut stream = TcpStream::connect(("127.0.0.1", provider.port())).await.unwrap();
        let head = format!("POST /api/v1alpha1/containers HTTP/1.1\r\nHost: x\r\n{length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        let read = stream.read_exact(&mut answer);
        tokio::time::timeout(secs(5), read).await.expect("an answer to the head").unwrap();
        assert_eq!(&answer, b"HTTP/1.1 401", "{length}");
    }
}

#[tokio::test]
async fn an_address_for_everybody_needs_a_way_to_prove_who_calls_or_a_word() {
    let scratch = Scratch::new("open").unwrap();
    let port = mapwright_testbed::process::free_port().unwrap();
    let everywhere = |address: String| alone(&scratch).at(port).env("SP_SERVER_ADDRESS", &address);
    for address in [format!(":{port}"), format!("0.0.0.0:{port}"), format!("[::]:{port}")] {
        let (status, log) = everywhere(address.clone()).run(secs(10)).await.unwrap();
        assert_eq!(status.code(), Some(1), "{address}: {log}");
        assert!(log.contains("SP_SERVER_ALLOW_UNAUTHENTICATED"), "{address}: {log}");
        assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
    }
    let allowed = everywhere(format!(":{port}")).env("SP_SERVER_ALLOW_UNAUTHENTICATED", "true");
    let provider = allowed.listen().await.unwrap();
    assert_eq!(provider.http().get("/metrics").await.unwrap().status, 200);
    let told = async || provider.log().contains("SP_SERVER_ALLOW_UNAUTHENTICATED is true").then_some(());
    eventually("the log repeats it", secs(5), told).await.unwrap();
    drop(provider);
    let tokens = scratch.write("tokens", &line("first", "dcm")).unwrap();
    let proven = everywhere(format!(":{port}")).env("SP_SERVER_TOKENS_FILE", tokens.to_str().unwrap());
    let provider = proven.listen().await.unwrap();
    assert_eq!(provider.http().get("/metrics").await.unwrap().status, 401);
    assert!(!provider.log().contains("everybody"), "{}", provider.log());
}

/// The token that the API server makes for a service account.
async fn token_of(shared: &Shared, namespace: &str, account: &str, more: &[&str]) -> String {
    let arguments = [&["create", "token", account, "-n", namespace][..], more].concat();
    let made = shared.control_plane.kubectl(&arguments).await.unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    text(&made.stdout).trim().to_owned()
}

async fn kubectl(shared: &Shared, arguments: &[&str]) {
    let done = shared.control_plane.kubectl(arguments).await.unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
}

#[tokio::test]
async fn a_service_account_may_call_what_a_rule_of_the_cluster_lets_it() {
    // Only the real API server makes tokens and judges them.
    if is_sandbox() {
        return;
    }
    let shared = Shared::get().await.unwrap();
    let objects = shared.objects("reviews").await.unwrap();
    let namespace = objects.namespace().to_owned();
    let (caller, other) = ("caller", "other");
    for account in [caller, other] {
        kubectl(shared, &["create", "serviceaccount", account, "-n", &namespace]).await;
    }
    // Its rules name resources that no API server has.
    let page = std::fs::read_to_string(crate::source::root().join("docs/security.md")).unwrap();
    let rules = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let scratch = Scratch::new("rules").unwrap();
    let rules = scratch.write("role.json", rules).unwrap();
    kubectl(shared, &["apply", "-n", &namespace, "-f", rules.to_str().unwrap()]).await;
    let bound = format!("--serviceaccount={namespace}:{caller}");
    kubectl(shared, &["create", "rolebinding", "calls", "--role=calls-mapwright", &bound, "-n", &namespace])
        .await;

    let provider = reviewing(shared, &namespace).await;
    let http = provider.http();
    let bearer = format!("Bearer {}", token_of(shared, &namespace, caller, &[]).await);
    let answer = ask(&http, "/api/v1alpha1/containers", &bearer).await;
    assert_eq!(answer.status, 200, "{}\n{}", answer.text(), provider.log());
    assert_eq!(ask(&http, "/api/v1alpha1/containers/none", &bearer).await.status, 404);
    assert_eq!(ask(&http, "/metrics", &bearer).await.status, 200);
    for path in [OPENAPI, "/api/v1alpha1/volumes", "/api/v1alpha1/volumes/none"] {
        assert_eq!(ask(&http, path, &bearer).await.status, 403, "{path}");
    }
    let header = [("authorization", bearer.as_str())];
    let deleted = http.request("DELETE", "/api/v1alpha1/containers/none", &header, "").await.unwrap();
    assert_eq!(deleted.status, 403, "the rule does not name it");
    let bearer = format!("Bearer {}", token_of(shared, &namespace, other, &[]).await);
    assert_eq!(ask(&http, "/api/v1alpha1/containers", &bearer).await.status, 403);
    assert_eq!(ask(&http, "/api/v1alpha1/containers", "Bearer nonsense").await.status, 401);
    assert_eq!(http.get("/api/v1alpha1/containers").await.unwrap().status, 401);
    assert_eq!(http.get("/health").await.unwrap().status, 200);

    // What is taken away holds for a few seconds more, and no longer.
    kubectl(shared, &["delete", "serviceaccount", caller, "-n", &namespace]).await;
    let bearer = header[0].1;
    let gone = async || (ask(&http, "/api/v1alpha1/containers", bearer).await.status == 401).then_some(());
    eventually("the account is gone", secs(30), gone).await.unwrap();
}

/// A provider with exactly the rights that `rbac --token-review` prints.
async fn reviewing(shared: &Shared, namespace: &str) -> Provider {
    let printed = mapwright(&["rbac", "container", "storage", "--namespace", namespace, "--token-review"]);
    crate::rights::allow(&shared.control_plane, "limited", namespace, &text(&printed.stdout)).await;
    let plane = &shared.control_plane;
    let kubeconfig = plane.kubeconfig_for("limited", &plane.url()).unwrap();
    let launch = Launch::shared(env!("CARGO_BIN_EXE_mapwright"), shared, namespace).unwrap();
    let launch = launch.cluster(&kubeconfig, namespace).types(&["container", "storage"]);
    let provider = launch.env("SP_SERVER_TOKEN_REVIEW", "true").start().await.unwrap();
    let synced = async || {
        let token = token_of(shared, namespace, "caller", &["--duration=10m"]).await;
        let answer = ask(&provider.http(), "/api/v1alpha1/containers", &format!("Bearer {token}")).await;
        (answer.status == 200).then_some(())
    };
    eventually("the lists are complete", secs(30), synced).await.unwrap();
    provider
}

#[tokio::test]
async fn without_a_cluster_a_token_is_neither_known_nor_refused_and_health_is_quick() {
    let scratch = Scratch::new("no-reviews").unwrap();
    let provider = alone(&scratch).env("SP_SERVER_TOKEN_REVIEW", "true").listen().await.unwrap();
    let http = provider.http();
    let answer = ask(&http, OPENAPI, "Bearer some").await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
    let begun = std::time::Instant::now();
    assert_eq!(ask(&http, "/health", "Bearer some").await.status, 200);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}
