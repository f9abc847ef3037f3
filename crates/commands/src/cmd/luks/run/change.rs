//! Changing who can open a container, and what else its header says.

use std::io::Read;
use std::path::{Path, PathBuf};

use cipher::SystemRandom;
use console::key_file::ask_with;
use console::outcome::{Outcome, Result};
use console::session::{Session, other, usage};
use console::show::json;
use console::terminal::be_sure;
use luks::{Container, Priority, SlotChoice, UnlockedKey};
use protocol::api::DeviceUse::{ChangeHeader, Own};
use protocol::api::Failure;
use secret::Secret;

use super::device::{device, look, open};
use super::key::{key_len, slot_choice, unlock};
use crate::cmd::luks::args::{
    LuksAddKey, LuksChangeKey, LuksConvert, LuksErase, LuksHeaderBackup, LuksHeaderRestore,
    LuksKillSlot, LuksNewKey, LuksPriority, LuksRemoveKey, LuksRepair, LuksSetPriority, LuksToken,
    LuksTokenAdd, LuksTokenExport, LuksTokenImport, LuksTokenRemove,
};

/// No header has space for a larger token, in bytes.
const TOKEN_MAX: u64 = 4 << 20;

/// The number of something that was made.
fn number(id: u32) -> Outcome {
    Outcome::text(format!("{id}\n"))
}

pub(super) fn add_key(args: &LuksAddKey, session: &Session) -> Result {
    if let Some(bits) = args.key_size {
        let key_len = key_len(bits)?;
        let mut container = open(&args.new.container, ChangeHeader, session)?;
        let new = new_passphrase(&args.new)?;
        let choice = slot_choice(&args.new.kdf, container.version())?;
        let random = &SystemRandom;
        let slot = args.key_slot;
        return Ok(number(
            container.add_unbound_key(key_len, &new, &choice, slot, random)?,
        ));
    }
    with_new_key(&args.new, session, None, |container, old, new, choice| {
        container.add_key(&old.key, new, choice, args.key_slot, &SystemRandom)
    })
}

pub(super) fn change_key(args: &LuksChangeKey, session: &Session) -> Result {
    with_new_key(
        &args.new,
        session,
        args.key_slot,
        |container, old, new, choice| match args.in_place {
            true => container.change_key_in_place(old, new, choice, &SystemRandom),
            false => container.change_key(old, new, choice, &SystemRandom),
        },
    )
}

/// Opens a container by the present passphrase, of this slot or any. Reads the new one, and prints the number of the
/// slot that `change` gives it.
fn with_new_key(
    args: &LuksNewKey,
    session: &Session,
    slot: Option<u32>,
    change: impl FnOnce(&mut Container, &UnlockedKey, &Secret, &SlotChoice) -> luks::Result<u32>,
) -> Result {
    let mut container = open(&args.container, ChangeHeader, session)?;
    container.check_slots(slot)?;
    let unlock_slot = |given: &Secret| container.unlock(given, slot);
    let (_, unlocked) = unlock(&args.key, &args.container, unlock_slot)?;
    let new = new_passphrase(args)?;
    let choice = slot_choice(&args.kdf, container.version())?;
    Ok(number(change(&mut container, &unlocked, &new, &choice)?))
}

/// Reads the new passphrase.
fn new_passphrase(args: &LuksNewKey) -> Result<Secret> {
    match &args.new_keyfile {
        Some(path) => args
            .key
            .part_of(args.new_keyfile_offset, args.new_keyfile_size)
            .read(path),
        None => ask_with(
            &mut args.key.prompter(),
            args.container.header_device(),
            true,
        ),
    }
}

pub(super) fn remove_key(args: &LuksRemoveKey, session: &Session) -> Result {
    let mut container = open(&args.container, ChangeHeader, session)?;
    container.check_slots(None)?;
    let open = |given: &Secret| container.unlock(given, None);
    let slot = unlock(&args.key, &args.container, open)?.1.slot;
    container.remove_slot(slot, args.batch_mode, &SystemRandom)?;
    Ok(Outcome::done())
}

pub(super) fn kill_slot(args: &LuksKillSlot, session: &Session) -> Result {
    let mut container = open(&args.slot.container, ChangeHeader, session)?;
    container.remove_slot(args.slot.slot, args.batch_mode, &SystemRandom)?;
    Ok(Outcome::done())
}

pub(super) fn set_priority(args: &LuksSetPriority, session: &Session) -> Result {
    let priority = match args.priority {
        LuksPriority::Ignore => Priority::Ignore,
        LuksPriority::Normal => Priority::Normal,
        LuksPriority::Prefer => Priority::Prefer,
    };
    let mut container = open(&args.slot.container, ChangeHeader, session)?;
    container.set_priority(args.slot.slot, priority, &SystemRandom)?;
    Ok(Outcome::done())
}

pub(super) fn token(args: &LuksToken, session: &Session) -> Result {
    match args {
        LuksToken::Add(args) => token_add(args, session),
        LuksToken::Remove(args) => token_remove(args, session),
        LuksToken::Import(args) => token_import(args, session),
        LuksToken::Export(args) => token_export(args, session),
    }
}

