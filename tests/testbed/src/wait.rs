//! Polling with a deadline: the one way in which a test waits.

use std::time::{Duration, Instant};

use crate::failure::{Failure, Result};

const PAUSE: Duration = Duration::from_millis(50);

/// Asks until there is an answer. `what` completes the sentence "... within 5s": "the pod is seen".
pub async fn eventually<T>(
    what: &str,
    deadline: Duration,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> Result<T> {
    let start = Instant::now();
    let mut asked = 0_u32;
    loop {
        asked += 1;
        // A question that hangs is a failure as well.
        let left = deadline.saturating_sub(start.elapsed()).max(PAUSE);
        if let Ok(Some(answer)) = tokio::time::timeout(left, ask()).await {
            return Ok(answer);
        }
        if start.elapsed() >= deadline {
            return Err(Failure::new(format!("not within {deadline:?} (asked {asked} times): {what}")));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
