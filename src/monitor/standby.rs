//! While another replica speaks: what it delivers is what a kept status means here too.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::deliver::Shelf;
use super::{Monitor, MonitorSettings, MonitorState};
use crate::bus::Bus;
use crate::leader::Leadership;
use crate::provider::{InUse, Provider};

/// How long a bus that does not answer is left alone.
const AGAIN: Duration = Duration::from_secs(1);

/// Speaks for a service type whenever this replica leads, until `shutdown`.
pub async fn take_turns(
    in_use: InUse,
    bus: Bus,
    settings: MonitorSettings,
    state: watch::Sender<MonitorState>,
    leadership: watch::Receiver<Leadership>,
    mut shutdown: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            () = super::asked_to_stop(&mut shutdown) => return,
            () = leads(leadership.clone(), true) => {}
            () = stand_by(in_use.clone(), &bus, &settings, &state, leadership.clone()) => {}
        }
        let monitor = Monitor::new(in_use.clone(), bus.clone(), settings.clone(), state.clone());
        tokio::select! {
            // It flushes before it ends.
            () = monitor.run(shutdown.clone()) => return,
            // It is dropped where it stands: the next one may be speaking already.
            () = leads(leadership.clone(), false) => {}
        }
        // What was under way and owed is the next leader's.
        state.send_modify(|state| (state.owing, state.queued, state.sending) = (0, 0, 0));
    }
}

/// Follows the leader with the provider of the revision in use; never ends by itself.
async fn stand_by(
    mut in_use: InUse,
    bus: &Bus,
    settings: &MonitorSettings,
    state: &watch::Sender<MonitorState>,
    leadership: watch::Receiver<Leadership>,
) {
    loop {
        // A provider that is held keeps its watches, also when its revision is long gone.
        let provider = in_use.borrow_and_update().clone();
        tokio::select! {
            () = follow(&provider, bus, settings, state, leadership.clone()) => return,
            Ok(()) = in_use.changed() => {}
        }
    }
}

async fn leads(mut leadership: watch::Receiver<Leadership>, wanted: bool) {
    // A lease task that ended has told everybody to stop.
    if leadership.wait_for(|now| now.leads == wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Takes note of what the leader delivers; never ends by itself.
async fn follow(
    provider: &Provider,
    bus: &Bus,
    settings: &MonitorSettings,
    state: &watch::Sender<MonitorState>,
    mut leadership: watch::Receiver<Leadership>,
) {
    // Before anybody is known to lead, this replica may be about to.
    if leadership.wait_for(|now| !now.holder.is_empty()).await.is_err() {
        std::future::pending::<()>().await;
    }
    loop {
        match Shelf::open(provider, bus, settings).await {
            Ok((shelf, entries)) => {
                if !shelf.is_shared() {
                    let told = "another replica leads, and this ledger is not shared: several replicas need \
                                a NATS server with JetStream";
                    tracing::error!(told);
                    state.send_modify(|state| state.ledger = told.to_owned());
                    std::future::pending::<()>().await;
                }
                for (id, entry) in entries {
                    provider.note_delivered(&id, entry.delivered.as_ref().and_then(super::deliver::previous));
                }
                state.send_modify(|state| state.ledger = format!("{shelf} (followed)"));
                let followed = shelf.follow(|id, delivered| {
                    provider.note_delivered(id, delivered.as_ref().and_then(super::deliver::previous));
                });
                if let Err(error) = followed.await {
                    tracing::debug!(%error, "the ledger is no longer followed");
                }
            }
            Err(error) => tracing::debug!(%error, "the ledger cannot be followed yet"),
        }
        sleep(AGAIN).await;
    }
}
