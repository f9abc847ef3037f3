//! `pool status`: the health of pools, in the manner of `zpool status`.

use std::fmt::Write;

use console::outcome::Result;
use console::session::{Session, answer};
use console::show::table::{self, Column};
use console::show::{json, size, text, time};
use protocol::api::{
    DeviceRow, FollowerRow, PoolReport, ReaderRow, RemovalRow, ScrubRow, SweepRow, command,
};
use protocol::pages::GuidePage;

use super::layouts::tree::{self, TreeLine};
use super::repeat;
use super::wait::INCOMPLETE;
use crate::cmd::pool::args::PoolStatusArgs;

pub(super) fn run(args: PoolStatusArgs, session: &mut Session) -> Result {
    let (pools, again) = repeat::split(args.words)?;
    let named = pools.clone();
    repeat::run(again, args.stamp.checked(session)?, |made| {
        let status = command::PoolStatus {
            pools: pools.clone(),
            names_files: args.verbose || session.json,
        };
        let mut pools = answer!(session.call(status)?, Pools)?;
        let all_are_well = args.unhealthy && !pools.is_empty() && pools.iter().all(is_healthy);
        if args.unhealthy {
            pools.retain(|pool| !is_healthy(pool));
        }
        if session.json {
            return Ok(json::show(&pools));
        }
        let between = if made == 0 { "" } else { "\n" };
        Ok(match all_are_well {
            true => format!("{between}{}\n", well(&named)),
            false => between.to_owned() + &reports(&pools, args.verbose),
        })
    })
}

/// Returns whether there is nothing to do about a pool.
pub(crate) fn is_healthy(pool: &PoolReport) -> bool {
    let errors = errors_of(pool);
    pool.health == "ONLINE" && pool.trouble.is_none() && errors == 0
}

/// The output of `-x` if there is nothing to do.
fn well(named: &[String]) -> String {
    match named {
        [] => "all pools are healthy".into(),
        [one] => format!("pool '{one}' is healthy"),
        _ => "these pools are healthy".into(),
    }
}

fn reports(pools: &[PoolReport], verbose: bool) -> String {
    if pools.is_empty() {
        return "no pools available\n".into();
    }
    let now = time::now();
    let reports: Vec<String> = pools
        .iter()
        .map(|pool| report(pool, verbose, now))
        .collect();
    reports.join("\n")
}

/// Shows a pool, at a time in seconds since 1970.
fn report(pool: &PoolReport, verbose: bool, now: u64) -> String {
    let mut out = String::new();
    let mut line = |label: &str, text: &str| {
        let text = text::in_a_cell(text);
        let _ = writeln!(out, "{label:>6}: {text}");
    };
    line("pool", &pool.name);
    line("state", &pool.health);
    if let Some(trouble) = &pool.trouble {
        line("status", trouble);
    }
    if let Some(action) = &pool.action {
        line("action", action);
    }
    if let Some(low) = &pool.space_low {
        line("space", low);
    }
    if pool.health == "UNAVAIL" {
        return out;
    }
    if pool.trouble.is_some() || !pool.damage.is_empty() {
        let page = GuidePage::about(&pool.health, pool.trouble.as_deref());
        let name = page.map_or("errors", |page| page.name);
        line("see", &format!("strongroom help {name}"));
    }
    if pool.read_only {
        line("access", "read-only");
    }
    if let Some(reader) = &pool.reader {
        line("as of", &as_of(reader, now));
    }
    if !pool.waiting.is_empty() {
        line(
            "wait",
            "for keys; to load them and mount: strongroom mount -a -l",
        );
        for name in &pool.waiting {
            let _ = writeln!(out, "\t{}", text::in_a_cell(name));
        }
    }
    let removal = pool.removal.as_ref();
    let removal = removal.map_or(Vec::new(), |removal| removing(removal, now));
    let sweeping = |row: &Option<SweepRow>, noun, done| {
        row.as_ref()
            .map_or(Vec::new(), |row| sweep(row, noun, done))
    };
    for (label, lines) in [
        ("scan", scans(pool, now)),
        ("remove", removal),
        ("trim", sweeping(&pool.trim, "trim", "trimmed")),
        (
            "init",
            sweeping(&pool.initialize, "initialization", "written"),
        ),
    ] {
        for (n, text) in lines.iter().enumerate() {
            let label = if n == 0 {
                format!("{label:>6}: ")
            } else {
                "\t".into()
            };
            let _ = writeln!(out, "{label}{}", text::in_a_cell(text));
        }
    }
    if let Some(checkpoint) = &pool.checkpoint {
        let (created, bytes) = (
            time::second(checkpoint.created),
            size::human(checkpoint.bytes),
        );
        let _ = writeln!(out, "checkpoint: created on {created}, consumes {bytes}");
    }
    if let Some(retention) = &pool.retention {
        let (until, now) = (
            time::second(retention.until),
            time::second(retention.pool_time),
        );
        let _ = writeln!(
            out,
            "retained: snapshots until {until}; the time of the pool is {now}"
        );
    }
    if let Some(follower) = &pool.follower {
        for line in followed(follower, now) {
            let _ = writeln!(out, "{}", text::in_a_cell(&line));
        }
    }
    if pool.freeing {
        out += "remove: space of destroyed data is still being freed\n";
    }
    out += "config:\n\n";
    out += &config(pool, verbose);
    out += "\n";
    out += &errors(pool, verbose);
    out
}