fn token_add(args: &LuksTokenAdd, session: &Session) -> Result {
    let mut container = open(&args.container, ChangeHeader, session)?;
    let token = container.keyring_token(&args.key_description, args.key_slot);
    let id = container.add_token(token, args.token_id, &SystemRandom)?;
    Ok(number(id))
}

fn token_remove(args: &LuksTokenRemove, session: &Session) -> Result {
    open(&args.container, ChangeHeader, session)?.remove_token(args.token_id, &SystemRandom)?;
    Ok(Outcome::done())
}

fn token_import(args: &LuksTokenImport, session: &Session) -> Result {
    let mut text = String::new();
    let read = match &args.json_file {
        Some(path) => {
            std::fs::File::open(path).and_then(|f| f.take(TOKEN_MAX).read_to_string(&mut text))
        }
        None => std::io::stdin().take(TOKEN_MAX).read_to_string(&mut text),
    };
    read.map_err(|error| other(format!("the token cannot be read: {error}")))?;
    let token: serde_json::Map<_, _> =
        serde_json::from_str(&text).map_err(|error| usage(format!("not a token: {error}")))?;
    let mut container = open(&args.container, ChangeHeader, session)?;
    let id = container.add_token(token, args.token_id, &SystemRandom)?;
    Ok(number(id))
}

fn token_export(args: &LuksTokenExport, session: &Session) -> Result {
    let container = look(&args.container, session)?;
    let token = container.token(args.token_id)?;
    Ok(Outcome::text(json::show(token)))
}

pub(super) fn header_backup(args: &LuksHeaderBackup, session: &Session) -> Result {
    let bytes = look(&args.container, session)?.backup()?;
    keys::write_private_file(&args.header_backup_file, &bytes)?;
    Ok(Outcome::done())
}

pub(super) fn header_restore(args: &LuksHeaderRestore, session: &Session) -> Result {
    let file = &args.header_backup_file;
    let backup = read_backup(file)?;
    let device = device(args.container.header_device(), Own, session)?;
    let there = luks::Header::read(&*device);
    let name = device.name();
    let what = match there {
        Ok(_) => format!("The key slots of {name} will be those of the backup, and no others"),
        Err(_) => format!("{name} has no whole header; what is there will be overwritten"),
    };
    be_sure(args.batch_mode, "to do it anyway, use -q", &what)?;
    let old = name_for_old(file);
    luks::restore(&*device, &backup, |bytes| {
        Ok(keys::write_private_file(&old, bytes)?)
    })
    .map_err(|error| {
        let failure = Failure::from(error);
        match old.exists() {
            true => failure.context(format_args!("the old header is in {}", old.display())),
            false => failure,
        }
    })?;
    std::fs::remove_file(&old).map_err(|error| {
        let old = old.display();
        other(format!(
            "the header is restored, but {old}, which has the old one, cannot be removed: {error}"
        ))
    })?;
    Ok(Outcome::done())
}

fn read_backup(path: &Path) -> Result<Container> {
    let file = path.display();
    let cannot = |error: std::io::Error| other(format!("{file} cannot be read: {error}"));
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|backup| backup.take(luks::BACKUP_LEN_MAX).read_to_end(&mut bytes))
        .map_err(cannot)?;
    luks::read_backup(bytes, &SystemRandom)
        .map_err(|error| Failure::from(error).context(format_args!("the backup {file}")))
}

/// The location of the old header until the backup is restored: beside the backup. A file that is there is left
/// from a restore that was cut off, and stays.
fn name_for_old(backup: &Path) -> PathBuf {
    let name = |n: u32| {
        let mut name = backup.as_os_str().to_owned();
        name.push(".old-header");
        if n > 0 {
            name.push(format!(".{n}"));
        }
        PathBuf::from(name)
    };
    let mut names = (0..).map(name);
    names
        .find(|name| name.symlink_metadata().is_err())
        .expect("no directory has that many files")
}

pub(super) fn erase(args: &LuksErase, session: &Session) -> Result {
    // Neither repaired nor refused: what of the header can be read is enough to destroy the keys.
    let device = device(args.container.header_device(), Own, session)?;
    let mut container = Container::look(device)?;
    container.check_data_writable()?;
    let name = container.device().name();
    be_sure(
        args.batch_mode,
        "to do it anyway, use -q",
        &format!("What is in {name} will be lost for good"),
    )?;
    container.erase(&SystemRandom)?;
    Ok(Outcome::done())
}

pub(super) fn convert(args: &LuksConvert, session: &Session) -> Result {
    open(&args.container, Own, session)?.convert(args.version.version(), &SystemRandom)?;
    Ok(Outcome::done())
}

pub(super) fn repair(args: &LuksRepair, session: &Session) -> Result {
    let device = device(args.container.header_device(), Own, session)?;
    luks::repair(&*device, &SystemRandom)?;
    Ok(Outcome::done())
}
