//! kill -9 in the middle: whatever was half done is whole or gone after the next start.

use std::time::Duration;

use mapwright_testbed::{Kind, eventually, secs};
use serde_json::{Value, json};

use crate::dcm::{CONTAINERS, Dcm, problem, web, web_with_ports};

/// A create that died is cleared away after twice the request's time, and a sweep comes every five seconds.
const CLEARED: Duration = secs(30);

async fn impatient(name: &str) -> Dcm {
    Dcm::start_with(name, |launch| launch.env("SP_SERVER_REQUEST_TIMEOUT", "2s")).await
}

#[tokio::test]
async fn a_create_that_was_killed_is_whole_or_gone() {
    let mut dcm = impatient("kill-create").await;
    let body = json!({ "spec": web_with_ports(&[(80, "internal")]) });
    let ids: Vec<String> = (0..8).map(|number| format!("c{number}")).collect();
    let mut answered = Vec::new();
    for (number, id) in ids.iter().enumerate() {
        let (http, path, body) = (dcm.http.clone(), format!("{CONTAINERS}?id={id}"), body.clone());
        let asked = tokio::spawn(async move { http.post(&path, &body).await });
        tokio::time::sleep(Duration::from_millis(4 * number as u64)).await;
        dcm.provider.kill();
        answered.push(asked.await.unwrap().is_ok_and(|answer| answer.status == 201));
        dcm.provider.restart().await.unwrap();
    }
    for (id, answered) in ids.iter().zip(answered) {
        let settled = async || {
            let status = dcm.get(&format!("{CONTAINERS}/{id}")).await.status;
            let objects = [Kind::DEPLOYMENT, Kind::SERVICE, Kind::CONFIG_MAP];
            let mut counts = Vec::new();
            for kind in objects {
                counts.push(dcm.of(&kind, id).await.len());
            }
            match (status, counts.as_slice()) {
                (200, [1, 1, 1]) => Some(true),
                (404, [0, 0, 0]) => Some(false),
                _ => None,
            }
        };
        let whole = eventually(&format!("{id} is whole or gone"), CLEARED, settled).await.unwrap();
        assert!(whole || !answered, "{id} answered 201 and is gone");
        if whole {
            problem(&dcm.post(&format!("{CONTAINERS}?id={id}"), &body).await, 409, "already-exists");
            assert_eq!(dcm.delete(CONTAINERS, id).await.status, 204);
        } else {
            dcm.container(id, web()).await;
        }
    }
}

#[tokio::test]
async fn a_deletion_that_was_killed_is_finished_once_it_was_noted() {
    let mut dcm = impatient("kill-delete").await;
    let ids: Vec<String> = (0..6).map(|number| format!("d{number}")).collect();
    for id in &ids {
        dcm.container(id, web_with_ports(&[(80, "internal")])).await;
        dcm.events.wait_for(id, "PENDING", secs(20)).await.unwrap();
    }
    for (number, id) in ids.iter().enumerate() {
        let (http, path) = (dcm.http.clone(), format!("{CONTAINERS}/{id}"));
        let asked = tokio::spawn(async move { http.delete(&path).await });
        tokio::time::sleep(Duration::from_millis(3 * number as u64)).await;
        dcm.provider.kill();
        let answered = asked.await.unwrap().is_ok_and(|answer| answer.status == 204);
        dcm.provider.restart().await.unwrap();
        let settled = async || {
            let objects = dcm.of(&Kind::DEPLOYMENT, id).await.len() + dcm.of(&Kind::SERVICE, id).await.len();
            let answer = dcm.get(&format!("{CONTAINERS}/{id}")).await;
            let noted = answer.json()["status_message"] == "is being deleted";
            match (answer.status, objects) {
                (404, 0) => Some(true),
                (200, 2) if !noted => Some(false),
                _ => None,
            }
        };
        let gone = eventually(&format!("{id} is there or gone"), CLEARED, settled).await.unwrap();
        assert!(gone || !answered, "{id} answered 204 and is there");
        if gone {
            dcm.events.wait_for(id, "DELETED", CLEARED).await.unwrap();
        }
    }
    let left: Vec<Value> = dcm.get(CONTAINERS).await.json()["containers"].as_array().unwrap().clone();
    for item in left {
        assert_eq!(dcm.delete(CONTAINERS, item["id"].as_str().unwrap()).await.status, 204);
    }
    for id in &ids {
        dcm.is_swept(id).await;
        let statuses = dcm.events.statuses(id);
        assert_eq!(statuses.iter().filter(|status| *status == "DELETED").count(), 1, "{statuses:?}");
    }
}