/// The state that a reader has.
fn as_of(reader: &ReaderRow, now: u64) -> String {
    let (state, checked) = (
        time::second(reader.time),
        now.saturating_sub(reader.checked),
    );
    let about = |seconds| match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} min", seconds / 60),
    };
    let newest = match checked {
        0..2 => "the newest state".to_owned(),
        _ => format!("the newest state {} ago", about(checked)),
    };
    let next = match reader.refresh {
        0 => String::new(),
        seconds => format!(", refreshed every {}", about(seconds)),
    };
    format!("{state}, {newest}{next}")
}

/// The state of the image of a pool.
fn followed(follower: &FollowerRow, now: u64) -> Vec<String> {
    let FollowerRow { path, interval, .. } = follower;
    let state = match (follower.txg, follower.state.as_str()) {
        (None, _) => "has no state of the pool yet".to_owned(),
        (Some(_), "current") => "has the newest state".to_owned(),
        (Some(_), _) => format!("is {} s behind, and may be {interval} s", follower.behind),
    };
    let mut lines = vec![format!("follows: {path} {state}")];
    if let Some(time) = follower.time.filter(|time| *time <= now) {
        lines.push(format!("\tits state is of {}", time::second(time)));
    }
    if let Some(problem) = &follower.problem {
        lines.push(format!("\tit does not follow now: {problem}"));
    }
    if follower.lost > 0 {
        lines.push(format!(
            "\tdamaged records that it lacks: {}; see 'strongroom explain data-damaged'",
            follower.lost
        ));
    }
    lines
}

/// The activity that is under way, or was done last.
fn scans(pool: &PoolReport, now: u64) -> Vec<String> {
    let (scrub, resilver) = (&pool.scrub, &pool.resilver);
    let is_newer = resilver.ended > scrub.ended && scrub.state != "running";
    let mut lines = match resilver.state.as_str() {
        "running" => {
            let mut lines = resilvering(resilver, now);
            if resilver.waits.is_some() && scrub.state == "running" {
                lines.extend(scan(scrub, now));
            }
            lines
        }
        "finished" if is_newer => vec![format!(
            "resilvered {} in {} with {} on {}",
            size::human(resilver.repaired),
            time::duration(resilver.ended.saturating_sub(resilver.started)),
            errors_in(resilver),
            time::second(resilver.ended)
        )],
        _ => scan(scrub, now),
    };
    lines.extend(pool.scrub_late.clone());
    lines
}

fn resilvering(resilver: &ScrubRow, now: u64) -> Vec<String> {
    if resilver.started == 0 {
        return vec!["resilver is about to begin".into()];
    }
    let elapsed = now.saturating_sub(resilver.started);
    let mut lines = vec![
        format!(
            "resilver in progress since {}",
            time::second(resilver.started)
        ),
        speed(resilver, elapsed),
        format!(
            "{} resilvered, {}, {} done",
            size::human(resilver.repaired),
            errors_in(resilver),
            percent(resilver.examined, resilver.total)
        ),
    ];
    let waits = resilver.waits.as_ref();
    lines.extend(waits.map(|why| format!("it waits: {why}")));
    lines
}

