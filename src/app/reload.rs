//! Another revision of the mappings, taken into use while the process serves.
//!
//! The order in which that happens is what makes it safe:
//!
//! 1. All files are read, and thrown away if one of them changed meanwhile: no revision is a mixture.
//! 2. The revision is checked whole. One that does not check changes nothing but what health says.
//! 3. The watches that it wishes for and that do not run yet are started beside the others, and have read
//!    complete lists before anybody relies on them.
//! 4. Then each service type's provider is replaced, at once. Whatever is under way ends with the provider
//!    that it began with, which holds its watches until then.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::{SettingsOf, StartError, provider_settings};
use crate::cluster::{Cluster, WatchHealth, Watches};
use crate::engine::service::Service;
use crate::files::Unreadable;
use crate::files::change::{Look, PAUSE};
use crate::provider::{InUse, Memory, Parts, Provider};
use crate::revision::{Refused, Revision, Revisions, Unfit, Waiting};
use crate::settings::{IdFrom, Settings};

/// How long nobody looks while nothing changes: soon enough for a person who saves and then looks.
const REST: Duration = Duration::from_millis(250);

/// How often health learns what a revision waits for.
const NEWS: Duration = Duration::from_secs(1);

/// The mappings of a start.
pub(super) struct Loaded {
    root: PathBuf,
    types: Vec<String>,
    seen: Look,
    digest: String,
    pub(super) services: Vec<Arc<Service>>,
}

/// What notices changes and takes them into use.
pub(super) struct Reload {
    root: PathBuf,
    /// The types that were named at the start; all where none was.
    types: Vec<String>,
    seen: Look,
    settings_of: SettingsOf,
    cluster: Cluster,
    watches: Watches,
    in_use: Vec<watch::Sender<Arc<Provider>>>,
    revisions: watch::Sender<Revisions>,
}

/// What is to become of a look at the files.
enum Outcome {
    /// They were written while they were read.
    Torn,
    Unreadable(Unreadable),
    Unfit(String, Unfit),
    Same,
    Sound(String, Vec<Arc<Service>>),
}

impl Loaded {
    pub(super) fn read(root: PathBuf, types: Vec<String>) -> Result<Self, StartError> {
        // Before the files are read, so that what is written meanwhile is a change.
        let seen = look(&root);
        let revision = Revision::read(&root).map_err(StartError::Unreadable)?;
        let services = revision.compile(&types).map_err(StartError::Mappings)?;
        Ok(Self { root, types, seen, digest: revision.digest, services })
    }

    /// Mappings that come from no folder, and stay as they are.
    pub(super) fn of(services: Vec<Arc<Service>>) -> Self {
        let (root, seen) = (PathBuf::new(), Look::default());
        Self { root, types: Vec::new(), seen, digest: String::new(), services }
    }
}

impl Reload {
    /// The first revision is taken into use as it is; its watches are waited for by whoever needs them.
    pub(super) fn start(
        loaded: Loaded,
        settings_of: SettingsOf,
        settings: &Settings,
        cluster: Cluster,
    ) -> Result<Self, StartError> {
        let Loaded { root, types, seen, digest, services } = loaded;
        let no_memory = |_: &str| Arc::default();
        let (watches, providers) = build(services, settings, &cluster, &Watches::default(), no_memory)
            .map_err(|unfit| StartError::Other(unfit.to_string()))?;
        let in_use = providers.into_iter().map(watch::Sender::new).collect();
        let revisions = watch::Sender::new(Revisions { in_use: digest, ..Revisions::default() });
        Ok(Self { root, types, seen, settings_of, cluster, watches, in_use, revisions })
    }

    /// The provider of each service type, as revisions come.
    pub(super) fn in_use(&self) -> Vec<InUse> {
        self.in_use.iter().map(watch::Sender::subscribe).collect()
    }

    pub(super) fn revisions(&self) -> watch::Receiver<Revisions> {
        self.revisions.subscribe()
    }

