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
mod tests {
    use super::*;

    fn device(path: &str, group: Option<u16>, state: &str) -> DeviceRow {
        DeviceRow {
            path: path.into(),
            guid: 2,
            size: 4 << 30,
            unused: 0,
            state: state.into(),
            group,
            is_log: false,
            is_cache: false,
            parity: 0,
            column: 0,
            replaces: None,
            was_spare: false,
            read: 0,
            write: 0,
            checksum: 0,
        }
    }

    fn no_scan() -> ScrubRow {
        ScrubRow {
            state: "none".into(),
            started: 0,
            ended: 0,
            examined: 0,
            total: 0,
            repaired: 0,
            errors: 0,
            waits: None,
        }
    }

    #[test]
    fn a_tree_of_mirrors_and_spares() {
        let mut pool = pool();
        let mut failed = device("/dev/b", Some(0), "FAULTED");
        (failed.read, failed.write, failed.checksum) = (1, 22, 3);
        let mut spare = device("/dev/s", Some(0), "RESILVERING");
        (spare.replaces, spare.was_spare) = (Some("/dev/b".into()), true);
        let mut new = device("/dev/d", Some(1), "RESILVERING");
        new.replaces = Some("/dev/c".into());
        pool.health = "DEGRADED".into();
        pool.devices = vec![
            device("/dev/a", Some(0), "ONLINE"),
            failed,
            spare,
            device("/dev/c", Some(1), "ONLINE"),
            new,
            device("/dev/t", None, "AVAIL"),
        ];
        pool.resilver.state = "running".into();
        pool.resilver.started = 1000;
        pool.resilver.examined = 1 << 30;
        pool.resilver.repaired = 12 << 20;
        pool.resilver.total = 4 << 30;
        let text = report(&pool, false, 1010);
        let tree = "\
\tNAME                           STATE        READ  WRITE  CKSUM  SIZE
\ttank                           DEGRADED        0      0      0    4G
\t  mirror-0                     DEGRADED        1     22      3    4G
\t    /dev/a                     ONLINE          0      0      0    4G
\t    /dev/b                     FAULTED         1     22      3    4G
\t    /dev/s (spare for /dev/b)  RESILVERING     0      0      0    4G
\t  replacing-1                  DEGRADED        0      0      0    4G
\t    /dev/c                     ONLINE          0      0      0    4G
\t    /dev/d (replaces /dev/c)   RESILVERING     0      0      0    4G
\tspares
\t  /dev/t  AVAIL
";
        assert!(text.contains(tree), "{text}");
        let speed = "\t1G scanned out of 4G at 102M/s, 00:00:30 to go\n\t12M resilvered, 0 errors, 25.0% done\n";
        assert!(text.contains(speed), "{text}");
    }

    #[test]
    fn log_and_cache_devices_come_behind_the_others() {
        let mut pool = pool();
        let log = |path: &str, group| DeviceRow {
            is_log: true,
            ..device(path, Some(group), "ONLINE")
        };
        pool.devices = vec![
            device("/a", Some(0), "ONLINE"),
            log("/l", 1),
            device("/b", Some(2), "ONLINE"),
            log("/m", 3),
            log("/n", 3),
            device("/s", None, "AVAIL"),
            DeviceRow {
                is_cache: true,
                ..device("/c", None, "ONLINE")
            },
        ];
        let text = report(&pool, false, 1010);
        let tree = "\
\ttank        ONLINE     0      0      0    4G
\t  /a        ONLINE     0      0      0    4G
\t  /b        ONLINE     0      0      0    4G
\tlogs
\t  /l        ONLINE     0      0      0    4G
\t  mirror-3  ONLINE     0      0      0    4G
\t    /m      ONLINE     0      0      0    4G
\t    /n      ONLINE     0      0      0    4G
\tcache
\t  /c        ONLINE     0      0      0    4G
\tspares
\t  /s  AVAIL
";
        assert!(text.contains(tree), "{text}");
    }

