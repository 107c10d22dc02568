//! TLS of the running program: versions, protocols, swapped and broken certificates.

pub(crate) mod client;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mapwright_testbed::certificates::{Authority, Pair};
use mapwright_testbed::process::Scratch;
use mapwright_testbed::{Launch, Provider, eventually, secs};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use client::Client;

/// How soon a change is to be noticed.
const NOTICED: Duration = secs(2);

/// A provider without anybody behind it, with this pair.
pub(crate) async fn serving(
    scratch: &Scratch,
    folder: &Path,
    change: impl FnOnce(Launch) -> Launch,
) -> Provider {
    let launch = Launch::alone(env!("CARGO_BIN_EXE_mapwright"), scratch).unwrap();
    let launch = launch
        .env("SP_SERVER_TLS_CERT", folder.join("tls.crt").to_str().unwrap())
        .env("SP_SERVER_TLS_KEY", folder.join("tls.key").to_str().unwrap());
    change(launch).listen().await.unwrap()
}

fn der(pair: &Pair) -> Vec<u8> {
    CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap().to_vec()
}

/// Puts a pair into a volume as the kubelet does: a folder of its own, and one link that is swapped.
fn mount(volume: &Path, revision: usize, pair: &Pair) {
    let folder = format!("..{revision}");
    pair.write(&volume.join(&folder)).unwrap();
    let fresh = volume.join("..data_tmp");
    symlink(&folder, &fresh).unwrap();
    fs::rename(&fresh, volume.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        let link = volume.join(name);
        if !link.is_symlink() {
            symlink(format!("..data/{name}"), link).unwrap();
        }
    }
}

#[tokio::test]
async fn both_versions_of_tls_and_of_http_are_spoken_and_plain_http_is_not() {
    let (scratch, authority) = (Scratch::new("tls").unwrap(), Authority::new("ours").unwrap());
    let pair = authority.issue("/CN=provider", "DNS:localhost").unwrap();
    pair.write(scratch.path()).unwrap();
    let provider = serving(&scratch, scratch.path(), |launch| launch).await;
    let client = Client::new(&authority, provider.port());
    for client in [client, client.old(), client.h2(), client.old().h2()] {
        let health = client.get("/health").await;
        assert_eq!(health.status, 200);
        assert!(health.json()["services"].is_array(), "without a way to prove it nobody is a stranger");
        assert_eq!(client.get("/none").await.status, 404);
    }
    assert!(provider.http().get("/health").await.is_err());
    let stranger = Authority::new("theirs").unwrap();
    assert!(Client::new(&stranger, provider.port()).open().await.is_err());
}

#[tokio::test]
async fn a_swapped_certificate_is_shown_within_two_seconds_and_no_handshake_fails() {
    let (scratch, authority) = (Scratch::new("swap").unwrap(), Arc::new(Authority::new("ours").unwrap()));
    let volume = scratch.join("volume");
    let issue = || authority.issue("/CN=provider", "DNS:localhost").unwrap();
    mount(&volume, 0, &issue());
    let provider = serving(&scratch, &volume, |launch| launch).await;
    let port = provider.port();
    let (stop, shaken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let shaking = (0..3).map(|_| {
        let (authority, stop, shaken) = (authority.clone(), stop.clone(), shaken.clone());
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                Client::new(&authority, port).shown().await?;
                shaken.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, std::io::Error>(())
        })
    });
    let shaking: Vec<_> = shaking.collect();
    for revision in 1..=4 {
        let pair = issue();
        mount(&volume, revision, &pair);
        let swapped = Instant::now();
        while Client::new(&authority, port).shown().await.unwrap() != der(&pair) {
            assert!(swapped.elapsed() < NOTICED, "revision {revision} is not shown");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    for task in shaking {
        task.await.unwrap().expect("no handshake fails");
    }
    assert!(shaken.load(Ordering::Relaxed) > 20, "{shaken:?}");
    let metrics = Client::new(&authority, port).get("/metrics").await.body;
    assert!(metrics.contains("mapwright_files_taken_total{files=\"certificates\"} 4\n"), "{metrics}");
}

#[tokio::test]
async fn a_broken_pair_keeps_the_old_one_and_is_told() {
    let (scratch, authority) = (Scratch::new("broken").unwrap(), Authority::new("ours").unwrap());
    let volume = scratch.join("volume");
    let issue = || authority.issue("/CN=provider", "DNS:localhost").unwrap();
    let (good, other) = (issue(), issue());
    mount(&volume, 0, &good);
    let provider = serving(&scratch, &volume, |launch| launch).await;
    let client = Client::new(&authority, provider.port());
    let refused = async |count: usize| {
        let metrics = client.get("/metrics").await.body;
        let total = format!("mapwright_files_refused_total{{files=\"certificates\"}} {count}\n");
        (metrics.contains(&total) && metrics.contains("mapwright_files_refused{files=\"certificates\"} 1\n"))
            .then_some(())
    };
    let pem = |text: &str| Pair { certificate: text.to_owned(), key: good.key.clone() };
    let broken = [
        Pair { certificate: other.certificate.clone(), key: good.key.clone() },
        pem("no certificate"),
        pem(""),
        pem("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        Pair { certificate: good.certificate.clone(), key: String::new() },
    ];
    for (at, pair) in broken.iter().enumerate() {
        mount(&volume, at + 1, pair);
        eventually("the refusal is counted", secs(10), || refused(at + 1)).await.unwrap();
        assert_eq!(client.shown().await.unwrap(), der(&good), "{at}");
    }
    let health = client.get("/health").await.json();
    assert_eq!(health["status"], "unhealthy");
    assert!(health["details"].to_string().contains("tls.key"), "{health}");
    assert!(provider.log().contains("changed files are refused"), "{}", provider.log());
    assert!(!provider.log().contains("BEGIN"), "no key in a log");
    mount(&volume, 9, &other);
    let taken = async || (client.shown().await.unwrap() == der(&other)).then_some(());
    eventually("the mended pair is shown", secs(10), taken).await.unwrap();
    let metrics = client.get("/metrics").await.body;
    assert!(metrics.contains("mapwright_files_refused{files=\"certificates\"} 0\n"), "{metrics}");
}

#[tokio::test]
async fn a_start_names_every_file_that_is_wrong_and_listens_on_nothing() {
    let scratch = Scratch::new("wrong-files").unwrap();
    let launch = Launch::alone(env!("CARGO_BIN_EXE_mapwright"), &scratch).unwrap();
    let nothing = scratch.join("nothing");
    let nothing = nothing.to_str().unwrap();
    let launch = launch
        .env("SP_SERVER_TLS_CERT", nothing)
        .env("SP_SERVER_TLS_KEY", nothing)
        .env("SP_SERVER_TOKENS_FILE", nothing)
        .env("SP_NATS_CREDENTIALS_FILE", nothing)
        .env("SP_K8S_KUBECONFIG", nothing);
    let (status, log) = launch.run(secs(10)).await.unwrap();
    assert_eq!(status.code(), Some(1), "{log}");
    for name in ["SP_SERVER_TLS_CERT", "SP_SERVER_TOKENS_FILE", "SP_K8S_KUBECONFIG", "signs in to NATS"] {
        assert!(log.contains(name), "{name}: {log}");
    }
}
