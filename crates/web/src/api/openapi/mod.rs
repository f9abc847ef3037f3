//! The OpenAPI document, made from the types of the protocol.

mod examples;
mod schemas;
mod tags;

use std::sync::LazyLock;

use protocol::api::command::reply_kinds;
use serde_json::{Map, Value as Json, json};

use super::commands::{COMMANDS, LENDS};
use super::resources::{RESOURCES, Resource};
use super::streams::PARAMETERS;
use crate::http::Response;
use crate::shape::{JsonShape, ShapeContent, Variant, schema};

/// The type of a stream.
const OCTETS: &str = "application/octet-stream";

/// The type of a stream of events.
const EVENT_STREAM: &str = "text/event-stream";

/// The document as text: it is the same for all callers.
static TEXT: LazyLock<String> = LazyLock::new(|| format!("{}\n", document()));

/// The answer with the document.
pub(super) fn response() -> Response {
    let mut response = Response::body("application/json", TEXT.as_bytes());
    response.header("Cache-Control", "no-store");
    response
}

/// The document.
fn document() -> Json {
    let mut paths = Map::new();
    for resource in RESOURCES {
        let get = match resource.path {
            "/v1/events" => events(get(resource)),
            _ => get(resource),
        };
        paths.insert(resource.path.into(), json!({ "get": get }));
    }
    let JsonShape::Choice(commands) = &*COMMANDS else {
        return Json::Null;
    };
    for command in commands.iter().filter(|command| command.name != LENDS) {
        let path = format!("/v1/commands/{}", command.name);
        let post = match command.name {
            "send" => send(post(command)),
            "receive" => receive(command),
            _ => post(command),
        };
        paths.insert(path, json!({ "post": post }));
    }
    paths.insert("/v1/session".into(), session());
    paths.insert("/metrics".into(), json!({"get": {
        "summary": "Metrics for Prometheus",
        "operationId": "get-metrics",
        "tags": ["daemon"],
        "responses": {"200": {"description": "Text", "content": {"text/plain": {"schema": {"type": "string"}}}},
                      "default": {"$ref": "#/components/responses/failure"}},
    }}));
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Strongroom", "version": env!("CARGO_PKG_VERSION"),
                 "description": "Pools, datasets and keys. A caller has the rights of a user; see docs/WEB.md."},
        "servers": [{"url": "/"}],
        "tags": tags::list(),
        "paths": paths,
        "security": [{}, {"token": []}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "parameters": {"mark": {"name": "X-Strongroom", "in": "header", "required": true,
                                    "description": "Pages of other sites cannot send it",
                                    "schema": {"type": "string", "enum": ["1"], "default": "1"}}},
            "responses": {"failure": failure()},
            "schemas": schemas::all(),
        },
    })
}

fn failure() -> Json {
    json!({
        "description": "It failed: kind is that of the exit code, or login, secret-needed, too-many",
        "headers": {
            "Retry-After": {"description": "With status 429: the seconds to wait", "schema": {"type": "integer"}},
            "WWW-Authenticate": {"description": "With status 401", "schema": {"type": "string", "enum": ["Bearer"]}},
        },
        "content": {"application/json": {"schema": schemas::reference("Failure")}},
    })
}

/// Logging in and out with a browser, and who the caller is.
fn session() -> Json {
    let operation = |id: &str, summary: &str, schema: Json| {
        json!({
            "summary": summary, "operationId": id, "tags": [tags::of_resource("/v1/session")],
            "responses": answers(schema),
        })
    };
    let mark = json!([{"$ref": "#/components/parameters/mark"}]);
    let nothing = json!({"type": "object", "additionalProperties": false});
    let get = operation(
        "get-session",
        "Who the caller is",
        schemas::reference("Session"),
    );
    let mut post = operation(
        "begin-session",
        "Log in: the answer has a cookie",
        schemas::reference("Session"),
    );
    post["parameters"] = mark.clone();
    post["requestBody"] = json!({"required": true, "content": {"application/json": {
        "schema": {"type": "object", "properties": {"token": {"type": "string", "writeOnly": true}}, "required": ["token"]},
        "example": {"token": "srt_1234"},
    }}});
    let mut delete = operation("end-session", "Log out", nothing);
    delete["parameters"] = mark;
    json!({"get": get, "post": post, "delete": delete})
}

