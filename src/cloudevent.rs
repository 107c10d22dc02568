//! A change of status as a CloudEvents 1.0 document in structured JSON.
//!
//! Pure: the time and everything that makes the id are arguments, so the same change gives the same bytes,
//! on any replica.

use serde_json::{Map, Value, json};
use uuid::Uuid;

/// One change of one instance, ready to be written as an event.
#[derive(Debug, Clone, PartialEq)]
pub struct CloudEvent {
    pub id: Uuid,
    pub provider: String,
    /// RFC 3339 in UTC, as [`rfc3339`] writes it.
    pub time: String,
    pub envelope: Envelope,
}

/// The part of an event that a mapping may replace.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    pub event_type: String,
    /// The attribute `subject`, which is the NATS subject too.
    pub subject: String,
    pub data: Value,
}

/// What makes one event different from every other.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    pub provider: &'a str,
    pub service_type: &'a str,
    pub instance: &'a str,
    pub life: u64,
    pub status: &'a str,
    pub message: &'a str,
    pub revision: u64,
}

/// The media type of the document, for transports that want it in a header.
pub const MEDIA_TYPE: &str = "application/cloudevents+json";

// === impl CloudEvent ===

impl CloudEvent {
    /// The event of one change in DCM's own envelope.
    pub fn new(identity: &Identity<'_>, time: String) -> Self {
        let envelope = Envelope::of_dcm(identity);
        Self {
            id: identity.event_id(),
            provider: identity.provider.to_owned(),
            time,
            envelope,
        }
    }

    /// The document as a tree.
    pub fn to_json(&self) -> Value {
        let members = [
            ("specversion", json!("1.0")),
            ("id", json!(self.id.to_string())),
            ("source", json!(format!("dcm/providers/{}", self.provider))),
            ("type", json!(self.envelope.event_type)),
            ("subject", json!(self.envelope.subject)),
            ("datacontenttype", json!("application/json")),
            ("time", json!(self.time)),
            ("data", self.envelope.data.clone()),
        ];
        Value::Object(
            members
                .map(|(name, value)| (name.to_owned(), value))
                .into_iter()
                .collect::<Map<_, _>>(),
        )
    }

    /// The document as it is sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_json().to_string().into_bytes()
    }
}

// === impl Envelope ===

impl Envelope {
    /// DCM's own envelope, which holds unless a mapping says otherwise.
    pub fn of_dcm(identity: &Identity<'_>) -> Self {
        let Identity {
            service_type,
            instance,
            status,
            message,
            ..
        } = identity;
        Self {
            event_type: format!("dcm.status.{service_type}"),
            subject: format!("dcm.{service_type}"),
            data: json!({ "id": instance, "status": status, "message": message }),
        }
    }
}

// === impl Identity ===

impl Identity<'_> {
    /// The same change has the same id on every replica, so JetStream drops the copy of a second leader.
    pub fn event_id(&self) -> Uuid {
        let life = self.life.to_string();
        let revision = self.revision.to_string();
        let parts = [
            self.provider,
            self.service_type,
            self.instance,
            &life,
            self.status,
            self.message,
            &revision,
        ];
        // Each part carries its length, so that no two lists of parts run into the same text.
        let name = parts
            .iter()
            .map(|part| format!("{}:{part}", part.len()))
            .collect::<String>();
        Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes())
    }
}

/// Writes a moment, given as the time since the Unix epoch, in the form that events carry: UTC, with `Z`.
pub fn rfc3339(since_epoch: std::time::Duration) -> String {
    // No clock goes beyond what jiff can write, the year 9999; such a one is shown as the last moment.
    let moment = jiff::SignedDuration::try_from(since_epoch)
        .and_then(jiff::Timestamp::from_duration)
        .unwrap_or(jiff::Timestamp::MAX);
    format!("{moment:.3}")
}
