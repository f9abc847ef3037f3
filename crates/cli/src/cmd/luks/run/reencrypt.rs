//! Changing the key or cipher of a container in place.

use std::path::Path;
use std::sync::Arc;

use block::BlockDevice;
use cipher::SystemRandom;
use daemon::Failure;
use luks::{BothKeys, Container, Protection, Reencrypt, Reencrypted, Unlocked};
use protocol::api::{Borrowing, FailureKind};
use secret::Secret;

use super::device::{device, open};
use super::format::key_len;
use super::key::{ask, passphrase, slot_choice};
use super::progress::Reporter;
use crate::cmd::luks::args::{LuksReencrypt, LuksResilience};
use crate::outcome::{LocalResult as Result, Outcome};
use crate::session::Session;
use crate::terminal::Interruptions;

pub(super) fn run(args: &LuksReencrypt, session: &Session) -> Result {
    let mut container = open(&args.container, Borrowing::Own, session)?;
    let data = match &args.container.header {
        Some(_) => device(&args.container.device, Borrowing::Own, session)?,
        None => Arc::clone(container.device()),
    };
    if container.data_offset()? == 0 && args.container.header.is_none() {
        let name = args.container.device.display();
        return Err(Failure::usage(format!(
            "the header on {name} is for data on another device: name that, and this with --header"
        )));
    }
    let keys = match container.is_in_reencryption() {
        true => resume(&container, args)?,
        false if args.resume_only => {
            let name = data.name();
            let message = format!("{name} is not being re-encrypted");
            return Err(Failure::new(FailureKind::NotFound, message));
        }
        false => begin(&mut container, &*data, args)?,
    };
    if args.init_only {
        return Ok(Outcome::done());
    }
    go_on(&mut container, &*data, &keys, args)
}

/// The keys of a re-encryption that is under way.
fn resume(container: &Container, args: &LuksReencrypt) -> Result<BothKeys> {
    let begins = args.init_only
        || args.cipher.is_some()
        || args.key_size.is_some()
        || args.sector_size.is_some()
        || args.key_slot.is_some()
        || args.resilience.is_some()
        || args.resilience_hash.is_some();
    if begins {
        let name = args.container.device.display();
        return Err(Failure::new(
            FailureKind::Exists,
            format!(
                "{name} is being re-encrypted already, with its own options: continue it with \
                 --resume-only"
            ),
        ));
    }
    Ok(container.unlock_both(&passphrase(&args.key, &args.container)?)?)
}

fn begin(
    container: &mut Container,
    data: &dyn BlockDevice,
    args: &LuksReencrypt,
) -> Result<BothKeys> {
    let hash = args.resilience_hash.as_deref().unwrap_or("sha256");
    let how = Reencrypt {
        cipher: args.cipher.clone(),
        key_len: args.key_size.map(key_len).transpose()?,
        sector_size: args.sector_size,
        protection: match args.resilience.unwrap_or(LuksResilience::Checksum) {
            LuksResilience::Checksum => Protection::Checksum(hash.into()),
            LuksResilience::Journal => Protection::Journal,
            LuksResilience::None => Protection::None,
        },
        slot: slot_choice(&args.kdf, container.version()),
    };
    // Before passphrases are asked for in vain.
    container.check_reencryption(data, &how)?;
    let (old, kept) = kept(container, args)?;
    Ok(container.begin_reencryption(data, &how, old, &kept, &SystemRandom)?)
}

/// The present key, and the passphrases that open the container afterwards, each with its slot of today.
fn kept(container: &Container, args: &LuksReencrypt) -> Result<(Secret, Vec<(u32, Secret)>)> {
    let name = args.container.device.display();
    let slots = container.data_slots()?;
    if args.key_slot.is_some() || args.key.key_file.is_some() {
        if args.key_slot.is_none() && slots.len() > 1 {
            return Err(Failure::usage(format!(
                "{name} has {} key slots, and a key file opens one of them: name with --key-slot the one \
                 that is kept; the others are removed at the end",
                slots.len()
            )));
        }
        let given = passphrase(&args.key, &args.container)?;
        let Unlocked { slot, key } = container.unlock(&given, args.key_slot)?;
        return Ok((key, vec![(slot, given)]));
    }
    let mut found = None;
    let mut kept = Vec::new();
    for slot in slots {
        let of_slot = match container.data_slots()?.len() {
            1 => name.to_string(),
            _ => format!("{name}, key slot {slot}"),
        };
        let given = ask(Path::new(&of_slot), false)?;
        found = Some(container.unlock(&given, Some(slot))?.key);
        kept.push((slot, given));
    }
    let key = found.ok_or_else(|| Failure::usage(format!("{name} has no key slot")))?;
    Ok((key, kept))
}

fn go_on(
    container: &mut Container,
    data: &dyn BlockDevice,
    keys: &BothKeys,
    args: &LuksReencrypt,
) -> Result {
    let signals = Interruptions::hold().map_err(|error| Failure::other(error.to_string()))?;
    let device = &args.container.device;
    let mut reporter = Reporter::new(device, args.progress_frequency, args.progress_json);
    let mut show = |progress| {
        reporter.show(progress);
        !signals.came()
    };
    let ended = container.reencrypt(data, keys, args.hotzone_size, &SystemRandom, &mut show)?;
    let Reencrypted::Paused(progress) = ended else {
        reporter.end();
        return Ok(Outcome::done());
    };
    drop(reporter);
    let (done, total) = (progress.done >> 20, progress.total >> 20);
    let header = args.container.header.as_ref();
    let header = header.map(|path| format!("--header {} ", path.display()));
    Err(Failure::other(format!(
        "the re-encryption is paused after {done} of {total} MiB; continue it with 'strongroom luks reencrypt \
         --resume-only {}{}'",
        header.unwrap_or_default(),
        device.display()
    )))
}
