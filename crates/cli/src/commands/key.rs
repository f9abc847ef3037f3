//! Keys: loading, unloading, changing, looking; and key files, which need no daemon.

use std::io::ErrorKind;

use daemon::api::{Command, Failure, FailureKind, KeyRow};

use super::{Outcome, Result, call_quiet};
use crate::args::{Key, KeyFormat, KeyStatus, Keygen};
use crate::session::{Session, answer, other};
use crate::show::json;
use crate::show::table::{self, Column};

pub(super) fn run(args: Key, session: &mut Session) -> Result {
    match args {
        Key::Load(args) => call_quiet(
            session,
            Command::KeyLoad {
                names: args.names,
                recursive: args.recursive,
                location: args.location,
                dry_run: args.dry_run,
            },
        ),
        Key::Unload(args) => call_quiet(
            session,
            Command::KeyUnload {
                names: args.names,
                recursive: args.recursive,
                force: args.force,
            },
        ),
        Key::Change(args) => call_quiet(
            session,
            Command::KeyChange {
                name: args.name,
                keysource: args.keysource,
            },
        ),
        Key::Status(args) => status(args, session),
    }
}

fn status(args: KeyStatus, session: &mut Session) -> Result {
    let names = args.names;
    let rows = answer!(session.call(Command::KeyStatus { names })?, Keys)?;
    if session.json {
        return Ok(Outcome::text(json::show(&rows)));
    }
    if rows.is_empty() && !args.script {
        return Ok(Outcome::text("no encrypted datasets\n"));
    }
    let heads = ["NAME", "KEYROOT", "KEYSTATUS", "KEYSOURCE"].map(Column::left);
    let cells = |row: KeyRow| vec![row.name, row.key_root, row.status, row.keysource];
    let rows: Vec<Vec<String>> = rows.into_iter().map(cells).collect();
    Ok(Outcome::text(table::show(&heads, &rows, args.script)))
}

pub(super) fn keygen(args: &Keygen) -> Result {
    keys::harden_process().map_err(|error| other(error.to_string()))?;
    let format = match args.format {
        KeyFormat::Raw => keys::Format::Raw,
        KeyFormat::Hex => keys::Format::Hex,
    };
    keys::keygen(format, &cipher::SystemRandom)
        .and_then(|key| keys::write_key_file(&args.file, &key))
        .map(|()| Outcome::done())
        .map_err(keygen_failure)
}

fn keygen_failure(error: keys::Error) -> Failure {
    let kind = match &error {
        keys::Error::KeyFileWrite { source, .. } => match source.kind() {
            ErrorKind::AlreadyExists => FailureKind::Exists,
            ErrorKind::PermissionDenied => FailureKind::Permission,
            ErrorKind::NotFound => FailureKind::NotFound,
            ErrorKind::StorageFull => FailureKind::NoSpace,
            _ => FailureKind::Other,
        },
        _ => FailureKind::Other,
    };
    Failure {
        kind,
        message: error.to_string(),
    }
}
