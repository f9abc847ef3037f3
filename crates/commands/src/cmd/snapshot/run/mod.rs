//! Snapshots, clones, and the tags that keep snapshots.

pub(crate) mod diff;

use console::outcome::{Outcome, Result, call_names, call_quiet};
use console::session::{Session, answer};
use console::show::table::{self, Column};
use console::show::{json, time};
use protocol::api::{HoldRow, command};

use crate::cmd::snapshot::args::{
    BookmarkArgs, Clone, HoldArgs, Holds, Promote, Release, Rollback, Snapshot,
};

pub(crate) fn snapshot(args: Snapshot, session: &mut Session) -> Result {
    if args.prune {
        return prune(args, session);
    }
    let command = command::Snapshot {
        names: args.names,
        recursive: args.recursive,
    };
    call_quiet(session, command)
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
    let command = command::Prune {
        names: args.names,
        recursive: args.recursive,
        dry_run: args.dry_run,
    };
    let names = call_names(session, command)?;
    if session.json {
        return Ok(Outcome::text(json::show(&names)));
    }
    let lines = names.iter().map(|name| format!("{what} {name}\n"));
    Ok(Outcome::text(lines.collect::<String>()))
}

pub(crate) fn rollback(args: Rollback, session: &mut Session) -> Result {
    let command = command::Rollback {
        name: args.name,
        recursive: args.recursive,
        clones: args.clones,
        force: args.force,
    };
    call_quiet(session, command)
}

pub(crate) fn clone(args: Clone, session: &mut Session) -> Result {
    let command = command::Clone {
        snapshot: args.snapshot,
        name: args.name,
        props: args.props,
        rekey: args.rekey,
        parents: args.parents,
        no_mount: args.no_mount,
    };
    call_quiet(session, command)
}

pub(crate) fn promote(args: Promote, session: &mut Session) -> Result {
    call_quiet(session, command::Promote { name: args.name })
}

pub(crate) fn hold(HoldArgs { tagged }: HoldArgs, session: &mut Session) -> Result {
    let command = command::Hold {
        names: tagged.names,
        tag: tagged.tag,
        recursive: tagged.recursive,
    };
    call_quiet(session, command)
}

pub(crate) fn release(Release { tagged }: Release, session: &mut Session) -> Result {
    let command = command::Release {
        names: tagged.names,
        tag: tagged.tag,
        recursive: tagged.recursive,
    };
    call_quiet(session, command)
}

pub(crate) fn holds(args: Holds, session: &mut Session) -> Result {
    let command = command::Holds {
        names: args.names,
        recursive: args.recursive,
    };
    let rows = answer!(session.call(command)?, Holds)?;
    if session.json {
        return Ok(Outcome::text(json::show(&rows)));
    }
    let heads = ["NAME", "TAG", "TIMESTAMP"].map(Column::left);
    let cells = |row: HoldRow| vec![row.name, row.tag, time::second(row.time)];
    let rows: Vec<Vec<String>> = rows.into_iter().map(cells).collect();
    Ok(Outcome::text(table::show(&heads, &rows, args.script)))
}
