//! `pool checkpoint`.

use console::outcome::{Result, call_quiet};
use console::session::Session;
use protocol::api::command;

use crate::cmd::pool::args::PoolCheckpointArgs;

pub(super) fn run(args: PoolCheckpointArgs, session: &mut Session) -> Result {
    let command = command::PoolCheckpoint {
        pool: args.pool,
        discard: args.discard,
    };
    // The space is free when the daemon answers: there is nothing more to wait for.
    call_quiet(session, command)
}