fn get(resource: &Resource) -> Json {
    let parameter = |name: &&str| {
        let is_needed = resource.needs_one_name() && *name == "name";
        let schema = match *name {
            "depth" | "after" => json!({"type": "integer"}),
            "internal" | "snapshots" | "bookmarks" | "recursive" => json!({"type": "boolean"}),
            "name" if !is_needed => json!({"type": "array", "items": {"type": "string"}}),
            _ => json!({"type": "string"}),
        };
        json!({"name": name, "in": "query", "schema": schema, "required": is_needed})
    };
    let parameters: Vec<Json> = resource.parameters.iter().map(parameter).collect();
    let id = resource.path.trim_start_matches("/v1/").replace('/', "-");
    json!({
        "summary": resource.about,
        "operationId": format!("get-{id}"),
        "tags": [tags::of_resource(resource.path)],
        "parameters": parameters,
        "responses": answers(schemas::of_resource(resource)),
    })
}

/// The answer may be a stream.
fn events(mut get: Json) -> Json {
    get["responses"]["200"]["content"][EVENT_STREAM] = json!({"schema": {
        "type": "string",
        "description": "Messages 'event', with an event, and 'changed', with what to get again: {\"what\": [...]}",
    }});
    get
}

fn post(command: &Variant) -> Json {
    let mut body = match &command.content {
        ShapeContent::Some(shape) => schema(shape, false),
        ShapeContent::Unknown | ShapeContent::None => {
            json!({"type": "object", "properties": {}, "additionalProperties": false})
        }
    };
    body["properties"]["secrets"] = schemas::reference("Secrets");
    body["properties"]["hash_memory"] =
        json!({"type": "integer", "description": "MiB for a password hash"});
    json!({
        "summary": command.name.replace('-', " "),
        "operationId": command.name,
        "tags": [tags::of_command(command.name)],
        "parameters": [{"$ref": "#/components/parameters/mark"}],
        "requestBody": {"required": true, "content": {"application/json": {
            "schema": body, "example": examples::of(command),
        }}},
        "responses": answers(schemas::answer(reply_kinds(command.name))),
    })
}

/// The answer is a stream.
fn send(mut post: Json) -> Json {
    let stream = json!({
        "description": "The stream, in chunks: without the last chunk it is not whole. With estimate: what would be sent",
        "headers": {"X-Strongroom-Notices": {"description": "Notices, as a list in JSON", "schema": {"type": "string"}}},
        "content": {
            OCTETS: {"schema": octets()},
            "application/json": {"schema": schemas::answer(&["streams"])},
        },
    });
    post["responses"]["200"] = stream;
    post
}

/// The schema of a stream. Generators read the format of OpenAPI 3.0 too.
fn octets() -> Json {
    json!({"type": "string", "format": "binary"})
}

/// The body is a stream, and the fields are in the address.
fn receive(command: &Variant) -> Json {
    let fields = match &command.content {
        ShapeContent::Some(JsonShape::Object(fields)) => &**fields,
        _ => &[],
    };
    let parameter = |name: &&str| {
        let field = fields.iter().find(|field| field.name == *name);
        let schema = match (*name, field) {
            ("secrets", _) => json!({"type": "integer"}),
            ("props" | "exclude", _) => json!({"type": "array", "items": {"type": "string"}}),
            (_, Some(field)) => schema(&field.shape, false),
            (_, None) => json!({}),
        };
        let about = match *name {
            "props" => "NAME=VALUE of a property",
            "secrets" => {
                "So many bytes before the stream are JSON with secrets: {\"secrets\": [...]}"
            }
            _ => "",
        };
        let mut parameter =
            json!({"name": name, "in": "query", "schema": schema, "required": *name == "target"});
        if !about.is_empty() {
            parameter["description"] = about.into();
        }
        parameter
    };
    let mut parameters: Vec<Json> = PARAMETERS.iter().map(parameter).collect();
    parameters.push(json!({"$ref": "#/components/parameters/mark"}));
    json!({
        "summary": "receive: the body is the stream",
        "operationId": command.name,
        "tags": [tags::of_command(command.name)],
        "parameters": parameters,
        "requestBody": {"required": true, "content": {OCTETS: {"schema": octets()}}},
        "responses": answers(schemas::answer(reply_kinds(command.name))),
    })
}