    /// Runs until `shutdown`.
    pub(super) async fn run(mut self, shutdown: impl Future<Output = ()>) {
        tokio::select! {
            () = shutdown => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&mut self) {
        loop {
            let seen = settled(&self.root, &self.seen).await;
            self.seen = seen.clone();
            let root = self.root.clone();
            tokio::select! {
                () = self.consider(seen.clone()) => {}
                // What was on its way is of no interest any more.
                () = changed(&root, &seen) => {}
            }
        }
    }

    /// Reads what is there and takes it into use, if it is sound.
    async fn consider(&mut self, seen: Look) {
        self.revisions.send_if_modified(|revisions| revisions.waiting.take().is_some());
        match self.read(seen).await {
            Outcome::Torn => {}
            Outcome::Unreadable(unreadable) => self.refuse(None, Unfit::Other(unreadable.to_string())),
            Outcome::Unfit(digest, unfit) => self.refuse(Some(digest), unfit),
            Outcome::Same => {
                let mended = |revisions: &mut Revisions| revisions.refused.take().is_some();
                if self.revisions.send_if_modified(mended) {
                    tracing::info!("the mappings are those of the revision in use again");
                }
            }
            Outcome::Sound(digest, services) => {
                if let Err(unfit) = self.take(&digest, services).await {
                    self.refuse(Some(digest), unfit);
                }
            }
        }
    }

    /// The files as they are, checked beside the runtime: that takes a while, and requests do not wait for it.
    async fn read(&self, seen: Look) -> Outcome {
        let (root, types) = (self.root.clone(), self.types.clone());
        let in_use = self.revisions.borrow().in_use.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let revision = Revision::read(&root);
            if look(&root) != seen {
                return Outcome::Torn;
            }
            match revision {
                Err(unreadable) => Outcome::Unreadable(unreadable),
                Ok(revision) if revision.digest == in_use => Outcome::Same,
                Ok(revision) => match revision.check(&types) {
                    Ok(services) => Outcome::Sound(revision.digest, services),
                    Err(unfit) => Outcome::Unfit(revision.digest, unfit),
                },
            }
        });
        // A reader that panicked has said so, and nothing is taken from it.
        reading.await.unwrap_or(Outcome::Torn)
    }

    fn refuse(&self, revision: Option<String>, why: Unfit) {
        let in_use = self.revisions.borrow().in_use.clone();
        tracing::error!(
            refused = revision.as_deref().unwrap_or("unreadable"),
            in_use,
            diagnostics = %why,
            "a revision of the mappings is refused; the one in use serves on"
        );
        self.revisions.send_modify(|revisions| {
            revisions.refusals += 1;
            revisions.waiting = None;
            revisions.refused = Some(Arc::new(Refused { revision, why }));
        });
    }

    async fn take(&mut self, digest: &str, services: Vec<Arc<Service>>) -> Result<(), Unfit> {
        self.require_same_types(&services)?;
        let settings = (self.settings_of)(&services).map_err(|error| Unfit::Other(error.to_string()))?;
        let former: Vec<Arc<Provider>> = self.in_use.iter().map(|cell| cell.borrow().clone()).collect();
        let memory = |service_type: &str| {
            let former = former.iter().find(|provider| provider.service.service_type == service_type);
            former.map(|provider| provider.memory()).unwrap_or_default()
        };
        let (watches, providers) = build(services, &settings, &self.cluster, &self.watches, memory)?;
        self.wait_for(&watches, digest).await;
        // From here on nothing waits: whoever looks finds either revision, and each of them whole.
        for provider in providers {
            let same = |cell: &&watch::Sender<Arc<Provider>>| {
                cell.borrow().service.service_type == provider.service.service_type
            };
            if let Some(cell) = self.in_use.iter().find(same) {
                cell.send_replace(provider);
            }
        }
        self.watches = watches;
        self.revisions.send_modify(|revisions| {
            digest.clone_into(&mut revisions.in_use);
            revisions.taken += 1;
            revisions.waiting = None;
        });
        tracing::info!(revision = digest, "a revision of the mappings is taken into use");
        Ok(())
    }

    /// A watch that never comes to a list (the kind is not there, or must not be watched) keeps its revision
    /// waiting until the mapping or the cluster is mended.
    async fn wait_for(&self, watches: &Watches, digest: &str) {
        loop {
            let failing =
                |watch: WatchHealth| Some(format!("the watch of {}: {}", watch.key, watch.failure?));
            let why = watches.health().into_iter().filter(|watch| !watch.synced).find_map(failing);
            let waiting = Some(Waiting { revision: digest.to_owned(), why });
            self.revisions.send_if_modified(|revisions| {
                let news = revisions.waiting != waiting;
                revisions.refused = None;
                revisions.waiting = waiting;
                news
            });
            tokio::select! {
                () = watches.wait_synced() => return,
                () = sleep(NEWS) => {}
            }
        }
    }

    /// A type is more than its mapping: a registration, a lease, a name. These come with a start.
    fn require_same_types(&self, services: &[Arc<Service>]) -> Result<(), Unfit> {
        let mut now: Vec<String> = services.iter().map(|service| service.service_type.clone()).collect();
        let mut before: Vec<String> =
            self.in_use.iter().map(|cell| cell.borrow().service.service_type.clone()).collect();
        now.sort();
        before.sort();
        if now == before {
            return Ok(());
        }
        let text = format!(
            "the service types were {} and would be {}: types come and go with a restart only; restart the \
             process, or put the folders back",
            before.join(", "),
            now.join(", ")
        );
        Err(Unfit::Other(text))
    }
}

