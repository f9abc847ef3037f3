//! `POST /v1/commands/NAME`: every command of the daemon.

use std::sync::LazyLock;

use protocol::api::Command;
use serde_json::{Value as Json, json};

use super::daemon::Caller;
use super::secrets::{self, Body};
use crate::http::{Problem, Request, Response};
use crate::shape::{Content, Shape, complete, shape_of};

/// The shape of all commands.
pub(super) static COMMANDS: LazyLock<Shape> = LazyLock::new(shape_of::<Command>);

/// Commands that send or receive more than JSON.
pub(super) const STREAMS: &[&str] = &["send", "receive", "luks-borrow"];

/// Has a command done.
pub(super) fn run(name: &str, request: &Request, caller: &Caller) -> Result<Response, Problem> {
    let body: Body = secrets::parse(&request.body)?;
    let command = command(name, body.fields.into())?;
    let told = caller.call(command, body.secrets, body.hash_memory)?;
    let (kind, value) = protocol::json::reply(&told.reply);
    let answer = json!({"kind": kind, "value": value, "notices": told.notices});
    Ok(Response::json(&answer))
}

/// The command of this name with these fields.
fn command(name: &str, mut fields: Json) -> Result<Command, Problem> {
    let Some(variant) = COMMANDS.variant(name) else {
        return Err(Problem::no_such(&format!("/v1/commands/{name}")));
    };
    let wrong = |why: String| Problem::usage(format!("{name}: {why}"));
    let is_estimate = name == "send" && fields["estimate"] == true;
    if STREAMS.contains(&name) && !is_estimate {
        return Err(wrong("it carries a stream; use the command line".into()));
    }
    let text = match &variant.content {
        Content::Some(shape) => {
            complete(shape, &mut fields).map_err(wrong)?;
            json!({ name: fields })
        }
        Content::Unknown | Content::None if fields == json!({}) => name.into(),
        Content::Unknown | Content::None => return Err(wrong("it has no fields".into())),
    };
    serde_json::from_value(text).map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_name() {
        let of = |name: &str, fields: Json| {
            command(name, fields).map_err(|problem| problem.response().status)
        };
        assert!(matches!(of("mounts", json!({})), Ok(Command::Mounts)));
        assert!(matches!(of("mounts", json!({"x": 1})), Err(400)));
        assert!(matches!(of("no-such", json!({})), Err(404)));
        let what = json!({"snapshot": {"name": "tank@a", "from": null}});
        assert!(matches!(of("send", json!({"what": what})), Err(400)));
        assert!(of("send", json!({"what": what, "estimate": true})).is_ok());
        assert!(matches!(of("pool-scrub", json!({"pool": 7})), Err(400)));
        let scrub = of("pool-scrub", json!({"pool": "tank", "stop": true}));
        assert!(matches!(scrub, Ok(Command::PoolScrub(scrub)) if scrub.stop && !scrub.pause));
    }
}
