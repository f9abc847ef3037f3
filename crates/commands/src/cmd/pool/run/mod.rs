//! Pools: making, importing, exporting, listing and destroying them.

mod events;
pub(crate) mod inspect;
mod iostat;
mod layouts;
mod list;
mod properties;
mod repeat;
mod scrub;
mod status;
mod upgrade;
mod wait;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, answer, device_path, other, usage};
use console::show::{json, text, time};
use console::terminal;
use protocol::api::{
    CheckpointUse, DeviceChange, DeviceGroup, HistoryRow, ImportablePool, NewPoolDevices,
    PoolStateRow, SpaceWork, command,
};
use protocol::device_name::DeviceName;
use protocol::property::{is_of_pools, of_pools};

use crate::cmd::pool::args::{
    ImportOption, PoolCommand, PoolCreateArgs, PoolDestroyArgs, PoolExportArgs, PoolHistoryArgs,
    PoolImportArgs, PoolRefreshArgs, PoolSplitArgs,
};
pub(crate) use status::is_healthy;

pub(crate) fn run(args: PoolCommand, session: &mut Session) -> Result {
    match args {
        PoolCommand::Create(args) => create(args, session),
        PoolCommand::Import(args) => import(args, session),
        PoolCommand::Export(args) => export(args, session),
        PoolCommand::List(args) => list::run(args, session),
        PoolCommand::Status(args) => status::run(args, session),
        PoolCommand::Get(args) => properties::get(args, session),
        PoolCommand::Set(args) => properties::set(args, session),
        PoolCommand::Iostat(args) => iostat::run(args, session),
        PoolCommand::Scrub(args) => scrub::run(args, session),
        PoolCommand::Trim(args) => layouts::sweep::run(args.sweep, SpaceWork::Trim, session),
        PoolCommand::Initialize(args) => {
            layouts::sweep::run(args.sweep, SpaceWork::Initialize, session)
        }
        // The space is free when the daemon answers: there is nothing more to wait for.
        PoolCommand::Checkpoint(args) => {
            call_quiet(session, request!(args, PoolCheckpoint: pool, discard))
        }
        PoolCommand::Wait(args) => wait::run(args, session),
        args @ (PoolCommand::Add(_)
        | PoolCommand::Attach(_)
        | PoolCommand::Detach(_)
        | PoolCommand::Replace(_)
        | PoolCommand::Offline(_)
        | PoolCommand::Online(_)
        | PoolCommand::Remove(_)
        | PoolCommand::Clear(_)) => layouts::devices::run(args, session),
        PoolCommand::Reopen(args) => reopen(args.pools, session),
        PoolCommand::Split(args) => split(args, session),
        PoolCommand::Reguid(args) => {
            call_quiet(session, request!(args, PoolReguid: pool, load_keys))
        }
        PoolCommand::Refresh(args) => refresh(args, session),
        PoolCommand::LabelClear(args) => {
            let (device, force) = (layouts::device_words::device(&args.device)?, args.force);
            call_quiet(session, command::PoolLabelClear { device, force })
        }
        PoolCommand::Sync(args) => call_quiet(session, command::PoolSync { pools: args.pools }),
        PoolCommand::History(args) => history(args, session),
        PoolCommand::Events(args) => events::run(args, session),
        PoolCommand::Upgrade(args) => upgrade::run(args, session),
        PoolCommand::Destroy(args) => destroy(args, session),
    }
}

fn create(args: PoolCreateArgs, session: &mut Session) -> Result {
    let devices = layouts::device_words::devices(&args.words, args.size.is_some())?;
    let mut props = args.props;
    if let Some(mountpoint) = args.mountpoint {
        props.push(("mountpoint".into(), mountpoint));
    }
    if let Some((name, _)) = args.pool_props.iter().find(|(name, _)| !is_of_pools(name)) {
        let known: Vec<&str> = of_pools().collect();
        return Err(usage(format!(
            "pools have no property '{name}' that can be set, only {}; -O sets properties of the root dataset",
            known.join(", ")
        )));
    }
    props.extend(args.pool_props);
    let layout = match args.dry_run {
        true => layouts::layout::layout(&args.pool, &devices),
        false => String::new(),
    };
    let command = command::PoolCreate {
        pool: args.pool,
        devices: Box::new(devices),
        size: args.size,
        force: args.force,
        props,
        no_mount: args.no_mount,
        dry_run: args.dry_run,
        altroot: absolute(args.altroot)?,
        temporary_name: args.temporary_name,
    };
    let done = call_quiet(session, command)?;
    Ok(match args.dry_run {
        true => Outcome::text(layout),
        false => done,
    })
}

/// The directory of `-R`.
fn absolute(root: Option<PathBuf>) -> Result<Option<PathBuf>> {
    match root {
        Some(root) if !root.is_absolute() => {
            Err(usage("the directory of -R must begin with a slash"))
        }
        root => Ok(root),
    }
}

