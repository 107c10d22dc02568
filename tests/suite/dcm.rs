//! DCM's side of a test: a provider of its own in a namespace of its own, asked over REST, with its cluster
//! and its events in sight.

use std::time::Duration;

use hyper::HeaderMap;
use mapwright_testbed::{Answer, Events, Http, Kind, Launch, Objects, Provider, Shared, eventually, secs};
use serde_json::{Value, json};

pub(crate) const CONTAINERS: &str = "/api/v1alpha1/containers";
pub(crate) const VOLUMES: &str = "/api/v1alpha1/volumes";
pub(crate) const INSTANCE: &str = "dcm.project/dcm-instance-id";

/// Longer than anything that is to happen takes, also on a busy machine.
pub(crate) const SOON: Duration = secs(20);

/// A provider of both types, and what DCM and an operator see of it.
pub(crate) struct Dcm {
    pub(crate) provider: Provider,
    pub(crate) objects: Objects,
    pub(crate) events: Events,
    pub(crate) http: Http,
}

impl Dcm {
    pub(crate) async fn start(name: &str) -> Self {
        Self::start_with(name, |launch| launch).await
    }

    /// Starts it with some settings changed.
    pub(crate) async fn start_with(name: &str, change: impl FnOnce(Launch) -> Launch) -> Self {
        let objects = Shared::get().await.unwrap().objects(name).await.unwrap();
        Self::start_in(objects, change).await
    }

    /// Starts one where nothing happens by itself: the test plays the controllers.
    pub(crate) async fn start_quietly(name: &str, change: impl FnOnce(Launch) -> Launch) -> Self {
        let plane = Shared::quiet_plane().await.unwrap();
        let client = plane.client().await.unwrap();
        let namespace = mapwright_testbed::shared::namespace(&client, name).await.unwrap();
        let objects = Objects::new(client, namespace.clone());
        Self::start_in(objects, |launch| change(launch.cluster(plane.kubeconfig(), &namespace))).await
    }

    pub(crate) async fn start_in(objects: Objects, change: impl FnOnce(Launch) -> Launch) -> Self {
        Self::start_of(&["container", "storage"], objects, change).await
    }

    /// Starts one that serves these types only.
    pub(crate) async fn start_of(
        types: &[&str],
        objects: Objects,
        change: impl FnOnce(Launch) -> Launch,
    ) -> Self {
        let (launch, events) = prepare(types, &objects, change).await;
        let provider = launch.start().await.unwrap();
        let http = provider.http();
        Self { provider, objects, events, http }
    }

    /// Starts one that serves, and is not healthy yet, for its cluster lacks something.
    pub(crate) async fn listen_of(
        types: &[&str],
        objects: Objects,
        change: impl FnOnce(Launch) -> Launch,
    ) -> Self {
        let (launch, events) = prepare(types, &objects, change).await;
        let nobody = "http://127.0.0.1:1/api/v1alpha1";
        let provider = launch.env("DCM_REGISTRATION_URL", nobody).listen().await.unwrap();
        let http = provider.http();
        Self { provider, objects, events, http }
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.http.post(path, body).await.unwrap()
    }

    /// Creates a container of this id from a spec.
    pub(crate) async fn container(&self, id: &str, spec: Value) -> Value {
        created(&self.post(&format!("{CONTAINERS}?id={id}"), &json!({ "spec": spec })).await)
    }

    /// Creates a volume of this id from a spec.
    pub(crate) async fn volume(&self, id: &str, spec: Value) -> Value {
        created(&self.post(&format!("{VOLUMES}?id={id}"), &json!({ "spec": spec })).await)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.http.get(path).await.unwrap()
    }

