//! `pool wait`, and commands that wait for what they began.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use console::outcome::{Outcome, Result};
use console::session::{Session, answer, other};
use console::show::table::{self, Column};
use console::show::{size, text};
use console::terminal;
use protocol::api::{PoolReport, ScrubRow, SweepRow, command};

use crate::cmd::pool::args::{Activity, PoolWait};
use crate::cmd::pool::run::repeat;

/// The state of a device that lacks something after the resilver.
pub(super) const INCOMPLETE: &str = "INCOMPLETE";

const POLL: Duration = Duration::from_millis(250);

pub(super) fn run(args: PoolWait, session: &mut Session) -> Result {
    let activities = match args.activities.is_empty() {
        true => Activity::value_variants().to_vec(),
        false => args.activities,
    };
    let stamp = args.stamp.checked(session)?;
    let interval = args.interval.as_deref().map(repeat::interval).transpose()?;
    let Some(interval) = interval else {
        until(&args.pool, &activities, None, session)?;
        return Ok(Outcome::done());
    };
    let mut with_header = !args.script;
    loop {
        let report = report(&args.pool, session)?;
        let row: Vec<String> = activities
            .iter()
            .map(|activity| left(*activity, &report, args.parsable))
            .collect();
        let heads: Vec<Column> = activities
            .iter()
            .map(|activity| Column::right(name(*activity)))
            .collect();
        let shown = table::show(&heads, &[row], args.script);
        let line = match with_header {
            true => shown.as_str(),
            // The columns stay as wide as their names.
            false => shown.split_inclusive('\n').next_back().unwrap_or_default(),
        };
        match text::print(&(repeat::line_of(stamp) + line)) {
            Ok(()) => {}
            // A reader that has seen enough, like `head`, is no error.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            Err(error) => {
                let text = format!("cannot write to the standard output: {error}");
                return Err(other(text));
            }
        }
        with_header = false;
        let next = Instant::now() + interval;
        if until(&args.pool, &activities, Some(next), session)? {
            break;
        }
    }
    Ok(Outcome::done())
}

/// Waits until none of these is under way. False if it is `limit` before that.
fn until(
    pool: &str,
    activities: &[Activity],
    limit: Option<Instant>,
    session: &mut Session,
) -> Result<bool> {
    loop {
        let report = report(pool, session)?;
        if !activities
            .iter()
            .any(|activity| is_under_way(*activity, &report))
        {
            return Ok(true);
        }
        let left = limit.map(|limit| limit.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(false);
        }
        std::thread::sleep(left.map_or(POLL, |left| left.min(POLL)));
    }
}

/// Waits for the end of a scrub or resilver, and shows its progress on a terminal.
pub(super) fn until_ended(
    pool: &str,
    activity: Activity,
    session: &mut Session,
) -> Result<PoolReport> {
    let mut bar = None;
    loop {
        let report = report(pool, session)?;
        if !is_under_way(activity, &report) {
            return Ok(report);
        }
        if std::io::stderr().is_terminal() {
            let (examined, total) = match (activity, sweep(activity, &report)) {
                (_, Some(sweep)) => (sweep.examined, sweep.total),
                (Activity::Scrub, _) => (report.scrub.examined, report.scrub.total),
                _ => (report.resilver.examined, report.resilver.total),
            };
            let bar = bar.get_or_insert_with(|| terminal::bar(name(activity)));
            bar.set_length(total);
            bar.set_position(examined);
        }
        std::thread::sleep(POLL);
    }
}

/// The present state of a pool.
pub(super) fn report(pool: &str, session: &mut Session) -> Result<PoolReport> {
    let command = command::PoolStatus {
        pools: vec![pool.into()],
        names_files: false,
    };
    let reports = answer!(session.call_running(command)?, Pools)?;
    let report = reports.into_iter().next();
    report.ok_or_else(|| other(format!("pool '{pool}' went away")))
}

/// The work on free space that an activity is.
fn sweep(activity: Activity, pool: &PoolReport) -> Option<&SweepRow> {
    match activity {
        Activity::Trim => pool.trim.as_ref(),
        Activity::Initialize => pool.initialize.as_ref(),
        _ => None,
    }
}

fn is_under_way(activity: Activity, pool: &PoolReport) -> bool {
    let is_resilvering = || {
        let mut devices = pool.devices.iter();
        pool.resilver.state == "running" || devices.any(|device| device.state == "RESILVERING")
    };
    match activity {
        Activity::Discard => false,
        Activity::Free => pool.freeing,
        Activity::Remove => {
            let removal = pool.removal.as_ref();
            removal.is_some_and(|removal| removal.state == "running")
        }
        // A replacement that lacks something waits for the administrator.
        Activity::Replace => {
            let mut devices = pool.devices.iter();
            devices.any(|device| device.replaces.is_some() && device.state != INCOMPLETE)
        }
        Activity::Resilver => is_resilvering(),
        Activity::Scrub => pool.scrub.state == "running",
        Activity::Trim | Activity::Initialize => {
            sweep(activity, pool).is_some_and(|sweep| sweep.state == "running")
        }
    }
}

/// The remaining work, in bytes as far as they are counted; `-` of what is not under way.
fn left(activity: Activity, pool: &PoolReport, exact: bool) -> String {
    if !is_under_way(activity, pool) {
        return "-".into();
    }
    let of = |row: &ScrubRow| row.total.saturating_sub(row.examined);
    let bytes = match activity {
        Activity::Discard | Activity::Free | Activity::Trim | Activity::Initialize => {
            return "yes".into();
        }
        Activity::Remove => pool.removal.as_ref().map_or(0, |removal| removal.left),
        Activity::Replace | Activity::Resilver => of(&pool.resilver),
        Activity::Scrub => of(&pool.scrub),
    };
    match exact {
        true => bytes.to_string(),
        false => size::human(bytes),
    }
}

fn name(activity: Activity) -> &'static str {
    match activity {
        Activity::Discard => "discard",
        Activity::Free => "free",
        Activity::Remove => "remove",
        Activity::Replace => "replace",
        Activity::Resilver => "resilver",
        Activity::Scrub => "scrub",
        Activity::Trim => "trim",
        Activity::Initialize => "initialize",
    }
}