/// The removal of a group, in one or more lines.
fn removing(removal: &RemovalRow, now: u64) -> Vec<String> {
    let name = &removal.name;
    match removal.state.as_str() {
        "running" => {
            let copied = removal.total.saturating_sub(removal.left);
            let elapsed = now.saturating_sub(removal.started);
            let mut lines = vec![
                format!("{name} leaves since {}", time::second(removal.started)),
                format!(
                    "{} copied out of {} in {}, {} done",
                    size::human(copied),
                    size::human(removal.total),
                    time::duration(elapsed),
                    percent(copied, removal.total)
                ),
            ];
            let waits = removal.waits.as_ref();
            lines.extend(waits.map(|why| format!("it waits: {why}")));
            lines
        }
        "finished" => vec![format!(
            "{name} was removed on {}, {} copied in {}",
            time::second(removal.ended),
            size::human(removal.total),
            time::duration(removal.ended.saturating_sub(removal.started))
        )],
        "stopping" => vec![format!("{name} is about to be in use again")],
        _ => vec![format!(
            "removal of {name} stopped on {}",
            time::second(removal.ended)
        )],
    }
}

/// Work on free space, in one or more lines.
fn sweep(row: &SweepRow, noun: &str, did: &str) -> Vec<String> {
    let of = match &row.device {
        Some(device) => format!(" of {device}"),
        None => String::new(),
    };
    let (bytes, done) = (size::human(row.bytes), percent(row.examined, row.total));
    let mut lines = vec![match row.state.as_str() {
        "running" => format!(
            "{noun}{of} in progress since {}, {bytes} {did}, {done} done",
            time::second(row.started)
        ),
        "paused" => format!("{noun}{of} paused, {bytes} {did}, {done} done"),
        "finished" => format!("{did} {bytes}{of} on {}", time::second(row.ended)),
        _ => format!(
            "{noun}{of} ended on {}, {bytes} {did}, {done} done",
            time::second(row.ended)
        ),
    }];
    if let Some(error) = &row.error {
        lines.push(format!("{} errors, the last: {error}", row.errors));
    }
    lines
}

/// The scrub, in one or more lines.
fn scan(scrub: &ScrubRow, now: u64) -> Vec<String> {
    match scrub.state.as_str() {
        "running" => {
            let elapsed = now.saturating_sub(scrub.started);
            vec![
                format!("scrub in progress since {}", time::second(scrub.started)),
                speed(scrub, elapsed),
                format!(
                    "{} repaired, {}, {} done",
                    copies(scrub.repaired),
                    errors_in(scrub),
                    percent(scrub.examined, scrub.total)
                ),
            ]
        }
        "finished" => vec![format!(
            "scrub repaired {} in {} with {} on {}",
            copies(scrub.repaired),
            time::duration(scrub.ended.saturating_sub(scrub.started)),
            errors_in(scrub),
            time::second(scrub.ended)
        )],
        "stopped" => vec![format!("scrub stopped on {}", time::second(scrub.ended))],
        "paused" if scrub.ended == 0 => vec!["scrub paused before it read anything".into()],
        "paused" => vec![
            format!("scrub paused since {}", time::second(scrub.ended)),
            format!("scrub started on {}", time::second(scrub.started)),
            format!(
                "{} repaired, {}, {} done",
                copies(scrub.repaired),
                errors_in(scrub),
                percent(scrub.examined, scrub.total)
            ),
        ],
        _ => vec!["none requested".into()],
    }
}

fn errors_in(scan: &ScrubRow) -> String {
    match scan.unreadable {
        0 => format!("{} errors", scan.errors),
        unreadable => format!("{} errors ({unreadable} unreadable)", scan.errors),
    }
}

fn copies(count: u64) -> String {
    match count {
        1 => "1 copy".into(),
        _ => format!("{count} copies"),
    }
}

