//! `pool status`: how pools do, in the manner of `zpool status`.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use protocol::api::{DeviceRow, PoolReport, RemovalRow, ScrubRow, command};

use super::repeat;
use crate::cmd::pool::args::PoolStatus;
use crate::outcome::Result;
use crate::session::{Session, answer};
use crate::show::table::{self, Column};
use crate::show::{json, size, text, time};

pub(super) fn run(args: PoolStatus, session: &mut Session) -> Result {
    let (pools, again) = repeat::split(args.words)?;
    repeat::run(again, |made| {
        let pools = pools.clone();
        let pools = answer!(session.call(command::PoolStatus { pools })?, Pools)?;
        if session.json {
            return Ok(json::show(&pools));
        }
        let between = if made == 0 { "" } else { "\n" };
        Ok(between.to_owned() + &reports(&pools, args.verbose))
    })
}

fn reports(pools: &[PoolReport], verbose: bool) -> String {
    if pools.is_empty() {
        return "no pools available\n".into();
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |time| time.as_secs());
    let reports: Vec<String> = pools
        .iter()
        .map(|pool| report(pool, verbose, now))
        .collect();
    reports.join("\n")
}

/// One pool, at a time in seconds since 1970.
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
    if pool.health == "UNAVAIL" {
        return out;
    }
    if pool.trouble.is_some() || !pool.damage.is_empty() {
        line("see", "strongroom help pool status");
    }
    if pool.read_only {
        line("access", "read-only");
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
    for (label, lines) in [("scan", scans(pool, now)), ("remove", removal)] {
        for (n, text) in lines.iter().enumerate() {
            let label = if n == 0 {
                format!("{label:>6}: ")
            } else {
                "\t".into()
            };
            let _ = writeln!(out, "{label}{}", text::in_a_cell(text));
        }
    }
    if pool.freeing {
        out += "remove: what was destroyed is still being given back\n";
    }
    out += "config:\n\n";
    out += &config(pool);
    out += "\n";
    out += &errors(pool, verbose);
    out
}

