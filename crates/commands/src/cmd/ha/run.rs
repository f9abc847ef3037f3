//! Targets that a pool describes itself.

use std::fmt::Write;
use std::io::Read;
use std::path::Path;

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, answer, device_path, usage};
use console::show::table::{self, Column};
use console::show::{json, text};
use protocol::api::{Failure, FailureKind, HaReport, PoolReport, command};
use protocol::ha_file::{HaFile, LEN_MAX, Spelling};

use super::args::Ha;

pub(crate) fn run(args: Ha, session: &mut Session) -> Result {
    match args {
        Ha::Start(args) => start(args.pool, false, session),
        Ha::Update(args) => start(args.pool, true, session),
        Ha::Stop(args) => call_quiet(session, command::HaStop { pool: args.pool }),
        Ha::Verify(args) => call_quiet(session, command::HaVerify { pool: args.pool }),
        Ha::Check { search, pool } => {
            let search = search.iter().map(|path| device_path(path));
            let search: std::result::Result<_, Failure> = search.collect();
            let search = search?;
            let pool = pool.pool;
            call_quiet(session, command::HaCheck { pool, search })
        }
        Ha::Status(args) => {
            let status = command::HaStatus { pool: args.pool };
            let report = answer!(session.call(status)?, Ha)?;
            Ok(Outcome::text(match session.json {
                true => json::show(&report),
                false => shown(&report),
            }))
        }
        Ha::Convert { file } => convert(&file),
    }
}

fn start(pool: Option<String>, update: bool, session: &mut Session) -> Result {
    match pool {
        Some(pool) => {
            let is_all = pool == "all";
            let started = call_quiet(session, command::HaStart { pool, update });
            started.map_err(|mut failure| {
                if is_all && failure.kind == FailureKind::NotFound {
                    failure.message += "; for all pools leave the name out";
                }
                failure
            })
        }
        None => start_all(update, session),
    }
}

/// Starts all pools that have a file, or updates all pools that are served. A pool that fails holds up no other.
fn start_all(update: bool, session: &mut Session) -> Result {
    let all = command::PoolStatus {
        ..command::PoolStatus::default()
    };
    let pools = answer!(session.call(all)?, Pools)?;
    let mut outcome = Outcome::done();
    let mut absent = Vec::new();
    let count = pools.len();
    for PoolReport { name: pool, .. } in pools {
        match call_quiet(session, command::HaStart { pool, update }) {
            Ok(_) => {}
            Err(failure) if failure.kind == FailureKind::NotFound => absent.push(failure),
            Err(failure) => outcome.failures.push(failure),
        }
    }
    if absent.len() == count {
        let what = match update {
            true => "no pool is served: strongroom ha start",
            false => "no imported pool has ha.toml",
        };
        return Err(Failure::new(FailureKind::NotFound, what));
    }
    Ok(outcome)
}

fn shown(report: &HaReport) -> String {
    let Some(file) = &report.file else {
        return format!("'{}' is not served\n", text::in_a_cell(&report.pool));
    };
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "'{}' is served as its {file} says\n",
        text::in_a_cell(&report.pool)
    );
    let heads = [
        Column::left("TARGET"),
        Column::right("SESSIONS"),
        Column::left("CHAP"),
        Column::left("PORTALS"),
    ];
    let targets = report.targets.iter().map(|it| {
        let chap = if it.chap { "yes" } else { "no" };
        let own = it.portals.join(",");
        let portals = std::iter::once(&own).filter(|own| !own.is_empty());
        let portals: Vec<&str> = portals.chain(&it.redirects).map(String::as_str).collect();
        vec![
            it.name.clone(),
            it.sessions.to_string(),
            chap.into(),
            portals.join("; "),
        ]
    });
    out += &table::show(&heads, &targets.collect::<Vec<_>>(), false);
    out.push('\n');
    let heads = [
        Column::right("LUN"),
        Column::left("VOLUME"),
        Column::left("SERIAL"),
        Column::left("STATE"),
    ];
    let units = report.units.iter().map(|it| {
        let state = it
            .waits
            .clone()
            .unwrap_or_else(|| match it.targets.is_empty() {
                true => "no view shows it".into(),
                false => "served".into(),
            });
        vec![
            it.lun.to_string(),
            it.volume.clone(),
            it.serial.clone(),
            state,
        ]
    });
    out += &table::show(&heads, &units.collect::<Vec<_>>(), false);
    out
}

fn convert(path: &Path) -> Result {
    let (from, to) = match path.extension().and_then(|it| it.to_str()) {
        Some("toml") => (Spelling::Toml, Spelling::Stmf),
        Some("conf") => (Spelling::Stmf, Spelling::Toml),
        _ => return Err(usage("the name of the file has to end with .toml or .conf")),
    };
    let shown = path.display();
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(LEN_MAX as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => FailureKind::NotFound,
            std::io::ErrorKind::PermissionDenied => FailureKind::Permission,
            _ => FailureKind::Other,
        };
        Failure::new(kind, format!("{shown}: {error}"))
    })?;
    let refused = |refused| usage(format!("{shown}, {refused}"));
    let items = from.read(&bytes).map_err(refused)?;
    HaFile::of(&items).map_err(refused)?;
    Ok(Outcome::text(to.write(&items).map_err(refused)?))
}
