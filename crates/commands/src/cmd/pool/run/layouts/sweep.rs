//! `pool trim` and `pool initialize`.

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, other};
use protocol::api::{FailureKind, SpaceWork, SweepRow, command};

use super::device_words::member;
use crate::cmd::pool::args::{Activity, SweepArgs};
use crate::cmd::pool::run::wait::until_ended;

pub(crate) fn run(args: SweepArgs, what: SpaceWork, session: &mut Session) -> Result {
    let pool = args.pool;
    let begin = command::PoolSweep {
        pool: pool.clone(),
        what,
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
    let (activity, noun, done) = match what {
        SpaceWork::Trim => (Activity::Trim, "trim", "trimmed"),
        SpaceWork::Initialize => (Activity::Initialize, "initialization", "initialized"),
    };
    let report = until_ended(&pool, activity, session)?;
    let row = match what {
        SpaceWork::Trim => report.trim,
        SpaceWork::Initialize => report.initialize,
    };
    match row {
        Some(SweepRow {
            errors,
            error: Some(error),
            ..
        }) => Err(other(format!(
            "{errors} parts of the free space of '{pool}' could not be {done}: {error}"
        ))),
        Some(SweepRow { state, .. }) if state != "finished" => {
            Err(other(format!("the {noun} of '{pool}' was {state}")))
        }
        _ => Ok(Outcome::done()),
    }
}
