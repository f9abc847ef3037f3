//! Backups: copies of a header with its key material, in the form of cryptsetup. A backup has the bytes of the device
//! up to the end of the header.

use std::io::IoSlice;
use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use cipher::Random;

use super::Container;
use crate::header::Header;
use crate::header::luks1;
use crate::header::luks2::{COPY_SIZES, SECOND_MAGIC};
use crate::model::SECTOR;
use crate::{Error, Result};

/// No header is longer, with its key material, in bytes.
pub const BACKUP_LEN_MAX: u64 = 2 * (4 << 20) + (128 << 20);

impl Container {
    /// The header with all key material. With it, a passphrase of today opens the container, even
    /// after the passphrase was changed.
    ///
    /// # Errors
    /// [`crate::Error::Device`] if the device fails.
    pub fn backup(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.header_len() as usize];
        self.device.read_at(0, &mut bytes)?;
        if let Header::V1(header) = &self.header {
            // The bytes between are unused, and may be left from an earlier content.
            let end = header.encode().len();
            bytes[end..header.areas()[0].max(end as u64) as usize].fill(0);
        }
        Ok(bytes)
    }
}

/// Reads a backup. If one copy of its header is damaged, the other one replaces it in memory.
///
/// # Errors
/// As [`Header::read`].
pub fn read_backup(bytes: Vec<u8>, random: &dyn Random) -> Result<Container> {
    Container::open(Arc::new(MemoryDevice::from_bytes(bytes)), random)
}

/// Writes a backup to the device that it was made of. The key slots of now are lost.
///
/// The header takes the bytes of the backup, and nothing behind the header changes. `keep` gets the
/// bytes that are overwritten, before the first write; it makes them durable.
///
/// A power cut leaves a device whose header is the old one or the one of the backup. Its key material
/// may be of both: restore one of them again then.
///
/// # Errors
/// [`Error::Usage`] if there is a header that is one of other data, or the backup does not fit. What
/// `keep` returns; nothing is written then.
pub fn restore(
    device: &dyn BlockDevice,
    backup: &Container,
    keep: impl FnOnce(&[u8]) -> Result<()>,
) -> Result<()> {
    check_fits(device, backup)?;
    let there = Header::read(device).ok();
    let new = backup.header();
    let bytes = backup.backup()?;
    let old_len = there.as_ref().map_or(0, Header::len);
    keep(&read_what_can_be(device, old_len.max(new.len())))?;
    if there.is_none_or(|there| has_same_layout(&there, new)) {
        // Until all of the key material is there, the header stays the old one.
        write_material(device, new, &bytes)?;
        write_header(device, new, &bytes)?;
    } else {
        // The new key material may lie where the old header is, so the new header comes first.
        write_header(device, new, &bytes)?;
        write_material(device, new, &bytes)?;
    }
    forget_stray_copies(device, new)
}

/// Returns whether the copies of both headers lie in the same blocks.
fn has_same_layout(one: &Header, other: &Header) -> bool {
    match (one, other) {
        (Header::V1(_), Header::V1(_)) => true,
        (Header::V2(one), Header::V2(other)) => one.view().copy_len == other.view().copy_len,
        _ => false,
    }
}

/// Writes all that lies behind the header proper, and makes it durable.
fn write_material(device: &dyn BlockDevice, new: &Header, bytes: &[u8]) -> Result<()> {
    let first = match new {
        Header::V1(_) => 2 * SECTOR,
        Header::V2(header) => header.view().areas_offset(),
    };
    write_part(device, bytes, first, new.len())
}

/// Writes the header in parts, each durable before the next one, so that one header is whole at any time.
fn write_header(device: &dyn BlockDevice, new: &Header, bytes: &[u8]) -> Result<()> {
    match new {
        Header::V1(_) => {
            let mut parts = [(SECTOR, 2 * SECTOR), (0, SECTOR)];
            if !goes_behind_first_sector(device, bytes)? {
                parts.reverse();
            }
            let mut parts = parts.into_iter();
            parts.try_for_each(|(from, to)| write_part(device, bytes, from, to))
        }
        Header::V2(header) => {
            let copy_len = header.view().copy_len;
            write_part(device, bytes, copy_len, 2 * copy_len)?;
            // From here on a LUKS1 header that was there does not count.
            write_part(device, bytes, 0, SECTOR)?;
            write_part(device, bytes, SECTOR, copy_len)
        }
    }
}

