//! Mappings that are saved while they serve: a sound revision is taken into use, another one changes nothing.

pub(crate) mod screen;
mod under_way;

use std::fs;
use std::os::unix::fs::symlink;

use mapwright_testbed::{Kind, Shared, eventually, secs};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::cases::root::Root;
use crate::dcm::{CONTAINERS, Dcm, labels, running, web};

const MAPPING: &str = "mappings/container/mapping.toml";
const SCHEMA: &str = "schemas/container.json";
const SECRET: Kind = Kind::new("v1", "Secret", "secrets");

/// Checking, and whatever else the machine has to do.
const TAKEN: std::time::Duration = secs(60);

async fn start(name: &str, types: &[&str], root: &Root) -> Dcm {
    let objects = Shared::get().await.unwrap().objects(name).await.unwrap();
    let root = root.path("").to_string_lossy().into_owned();
    Dcm::start_of(types, objects, |launch| launch.arg("--root").arg(root)).await
}

/// What health says of revisions.
async fn revisions(dcm: &Dcm) -> Value {
    let health = dcm.get("/health").await.json();
    assert_eq!(health["mappings"], dcm.get(&format!("{CONTAINERS}/health")).await.json()["mappings"]);
    health["mappings"].clone()
}

async fn in_use(dcm: &Dcm) -> String {
    dcm.get("/health").await.json()["mappings"]["revision"].as_str().unwrap().to_owned()
}

/// Waits until another revision than this one is in use, and names it.
async fn another(dcm: &Dcm, than: &str) -> String {
    let other = async || Some(in_use(dcm).await).filter(|revision| revision != than);
    let taken = eventually("another revision is in use", TAKEN, other).await;
    taken.unwrap_or_else(|error| panic!("{error}\n{}", dcm.provider.log()))
}

/// Waits until the revision of the files is refused, and says why.
async fn refused(dcm: &Dcm, because: &str) -> Value {
    let refused = async || {
        let said = dcm.get("/health").await.json()["mappings"]["refused"].clone();
        said["diagnostic"].as_str().is_some_and(|text| text.contains(because)).then_some(said)
    };
    let said = eventually(&format!("health says {because}"), TAKEN, refused).await;
    said.unwrap_or_else(|error| panic!("{error}\n{}", dcm.provider.log()))
}

async fn forgiven(dcm: &Dcm) {
    let forgiven = async || dcm.get("/health").await.json()["mappings"]["refused"].is_null().then_some(());
    eventually("nothing is refused any more", TAKEN, forgiven).await.unwrap();
}

#[tokio::test]
async fn a_sound_revision_holds_for_instances_connections_and_events_that_are_there() {
    let root = Root::new();
    let dcm = start("reload", &["container"], &root).await;
    dcm.container("old", web()).await;
    dcm.pod_becomes("old", running()).await;
    dcm.says(CONTAINERS, "old", "RUNNING", &["the pod is running"]).await;
    let address = dcm.provider.base_url().replace("http://", "");
    let mut connection = TcpStream::connect(&address).await.unwrap();
    assert!(asked(&mut connection).await.contains("the pod is running"));
    let (before, events) = (in_use(&dcm).await, dcm.events.of("old"));

    // Words of another row: of what there is, nothing changes.
    root.replace(MAPPING, "message = \"waiting for a pod\"", "message = \"no pod yet\"");
    let second = another(&dcm, &before).await;
    // Not longer idle than a connection may be, also where all of this takes its time.
    asked(&mut connection).await;
    dcm.container("new", web()).await;
    dcm.pod_becomes("new", running()).await;
    dcm.says(CONTAINERS, "new", "RUNNING", &[]).await;
    assert_eq!(dcm.events.of("old"), events, "what was said is not said again");
    asked(&mut connection).await;

    root.replace(MAPPING, "'the pod is running'", "'all is well'");
    another(&dcm, &second).await;
    asked(&mut connection).await;
    for id in ["old", "new"] {
        dcm.says(CONTAINERS, id, "RUNNING", &["all is well"]).await;
    }
    assert_eq!(dcm.events.of("old").len(), events.len() + 1);
    assert!(asked(&mut connection).await.contains("all is well"), "on the connection of before");
    assert_eq!(dcm.delete(CONTAINERS, "old").await.status, 204);
    dcm.is_gone(CONTAINERS, "old").await;
    assert_eq!(revisions(&dcm).await.as_object().unwrap().len(), 1, "nothing is refused, nothing waits");
}

