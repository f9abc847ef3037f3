//! Snapshots, clones, and the tags that keep snapshots.

pub(crate) mod diff;

use console::outcome::{Outcome, Result, call_names, call_quiet};
use console::session::{Session, answer};
use console::show::table::Column;
use console::show::{json, time};
use protocol::api::{HoldRow, command};

use crate::cmd::snapshot::args::{BookmarkArgs, HoldArgs, Holds, Snapshot};

pub(crate) fn snapshot(args: Snapshot, session: &mut Session) -> Result {
    if args.prune {
        return prune(args, session);
    }
    call_quiet(session, request!(args, Snapshot: names, recursive))
}

pub(crate) fn bookmark(args: BookmarkArgs, session: &mut Session) -> Result {
    let dataset = args.of.split(['@', '#']).next().unwrap_or_default();
    let name = match args.name.starts_with('#') {
        true => format!("{dataset}{}", args.name),
        false => args.name,
    };
    call_quiet(session, command::Bookmark { of: args.of, name })
}

fn prune(args: Snapshot, session: &mut Session) -> Result {
    let what = match args.dry_run {
        true => "would destroy",
        false => "destroyed",
    };
    let command = request!(args, Prune: names, recursive, dry_run, keep);
    let names = call_names(session, command)?;
    if session.json {
        return Ok(Outcome::text(json::show(&names)));
    }
    let lines = names.iter().map(|name| format!("{what} {name}\n"));
    Ok(Outcome::text(lines.collect::<String>()))
}

pub(crate) fn hold(args: HoldArgs, session: &mut Session) -> Result {
    let HoldArgs { tagged, until } = args;
    let command = command::Hold {
        names: tagged.names,
        tag: tagged.tag,
        recursive: tagged.recursive,
        until: until.map(|until| until.0),
    };
    call_quiet(session, command)
}

pub(crate) fn holds(args: Holds, session: &mut Session) -> Result {
    let script = args.script;
    let command = request!(args, Holds: names, recursive);
    let rows = answer!(session.call(command)?, Holds)?;
    let heads = ["NAME", "TAG", "TIMESTAMP", "UNTIL"].map(Column::left);
    let cells = |row: HoldRow| {
        let until = row.until.map_or("-".into(), time::second);
        vec![row.name, row.tag, time::second(row.time), until]
    };
    Ok(Outcome::rows(rows, session.json, &heads, script, cells))
}
