//! `POST /v1/commands/NAME`: every command of the daemon.

use std::sync::LazyLock;

use protocol::api::Command;
use serde_json::{Value as Json, json};

use super::daemon::{Caller, Told};
use super::secrets::{self, Body, Given};
use crate::http::{Problem, Request, Response};
use crate::shape::{Content, Shape, complete, shape_of};

/// The shape of all commands.
pub(super) static COMMANDS: LazyLock<Shape> = LazyLock::new(shape_of::<Command>);

/// The command that lends a device to the command line.
pub(super) const LENDS: &str = "luks-borrow";

/// A command that waits for its stream to begin.
pub(crate) struct Call {
    pub(super) command: Command,
    pub(super) secrets: Vec<Given>,
    pub(super) hash_memory: Option<u64>,
}

/// What comes of a command.
pub(super) enum Run {
    /// It is done.
    Done(Response),
    /// It answers with a stream.
    Send(Call),
}

/// Has a command done whose body is JSON.
pub(super) fn run(name: &str, request: &Request, caller: &Caller) -> Result<Run, Problem> {
    let body: Body = secrets::parse(&request.body)?;
    let call = Call {
        command: command(name, body.fields.into())?,
        secrets: body.secrets,
        hash_memory: body.hash_memory,
    };
    if matches!(&call.command, Command::Send(send) if !send.estimate) {
        return Ok(Run::Send(call));
    }
    let told = caller.call(call.command, call.secrets, call.hash_memory)?;
    Ok(Run::Done(done(&told)))
}

/// The answer to a command that is done.
pub(super) fn done(told: &Told) -> Response {
    let (kind, value) = protocol::json::reply(&told.reply);
    Response::json(&json!({"kind": kind, "value": value, "notices": told.notices}))
}

/// The command of this name with these fields.
pub(super) fn command(name: &str, mut fields: Json) -> Result<Command, Problem> {
    let Some(variant) = COMMANDS.variant(name) else {
        return Err(Problem::no_such(&format!("/v1/commands/{name}")));
    };
    let wrong = |why: String| Problem::usage(format!("{name}: {why}"));
    if name == LENDS {
        return Err(wrong("it lends a device to the command line".into()));
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
        assert!(of("send", json!({"what": what, "estimate": true})).is_ok());
        let lent = json!({"device": "/dev/sda", "how": "read"});
        assert!(matches!(of("luks-borrow", lent), Err(400)));
        assert!(matches!(of("pool-scrub", json!({"pool": 7})), Err(400)));
        let scrub = of("pool-scrub", json!({"pool": "tank", "stop": true}));
        assert!(matches!(scrub, Ok(Command::PoolScrub(scrub)) if scrub.stop && !scrub.pause));
    }
}
