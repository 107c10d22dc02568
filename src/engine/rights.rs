//! What a mapping needs to be allowed, each verb with the line that needs it.

use crate::service::{KindRef, Service};

/// One verb on one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    pub kind: KindRef,
    pub verb: &'static str,
    /// The line of a mapping, or the part of the protocol, that needs it.
    pub because: String,
}

impl Service {
    /// The rights of this type's objects, watches and look-ups, in the mapping's order.
    pub fn rights(&self) -> Vec<Right> {
        let mut rights = Vec::new();
        for object in &self.objects {
            let place = format!("{}: the object `{}`", object.place.spot(), object.name);
            for verb in ["create", "get", "delete"] {
                rights.push(Right { kind: object.kind.clone(), verb, because: place.clone() });
            }
        }
        for (index, template) in self.update.iter().flat_map(|update| &update.patches) {
            let object = &self.objects[*index];
            let because = format!("{}: patches the object `{}`", template.spot(), object.name);
            rights.push(Right { kind: object.kind.clone(), verb: "patch", because });
        }
        for watch in &self.watches {
            let place = format!("{}: the watch `{}`", watch.place.spot(), watch.name);
            for verb in ["list", "watch"] {
                rights.push(Right { kind: watch.kind.clone(), verb, because: place.clone() });
            }
        }
        for lookup in &self.lookups {
            let verb = if lookup.list { "list" } else { "get" };
            let because = format!("{}: the look-up `{}`", lookup.place.spot(), lookup.name);
            rights.push(Right { kind: lookup.kind.clone(), verb, because });
        }
        rights
    }
}