fn split(args: PoolSplitArgs, session: &mut Session) -> Result {
    let devices = args.devices.iter();
    let devices: Result<Vec<String>> = devices
        .map(|device| layouts::device_words::member(device))
        .collect();
    let command = command::PoolSplit {
        pool: args.pool,
        new: args.new.clone(),
        devices: devices?,
        dry_run: args.dry_run,
        altroot: absolute(args.altroot)?,
        load_keys: args.load_keys,
    };
    let taken = answer!(session.call(command)?, Names)?;
    if !args.dry_run {
        return Ok(Outcome::done());
    }
    let group = |path: &String| DeviceGroup {
        devices: vec![path.into()],
        parity: 0,
    };
    let taken = NewPoolDevices {
        groups: taken.iter().map(group).collect(),
        ..NewPoolDevices::default()
    };
    Ok(Outcome::text(layouts::layout::layout(&args.new, &taken)))
}

/// All of them, even if some fail.
fn reopen(pools: Vec<String>, session: &mut Session) -> Result {
    let pools = match pools.is_empty() {
        true => pool_names(session)?,
        false => pools,
    };
    let mut outcome = Outcome::done();
    for pool in pools {
        let change = DeviceChange::Reopen;
        let done = call_quiet(session, command::PoolDevices { pool, change });
        outcome.failures.extend(done.err());
    }
    Ok(outcome)
}

/// Reads `pool import s3://bucket/tank [POOL]` as `pool import -d s3://bucket/tank POOL`; without a name, as `-a`.
fn address_first(mut args: PoolImportArgs) -> Result<PoolImportArgs> {
    let is_address = |word: &mut String| DeviceName::parse(word).kind().is_for_pools;
    let Some(address) = args.pool.take_if(is_address) else {
        return Ok(args);
    };
    if args.temporary_name {
        return Err(usage(format!(
            "with a new name, the address comes after -d: strongroom pool import -d {address} -t POOL NEWNAME"
        )));
    }
    args.dirs.push(address.into());
    args.pool = args.new_name.take();
    args.all = args.pool.is_none();
    Ok(args)
}

fn import(args: PoolImportArgs, session: &mut Session) -> Result {
    let args = address_first(args)?;
    session.hash_memory = args.cost.hash_memory;
    let search: Result<Vec<PathBuf>> = args.dirs.iter().map(|path| device_path(path)).collect();
    let search = search?;
    if args.pool.is_none() && !args.all {
        let command = command::PoolImportable { search };
        let pools = answer!(session.call(command)?, Importable)?;
        return Ok(Outcome::text(match session.json {
            true => json::show(&pools),
            false => importable(&pools),
        }));
    }
    let has = |option| args.options.contains(&option);
    let command = command::PoolImport {
        search,
        pool: args.pool,
        new_name: args.new_name,
        temporary: has(ImportOption::Temporary) || args.temporary_name,
        temporary_name: args.temporary_name,
        read_only: has(ImportOption::ReadOnly(true)),
        refresh: refresh_of(&args.options)?,
        force: args.force,
        no_mount: args.no_mount,
        load_keys: args.load_keys,
        without_logs: args.without_logs,
        without_reservations: has(ImportOption::WithoutReservations),
        accept: args.accept,
        altroot: absolute(args.altroot)?,
        checkpoint: match (args.rewind_to_checkpoint, args.discard_checkpoint) {
            (true, _) => CheckpointUse::Rewind,
            (_, true) => CheckpointUse::Discard,
            _ => CheckpointUse::Keep,
        },
    };
    call_quiet(session, command)
}

/// The seconds between refreshes.
fn refresh_of(options: &[ImportOption]) -> Result<Option<u64>> {
    let refresh = options.iter().rev().find_map(|option| match option {
        ImportOption::Refresh(seconds) => Some(*seconds),
        _ => None,
    });
    match refresh.is_some() && !options.contains(&ImportOption::ReadOnly(true)) {
        true => Err(usage(
            "refresh is for pools that another host writes; it needs -o readonly=on too",
        )),
        false => Ok(refresh),
    }
}

fn refresh(args: PoolRefreshArgs, session: &mut Session) -> Result {
    let command = command::PoolRefresh { pool: args.pool };
    let done = answer!(session.call(command)?, Refreshed)?;
    if session.json {
        return Ok(Outcome::text(json::show(&done)));
    }
    let shown = |state: PoolStateRow| {
        let time = time::second(state.time);
        format!("{time} (transaction group {})", state.txg)
    };
    Ok(Outcome::text(match done.from == done.to {
        true => format!(
            "'{}' has the newest state, of {}\n",
            done.pool,
            shown(done.to)
        ),
        false => format!(
            "'{}' was at {}, and is at {}\n",
            done.pool,
            shown(done.from),
            shown(done.to)
        ),
    }))
}

fn importable(pools: &[ImportablePool]) -> String {
    if pools.is_empty() {
        return "no pools available to import\n".into();
    }
    let reports: Vec<String> = pools.iter().map(importable_one).collect();
    reports.join("\n")
}