/// The providers of a revision, with the watches that they wish for; those of the former one that suit run on.
fn build(
    services: Vec<Arc<Service>>,
    settings: &Settings,
    cluster: &Cluster,
    former: &Watches,
    memory: impl Fn(&str) -> Arc<Memory>,
) -> Result<(Watches, Vec<Arc<Provider>>), Unfit> {
    let parts: Vec<Parts> = services
        .into_iter()
        .filter_map(|service| {
            let memory = memory(&service.service_type);
            parts(service, settings, cluster, memory)
        })
        .collect();
    let resync = settings.monitor.resync_period;
    let watches = former.renew(cluster, parts.iter().flat_map(|parts| parts.watches(resync)));
    let built: Option<Vec<Provider>> = parts.into_iter().map(|parts| parts.build(&watches)).collect();
    let built = built.ok_or_else(|| Unfit::Other("a watch of a mapping was not started".to_owned()))?;
    Ok((watches, built.into_iter().map(Arc::new).collect()))
}

fn parts(
    service: Arc<Service>,
    settings: &Settings,
    cluster: &Cluster,
    memory: Arc<Memory>,
) -> Option<Parts> {
    let provider = provider_settings(settings, &service)?;
    Some(Parts {
        name: provider.name.clone(),
        namespace: settings.cluster.namespace.clone(),
        settings: provider.values.clone().into_iter().collect(),
        cluster: cluster.clone(),
        request_timeout: settings.server.request_timeout,
        find_by_name: settings.requests.find_by_name,
        id_from_key: settings.requests.id_from == IdFrom::IdempotencyKey,
        adopts: settings.cluster.adopt_unnamed,
        service,
        memory,
    })
}

fn look(root: &std::path::Path) -> Look {
    Look::at(&["mappings", "schemas"].map(|folder| root.join(folder)))
}

async fn look_apart(root: PathBuf) -> Option<Look> {
    tokio::task::spawn_blocking(move || look(&root)).await.ok()
}

/// Ends when the files are others than those that were seen.
async fn changed(root: &std::path::Path, seen: &Look) {
    loop {
        sleep(REST).await;
        if look_apart(root.to_owned()).await.is_some_and(|now| now != *seen) {
            return;
        }
    }
}

/// The files as they are after a change, once they have rested for a moment: an editor saves in steps.
async fn settled(root: &std::path::Path, seen: &Look) -> Look {
    changed(root, seen).await;
    let mut last = None;
    loop {
        let now = look_apart(root.to_owned()).await;
        match now {
            Some(now) if last.as_ref() == Some(&now) => return now,
            now => last = now,
        }
        sleep(PAUSE).await;
    }
}
