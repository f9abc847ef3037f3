//! An example of the body of each command.

use serde_json::{Map, Value as Json, json};

use crate::shape::{JsonShape, ShapeContent, ShapeField, Variant};

/// Examples that say more than those made from the types alone.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "create",
        r#"{"name": "tank/home", "props": [["encryption", "on"], ["keysource", "passphrase,prompt"]],
            "secrets": [{"secret": "correct horse battery"}]}"#,
    ),
    (
        "clone",
        r#"{"snapshot": "tank/home@monday", "name": "tank/copy", "props": []}"#,
    ),
    (
        "destroy",
        r#"{"name": "tank/home@monday", "dry_run": true}"#,
    ),
    ("diff", r#"{"from": "tank/home@monday", "to": "tank/home"}"#),
    (
        "get",
        r#"{"names": ["tank/home"], "props": ["used", "available"], "depth": 1}"#,
    ),
    ("hold", r#"{"names": ["tank/home@monday"], "tag": "audit"}"#),
    ("holds", r#"{"names": ["tank/home@monday"]}"#),
    (
        "key-load",
        r#"{"names": ["tank/home"], "secrets": [{"dataset": "tank/home", "secret": "correct horse battery"}]}"#,
    ),
    (
        "pool-create",
        r#"{"pool": "tank", "devices": {"groups": [{"devices": ["/var/lib/tank.pool"], "parity": 0}],
            "logs": [], "spares": []}, "size": 4294967296, "props": []}"#,
    ),
    (
        "release",
        r#"{"names": ["tank/home@monday"], "tag": "audit"}"#,
    ),
    ("rollback", r#"{"name": "tank/home@monday"}"#),
    (
        "set",
        r#"{"names": ["tank/home"], "props": [["compression", "zstd-3"]]}"#,
    ),
    ("snapshot", r#"{"names": ["tank/home@monday"]}"#),
];

/// An example of the body of a command.
pub(super) fn of(command: &Variant) -> Json {
    let found = EXAMPLES.iter().find(|(name, _)| *name == command.name);
    if let Some((_, text)) = found {
        return serde_json::from_str(text).unwrap_or_default();
    }
    match &command.content {
        ShapeContent::Some(JsonShape::Object(fields)) => needed(fields),
        _ => json!({}),
    }
}

/// The fields that cannot be left out.
fn needed(fields: &[ShapeField]) -> Json {
    let fields = fields
        .iter()
        .filter(|field| field.is_optional != Some(true) && !matches!(field.shape, JsonShape::Bool));
    let member = |field: &ShapeField| (field.name.to_owned(), value(field.name, &field.shape));
    Json::Object(fields.map(member).collect::<Map<_, _>>())
}

fn value(name: &str, shape: &JsonShape) -> Json {
    match shape {
        JsonShape::Unknown | JsonShape::Any | JsonShape::Null | JsonShape::Optional(_) => {
            Json::Null
        }
        JsonShape::Bool => false.into(),
        JsonShape::Integer | JsonShape::Number => 1.into(),
        JsonShape::Text => text(name).into(),
        JsonShape::List(one) => json!([value(name, one)]),
        JsonShape::Map(_) => json!({}),
        JsonShape::Tuple(all) => all.iter().map(|one| value(name, one)).collect(),
        JsonShape::Object(fields) => needed(fields),
        JsonShape::Choice(variants) => {
            variants
                .first()
                .map_or(Json::Null, |variant| match &variant.content {
                    ShapeContent::Some(shape) => json!({variant.name: value(variant.name, shape)}),
                    ShapeContent::Unknown | ShapeContent::None => variant.name.into(),
                })
        }
    }
}

/// A text for a field of this name.
fn text(name: &str) -> &'static str {
    match name {
        "pool" | "pools" => "tank",
        "device" | "devices" => "/dev/disk/by-id/ata-1234",
        "snapshot" | "of" => "tank/home@monday",
        "bookmark" => "tank/home#monday",
        "address" => "s3://bucket/tank",
        "tag" => "audit",
        "prop" => "compression",
        _ => "tank/home",
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::body;
    use super::super::super::commands::COMMANDS;
    use super::*;

    #[test]
    fn every_example_is_a_body_that_its_command_accepts() {
        let JsonShape::Choice(commands) = &*COMMANDS else {
            panic!()
        };
        for command in commands {
            let example = of(command).to_string();
            let body = secret::Secret::from_slice(example.as_bytes()).unwrap();
            let read = body::read(command.name, &body);
            assert!(read.is_ok(), "{}: {example}", command.name);
        }
        for (name, _) in EXAMPLES {
            assert!(COMMANDS.variant(name).is_some(), "{name}");
        }
    }
}