/// What is under way, or what was done last.
fn scans(pool: &PoolReport, now: u64) -> Vec<String> {
    let (scrub, resilver) = (&pool.scrub, &pool.resilver);
    let is_newer = resilver.ended > scrub.ended && scrub.state != "running";
    match resilver.state.as_str() {
        "running" => {
            let mut lines = resilvering(resilver, now);
            if resilver.waits.is_some() && scrub.state == "running" {
                lines.extend(scan(scrub, now));
            }
            lines
        }
        "finished" if is_newer => vec![format!(
            "resilvered {} in {} with {} errors on {}",
            size::human(resilver.repaired),
            time::duration(resilver.ended.saturating_sub(resilver.started)),
            resilver.errors,
            time::second(resilver.ended)
        )],
        _ => scan(scrub, now),
    }
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
            "{} resilvered, {} errors, {} done",
            size::human(resilver.repaired),
            resilver.errors,
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

/// The scrub, in one or more lines.
fn scan(scrub: &ScrubRow, now: u64) -> Vec<String> {
    match scrub.state.as_str() {
        "running" => {
            let elapsed = now.saturating_sub(scrub.started);
            vec![
                format!("scrub in progress since {}", time::second(scrub.started)),
                speed(scrub, elapsed),
                format!(
                    "{} repaired, {} errors, {} done",
                    copies(scrub.repaired),
                    scrub.errors,
                    percent(scrub.examined, scrub.total)
                ),
            ]
        }
        "finished" => vec![format!(
            "scrub repaired {} in {} with {} errors on {}",
            copies(scrub.repaired),
            time::duration(scrub.ended.saturating_sub(scrub.started)),
            scrub.errors,
            time::second(scrub.ended)
        )],
        "stopped" => vec![format!("scrub stopped on {}", time::second(scrub.ended))],
        _ => vec!["none requested".into()],
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

/// The tree of devices.
fn config(pool: &PoolReport) -> String {
    let heads = [
        Column::left("NAME"),
        Column::left("STATE"),
        Column::right("READ"),
        Column::right("WRITE"),
        Column::right("CKSUM"),
        Column::right("SIZE"),
    ];
    let counted = |name: String, state: &str, devices: &[&DeviceRow], size: u64| {
        let sum = |count: fn(&DeviceRow) -> u64| {
            let sum: u64 = devices.iter().map(|device| count(device)).sum();
            sum.to_string()
        };
        vec![
            name,
            state.to_owned(),
            sum(|device| device.read),
            sum(|device| device.write),
            sum(|device| device.checksum),
            size::human(size),
        ]
    };
    let heading = |name: &str| {
        let mut cells = vec![String::new(); heads.len()];
        cells[0] = name.into();
        cells
    };
    let mut rows = vec![counted(pool.name.clone(), &pool.health, &[], pool.size)];
    let groups = pool.devices.chunk_by(|a, b| a.group == b.group);
    let (logs, data): (Vec<_>, Vec<_>) = groups.partition(|group| group[0].is_log);
    let count = data.len();
    for (n, group) in data.into_iter().chain(logs).enumerate() {
        if n == count {
            rows.push(heading("logs"));
        }
        let Some(number) = group[0].group else {
            continue;
        };
        let mut indent = "  ";
        if group.len() > 1 {
            let all: Vec<&DeviceRow> = group.iter().collect();
            let size = group_size(group);
            let are_all = |state: &str| group.iter().all(|device| device.state == state);
            let well = ["ONLINE", "REMOVING"]
                .into_iter()
                .find(|state| are_all(state));
            let state = well.unwrap_or("DEGRADED");
            rows.push(counted(
                format!("  {}-{number}", kind(group)),
                state,
                &all,
                size,
            ));
            indent = "    ";
        }
        for device in group {
            let name = format!("{indent}{}", name(device));
            rows.push(counted(name, &device.state, &[device], device.size));
        }
    }
    let caches: Vec<&DeviceRow> = pool.devices.iter().filter(|d| d.is_cache).collect();
    if !caches.is_empty() {
        rows.push(heading("cache"));
    }
    for cache in caches {
        let name = format!("  {}", cache.path);
        rows.push(counted(name, &cache.state, &[cache], cache.size));
    }
    let table = table::show(&heads, &rows, false);
    let mut out: String = table.lines().map(|line| format!("\t{line}\n")).collect();
    let mut spares = pool
        .devices
        .iter()
        .filter(|device| device.group.is_none() && !device.is_cache)
        .peekable();
    if spares.peek().is_some() {
        out += "\tspares\n";
    }
    for spare in spares {
        let _ = writeln!(out, "\t  {}  {}", text::in_a_cell(&spare.path), spare.state);
    }
    out
}

/// Bytes that a group has room for, without what is for parity.
fn group_size(group: &[DeviceRow]) -> u64 {
    let smallest = group.iter().map(|device| device.size).min().unwrap_or(0);
    let columns = group
        .iter()
        .map(|device| u64::from(device.column) + 1)
        .max();
    let parity = group.first().map_or(0, |device| device.parity as u64);
    smallest * columns.unwrap_or(1).saturating_sub(parity)
}

/// A group of one that is just being replaced is no mirror.
fn kind(group: &[DeviceRow]) -> &'static str {
    match group.first().map(|device| device.parity) {
        Some(1) => return "raidz1",
        Some(2) => return "raidz2",
        _ => {}
    }
    let lasting = group
        .iter()
        .filter(|device| device.replaces.is_none())
        .count();
    match lasting {
        1 => "replacing",
        _ => "mirror",
    }
}

fn name(device: &DeviceRow) -> String {
    let what = match (&device.replaces, device.was_spare) {
        (Some(path), true) => format!(" (spare for {path})"),
        (Some(path), false) => format!(" (replaces {path})"),
        (None, _) => String::new(),
    };
    format!("{}{what}", device.path)
}

fn errors(pool: &PoolReport, verbose: bool) -> String {
    let count = pool.damage.len() as u64;
    let errors = count.max(pool.scrub.errors);
    match (errors, verbose) {
        (0, _) => "errors: No known data errors\n".into(),
        (_, true) if count > 0 => {
            let names = pool.damage.iter().map(|name| text::in_a_cell(name));
            let lines = names.map(|name| format!("\t{name}\n"));
            format!(
                "errors: Permanent errors have been found in:\n\n{}",
                lines.collect::<String>()
            )
        }
        _ => format!("errors: {errors} data errors, use '-v' for a list\n"),
    }
}

#[cfg(test)]
mod tests;
