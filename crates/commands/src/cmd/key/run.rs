//! Keys: loading, unloading, changing, copying, looking; and key files, which need no daemon.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, absolute, answer, other, usage};
use console::show::table::Column;
use console::show::{size, time};
use console::terminal::{self, Prompter};
use encoding::{hex, unhex};
use keys::{KeySource, Location};
use protocol::api::{
    Ask, AskFormat, Failure, FailureKind, GenerationRow, KeyRow, Rotation, SlotRow, WrongKeyRow,
    command,
};
use protocol::client::Terminal;

use crate::cmd::key::args::{
    KeyBackupArgs, KeyCommand, KeyFormat, KeyGenerationsArgs, KeyRecover, KeyRestoreArgs,
    KeySlotsArgs, KeyStatusArgs, KeyTriesArgs, Keygen,
};
use crate::cmd::key::pktool::{self, NewKey};
use crate::cmd::key::sheet;

/// No backup is longer: what is, is something else.
const BACKUP_MAX: u64 = 24 << 20;

pub(crate) fn run(args: KeyCommand, session: &mut Session) -> Result {
    match args {
        KeyCommand::Load(args) => {
            session.hash_memory = args.cost.hash_memory;
            let load = request!(args, KeyLoad: names, recursive, location, keysource, dry_run);
            call_quiet(session, load)
        }
        KeyCommand::Accept(args) => {
            call_quiet(session, request!(args, KeyAccept: names, recursive))
        }
        KeyCommand::Unload(args) => {
            let unload = request!(args, KeyUnload: names, recursive, force);
            call_quiet(session, unload)
        }
        KeyCommand::Change(args) => call_quiet(
            session,
            command::KeyChange {
                name: args.name,
                keysource: args.keysource,
                slot: args.slot,
                only: args.only,
                inherit: args.inherit,
                pbkdf: args.hash.pbkdf.map(Into::into),
            },
        ),
        KeyCommand::Rotate(args) => {
            let how = match (args.reencrypt, args.pause, args.resume) {
                (true, ..) => Rotation::Reencrypt,
                (_, true, _) => Rotation::Pause,
                (_, _, true) => Rotation::Resume,
                _ => Rotation::New,
            };
            let name = args.name;
            call_quiet(session, command::KeyRotate { name, how })
        }
        KeyCommand::Generations(args) => generations(args, session),
        KeyCommand::Status(args) => status(args, session),
        KeyCommand::Tries(args) => tries(&args, session),
        KeyCommand::Add(args) => {
            let command = command::KeyAdd {
                name: args.name,
                keysource: args.keysource,
                priority: args.priority,
                pbkdf: args.hash.pbkdf.map(Into::into),
            };
            let slot = answer!(session.call(command)?, Slot)?;
            Ok(Outcome::text(format!("{slot}\n")))
        }
        KeyCommand::Remove(args) => {
            let remove = request!(args, KeyRemove: name, slot, keysource, force);
            call_quiet(session, remove)
        }
        KeyCommand::Slots(args) => slots(args, session),
        KeyCommand::Recover(args) => recover(args, session),
        KeyCommand::Backup(args) => backup(args, session),
        KeyCommand::Restore(args) => restore(args, session),
        KeyCommand::Sheet(args) => sheet::run(&args, session),
    }
}

/// Tries a key. The daemon says which slot opened, and in which format.
fn recover(args: KeyRecover, session: &mut Session) -> Result {
    let KeyRecover {
        location,
        cost,
        name,
    } = args;
    session.hash_memory = cost.hash_memory;
    let load = command::KeyLoad {
        names: vec![name.clone()],
        location: Some(location.clone()),
        dry_run: true,
        ..command::KeyLoad::default()
    };
    call_quiet(session, load)?;
    if session.json {
        return Ok(Outcome::done());
    }
    // The parts of a key in several have bars between them.
    let is_plain = |it: char| it.is_alphanumeric() || "/:._-=@%+,".contains(it);
    let location = match location.chars().all(is_plain) {
        true => location,
        false => format!("'{}'", location.replace('\'', r"'\''")),
    };
    Ok(Outcome::text(format!(
        "to load the key: strongroom key load -L {location} {name}\n\
         to put another one in the place of a slot: strongroom key change --slot SLOT {name}\n"
    )))
}

