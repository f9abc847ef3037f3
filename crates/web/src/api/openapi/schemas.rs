//! The named schemas: replies, the answers to commands, failures and secrets.

use std::sync::LazyLock;

use protocol::api::{Ask, Reply};
use serde_json::{Map, Value as Json, json};

use super::super::resources::Resource;
use crate::shape::{JsonShape, ShapeContent, schema, shape_of};

/// The shape of all replies.
static REPLIES: LazyLock<JsonShape> = LazyLock::new(shape_of::<Reply>);

/// All of them, by name.
pub(super) fn all() -> Json {
    let mut schemas = Map::new();
    if let JsonShape::Choice(replies) = &*REPLIES {
        for kind in replies.iter().map(|variant| variant.name) {
            schemas.insert(named(kind), reply(kind));
            schemas.insert(format!("{}Answer", named(kind)), envelope(kind));
        }
    }
    for (name, schema) in [
        ("Failure", failure()),
        ("Secrets", secrets()),
        ("Session", session()),
        ("Properties", properties()),
        ("Jobs", jobs()),
        ("Health", health()),
    ] {
        schemas.insert(name.into(), schema);
    }
    Json::Object(schemas)
}

/// The reference to a schema.
pub(super) fn reference(name: &str) -> Json {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The schema of the answer to a command whose replies are of these kinds.
pub(super) fn answer(kinds: &[&str]) -> Json {
    let of = |kind: &&str| reference(&format!("{}Answer", named(kind)));
    match kinds {
        [kind] => of(kind),
        _ => json!({"oneOf": kinds.iter().map(of).collect::<Vec<_>>()}),
    }
}

/// The schema of what a resource shows.
pub(super) fn of_resource(resource: &Resource) -> Json {
    match (resource.reply, resource.path) {
        ("", path) => reference(&named(path.trim_start_matches("/v1/"))),
        (kind, _) => reference(&named(kind)),
    }
}

/// The name of a kind as that of a type: `anchor-rows` is `AnchorRows`.
fn named(kind: &str) -> String {
    let word = |word: &str| match word.split_at_checked(1) {
        Some((first, rest)) => first.to_uppercase() + rest,
        None => String::new(),
    };
    kind.split('-').map(word).collect()
}

/// The schema of the value of a reply.
fn reply(kind: &str) -> Json {
    if kind == "datasets" {
        let property = json!({"type": "object", "properties": {
            "value": {"type": ["string", "number", "null"]}, "from": {"type": "string"},
            "source": {"type": "string",
                       "enum": ["none", "default", "local", "inherited", "temporary", "proposed"]},
        }, "required": ["value", "source"]});
        return json!({"type": "array", "items": {"type": "object", "properties": {
            "name": {"type": "string"}, "type": {"type": "string"},
            "properties": {"type": "object", "additionalProperties": property},
        }, "required": ["name", "type", "properties"]}});
    }
    match REPLIES.variant(kind).map(|variant| &variant.content) {
        Some(ShapeContent::Some(shape)) => schema(shape, true),
        _ => json!({"type": "null"}),
    }
}

/// The schema of the answer to a command, with a reply of this kind.
fn envelope(kind: &str) -> Json {
    json!({"type": "object", "properties": {
        "kind": {"type": "string", "enum": [kind]},
        "value": reference(&named(kind)),
        "notices": {"type": "array", "items": {"type": "string"}},
    }, "required": ["kind", "value", "notices"]})
}

fn failure() -> Json {
    json!({"type": "object", "properties": {"error": {
        "type": "object",
        "properties": {
            "kind": {"type": "string"}, "message": {"type": "string"}, "exit_code": {"type": "integer"},
            "type": {"type": "string", "format": "uri", "description": "The page of the guide about it"},
            "ask": schema(&shape_of::<Ask>(), true),
        },
        "required": ["kind", "message", "exit_code"],
    }}, "required": ["error"]})
}

fn secrets() -> Json {
    json!({
        "description": "What the command asks for: passphrases, keys. Each is used once, in order.",
        "type": "array",
        "items": {"type": "object", "additionalProperties": false, "properties": {
            "dataset": {"type": "string", "description": "What it is for; anything if absent"},
            "secret": {"type": "string", "writeOnly": true},
            "base64": {"type": "string", "writeOnly": true},
        }},
    })
}

/// An object whose members are all there. A type with `?` may be null.
fn object(members: &[(&str, &str)]) -> Json {
    let types = |kind: &str| match kind.strip_suffix('?') {
        Some(kind) => json!({"type": [kind, "null"]}),
        None => json!({"type": kind}),
    };
    let member = |(name, kind): &(&str, &str)| ((*name).to_owned(), types(kind));
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let members: Map<String, Json> = members.iter().map(member).collect();
    json!({"type": "object", "properties": members, "required": names})
}

fn session() -> Json {
    object(&[
        ("user", "string"),
        ("uid", "integer"),
        ("admin", "boolean"),
        ("zone", "string?"),
        ("token", "string?"),
        ("expires", "integer?"),
        ("via", "string"),
        ("version", "string"),
    ])
}

fn properties() -> Json {
    let row = object(&[
        ("name", "string"),
        ("short", "string"),
        ("help", "string"),
        ("has", "string"),
        ("values", "string"),
        ("default", "string"),
        ("set", "string"),
        ("tenant", "string"),
        ("inherits", "boolean"),
        ("of_snapshots", "boolean"),
        ("who", "string"),
        ("since", "string"),
    ]);
    json!({"type": "array", "items": row})
}

fn jobs() -> Json {
    let mut row = object(&[
        ("id", "string"),
        ("kind", "string"),
        ("pool", "string?"),
        ("state", "string"),
        ("done", "integer"),
        ("total", "integer"),
        ("unit", "string"),
        ("started", "integer"),
        ("ended", "integer"),
        ("errors", "integer"),
        ("waits", "string?"),
    ]);
    let act = json!({"anyOf": [
        {"type": "object", "properties": {"command": {"type": "string"}, "body": {"type": "object"}},
         "required": ["command", "body"]},
        {"type": "null"},
    ]});
    for name in ["cancel", "pause"] {
        row["properties"][name] = act.clone();
        if let Some(required) = row["required"].as_array_mut() {
            required.push(name.into());
        }
    }
    json!({"type": "array", "items": row})
}

fn health() -> Json {
    let advice = object(&[
        ("severity", "string"),
        ("pool", "string"),
        ("text", "string"),
        ("action", "string?"),
    ]);
    json!({"type": "object", "properties": {
        "status": {"type": "string", "enum": ["ok", "warning", "critical"]},
        "advice": {"type": "array", "items": advice},
    }, "required": ["status", "advice"]})
}

#[cfg(test)]
mod tests {
    use protocol::api::command::reply_kinds;
    use protocol::property::{PROPERTIES, PropertyFacts};

    use super::super::super::commands::COMMANDS;
    use super::super::super::resources::RESOURCES;
    use super::*;

    #[test]
    fn every_kind_of_reply_is_one_that_there_is() {
        let JsonShape::Choice(commands) = &*COMMANDS else {
            panic!()
        };
        let of_commands = commands
            .iter()
            .flat_map(|command| reply_kinds(command.name));
        let of_resources = RESOURCES.iter().map(|resource| &resource.reply);
        for kind in of_commands.chain(of_resources.filter(|kind| !kind.is_empty())) {
            assert!(REPLIES.variant(kind).is_some(), "{kind}");
        }
        // And there is no kind that no command has.
        let JsonShape::Choice(replies) = &*REPLIES else {
            panic!()
        };
        for reply in replies {
            let has = |name: &str| reply_kinds(name).contains(&reply.name);
            assert!(
                commands.iter().any(|command| has(command.name)),
                "{}",
                reply.name
            );
        }
    }

    #[test]
    fn the_reference_of_properties_has_the_members_of_its_rows() {
        let schema = properties();
        let row = json!(PropertyFacts::of(&PROPERTIES[0]));
        let members: Vec<&String> = row.as_object().unwrap().keys().collect();
        let described = schema["items"]["properties"].as_object().unwrap();
        assert_eq!(members, described.keys().collect::<Vec<_>>());
    }
}
