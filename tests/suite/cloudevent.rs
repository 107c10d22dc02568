//! The event that DCM receives, attribute by attribute.

use std::time::Duration;

use mapwright::cloudevent::*;
use serde_json::json;

const IDENTITY: Identity<'_> = Identity {
    provider: "k8s-east",
    service_type: "sample",
    instance: "web-1",
    life: 3,
    status: "RUNNING",
    message: "1 of 1 ready",
    revision: 12,
};

#[test]
fn an_event_has_every_attribute_and_its_data_has_exactly_three_members() {
    let event = CloudEvent::new(&IDENTITY, rfc3339(Duration::from_millis(1_700_000_000_250)));
    let expected = json!({
        "specversion": "1.0",
        "id": IDENTITY.event_id().to_string(),
        "source": "dcm/providers/k8s-east",
        "type": "dcm.status.sample",
        "subject": "dcm.sample",
        "datacontenttype": "application/json",
        "time": "2023-11-14T22:13:20.250Z",
        "data": { "id": "web-1", "status": "RUNNING", "message": "1 of 1 ready" },
    });
    assert_eq!(event.to_json(), expected);
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&event.to_bytes()).unwrap(),
        expected
    );
}

#[test]
fn two_replicas_give_the_same_change_the_same_id() {
    assert_eq!(IDENTITY.event_id(), Identity { ..IDENTITY }.event_id());
}

#[test]
fn every_part_of_the_identity_changes_the_id() {
    let others = [
        Identity {
            provider: "k8s-west",
            ..IDENTITY
        },
        Identity {
            service_type: "other",
            ..IDENTITY
        },
        Identity {
            instance: "web-2",
            ..IDENTITY
        },
        Identity { life: 4, ..IDENTITY },
        Identity {
            status: "FAILED",
            ..IDENTITY
        },
        Identity {
            message: "",
            ..IDENTITY
        },
        Identity {
            revision: 13,
            ..IDENTITY
        },
        Identity {
            status: "RUNNING1",
            message: " of 1 ready",
            ..IDENTITY
        },
    ];
    for other in others {
        assert_ne!(other.event_id(), IDENTITY.event_id(), "{other:?}");
    }
}
