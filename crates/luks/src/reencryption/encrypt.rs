//! Encryption in place, of a device that is not encrypted. The header is on another device, or in free space that a
//! move of the data makes at the beginning.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use cipher::Random;
use secret::Secret;
use serde_json::json;

use super::begin::{Protection, check_len};
use super::keys::{BothKeys, missing};
use super::stage::HeaderStage;
use crate::container::Container;
use crate::container::format::{ContainerFormat, blank};
use crate::header::luks2::{
    AREA_ALIGN, Course, HOT_ZONE_MAX, ReencryptionMode, ReencryptionPlan, Resilience,
};
use crate::keyslots::material;
use crate::keyslots::slot_refs::push;
use crate::keyslots::slots::slot_json;
use crate::model::{ContainerVersion, Keyslot, SALT_LEN, Segment};
use crate::{Error, Result, crypto};

/// The digest of the key in a new header.
const DIGEST: u32 = 0;

/// Begins to encrypt all of `data`, with a header on `device`. What was on `device` is lost. No data is written yet;
/// [`Container::reencrypt`] does that.
///
/// # Errors
/// [`Error::Usage`] for what the cipher does not take; [`Error::TooSmall`]; the failure of a device. Nothing of the
/// data is changed then.
pub fn begin_encryption(
    device: Arc<dyn BlockDevice>,
    data: &dyn BlockDevice,
    format: &ContainerFormat,
    protection: &Protection,
    passphrase: &Secret,
    random: &dyn Random,
) -> Result<(Container, BothKeys)> {
    let format = ContainerFormat {
        data_offset: Some(0),
        ..checked(format)?
    };
    let (mut container, key) = blank(device, &format, random)?;
    container.check_space(&format)?;
    let new = container.segment()?;
    let old = Segment::linear(0, None);
    check_len(&old, &new, data)?;
    let plan = ReencryptionPlan {
        mode: ReencryptionMode::Encrypt,
        course: Course::Forward,
        old: (&old, None),
        new: (&new, Some(DIGEST)),
        moved: None,
        resilience: protection.resilience(new.sector_size)?,
        resilience_of_moved: None,
    };
    let (keys, slot) = enter(&mut container, &plan, &format, key, random)?;
    container.give_up_old(random)?;
    write(&mut container, &keys, &slot, passphrase, random)?;
    Ok((container, keys))
}

/// Begins to encrypt a device whose last `reduced` bytes are free. Half of them become the space of the header, which
/// moves to the beginning with the first hot zones. Only the first part of the data is moved yet;
/// [`Container::reencrypt`] does the rest.
///
/// # Errors
/// As for [`begin_encryption`].
pub fn begin_encryption_in_place(
    device: Arc<dyn BlockDevice>,
    reduced: u64,
    format: &ContainerFormat,
    passphrase: &Secret,
    random: &dyn Random,
) -> Result<(Container, BothKeys)> {
    let shift = reduced / 2;
    let format = ContainerFormat {
        data_offset: Some(shift),
        ..checked(format)?
    };
    let (mut container, key) = blank(Arc::clone(&device), &format, random)?;
    let new = container.segment()?;
    let total = check_space(&*device, reduced, &new)?;
    let old = Segment::linear(0, Some(total));
    let moved = Segment::linear(device.size() - shift, Some(shift));
    let plan = ReencryptionPlan {
        mode: ReencryptionMode::Encrypt,
        course: Course::Up,
        old: (&old, None),
        new: (&new, Some(DIGEST)),
        moved: Some(&moved),
        resilience: Resilience::Shift(shift),
        resilience_of_moved: None,
    };
    let (keys, slot) = enter(&mut container, &plan, &format, key, random)?;
    let image = Arc::new(MemoryDevice::new(container.header_len() as usize));
    container.device = Arc::clone(&image) as _;
    write(&mut container, &keys, &slot, passphrase, random)?;
    let mut bytes = vec![0; (slot.offset + slot.len) as usize];
    image.read_at(0, &mut bytes)?;
    let stage = HeaderStage::new(&*device, shift, bytes)?;
    stage.prepare(&*device)?;
    stage.install(&*device, random)?;
    container.device = device;
    Ok((container, keys))
}

/// Returns the length of the data on a device whose last bytes are free.
fn check_space(device: &dyn BlockDevice, reduced: u64, new: &Segment) -> Result<u64> {
    let (shift, sector) = (reduced / 2, u64::from(new.sector_size).max(AREA_ALIGN));
    if !reduced.is_multiple_of(2) || !shift.is_multiple_of(sector) {
        return Err(Error::Usage(format!(
            "half of the bytes by which the device is reduced have to be a multiple of {sector}"
        )));
    }
    // The part that moves is one hot zone.
    if shift > HOT_ZONE_MAX {
        return Err(Error::usage("a device is reduced by at most 2 GiB"));
    }
    let needed = reduced.saturating_add(shift);
    let total = device.size().saturating_sub(reduced);
    if device.size() < needed {
        return Err(Error::TooSmall {
            device: device.name(),
            size: device.size(),
            needed,
        });
    }
    match total % u64::from(new.sector_size) {
        0 => Ok(total),
        _ => Err(Error::Usage(format!(
            "the {total} bytes of data are no whole number of sectors of {} bytes",
            new.sector_size
        ))),
    }
}

/// A format that a container in encryption can have, with costs that are measured once.
fn checked(format: &ContainerFormat) -> Result<ContainerFormat> {
    if format.version != ContainerVersion::V2 || format.integrity.is_some() {
        return Err(Error::usage(
            "data in place is encrypted as LUKS2 and without authenticated sectors",
        ));
    }
    let mut format = format.clone();
    format.slot.kdf = format.slot.kdf.forced()?;
    Ok(format)
}

/// Enters the key slot and the encryption into a new header, in memory.
fn enter(
    container: &mut Container,
    plan: &ReencryptionPlan<'_>,
    format: &ContainerFormat,
    key: Secret,
    random: &dyn Random,
) -> Result<(BothKeys, Keyslot)> {
    let mut salt = [0; SALT_LEN];
    random.fill(&mut salt)?;
    let id = container.free_slot(format.slot_id)?;
    let mut choice = format.slot.clone();
    if choice.cipher.is_none() && crypto::fits_material(&format.cipher, key.len()) {
        choice.cipher = Some((format.cipher.clone(), key.len()));
    }
    let slot = container.plan_slot(id, key.len(), &choice, salt)?;
    let header = container.luks2_mut("encryption in place")?;
    header.change(|json| {
        json["keyslots"][id.to_string()] = slot_json(&slot);
        let digest = &mut json["digests"][DIGEST.to_string()];
        push(&mut digest["keyslots"], id);
        digest["segments"] = json!(["0"]);
    })?;
    let keys = BothKeys {
        slot: id,
        old: None,
        new: Some(key),
    };
    container.plan_reencryption(plan, &choice, &keys, random)?;
    Ok((keys, slot))
}

/// Writes the key material of a new header, and then the header.
fn write(
    container: &mut Container,
    keys: &BothKeys,
    slot: &Keyslot,
    passphrase: &Secret,
    random: &dyn Random,
) -> Result<()> {
    let key = keys.new.as_ref().ok_or_else(missing)?;
    material::write(&*container.device, slot, key, passphrase, random)?;
    container.change_header(random, |_| Ok(()))
}