/// `1.20G scanned out of 4G at 100M/s, 00:00:28 to go`
fn speed(scrub: &ScrubRow, elapsed: u64) -> String {
    let examined = size::human(scrub.examined);
    let total = size::human(scrub.total);
    let rate = scrub.examined / elapsed.max(1);
    if rate == 0 {
        return format!("{examined} scanned out of {total}");
    }
    let left = scrub.total.saturating_sub(scrub.examined) / rate;
    format!(
        "{examined} scanned out of {total} at {}/s, {} to go",
        size::human(rate),
        time::duration(left)
    )
}

/// Tenths of a percent; all of nothing is done.
fn percent(part: u64, whole: u64) -> String {
    let tenths = match whole {
        0 => 1000,
        _ => (u128::from(part) * 1000 / u128::from(whole)).min(1000),
    };
    format!("{}.{}%", tenths / 10, tenths % 10)
}

/// The tree of devices. `verbose` adds how each one reads and writes.
fn config(pool: &PoolReport, verbose: bool) -> String {
    let mut heads = vec![
        Column::left("NAME"),
        Column::left("STATE"),
        Column::right("READ"),
        Column::right("WRITE"),
        Column::right("CKSUM"),
        Column::right("SIZE"),
    ];
    heads.extend(verbose.then(|| Column::left("IO")));
    let row = |line: &TreeLine<'_>| {
        let sum = |count: fn(&DeviceRow) -> u64| {
            let sum: u64 = line.devices.iter().map(|device| count(device)).sum();
            sum.to_string()
        };
        let name = line.indented();
        let mut cells = match line.size {
            None => vec![name, "".into(), "".into(), "".into(), "".into(), "".into()],
            Some(bytes) => vec![
                name,
                line.state.to_owned(),
                sum(|device| device.read),
                sum(|device| device.write),
                sum(|device| device.checksum),
                size::human(bytes),
            ],
        };
        let io = match line.devices[..] {
            [device] => device.io.as_deref().unwrap_or("-"),
            _ => "",
        };
        cells.extend(verbose.then(|| io.to_owned()));
        cells
    };
    let rows: Vec<_> = tree::lines(pool).iter().map(row).collect();
    let table = table::show(&heads, &rows, false);
    let mut out: String = table.lines().map(|line| format!("\t{line}\n")).collect();
    let mut spares = tree::spares(pool).peekable();
    if spares.peek().is_some() {
        out += "\tspares\n";
    }
    for spare in spares {
        let _ = writeln!(out, "\t  {}  {}", text::in_a_cell(&spare.path), spare.state);
    }
    out
}

fn errors(pool: &PoolReport, verbose: bool) -> String {
    match (errors_of(pool), verbose) {
        (0, _) => "errors: No known data errors\n".into(),
        (_, true) if !pool.damage.is_empty() => {
            let names = pool.damage.iter().map(|name| text::in_a_cell(name));
            let lines = names.map(|name| format!("\t{name}\n"));
            let what = match unreadable_of(pool) {
                0 => "Permanent errors have been found in",
                _ => "No good copy was found of",
            };
            format!("errors: {what}:\n\n{}", lines.collect::<String>())
        }
        (errors, _) => match unreadable_of(pool) {
            0 => format!("errors: {errors} data errors, use '-v' for a list\n"),
            unreadable => format!(
                "errors: {errors} data errors, {unreadable} of them because a device fails to read, \
                 use '-v' for a list\n"
            ),
        },
    }
}

/// The scans whose errors still count: a resilver that did not bring everything to a device.
fn scans_with_errors(pool: &PoolReport) -> impl Iterator<Item = &ScrubRow> {
    let mut devices = pool.devices.iter();
    let is_incomplete = devices.any(|device| device.state == INCOMPLETE);
    let resilver = is_incomplete.then_some(&pool.resilver);
    std::iter::once(&pool.scrub).chain(resilver)
}

fn errors_of(pool: &PoolReport) -> u64 {
    let counts = scans_with_errors(pool).map(|scan| scan.errors);
    counts.fold(pool.damage.len() as u64, u64::max)
}

fn unreadable_of(pool: &PoolReport) -> u64 {
    let counts = scans_with_errors(pool).map(|scan| scan.unreadable);
    counts.fold(0, u64::max)
}

#[cfg(test)]
mod tests;
