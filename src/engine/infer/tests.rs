//! Which mistakes types show, and which expressions they let through.

use std::sync::Arc;

use minijinja::machinery::parse_expr;
use serde_json::json;

use super::*;

fn names() -> Names {
    let spec = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer"},
            "size": {"type": ["integer", "string"]},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "mode": {"enum": ["fast", "slow"]},
            "free": {"type": "object", "additionalProperties": true},
            "net": {"$ref": "#/$defs/net"},
        },
        "$defs": {"net": {"oneOf": [
            {"properties": {"ports": {"type": "array", "items": {"$ref": "#/$defs/port"}}}},
            {"properties": {"off": {"const": true}}},
        ]}, "port": {"properties": {
            "number": {"type": "integer"},
            "seen": {"enum": ["inside", "outside"]},
            "reason": {"type": "string", "x-known-values": ["CrashLoopBackOff", "Error"]},
        }}},
    });
    let mut names = Names::default();
    names.typed_root("spec", Type::schema(Arc::new(spec)));
    names.typed_root("settings", Type::map([("kind", Type::words(["A", "B"]))]));
    names.root("anything");
    names
}

fn mistakes(text: &str) -> Vec<Mistake> {
    infer(&parse_expr(text).unwrap(), &names()).1
}

/// Expression, code, what is marked, part of the help.
const MISTAKES: &[(&str, &str, &str, &str)] = &[
    ("spec.nmae", "unknown-path", "nmae", "`name`"),
    ("spec['nmae']", "unknown-path", "'nmae'", "`name`"),
    ("spec.net.prots", "unknown-path", "prots", "`ports`"),
    ("spec.net.ports[0].numbr", "unknown-path", "numbr", "`number`"),
    ("(spec.net.ports | first).numbr", "unknown-path", "numbr", "`number`"),
    ("spec.net.ports | map(attribute='numbr') | list", "unknown-path", "numbr", "`number`"),
    ("spec.net.ports | selectattr('sen', 'eq', 'inside') | list", "unknown-path", "sen", "`seen`"),
    ("spec.net.ports | duplicates(attribute='numbr')", "unknown-path", "numbr", "`number`"),
    ("(spec.net.ports or []) | last | default({'number': 1}) == spec.nmae", "unknown-path", "nmae", "`name`"),
    ("settings.knd", "unknown-path", "knd", "`kind`"),
    ("spec.mode == 'fats'", "impossible-value", "'fats'", "`fast`"),
    ("'fats' != spec.mode", "impossible-value", "'fats'", "`fast`"),
    ("spec.mode in ['fast', 'slwo']", "impossible-value", "'slwo'", "`slow`"),
    ("spec.mode not in ['slwo']", "impossible-value", "'slwo'", "`slow`"),
    ("spec.net.ports | rejectattr('seen', 'eq', 'insde') | list", "impossible-value", "'insde'", "`inside`"),
    (
        "spec.net.ports | selectattr('seen', 'in', ['outsid']) | list",
        "impossible-value",
        "'outsid'",
        "`outside`",
    ),
    ("(settings.kind if spec.mode else 'C') == 'D'", "impossible-value", "'D'", "`A`"),
    ("spec.net.ports[0].reason == 'CrashLoopBackoff'", "impossible-value", "'CrashLoopBackoff'", "BackOff"),
    ("settings.kind == spec.mode", "impossible-value", "", "A, B"),
    ("spec.count == '3'", "forms-differ", "'3'", ""),
    ("spec.count < spec.name", "forms-differ", "", ""),
    ("spec.count + spec.name", "forms-differ", "", ""),
    ("spec.count | quantity > 0", "forms-differ", "0", ""),
    ("spec.name - 1", "not-a-number", "", ""),
    ("spec.name.first", "member-of-no-map", "first", ""),
    ("spec.net.ports.number", "member-of-no-map", "number", "map(attribute='number')"),
    ("spec.name[0]", "item-of-scalar", "", ""),
    ("spec.count | list", "not-a-list", "", ""),
    ("spec.name | map(attribute='x') | list", "not-a-list", "", ""),
    ("spec.labels | lower", "forms-differ", "", ""),
    ("spec.net.ports | items", "forms-differ", "", ""),
];

#[test]
fn each_mistake_is_found_where_it_stands() {
    for (text, code, marked, help) in MISTAKES {
        let found = mistakes(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(found[0].code, *code, "{text}: {}", found[0].message);
        let slice = &text[found[0].span.clone()];
        assert!(marked.is_empty() || slice == *marked, "{text}: {slice}");
        assert!(
            found[0].help.as_ref().map_or("", |help| help.text.as_str()).contains(help),
            "{text}: {:?}",
            found[0].help
        );
    }
}

#[test]
fn what_may_be_right_is_let_through() {
    let cases = [
        "spec.free.any.thing == 3",
        "spec.labels.whatever == 'x' and spec.labels['a/b'] != 'y'",
        "anything.at.all[0] + 1 == 'x'",
        "spec.size == 3 or spec.size == '3'",
        "spec.mode == 'fast' or spec.mode in ['slow', 'fast']",
        "spec.net.ports[0].reason == 'QuiteAnother'",
        "spec.net.off and not spec.net.ports",
        "spec.name is defined and spec.name ~ spec.count",
        "spec.size | quantity < spec.count | quantity",
        "(spec.net.ports | map(attribute='number') | max) > 3",
        "spec.labels | merge({'a': 'b'}) | dictsort | first | last",
        "spec.labels | list | first | upper",
        "'x' in spec.labels and 'x' in spec.name and spec.count in [1, 2]",
        "(spec.net.ports or []) + (spec.net.ports or [])",
        "spec.name | default(7) | int + 1",
        "(spec.net.ports | first).seen | default('') == ''",
    ];
    for text in cases {
        assert_eq!(mistakes(text), [], "{text}");
    }
}
