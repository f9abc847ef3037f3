//! `POST /v1/commands/NAME`: every command of the daemon.

use std::sync::LazyLock;

use protocol::api::Command;
use serde_json::json;

use super::body::{self, CommandCall};
use super::daemon::{ApiCaller, CommandReply};
use crate::http::{Problem, Request, Response};
use crate::shape::{JsonShape, shape_of};

/// The shape of all commands.
pub(super) static COMMANDS: LazyLock<JsonShape> = LazyLock::new(shape_of::<Command>);

/// The command that lends a device to the command line.
pub(super) const LENDS: &str = "luks-borrow";

/// The result of a command.
pub(super) enum CommandResult {
    /// A response that is complete.
    Done(Response),
    /// A call that answers with a stream.
    Send(Box<CommandCall>),
}

/// Has a command done whose body is JSON.
pub(super) fn run(
    name: &str,
    request: &Request,
    caller: &ApiCaller,
) -> Result<CommandResult, Problem> {
    let call = body::read(known(name)?, &request.body)?;
    if matches!(&call.command, Command::Send(send) if !send.estimate) {
        return Ok(CommandResult::Send(Box::new(call)));
    }
    let told = caller.call(call.command, call.secrets, call.hash_memory)?;
    Ok(CommandResult::Done(done(&told)))
}

/// The answer to a command that is done.
pub(super) fn done(told: &CommandReply) -> Response {
    let (kind, value) = protocol::json::reply(&told.reply);
    let mut answer = json!({"kind": kind, "notices": told.notices});
    // It may be long, and is not copied.
    answer["value"] = value;
    Response::json(&answer)
}

/// The name of a command that the API has.
fn known(name: &str) -> Result<&'static str, Problem> {
    let variant = COMMANDS.variant(name);
    let variant = variant.ok_or_else(|| Problem::no_such(&format!("/v1/commands/{name}")))?;
    match name == LENDS {
        true => Err(Problem::usage(format!(
            "{name}: it lends a device to the command line"
        ))),
        false => Ok(variant.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_name() {
        let of = |name: &str| known(name).map_err(|problem| problem.response().status);
        assert_eq!(of("mounts"), Ok("mounts"));
        assert_eq!((of("no-such"), of("luks-borrow")), (Err(404), Err(400)));
    }
}