    #[test]
    fn a_group_with_parity() {
        let mut pool = pool();
        let member = |path: &str, column| DeviceRow {
            parity: 2,
            column,
            ..device(path, Some(0), "ONLINE")
        };
        pool.devices = ["/a", "/b", "/c", "/d"]
            .into_iter()
            .zip(0..)
            .map(|(path, column)| member(path, column))
            .collect();
        let mut new = member("/e", 3);
        (new.replaces, new.state) = (Some("/d".into()), "RESILVERING".into());
        pool.devices.push(new);
        let text = report(&pool, false, 1010);
        let tree = "\
\t  raidz2-0            DEGRADED        0      0      0    8G
\t    /a                ONLINE          0      0      0    4G
\t    /b                ONLINE          0      0      0    4G
\t    /c                ONLINE          0      0      0    4G
\t    /d                ONLINE          0      0      0    4G
\t    /e (replaces /d)  RESILVERING     0      0      0    4G
";
        assert!(text.contains(tree), "{text}");
    }

    fn pool() -> PoolReport {
        PoolReport {
            name: "tank".into(),
            guid: 1,
            health: "ONLINE".into(),
            trouble: None,
            action: None,
            size: 4 << 30,
            allocated: 1 << 30,
            free: 3 << 30,
            expandable: 0,
            dedupratio: 1.0,
            freeing: false,
            read_only: false,
            txg: 7,
            devices: vec![device("/var/lib/tank.pool", Some(0), "ONLINE")],
            scrub: no_scan(),
            resilver: no_scan(),
            removal: None,
            damage: Vec::new(),
            waiting: Vec::new(),
        }
    }

    #[test]
    fn healthy() {
        assert_eq!(
            report(&pool(), false, 0),
            "  pool: tank
 state: ONLINE
  scan: none requested
config:

\tNAME                  STATE   READ  WRITE  CKSUM  SIZE
\ttank                  ONLINE     0      0      0    4G
\t  /var/lib/tank.pool  ONLINE     0      0      0    4G

errors: No known data errors
"
        );
    }

    #[test]
    fn damaged() {
        let mut pool = pool();
        pool.health = "DEGRADED".into();
        pool.trouble = Some("Some data is damaged.".into());
        pool.action = Some("Restore it.".into());
        pool.damage = vec!["tank/home: data 5".into(), "bad\x1b[0m\nname".into()];
        let short = report(&pool, false, 0);
        assert!(short.contains("\nstatus: Some data is damaged.\naction: Restore it.\n   see: "));
        assert!(short.ends_with("errors: 2 data errors, use '-v' for a list\n"));
        let long = report(&pool, true, 0);
        let list = "found in:\n\n\ttank/home: data 5\n\tbad\\u{1b}[0m\\nname\n";
        assert!(long.ends_with(list), "{long}");
    }

    #[test]
    fn scrubs() {
        let mut scrub = pool().scrub;
        scrub.state = "running".into();
        scrub.started = 1000;
        scrub.examined = 1 << 30;
        scrub.total = 4 << 30;
        scrub.repaired = 1;
        let lines = scan(&scrub, 1010);
        assert!(lines[0].starts_with("scrub in progress since "));
        assert_eq!(lines[1], "1G scanned out of 4G at 102M/s, 00:00:30 to go");
        assert_eq!(lines[2], "1 copy repaired, 0 errors, 25.0% done");
        assert_eq!(
            scan(&scrub, 0)[1],
            "1G scanned out of 4G at 1G/s, 00:00:03 to go"
        );
        scrub.examined = 0;
        assert_eq!(scan(&scrub, 1010)[1], "0B scanned out of 4G");
        scrub.state = "finished".into();
        scrub.ended = 1751;
        let line = &scan(&scrub, 0)[0];
        assert!(line.starts_with("scrub repaired 1 copy in 00:12:31 with 0 errors on "));
    }

    #[test]
    fn percents() {
        assert_eq!(percent(0, 0), "100.0%");
        assert_eq!(percent(1, 3), "33.3%");
        assert_eq!(percent(5, 4), "100.0%");
        assert_eq!(percent(u64::MAX, u64::MAX), "100.0%");
    }
}
