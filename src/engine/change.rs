//! What differs between two manifests of one object, leaf by leaf, and what of it restarts pods.

use serde_json::Value as Json;

use crate::json::child;

/// One leaf, or one whole branch, that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// A JSON pointer from the root of the manifest.
    pub pointer: String,
    /// None where nothing stood there.
    pub before: Option<Json>,
    pub after: Option<Json>,
}

/// The differences, in the order of the manifests.
pub fn changes(before: &Json, after: &Json) -> Vec<Change> {
    let mut found = Vec::new();
    compare(Some(before), Some(after), String::new(), &mut found);
    found
}

impl Change {
    /// Whether it lies within one of the places that a mapping names.
    pub fn is_within(&self, places: &[String]) -> bool {
        places.iter().any(|place| {
            let below = self.pointer.strip_prefix(place.as_str());
            let above = place.strip_prefix(self.pointer.as_str());
            [below, above].into_iter().flatten().any(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

fn compare(before: Option<&Json>, after: Option<&Json>, at: String, found: &mut Vec<Change>) {
    match (before, after) {
        (Some(before), Some(after)) if before == after => {}
        (Some(Json::Object(before)), Some(Json::Object(after))) => {
            for (key, value) in before {
                compare(Some(value), after.get(key), child(&at, key), found);
            }
            for (key, value) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
                compare(None, Some(value), child(&at, key), found);
            }
        }
        (Some(Json::Array(before)), Some(Json::Array(after))) => {
            for index in 0..before.len().max(after.len()) {
                let at = child(&at, &index.to_string());
                compare(before.get(index), after.get(index), at, found);
            }
        }
        (before, after) => {
            found.push(Change { pointer: at, before: before.cloned(), after: after.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_leaf_that_differs_is_named_once_and_pods_restart_within_their_template_only() {
        let before = json!({ "spec": { "template": { "a": [1, 2] }, "replicas": 1 }, "x": 1 });
        let after = json!({ "spec": { "template": { "a": [1, 3, 4] }, "replicas": 1 }, "y": { "z": 1 } });
        let found = changes(&before, &after);
        let pointers: Vec<&str> = found.iter().map(|change| change.pointer.as_str()).collect();
        assert_eq!(pointers, ["/spec/template/a/1", "/spec/template/a/2", "/x", "/y"]);
        let restarts = ["/spec/template".to_owned()];
        let restarting: Vec<bool> = found.iter().map(|change| change.is_within(&restarts)).collect();
        assert_eq!(restarting, [true, true, false, false]);
        assert!(changes(&before, &before).is_empty());
        // A whole branch that holds the template goes with it.
        assert!(changes(&before, &json!({}))[0].is_within(&restarts));
    }
}
