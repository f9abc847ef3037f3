//! LUKS containers. What looks at headers or changes them runs here; mappings are the daemon's.

mod benchmark;
mod change;
mod format;
mod mapping;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use block::{Access, BlockDevice, FileDevice};
use cipher::SystemRandom;
use daemon::api::{Ask, AskFormat, Borrowing, Failure, FailureKind};
use daemon::client::Terminal;
use keys::Secret;
use luks::{Container, Header};

use super::{Outcome, Result};
use crate::args::{Luks, LuksContainer, LuksDump, LuksIsLuks, LuksKdf, LuksKey, LuksUuid};
use crate::session::{Session, absolute, is_volume, other, usage};
use crate::show::json;
use crate::terminal::{Prompter, confirm, input_is_data, is_interactive};

/// No key file is longer, in bytes: as cryptsetup has it.
const KEY_FILE_MAX: usize = daemon::wire::KEY_FILE_MAX as usize;

pub(super) fn run(args: Luks, session: &mut Session) -> Result {
    match args {
        Luks::Format(args) => format::run(&args, session),
        Luks::Open(args) => mapping::open(args, session),
        Luks::Close(args) => mapping::close(args, session),
        Luks::Status(args) => mapping::status(args, session),
        Luks::Refresh(args) => mapping::refresh(args, session),
        Luks::Resize(args) => mapping::resize(args, session),
        Luks::Dump(args) => dump(&args, session),
        Luks::AddKey(args) => change::add_key(&args, session),
        Luks::ChangeKey(args) => change::change_key(&args, session),
        Luks::RemoveKey(args) => change::remove_key(&args, session),
        Luks::KillSlot(args) => change::kill_slot(&args, session),
        Luks::SetPriority(args) => change::set_priority(&args, session),
        Luks::Token(args) => change::token(&args, session),
        Luks::HeaderBackup(args) => change::header_backup(&args, session),
        Luks::HeaderRestore(args) => change::header_restore(&args, session),
        Luks::Erase(args) => change::erase(&args, session),
        Luks::Uuid(args) => uuid(&args, session),
        Luks::Is(args) => is_luks(&args, session),
        Luks::Convert(args) => change::convert(&args, session),
        Luks::Repair(args) => change::repair(&args, session),
        Luks::Benchmark(args) => benchmark::run(&args, session.json),
    }
}

fn dump(args: &LuksDump, session: &Session) -> Result {
    let container = look(&args.container, session)?;
    Ok(Outcome::text(match session.json {
        true => json::show(&container.dump_json()),
        false => container.dump(),
    }))
}

fn uuid(args: &LuksUuid, session: &Session) -> Result {
    let changes = [&args.uuid, &args.label, &args.subsystem];
    if changes.iter().all(|change| change.is_none()) {
        let container = look(&args.container, session)?;
        return Ok(Outcome::text(format!("{}\n", container.uuid())));
    }
    let uuid = args.uuid.as_deref().map(format::parse_uuid).transpose()?;
    let (label, subsystem) = (args.label.as_deref(), args.subsystem.as_deref());
    let mut container = open(&args.container, Borrowing::ChangeHeader, session)?;
    container.rename(uuid.as_deref(), label, subsystem, &SystemRandom)?;
    Ok(Outcome::done())
}