/// Returns whether the first sector of the device and the second sector of this LUKS1 header form a header. Where the
/// areas of slots differ, they may not.
fn goes_behind_first_sector(device: &dyn BlockDevice, bytes: &[u8]) -> Result<bool> {
    let mut mixed = [0; luks1::RAW_LEN];
    let (first, second) = mixed.split_at_mut(SECTOR as usize);
    device.read_at(0, first)?;
    second.copy_from_slice(&bytes[SECTOR as usize..luks1::RAW_LEN]);
    Ok(!luks1::Header::is_one(&mixed) || luks1::Header::decode(&mixed).is_ok())
}

fn write_part(device: &dyn BlockDevice, bytes: &[u8], from: u64, to: u64) -> Result<()> {
    device.write_at(from, &[IoSlice::new(&bytes[from as usize..to as usize])])?;
    Ok(device.flush()?)
}

/// The beginning of the device. Sectors that cannot be read are zeros.
fn read_what_can_be(device: &dyn BlockDevice, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len.min(device.size()) as usize];
    if device.read_at(0, &mut bytes).is_err() {
        for (n, sector) in bytes.chunks_mut(SECTOR as usize).enumerate() {
            if device.read_at(n as u64 * SECTOR, sector).is_err() {
                sector.fill(0);
            }
        }
    }
    bytes
}

/// Overwrites the beginning of second copies that the old header left between the new one and the data.
/// One of them would count if the first copy got lost.
fn forget_stray_copies(device: &dyn BlockDevice, new: &Header) -> Result<()> {
    let end = match data_of(new).0 {
        0 => device.size(),
        data => data.min(device.size()),
    };
    let between = COPY_SIZES
        .into_iter()
        .filter(|offset| (new.len()..end).contains(offset));
    for offset in between {
        let mut magic = [0; SECOND_MAGIC.len()];
        let is_copy = device.read_at(offset, &mut magic).is_ok() && magic == SECOND_MAGIC;
        if is_copy {
            device.overwrite(offset, SECTOR)?;
            device.flush()?;
        }
    }
    Ok(())
}

fn check_fits(device: &dyn BlockDevice, backup: &Container) -> Result<()> {
    let needed = backup.header_len();
    if device.size() < needed {
        return Err(Error::TooSmall {
            device: device.name(),
            size: device.size(),
            needed,
        });
    }
    let Ok(there) = Header::read(device) else {
        return Ok(());
    };
    if changes_with_data(&there, backup.header()) {
        return Err(Error::Usage(format!(
            "{} is being re-encrypted, or the backup was made while it was: data and header fit together only as they \
             are now; to continue a re-encryption use 'luks reencrypt --resume-only'",
            device.name()
        )));
    }
    let (there, kept) = (data_of(&there), data_of(backup.header()));
    let has_other_key = matches!((there.1, kept.1), (Some(there), Some(kept)) if there != kept);
    match there.0 == kept.0 && !has_other_key {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "the header on {} is one of other data than the backup: another offset or key length; \
             if it is to go, 'luks erase' it and overwrite it first",
            device.name()
        ))),
    }
}

/// Returns whether one header describes data in re-encryption, and the other one another moment of it.
fn changes_with_data(one: &Header, other: &Header) -> bool {
    let of = |header: &Header| match header {
        Header::V1(_) => (false, None),
        Header::V2(header) => {
            let segments = header.json().get("segments").cloned();
            (header.is_in_reencryption(), segments)
        }
    };
    let (one, other) = (of(one), of(other));
    (one.0 || other.0) && one != other
}

/// Returns the address of the data, and the length of its key if a key slot has it.
fn data_of(header: &Header) -> (u64, Option<usize>) {
    match header {
        Header::V1(header) => (header.segment().offset, Some(header.key_len())),
        Header::V2(header) => {
            let view = header.view();
            let slot = view.slots.values().find_map(|slot| slot.known.as_ref());
            let key_len = slot.map(|slot| slot.key_len);
            (view.data_offset().unwrap_or(0), key_len)
        }
    }
}
