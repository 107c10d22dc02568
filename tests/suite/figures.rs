//! Figures: reads of the provider beside the same reads of the API server, in one run. They judge nothing.
//!
//!     cargo test --release --test suite -- --ignored --nocapture figures
#![expect(clippy::print_stderr, reason = "figures are for people")]

mod change_to_event;
mod in_memory;

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use mapwright_testbed::{Http, Kind, Launch, Objects, Shared, eventually, secs};
use serde_json::json;

const INSTANCES: usize = 1000;
const ROUNDS: usize = 5;
const GETS: usize = 200;

/// Two ways to the same objects; each is asked in turn, so that both see the same machine.
#[derive(Default)]
struct Race {
    ours: Vec<Duration>,
    theirs: Vec<Duration>,
}

impl Race {
    fn print(&mut self, what: &str) {
        let median = |times: &mut Vec<Duration>| {
            times.sort();
            times[times.len() / 2]
        };
        let (ours, theirs) = (median(&mut self.ours), median(&mut self.theirs));
        let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
        eprintln!("{what}: provider {ours:?}, API server {theirs:?}: {ratio:.1} times as fast (medians)");
    }
}

async fn timed<T>(call: impl Future<Output = T>) -> (Duration, T) {
    let begun = Instant::now();
    let answer = call.await;
    (begun.elapsed(), answer)
}

/// Volumes are one object each, so that both sides tell of the same number.
async fn fill(http: &Http) {
    let creates = (0..INSTANCES).map(|number| async move {
        let name = format!("v-{number:04}");
        let spec = json!({ "service_type": "storage", "capacity": "1Gi", "metadata": { "name": name } });
        let answer =
            http.post(&format!("/api/v1alpha1/volumes?id={name}"), &json!({ "spec": spec })).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
    });
    futures::stream::iter(creates).buffer_unordered(16).collect::<Vec<()>>().await;
}

#[tokio::test]
#[ignore = "prints figures; takes a minute"]
async fn list_and_get_beside_the_same_calls_to_the_api_server() {
    let shared = Shared::get().await.unwrap();
    let objects: Objects = shared.objects("figures").await.unwrap();
    let launch = Launch::shared(env!("CARGO_BIN_EXE_mapwright"), shared, objects.namespace()).unwrap();
    let provider = launch.types(&["storage"]).start().await.unwrap();
    fill(&provider.http()).await;
    // Without the contract: the figures are the provider's, not those of a validator.
    let http = Http::new(provider.base_url());
    let page = "/api/v1alpha1/volumes?max_page_size=1000";
    eventually("all are listed", secs(30), async || {
        let list = http.get(page).await.ok()?.json();
        (list["volumes"].as_array()?.len() == INSTANCES).then_some(())
    })
    .await
    .unwrap();
    let mut list = Race::default();
    for _ in 0..ROUNDS {
        let (time, answer) = timed(http.get(page)).await;
        assert_eq!(answer.unwrap().status, 200);
        list.ours.push(time);
        let (time, found) = timed(objects.list(&Kind::CLAIM, "")).await;
        assert_eq!(found.unwrap().len(), INSTANCES);
        list.theirs.push(time);
    }
    list.print("LIST of 1,000");
    let mut get = Race::default();
    for number in 0..GETS {
        let name = format!("v-{:04}", number * 5);
        let (time, answer) = timed(http.get(&format!("/api/v1alpha1/volumes/{name}"))).await;
        assert_eq!(answer.unwrap().status, 200);
        get.ours.push(time);
        let (time, found) = timed(objects.get(&Kind::CLAIM, &name)).await;
        assert!(found.unwrap().is_some());
        get.theirs.push(time);
    }
    get.print("GET");
}