fn is_luks(args: &LuksIsLuks, session: &Session) -> Result {
    let device = device(args.container.header_device(), Borrowing::Look, session)?;
    let version = match Header::read(&*device) {
        Ok(Header::V1(_)) => Some(luks::Version::V1),
        Ok(Header::V2(_)) => Some(luks::Version::V2),
        Err(luks::Error::Damaged { .. } | luks::Error::TooSmall { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    match (args.version, version) {
        (Some(wanted), Some(found)) if wanted.version() != found => Err(Failure {
            kind: FailureKind::NotFound,
            message: format!("{} is a container of {found}", device.name()),
        }),
        _ => Ok(Outcome::done()),
    }
}

/// A device with a header, or for one. A volume is borrowed from the daemon, and so is what the daemon has
/// open, if that can be.
fn device(path: &Path, how: Borrowing, session: &Session) -> Result<Arc<dyn BlockDevice>> {
    if is_volume(path) {
        return Ok(Arc::new(session.borrow(path, how)?));
    }
    let access = match how {
        Borrowing::Look => Access::ReadOnly,
        Borrowing::ChangeHeader | Borrowing::Own => Access::Exclusive,
    };
    let busy = match FileDevice::open(path, access) {
        Err(error @ block::Error::Busy { .. }) => error,
        opened => return Ok(Arc::new(opened?)),
    };
    match session.borrow_running(&absolute(path)?, how) {
        Ok(borrowed) => Ok(Arc::new(borrowed)),
        Err(failure) if failure.kind == FailureKind::Busy => Err(failure),
        // It is not the daemon that has it.
        Err(_) => Err(busy.into()),
    }
}

/// The header, to look at.
fn look(container: &LuksContainer, session: &Session) -> Result<Container> {
    let header = device(container.header_device(), Borrowing::Look, session)?;
    Ok(Container::look(header)?)
}

/// The header, to change.
fn open(container: &LuksContainer, how: Borrowing, session: &Session) -> Result<Container> {
    let header = device(container.header_device(), how, session)?;
    let container = Container::open(header, &SystemRandom)?;
    // Before passphrases are asked for in vain.
    container.check_writable()?;
    Ok(container)
}

/// What opens the container.
fn passphrase(key: &LuksKey, container: &LuksContainer) -> Result<Secret> {
    match &key.key_file {
        Some(path) => key_file(path),
        None => ask(container.header_device(), false),
    }
}

/// Asks for a passphrase, twice for a new one.
fn ask(device: &Path, new: bool) -> Result<Secret> {
    let ask = Ask {
        again: false,
        dataset: device.display().to_string(),
        format: AskFormat::Passphrase,
        twice: new,
    };
    Prompter::default().ask(&ask)?.ok_or_else(|| Failure {
        kind: FailureKind::NoKey,
        message: format!("the passphrase of '{}' was not given", ask.dataset),
    })
}

/// All that is in a key file, with newlines.
fn key_file(path: &Path) -> Result<Secret> {
    read_key_file(path, None)
}

/// What is in a key file, or its beginning of at most `len_max` bytes. The file may be a pipe: the calling
/// user waits for it, and the daemon does not.
fn read_key_file(path: &Path, len_max: Option<usize>) -> Result<Secret> {
    keys::harden_process().map_err(Failure::from)?;
    let unreadable = |reason: String| Failure {
        kind: FailureKind::NoKey,
        message: format!("the key file {}: {reason}", path.display()),
    };
    let limit = len_max.unwrap_or(KEY_FILE_MAX + 1);
    let key = match path.as_os_str() == "-" {
        true => {
            input_is_data();
            Secret::from_reader(&mut std::io::stdin(), limit)
        }
        false => {
            let mut file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
            Secret::from_reader(&mut file, limit)
        }
    };
    let key = key.map_err(Failure::from)?;
    match key.len() {
        0 => Err(unreadable("it is empty".into())),
        len if len > KEY_FILE_MAX => Err(unreadable("it is too long to be a key".into())),
        _ => Ok(key),
    }
}

/// What a guess at a new passphrase costs.
fn slot_choice(kdf: &LuksKdf, version: luks::Version) -> luks::SlotChoice {
    let mut choice = luks::SlotChoice::new(version);
    choice.af_hash = kdf.hash.clone();
    let cost = &mut choice.kdf;
    cost.hash = kdf.hash.clone();
    cost.kind = kdf.pbkdf.map_or(cost.kind, |pbkdf| pbkdf.kind());
    cost.force_iterations = kdf.pbkdf_force_iterations;
    cost.memory_kib = kdf.pbkdf_memory.unwrap_or(cost.memory_kib);
    cost.lanes = kdf.pbkdf_parallel;
    cost.time = kdf
        .iter_time
        .map_or(cost.time, std::time::Duration::from_millis);
    choice
}

/// Asks whether something that destroys is meant.
fn be_sure(sure: bool, what: &str) -> Result<()> {
    match sure {
        true => Ok(()),
        false if !is_interactive() => Err(usage(format!("{what}; if that is meant, say -q"))),
        false if confirm(&format!("{what}. Go on?")) => Ok(()),
        false => Err(other("nothing was changed")),
    }
}