/// One GET on a connection that stays open.
async fn asked(connection: &mut TcpStream) -> String {
    let request = format!("GET {CONTAINERS}/old HTTP/1.1\r\nhost: x\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    while !answer.ends_with('}') {
        let mut part = [0; 4096];
        let length = connection.read(&mut part).await.unwrap();
        assert!(length > 0, "the connection was closed");
        answer.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    answer
}

#[tokio::test]
async fn a_revision_that_does_not_check_changes_nothing_until_it_is_mended() {
    let root = Root::new();
    let dcm = start("reload-bad", &["container"], &root).await;
    let (good, before) = (root.read(MAPPING), in_use(&dcm).await);

    root.replace(
        MAPPING,
        "when    = \"pod.status.phase == 'Running'\"",
        "when    = \"pod.status.phas == 'Running'\"",
    );
    let said = refused(&dcm, "phas").await;
    assert!(said["diagnostic"].as_str().unwrap().starts_with("mappings/container/mapping.toml:"), "{said}");
    assert_ne!(said["revision"], json!(before));
    let health = revisions(&dcm).await;
    assert_eq!((&health["revision"], &health["refused"]), (&json!(before), &said));
    assert_eq!(dcm.get("/health").await.json()["status"], "healthy", "what serves is the good one");
    let figures = dcm.get("/metrics").await.text();
    assert!(
        figures.contains(&format!("mapwright_mapping_revision_info{{revision=\"{before}\"}} 1\n")),
        "{figures}"
    );
    assert!(figures.contains("\nmapwright_mapping_refused 1\n"), "{figures}");
    let log = dcm.provider.log();
    let told = log.lines().find(|line| line.contains("a revision of the mappings is refused")).unwrap();
    assert!(told.contains("did you mean") && told.contains(&before), "{told}");
    dcm.container("web", web()).await;
    dcm.pod_becomes("web", running()).await;
    dcm.says(CONTAINERS, "web", "RUNNING", &["the pod is running"]).await;

    fs::write(root.path(MAPPING), &good).unwrap();
    forgiven(&dcm).await;
    assert_eq!(in_use(&dcm).await, before);
    // What compiles, and what `check` finds all the same.
    let schema = root.read(SCHEMA);
    root.replace(SCHEMA, "\"properties\": {", "\"properties\": {\n    \"extra\": { \"type\": \"string\" },");
    refused(&dcm, "extra").await;
    fs::write(root.path(SCHEMA), schema).unwrap();
    forgiven(&dcm).await;
    fs::write(root.path(MAPPING), "format = [").unwrap();
    refused(&dcm, "mapping.toml").await;
    fs::write(
        root.path(MAPPING),
        good.replace(
            "required = true",
            "required = true\n\n[settings.depth]\nenv = \"SP_DEPTH\"\nrequired = true",
        ),
    )
    .unwrap();
    refused(&dcm, "SP_DEPTH").await;

    fs::write(root.path(MAPPING), good.replace("'the pod is running'", "'mended'")).unwrap();
    another(&dcm, &before).await;
    forgiven(&dcm).await;
    dcm.says(CONTAINERS, "web", "RUNNING", &["mended"]).await;
}

#[tokio::test]
async fn a_mounted_folder_whose_link_is_swapped_is_another_revision() {
    let root = Root::new();
    let folder = root.path("mappings/container");
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    // As a ConfigMap is mounted: files are links into `..data`, which is a link to the newest folder.
    for version in ["..1", "..2"] {
        fs::create_dir(folder.join(version)).unwrap();
        for file in &files {
            fs::copy(folder.join(file), folder.join(version).join(file)).unwrap();
        }
    }
    for file in &files {
        fs::remove_file(folder.join(file)).unwrap();
        symlink(std::path::Path::new("..data").join(file), folder.join(file)).unwrap();
    }
    symlink("..1", folder.join("..data")).unwrap();
    root.replace("mappings/container/..2/mapping.toml", "'the pod is running'", "'swapped'");
    let dcm = start("reload-swap", &["container"], &root).await;
    let before = in_use(&dcm).await;
    dcm.container("web", web()).await;
    dcm.pod_becomes("web", running()).await;
    dcm.says(CONTAINERS, "web", "RUNNING", &["the pod is running"]).await;

    let swap = |to: &str| {
        symlink(to, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    swap("..2");
    let second = another(&dcm, &before).await;
    dcm.says(CONTAINERS, "web", "RUNNING", &["swapped"]).await;
    swap("..1");
    assert_eq!(another(&dcm, &second).await, before, "the same files are the same revision");
}

#[tokio::test]
async fn a_revision_that_observes_more_has_read_it_before_it_serves() {
    let root = Root::new();
    let objects = Shared::quiet_plane().await.unwrap();
    let plane = objects;
    let client = plane.client().await.unwrap();
    let namespace = mapwright_testbed::shared::namespace(&client, "reload-more").await.unwrap();
    let objects = mapwright_testbed::Objects::new(client, namespace.clone());
    let folder = root.path("").to_string_lossy().into_owned();
    let dcm = Dcm::start_of(&["container"], objects, |launch| {
        launch.cluster(plane.kubeconfig(), &namespace).arg("--root").arg(folder)
    })
    .await;
    dcm.container("web", web()).await;
    dcm.says(CONTAINERS, "web", "PENDING", &["waiting for a pod"]).await;
    let secret = json!({ "metadata": { "name": "s", "labels": labels("container", "web") } });
    dcm.objects.create(&SECRET, secret).await.unwrap();
    let before = in_use(&dcm).await;
    let (plain, events) = (root.read(MAPPING), dcm.events.of("web").len());

    let watch = "[[watch]]\nname = \"secret\"\napi_version = \"v1\"\nkind = \"Secret\"\n\n[status]";
    let rule = "[[status.rule]]\nname = \"told\"\nwhen = \"secret\"\nstatus = \"RUNNING\"\n\
                message = \"{{ secret.metadata.name }} is there\"\n\n[[status.rule]]\nname    = \"pod failed\"";
    let more = plain.replace("[status]", watch).replace("[[status.rule]]\nname    = \"pod failed\"", rule);
    fs::write(root.path(MAPPING), more).unwrap();
    let second = another(&dcm, &before).await;
    assert_eq!(dcm.read(CONTAINERS, "web").await["status"], "RUNNING", "at once");
    dcm.says(CONTAINERS, "web", "RUNNING", &["s is there"]).await;
    assert_eq!(dcm.events.of("web").len(), events + 1);

    // Another field of a kind that is watched already.
    root.replace(MAPPING, "{{ secret.metadata.name }} is there", "{{ secret.type }} is there");
    let third = another(&dcm, &second).await;
    dcm.says(CONTAINERS, "web", "RUNNING", &["Opaque is there"]).await;
    fs::write(root.path(MAPPING), plain).unwrap();
    assert_eq!(another(&dcm, &third).await, before);
    dcm.says(CONTAINERS, "web", "PENDING", &["waiting for a pod"]).await;
}

#[tokio::test]
async fn types_come_and_go_with_a_restart_only() {
    let root = Root::new();
    let dcm = start("reload-types", &[], &root).await;
    let before = in_use(&dcm).await;
    fs::rename(root.path("mappings/storage"), root.path("storage")).unwrap();
    let said = refused(&dcm, "restart").await;
    assert!(said["diagnostic"].as_str().unwrap().contains("storage"), "{said}");
    assert_eq!(dcm.get("/api/v1alpha1/volumes").await.status, 200);
    assert_eq!(in_use(&dcm).await, before);
    fs::rename(root.path("storage"), root.path("mappings/storage")).unwrap();
    forgiven(&dcm).await;
    fs::rename(root.path("schemas"), root.path("elsewhere")).unwrap();
    assert_eq!(refused(&dcm, "cannot read").await["revision"], Value::Null);
    fs::rename(root.path("elsewhere"), root.path("schemas")).unwrap();
    forgiven(&dcm).await;
}
