//! Jobs that copy datasets: requests, and what is shown.

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, answer};
use console::show::table::Column;
use console::show::{json, size, time};
use protocol::api::{CopyCheckRow, JobChange, ReplicationRow, StreamRow, command};

use crate::cmd::replicate::args::{JobList, JobRunNow, JobStatus, ReplicateCommand};
use crate::cmd::replicate::job::{JobName, find, rows, source_of};
use crate::cmd::replicate::{drill, verify};

pub(crate) fn run(args: ReplicateCommand, session: &mut Session) -> Result {
    match args {
        ReplicateCommand::Add(args) => call_quiet(
            session,
            request!(args, ReplicateAdd: name, source, target, every, recursive, keep, limit, window, token, ca),
        ),
        ReplicateCommand::List(args) => list(args, session),
        ReplicateCommand::Status(args) => status(&args, session),
        ReplicateCommand::Run(args) => run_now(&args, session),
        ReplicateCommand::Verify(args) => verify::run(&args, session),
        ReplicateCommand::Drill(args) => drill::run(&args, session),
        ReplicateCommand::Pause(job) => change(&job, JobChange::Pause, session),
        ReplicateCommand::Resume(job) => change(&job, JobChange::Resume, session),
        ReplicateCommand::Remove(job) => change(&job, JobChange::Remove, session),
    }
}

fn change(job: &JobName, change: JobChange, session: &mut Session) -> Result {
    let (name, source) = (job.name.clone(), source_of(job, session)?);
    let command = command::ReplicateChange {
        name,
        source,
        change,
    };
    call_quiet(session, command)
}

fn list(args: JobList, session: &mut Session) -> Result {
    let rows = rows(args.names, session)?;
    let heads = ["NAME", "SOURCE", "TARGET", "STATE", "EVERY", "LAG"].map(Column::left);
    let cells = |row: ReplicationRow| {
        let lag = lag(&row);
        vec![
            row.name,
            row.source,
            row.target,
            row.state,
            duration(row.every),
            lag,
        ]
    };
    Ok(Outcome::rows(
        rows,
        session.json,
        &heads,
        args.script,
        cells,
    ))
}

fn shown(bytes: u64) -> String {
    size::show(bytes, false)
}

fn lag(row: &ReplicationRow) -> String {
    match row.lag {
        0 => "-".into(),
        lag => duration(lag),
    }
}

/// A time in its largest unit that has no more than two digits before the next one.
fn duration(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    let found = units.iter().find(|(unit, _)| {
        seconds >= *unit && (seconds.is_multiple_of(*unit) || seconds >= 2 * unit)
    });
    match found {
        Some((unit, word)) => format!("{}{word}", seconds / unit),
        None => format!("{seconds}s"),
    }
}

fn status(args: &JobStatus, session: &mut Session) -> Result {
    let row = find(&args.job, session)?;
    if session.json {
        return Ok(Outcome::text(json::show(&row)));
    }
    let mut lines = vec![
        ("job", row.name.clone()),
        ("source", row.source.clone()),
        ("target", row.target.clone()),
        ("owner", row.owner.clone()),
        ("state", row.state.clone()),
        ("every", duration(row.every)),
    ];
    let mut add = |name, value: Option<String>| lines.extend(value.map(|value| (name, value)));
    add("below", row.recursive.then(|| "copied too".into()));
    add("keeps", row.keep.clone());
    add(
        "limit",
        row.limit.map(|limit| format!("{}/s", shown(limit))),
    );
    add("hours", row.window.clone());
    add("token", row.token.clone());
    add("ca", row.ca.clone());
    add("copied to", row.newest.map(time::history));
    add("lag", Some(lag(&row)));
    add("last run", row.last_run.map(time::history));
    let check = |check: &Option<CopyCheckRow>, good| checked(check.as_ref(), good);
    let good = match &row.verification {
        Some(check) if check.newest => "the newest copies are whole",
        _ => "all copies are whole",
    };
    let attempt = row.attempt.as_ref();
    let attempt = attempt.map(|attempt| checked(Some(attempt), "it found nothing out"));
    let attempt = attempt.map_or(String::new(), |told| format!("; last attempt: {told}"));
    add("verified", Some(check(&row.verification, good) + &attempt));
    add(
        "restored",
        Some(check(&row.drill, "a drill found no difference")),
    );
    if let Some(step) = &row.step
        && row.state != "running"
    {
        add("now", Some(step.clone()));
    } else if let Some(step) = &row.step {
        let (sent, total, rate) = (shown(row.sent), shown(row.total), shown(row.rate));
        add("now", Some(format!("{step}: {sent} of {total}, {rate}/s")));
    }
    add("error", row.error.clone());
    let text = lines
        .iter()
        .map(|(name, value)| format!("{name:>9}: {value}\n"));
    Ok(Outcome::text(text.collect::<String>()))
}

/// The last check of a copy, for people.
fn checked(check: Option<&CopyCheckRow>, good: &str) -> String {
    match check {
        None => "never".into(),
        Some(check) => {
            let found = check.failure.as_deref().unwrap_or(good);
            format!("{}: {found}", time::history(check.time))
        }
    }
}

fn run_now(args: &JobRunNow, session: &mut Session) -> Result {
    let (name, source) = (args.job.name.clone(), source_of(&args.job, session)?);
    let command = command::ReplicateRun {
        name,
        source,
        dry_run: args.dry_run,
    };
    if !args.dry_run {
        return call_quiet(session, command);
    }
    let streams = answer!(session.call(command)?, Streams)?;
    if session.json {
        return Ok(Outcome::text(json::show(&streams)));
    }
    let total: u64 = streams.iter().map(|stream| stream.size).sum();
    let line = |stream: &StreamRow| {
        let size = shown(stream.size);
        match &stream.from {
            Some(from) => format!("would send {} since {from}: {size}\n", stream.name),
            None => format!("would send {}: {size}\n", stream.name),
        }
    };
    let mut text: String = streams.iter().map(line).collect();
    text += &match streams.is_empty() {
        true => "nothing to send: the copy has everything\n".to_owned(),
        false => format!("{} in all\n", shown(total)),
    };
    Ok(Outcome::text(text))
}
