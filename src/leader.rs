//! Which of several replicas speaks: the one that holds the lease, and only while it can be sure of that.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::Lease;

/// Nobody else takes the lease before it has not been renewed for this long.
pub const LEASE: Duration = Duration::from_secs(8);

const RENEWAL: Duration = Duration::from_secs(2);

/// A holder that could not renew for this long steps down: well before anybody else may take over.
const SURE_FOR: Duration = Duration::from_secs(5);

/// Whether this replica speaks for the type, and why if it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    pub leads: bool,
    /// The identity of the holder, as far as is known.
    pub holder: String,
}

/// Wants the lease until `shutdown`, then gives it up.
pub async fn run(mut lease: Lease, tell: watch::Sender<Leadership>, shutdown: impl Future<Output = ()>) {
    tokio::select! {
        () = shutdown => {}
        () = want(&mut lease, &tell) => {}
    }
    // A lease that cannot be given up runs out by itself.
    let released = timeout(RENEWAL, lease.release()).await;
    if let Ok(Err(refusal)) = released {
        tracing::warn!(error = refusal.message, "the lease is not given up");
    }
}

async fn want(lease: &mut Lease, tell: &watch::Sender<Leadership>) {
    let mut renewed = Instant::now();
    loop {
        let asked = Instant::now();
        // An attempt that hangs must not outlast what we may be sure of.
        let attempt = timeout(SURE_FOR.saturating_sub(renewed.elapsed()).max(RENEWAL), lease.attempt()).await;
        let held = match attempt {
            Ok(Ok(held)) => {
                renewed = asked;
                held
            }
            Ok(Err(refusal)) => {
                tracing::debug!(error = refusal.message, "the lease was not renewed");
                tell.borrow().leads && renewed.elapsed() < SURE_FOR
            }
            Err(_) => tell.borrow().leads && renewed.elapsed() < SURE_FOR,
        };
        let now = Leadership { leads: held, holder: lease.holder().to_owned() };
        tell.send_if_modified(|known| {
            if known.leads != now.leads {
                tracing::info!(leads = now.leads, holder = now.holder, "leadership");
            }
            let changed = *known != now;
            *known = now;
            changed
        });
        sleep(RENEWAL).await;
    }
}