    /// What GET says of an instance that is there.
    pub(crate) async fn read(&self, collection: &str, id: &str) -> Value {
        let answer = self.get(&format!("{collection}/{id}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    pub(crate) async fn patch(&self, id: &str, body: Value) -> Answer {
        self.http.patch(&format!("{VOLUMES}/{id}"), &body).await.unwrap()
    }

    pub(crate) async fn delete(&self, collection: &str, id: &str) -> Answer {
        self.http.delete(&format!("{collection}/{id}")).await.unwrap()
    }

    /// The objects of an instance.
    pub(crate) async fn of(&self, kind: &Kind, id: &str) -> Vec<Value> {
        self.objects.list(kind, &format!("{INSTANCE}={id}")).await.unwrap()
    }

    /// The only object of an instance.
    pub(crate) async fn only(&self, kind: &Kind, id: &str) -> Value {
        let mut found = self.of(kind, id).await;
        assert_eq!(found.len(), 1, "{} of {id}: {found:#?}", kind.plural);
        found.remove(0)
    }

    /// The pod that the controllers make for an instance.
    pub(crate) async fn pod(&self, id: &str) -> Value {
        let pod = async || self.of(&Kind::POD, id).await.pop();
        eventually("the Deployment has a pod", SOON, pod).await.unwrap()
    }

    /// Says of the pod of an instance what a kubelet would.
    pub(crate) async fn pod_becomes(&self, id: &str, status: Value) {
        let pod = self.pod(id).await;
        self.becomes(&Kind::POD, &pod, status).await;
    }

    pub(crate) async fn becomes(&self, kind: &Kind, object: &Value, status: Value) {
        self.objects.patch_status(kind, name_of(object), status).await.unwrap();
    }

    /// Waits until GET shows this status with every one of these words, and the newest event the same.
    pub(crate) async fn says(&self, collection: &str, id: &str, status: &str, words: &[&str]) -> Value {
        let agreed = async || {
            let answer = self.get(&format!("{collection}/{id}")).await;
            let shown = answer.json();
            let message = shown["status_message"].as_str().unwrap_or_default().to_lowercase();
            let told = self.events.of(id).pop().unwrap_or_default();
            let data = json!({ "id": id, "status": status, "message": shown["status_message"] });
            let fits = answer.status == 200
                && shown["status"] == status
                && words.iter().all(|word| message.contains(&word.to_lowercase()))
                && told["data"] == data;
            fits.then_some(shown)
        };
        let what = format!("GET and the newest event of {id} say {status} ~ {words:?}");
        match eventually(&what, SOON, agreed).await {
            Ok(shown) => shown,
            Err(error) => {
                let shown = self.get(&format!("{collection}/{id}")).await.text();
                panic!("{error}; GET says {shown}; the events were {:#?}", self.events.of(id));
            }
        }
    }

    /// Waits until an instance is known to nobody any more.
    pub(crate) async fn is_gone(&self, collection: &str, id: &str) {
        let gone = async || (self.get(&format!("{collection}/{id}")).await.status == 404).then_some(());
        eventually(&format!("GET of {id} is 404"), SOON, gone).await.unwrap();
    }

    /// Whether anything of Kubernetes is left of an instance, but its record.
    pub(crate) async fn is_swept(&self, id: &str) {
        let left = async || {
            for kind in [Kind::DEPLOYMENT, Kind::SERVICE, Kind::REPLICA_SET, Kind::POD, Kind::CLAIM] {
                if !self.of(&kind, id).await.is_empty() {
                    return None;
                }
            }
            Some(())
        };
        eventually(&format!("nothing is left of {id}"), SOON, left).await.unwrap();
    }
}

/// A provider that is still to be started, and its events from the first on.
async fn prepare(
    types: &[&str],
    objects: &Objects,
    change: impl FnOnce(Launch) -> Launch,
) -> (Launch, Events) {
    let shared = Shared::get().await.unwrap();
    let launch = Launch::shared(env!("CARGO_BIN_EXE_mapwright"), shared, objects.namespace()).unwrap();
    let events = Events::subscribe(&shared.nats.url(), "dcm.*").await.unwrap();
    (change(launch.types(types)), events.of_source(source(objects)))
}

/// Whose events those of a namespace's provider are.
pub(crate) fn source(objects: &Objects) -> String {
    format!("dcm/providers/sp-{}", objects.namespace())
}

/// The smallest valid spec of a container.
pub(crate) fn web() -> Value {
    json!({
        "service_type": "container",
        "metadata": { "name": "web" },
        "image": { "reference": "registry.example/web:1" },
        "resources": { "cpu": { "min": "1", "max": "1" }, "memory": { "min": "1GB", "max": "1GB" } },
    })
}

/// A container with these ports: `(80, "internal")`.
pub(crate) fn web_with_ports(ports: &[(u16, &str)]) -> Value {
    let port = |(port, visibility): &(u16, &str)| json!({ "container_port": port, "visibility": visibility });
    with(web(), "/network", json!({ "ports": ports.iter().map(port).collect::<Vec<_>>() }))
}

/// A volume's spec with the class that lets it grow.
pub(crate) fn disk(name: &str, capacity: &str) -> Value {
    json!({
        "service_type": "storage",
        "capacity": capacity,
        "metadata": { "name": name },
        "provider_hints": { "kubernetes": { "storage_class": GROWING } },
    })
}

/// The class whose volumes may grow; see [`make_classes`].
pub(crate) const GROWING: &str = "fast";
pub(crate) const FIXED: &str = "fixed";

/// Makes the classes that the tests name, in whichever control plane; another test may have been first.
pub(crate) async fn make_classes(objects: &Objects) {
    let cluster = Objects::cluster(objects.client().clone());
    for (name, grows) in [(GROWING, true), (FIXED, false)] {
        let class = json!({ "metadata": { "name": name }, "provisioner": "example.com/none", "allowVolumeExpansion": grows });
        if cluster.create(&Kind::STORAGE_CLASS, class).await.is_err() {
            assert!(cluster.get(&Kind::STORAGE_CLASS, name).await.unwrap().is_some());
        }
    }
}

/// The document with one member set; a parent that is missing is made.
pub(crate) fn with(mut document: Value, pointer: &str, value: Value) -> Value {
    let mut slot = &mut document;
    for key in pointer.split('/').skip(1) {
        slot = match slot {
            Value::Array(items) => &mut items[key.parse::<usize>().unwrap()],
            other => &mut other[key],
        };
    }
    *slot = value;
    document
}

/// The document without one member.
pub(crate) fn without(mut document: Value, pointer: &str) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap().as_object_mut().unwrap().shift_remove(key).unwrap();
    document
}

pub(crate) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// The three labels of an instance's objects.
pub(crate) fn labels(service_type: &str, id: &str) -> Value {
    json!({
        "dcm.project/managed-by": "dcm",
        "dcm.project/dcm-instance-id": id,
        "dcm.project/dcm-service-type": service_type,
    })
}

pub(crate) fn running() -> Value {
    json!({ "phase": "Running", "podIP": "10.1.2.3", "podIPs": [{ "ip": "10.1.2.3" }] })
}

/// The instance that a create answered with.
pub(crate) fn created(answer: &Answer) -> Value {
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

/// The problem document that an answer is; checks everything that holds for each of them.
pub(crate) fn problem(answer: &Answer, status: u16, code: &str) -> Value {
    let text = answer.text();
    assert_eq!(answer.status, status, "{text}");
    assert_eq!(header(&answer.headers, "content-type"), "application/problem+json");
    let document = answer.json();
    let instance = document["instance"].as_str().unwrap();
    let kind = match instance.starts_with(VOLUMES) {
        true => code.to_uppercase().replace('-', "_"),
        false => format!("https://dcm-project.github.io/problems/{code}"),
    };
    let mut title = code.replace('-', " ");
    title[..1].make_ascii_uppercase();
    assert_eq!(
        (&document["type"], &document["title"], &document["status"]),
        (&json!(kind), &json!(title), &json!(status)),
        "{text}"
    );
    assert!(document["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{text}");
    document
}

/// A 400, and where in the body its faults are, in their order.
pub(crate) fn faults(answer: &Answer) -> Vec<String> {
    let document = problem(answer, 400, "invalid-argument");
    let pointers: Vec<String> = document["errors"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|error| error["pointer"].as_str().unwrap_or_default().to_owned())
        .collect();
    if let [only] = pointers.as_slice() {
        assert_eq!(document["pointer"], only.as_str(), "{document}");
    } else {
        assert_eq!(document.get("pointer"), None, "{document}");
    }
    pointers
}

pub(crate) fn header<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