fn importable_one(pool: &ImportablePool) -> String {
    let mut out = String::new();
    let mut line = |label: &str, text: &str| {
        let _ = writeln!(out, "{label:>7}: {}", text::in_a_cell(text));
    };
    line("pool", &pool.name);
    line("id", &pool.guid.to_string());
    line("state", &pool.state);
    if pool.state != "ONLINE" && pool.state != "DEGRADED" {
        line("status", "The pool cannot be imported as it is.");
    } else if pool.active {
        line("status", &last_use(pool));
        line(
            "action",
            "If that host does not use it any more, it can be imported with -f.",
        );
    } else {
        line("action", "The pool can be imported by its name or its id.");
    }
    out += " config:\n\n";
    let _ = writeln!(out, "\t{}", text::in_a_cell(&pool.name));
    for device in &pool.devices {
        let _ = writeln!(out, "\t  {}", text::in_a_cell(device));
    }
    for device in &pool.missing {
        let _ = writeln!(out, "\t  {} (missing)", text::in_a_cell(device));
    }
    out
}

fn last_use(pool: &ImportablePool) -> String {
    let id = match pool.host_id {
        0 => String::new(),
        id => format!(" (hostid {id:08x})"),
    };
    format!(
        "The pool was last used by host '{}'{id} at {}, and was not exported.",
        pool.host,
        time::second(pool.last_written)
    )
}

/// All of them, even if some fail.
fn export(args: PoolExportArgs, session: &mut Session) -> Result {
    let force = args.force;
    let pools = match args.all {
        true => pool_names(session)?,
        false => args.pools,
    };
    let mut outcome = Outcome::done();
    for pool in pools {
        let done = call_quiet(session, command::PoolExport { pool, force });
        outcome.failures.extend(done.err());
    }
    Ok(outcome)
}

/// The pools of the daemon, also those that could not be imported at its start.
fn pool_names(session: &mut Session) -> Result<Vec<String>> {
    let pools = answer!(session.call(command::PoolStatus::default())?, Pools)?;
    Ok(pools.into_iter().map(|pool| pool.name).collect())
}

fn history(args: PoolHistoryArgs, session: &mut Session) -> Result {
    let pools = match args.pools.is_empty() {
        true => pool_names(session)?,
        false => args.pools,
    };
    let mut found = Vec::new();
    for pool in pools {
        let command = command::PoolHistory {
            pool: pool.clone(),
            internal: args.internal,
        };
        found.push((pool, answer!(session.call(command)?, History)?));
    }
    if session.json {
        return Ok(Outcome::text(match found.as_slice() {
            [(_, rows)] => json::show(rows),
            _ => json::show(&found.into_iter().collect::<BTreeMap<_, _>>()),
        }));
    }
    let texts = found.iter().map(|(pool, rows)| {
        let lines = rows.iter().map(|row| history_line(row, args.long));
        format!("History for '{pool}':\n{}", lines.collect::<String>())
    });
    Ok(Outcome::text(texts.collect::<Vec<_>>().join("\n")))
}

/// Writes history as `zpool history` of Solaris does, new keys among it.
fn history_line(row: &HistoryRow, long: bool) -> String {
    const KEYS: &str = "encryption key create";
    let mut out = time::history(row.time);
    let mut what = row.text.as_str();
    if row.internal {
        let event = what
            .strip_prefix(KEYS)
            .and_then(|rest| rest.strip_prefix(": "));
        let _ = match event {
            Some(_) => write!(out, " [internal {KEYS} txg:{}]", row.txg),
            None => write!(out, " [txg:{}]", row.txg),
        };
        what = event.unwrap_or(what);
    }
    let _ = write!(out, " {}", text::in_a_cell(what));
    if long {
        // What a pool or its daemon does by itself has no user.
        let is_nobody = row.who == "pool" || row.who.starts_with("daemon on ");
        let user = if is_nobody { "" } else { "user " };
        let _ = write!(out, " [{user}{}]", text::in_a_cell(&row.who));
    }
    out + "\n"
}

fn destroy(args: PoolDestroyArgs, session: &mut Session) -> Result {
    let pool = args.pool;
    if !args.force {
        if !terminal::is_interactive() {
            return Err(usage(format!(
                "pool '{pool}' is not destroyed: there is no terminal to ask for confirmation; use -f"
            )));
        }
        let question =
            format!("This destroys '{pool}' and everything in it, for ever. Type its name: ");
        if !terminal::confirm_by_name(&question, &pool) {
            return Err(other("nothing was destroyed"));
        }
    }
    let force = args.force;
    call_quiet(session, command::PoolDestroy { pool, force })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows devices as the article on what is on disk does.
    #[test]
    fn new_keys_are_in_the_history() {
        let row = |text: &str, who: &str| HistoryRow {
            time: 1_290_146_305,
            txg: 85,
            internal: true,
            who: who.into(),
            text: text.into(),
        };
        let rekey = "encryption key create: rekey succeeded dataset = 33";
        let line = history_line(&row(rekey, "root on borg-nas"), true);
        let (_, line) = line.split_once(' ').unwrap();
        assert_eq!(
            line,
            "[internal encryption key create txg:85] rekey succeeded dataset = 33 \
             [user root on borg-nas]\n"
        );
        let line = history_line(&row("resilver", "pool"), true);
        assert!(line.ends_with(" [txg:85] resilver [pool]\n"), "{line}");
    }
}