fn slots(args: KeySlotsArgs, session: &mut Session) -> Result {
    let command = command::KeySlots { name: args.name };
    let rows = answer!(session.call(command)?, Slots)?;
    let mut heads = ["KEYROOT", "SLOT", "KIND", "PRIORITY", "CREATED", "COST"].map(Column::left);
    heads[1] = Column::right("SLOT");
    heads[3] = Column::right("PRIORITY");
    let cells = |row: SlotRow| {
        vec![
            row.key_root,
            row.slot.to_string(),
            row.kind,
            row.priority.to_string(),
            time::second(row.created),
            row.cost.unwrap_or_else(|| "-".into()),
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

fn generations(args: KeyGenerationsArgs, session: &mut Session) -> Result {
    let command = command::KeyGenerations { name: args.name };
    let rows = answer!(session.call(command)?, Generations)?;
    let heads = [
        Column::right("GENERATION"),
        Column::right("TXG"),
        Column::left("CREATED"),
        Column::left("STATE"),
        Column::right("RECORDS"),
        Column::right("SIZE"),
        Column::left("SNAPSHOTS"),
    ];
    let cells = |row: GenerationRow| {
        vec![
            row.generation.to_string(),
            row.txg.to_string(),
            time::second(row.created),
            row.state,
            row.records.to_string(),
            match args.script {
                true => row.bytes.to_string(),
                false => size::human(row.bytes),
            },
            match row.snapshots.is_empty() {
                true => "-".into(),
                false => row.snapshots.join(","),
            },
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

fn backup(args: KeyBackupArgs, session: &mut Session) -> Result {
    let command = command::KeyBackup { name: args.name };
    let digits = answer!(session.call(command)?, Backup)?;
    let bytes =
        unhex(&digits).ok_or_else(|| other("the answer of the daemon is not understood"))?;
    keys::write_private_file(&args.file, &bytes)
        .map(|()| Outcome::done())
        .map_err(keygen_failure)
}

fn restore(args: KeyRestoreArgs, session: &mut Session) -> Result {
    let bytes = read_backup(&args.file)?;
    if !args.force {
        if !terminal::is_interactive() {
            return Err(usage(format!(
                "the keys of '{}' are not replaced: there is no terminal to ask for confirmation; use -f",
                args.name
            )));
        }
        let question = format!(
            "Replace the keys of '{}' by the keys in the backup?",
            args.name
        );
        if !terminal::confirm(&question) {
            return Err(other("nothing was changed"));
        }
    }
    let command = command::KeyRestore {
        name: args.name,
        backup: hex(&bytes),
        keysource: args.keysource,
    };
    call_quiet(session, command)
}

fn read_backup(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BACKUP_MAX).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| Failure {
        kind: match error.kind() {
            ErrorKind::NotFound => FailureKind::NotFound,
            ErrorKind::PermissionDenied => FailureKind::Permission,
            _ => FailureKind::Other,
        },
        message: format!("{} cannot be read: {error}", path.display()),
    })
}

fn status(args: KeyStatusArgs, session: &mut Session) -> Result {
    let names = args.names;
    let rows = answer!(session.call(command::KeyStatus { names })?, Keys)?;
    if rows.is_empty() && !args.script && !session.json {
        return Ok(Outcome::text("no encrypted datasets\n"));
    }
    let heads = ["NAME", "KEYROOT", "KEYSTATUS", "KEYSOURCE"].map(Column::left);
    let cells = |row: KeyRow| vec![row.name, row.key_root, row.status, row.keysource];
    Ok(Outcome::rows(
        rows,
        session.json,
        &heads,
        args.script,
        cells,
    ))
}

fn tries(args: &KeyTriesArgs, session: &mut Session) -> Result {
    let rows = answer!(session.call(command::KeyTries)?, WrongKeys)?;
    let mut heads = ["NAME", "USER", "COUNT", "LAST"].map(Column::left);
    heads[2] = Column::right("COUNT");
    let cells = |row: WrongKeyRow| {
        let count = row.count.to_string();
        vec![row.name, row.user, count, time::second(row.last)]
    };
    Ok(Outcome::rows(
        rows,
        session.json,
        &heads,
        args.script,
        cells,
    ))
}

pub(crate) fn keygen(args: &Keygen) -> Result {
    secret::harden_process().map_err(|error| other(error.to_string()))?;
    let NewKey { place, bits } = pktool::new_key(args)?;
    let bytes = (bits as u16 / 8) as u8;
    let file = place.to_str().filter(|text| text.starts_with("pkcs11:"));
    if let Some(uri) = file {
        return token_keygen(uri, bytes, args.pkcs11_list.as_deref());
    }
    let format = match args.format {
        KeyFormat::Raw => keys::MaterialFormat::Raw,
        KeyFormat::Hex => keys::MaterialFormat::Hex,
    };
    keys::keygen(format, bytes.into(), &cipher::SystemRandom)
        .and_then(|key| keys::write_key_file(&place, &key))
        .map(|()| Outcome::done())
        .map_err(keygen_failure)
}

/// Makes a key in a token. The daemon has no part in it.
fn token_keygen(uri: &str, bytes: u8, list: Option<&Path>) -> Result {
    let source: KeySource = format!("raw,{uri}").parse().map_err(keygen_failure)?;
    let Location::Token(uri) = source.location() else {
        return Err(usage("name the key to make as pkcs11:token=...;object=..."));
    };
    let pin = match uri.pin_source() {
        Some(path) => keys::read_pin(path).map_err(keygen_failure)?,
        None => {
            let ask = Ask {
                again: false,
                dataset: uri.shown().to_owned(),
                format: AskFormat::Pin,
                twice: false,
            };
            Prompter::default().ask(&ask)?.ok_or_else(|| Failure {
                kind: FailureKind::NoKey,
                message: format!("the PIN of the token '{}' was not given", uri.shown()),
            })?
        }
    };
    let list = list.map(absolute).transpose()?;
    keys::token_keygen(&daemon::token_modules(list.as_deref()), uri, bytes, pin)
        .map(|()| Outcome::done())
        .map_err(keygen_failure)
}

fn keygen_failure(error: keys::Error) -> Failure {
    Failure::from(error)
}
