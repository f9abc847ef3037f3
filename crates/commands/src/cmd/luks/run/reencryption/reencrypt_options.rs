//! Options, passphrases and answers of re-encryption, encryption and decryption in place.

use std::path::Path;

use block::BlockDevice;
use console::key_file::ask_with;
use console::outcome::Result;
use luks::{
    Container, Protection, ReencryptionChoice, ReencryptionPace, ReencryptionProgress, Segment,
    UnlockedKey,
};
use protocol::api::{Failure, FailureKind};
use secret::Secret;

use crate::cmd::luks::args::{LuksReencryptArgs, LuksResilience};
use crate::cmd::luks::run::key::{key_len, slot_choice, unlock};

/// The failure if another re-encryption was begun before.
pub(crate) fn under_way(args: &LuksReencryptArgs) -> Failure {
    let name = args.container.device.display();
    Failure::new(
        FailureKind::Exists,
        format!(
            "{name} is being re-encrypted already, with its own options: continue it with \
             --resume-only"
        ),
    )
}

/// The amount that is encrypted anew, and the amount at once.
pub(crate) fn pace(args: &LuksReencryptArgs) -> ReencryptionPace {
    ReencryptionPace {
        zone: args.hotzone_size,
        device_size: args.device_size,
    }
}

/// Refuses a size of the device that does not fit its data, before anything is changed.
pub(crate) fn check_size(
    args: &LuksReencryptArgs,
    data: &dyn BlockDevice,
    segment: &Segment,
) -> Result<()> {
    let there = data.size().saturating_sub(segment.offset);
    let sector = segment.sector_size.max(args.sector_size.unwrap_or(0));
    Ok(pace(args).check(segment.len.unwrap_or(there), sector)?)
}

/// The protection of data that does not move.
pub(crate) fn protection(args: &LuksReencryptArgs) -> Result<Protection> {
    let hash = args.resilience_hash.as_deref().unwrap_or("sha256");
    match args.resilience.unwrap_or(LuksResilience::Checksum) {
        LuksResilience::Checksum => Ok(Protection::Checksum(hash.into())),
        LuksResilience::Journal => Ok(Protection::Journal),
        LuksResilience::None => Ok(Protection::None),
        LuksResilience::Datashift
        | LuksResilience::DatashiftChecksum
        | LuksResilience::DatashiftJournal => Err(Failure::usage(
            "the data does not move: use the resilience checksum, journal or none",
        )),
    }
}

/// Returns whether there are options of a new re-encryption.
pub(crate) fn begins(args: &LuksReencryptArgs) -> bool {
    args.init_only
        || args.cipher.is_some()
        || args.key_size.is_some()
        || args.sector_size.is_some()
        || args.key_slot.is_some()
        || args.resilience.is_some()
        || args.resilience_hash.is_some()
}

/// The encryption of data with a new key.
pub(crate) fn options(
    container: &Container,
    args: &LuksReencryptArgs,
) -> Result<ReencryptionChoice> {
    Ok(ReencryptionChoice {
        cipher: args.cipher.clone(),
        key_len: args.key_size.map(key_len).transpose()?,
        sector_size: args.sector_size,
        protection: protection(args)?,
        slot: slot_choice(&args.kdf, container.version())?,
    })
}

/// The present key, and the passphrases that open the container afterwards, each with its slot of today.
pub(crate) fn kept(
    container: &Container,
    args: &LuksReencryptArgs,
) -> Result<(Secret, Vec<(u32, Secret)>)> {
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
        container.check_slots(args.key_slot)?;
        let open = |given: &Secret| container.unlock(given, args.key_slot);
        let (given, UnlockedKey { slot, key }) = unlock(&args.key, &args.container, open)?;
        return Ok((key, vec![(slot, given)]));
    }
    let mut found = None;
    let mut kept = Vec::new();
    for slot in slots {
        let of_slot = match container.data_slots()?.len() {
            1 => name.to_string(),
            _ => format!("{name}, key slot {slot}"),
        };
        let given = ask_with(&mut args.key.prompter(), Path::new(&of_slot), false)?;
        found = Some(container.unlock(&given, Some(slot))?.key);
        kept.push((slot, given));
    }
    let key = found.ok_or_else(|| Failure::usage(format!("{name} has no key slot")))?;
    Ok((key, kept))
}

/// The failure that says that it is paused.
pub(crate) fn paused(progress: ReencryptionProgress, args: &LuksReencryptArgs) -> Failure {
    let device = &args.container.device;
    let (done, total) = (progress.done >> 20, progress.total >> 20);
    let header = args.container.header.as_ref();
    let header = header.map(|path| format!("--header {} ", path.display()));
    let size = args.device_size;
    let size = size.map(|size| format!("--device-size {size} "));
    Failure::other(format!(
        "the re-encryption is paused after {done} of {total} MiB; continue it with 'strongroom luks reencrypt \
         --resume-only {}{}{}'",
        header.unwrap_or_default(),
        size.unwrap_or_default(),
        device.display()
    ))
}
