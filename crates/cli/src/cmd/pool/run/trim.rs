//! `pool trim`.

use protocol::api::{FailureKind, TrimRow, command};

use super::wait::until_ended;
use crate::cmd::pool::args::{Activity, PoolTrim};
use crate::cmd::pool::run::devices::member;
use crate::outcome::{Outcome, Result, call_quiet};
use crate::session::{Session, other};

pub(super) fn run(args: PoolTrim, session: &mut Session) -> Result {
    let pool = args.pool;
    let begin = command::PoolTrim {
        pool: pool.clone(),
        device: args.device.as_deref().map(member).transpose()?,
        stop: args.cancel,
        pause: args.suspend,
    };
    match call_quiet(session, begin) {
        Ok(_) => {}
        // It runs already, and that one is as good.
        Err(failure) if args.wait && failure.kind == FailureKind::Busy => {}
        Err(failure) => return Err(failure),
    }
    if !args.wait {
        return Ok(Outcome::done());
    }
    let report = until_ended(&pool, Activity::Trim, session)?;
    match report.trim {
        Some(TrimRow {
            errors,
            error: Some(error),
            ..
        }) => Err(other(format!(
            "{errors} parts of the free space of '{pool}' could not be trimmed: {error}"
        ))),
        Some(TrimRow { state, .. }) if state != "finished" => {
            Err(other(format!("the trim of '{pool}' was {state}")))
        }
        _ => Ok(Outcome::done()),
    }
}