fn answers(schema: Json) -> Json {
    json!({
        "200": {"description": "Done", "content": {"application/json": {"schema": schema}}},
        "default": {"$ref": "#/components/responses/failure"},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_resource_is_in_the_document() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        assert!(paths.contains_key("/v1/commands/key-load") && paths.contains_key("/v1/pools"));
        let of = |path: &str| document.pointer(path).unwrap();
        let stream = "application~1octet-stream";
        of(&format!(
            "/paths/~1v1~1commands~1send/post/responses/200/content/{stream}"
        ));
        of(&format!(
            "/paths/~1v1~1commands~1receive/post/requestBody/content/{stream}"
        ));
        let content = of("/paths/~1v1~1events/get/responses/200/content");
        assert!(content.get("application/json").is_some());
        assert!(content.get(EVENT_STREAM).is_some());
        let parameters = of("/paths/~1v1~1commands~1receive/post/parameters")
            .as_array()
            .unwrap();
        let Some(ShapeContent::Some(JsonShape::Object(fields))) =
            COMMANDS.variant("receive").map(|v| &v.content)
        else {
            panic!()
        };
        // Each field of the command can be given.
        for field in fields {
            let is_it = |parameter: &&Json| parameter["name"] == field.name;
            let found = parameters.iter().find(is_it);
            assert!(
                found.is_some_and(|parameter| parameter["schema"] != json!({})),
                "{}",
                field.name
            );
        }
        assert!(paths.len() > 100, "{}", paths.len());
        let text = document.to_string();
        for part in text.split("\"$ref\":\"#/").skip(1) {
            let path = part.split('"').next().unwrap();
            let found = document.pointer(&format!("/{path}"));
            assert!(found.is_some(), "{path}");
        }
    }
    /// Each operation, with its path.
    fn operations(document: &Json) -> Vec<(String, Json)> {
        let paths = document["paths"].as_object().unwrap();
        let of = |(path, item): (&String, &Json)| {
            let operations = item.as_object().unwrap().values().cloned();
            operations
                .map(|one| (path.clone(), one))
                .collect::<Vec<_>>()
        };
        paths.iter().flat_map(of).collect()
    }

    #[test]
    fn every_operation_has_a_tag_and_types() {
        let document = document();
        let tags: Vec<&Json> = document["tags"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tag| &tag["name"])
            .collect();
        let parameters = document.pointer("/components/parameters/mark").unwrap();
        assert_eq!(parameters["schema"]["type"], "string");
        for (path, operation) in operations(&document) {
            assert!(tags.contains(&&operation["tags"][0]), "{path}");
            let contents = operation["responses"]["200"]["content"].as_object();
            for (kind, content) in contents.unwrap() {
                // The schema of anything, or none, would say nothing.
                let schema = content["schema"].as_object();
                assert!(
                    schema.is_some_and(|schema| !schema.is_empty()),
                    "{path}: {kind}"
                );
            }
            let body = &operation["requestBody"]["content"];
            for (kind, content) in body.as_object().into_iter().flatten() {
                assert!(content["schema"].is_object(), "{path}: {kind}");
                assert!(kind == OCTETS || content["example"].is_object(), "{path}");
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert_ne!(parameter["schema"], json!({}), "{path}: {parameter}");
            }
        }
    }
}
