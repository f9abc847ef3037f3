//! Copies of a header with its key material, kept elsewhere: the bytes of the device up to where the
//! header ends, as cryptsetup writes them.

use std::io::IoSlice;
use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use cipher::Random;

use crate::container::{Container, Header};
use crate::luks2::{COPY_SIZES, Copy};
use crate::model::SECTOR;
use crate::{Error, Result};

/// No header is longer, with its key material, in bytes.
pub const BACKUP_LEN_MAX: u64 = 2 * (4 << 20) + (128 << 20);

impl Container {
    /// The header with all key material: whoever has it and a passphrase of today has the key, also
    /// after the passphrase was changed.
    pub fn backup(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.header_len() as usize];
        self.device.read_at(0, &mut bytes)?;
        if let Header::V1(header) = &self.header {
            // What lies between is nobody's, and may be left from something else.
            let end = header.encode().len();
            bytes[end..header.areas()[0].max(end as u64) as usize].fill(0);
        }
        Ok(bytes)
    }
}

/// Reads a backup.
///
/// # Errors
/// As [`Header::read`].
pub fn read_backup(bytes: Vec<u8>) -> Result<Container> {
    Container::look(Arc::new(MemoryDevice::from_bytes(bytes)))
}

/// Writes a backup to the device that it was made of. The key slots of now are lost.
///
/// A power cut in the middle leaves a device without a header; do it again then.
///
/// # Errors
/// [`Error::Usage`] if there is a header that is one of other data, or the backup does not fit.
pub fn restore(device: &dyn BlockDevice, backup: &Container, random: &dyn Random) -> Result<()> {
    check_fits(device, backup)?;
    // No header is valid while the key material is neither the old nor the new.
    give_up(device)?;
    let bytes = backup.backup()?;
    match backup.header() {
        Header::V1(header) => {
            let first = header.areas()[0] as usize;
            device.write_at(first as u64, &[IoSlice::new(&bytes[first..])])?;
            device.flush()?;
            header.write_growing(device)
        }
        Header::V2(header) => {
            let first = header.view().areas_offset() as usize;
            device.write_at(first as u64, &[IoSlice::new(&bytes[first..])])?;
            device.flush()?;
            header.write_copy(device, Copy::Second, random)?;
            header.write_copy(device, Copy::First, random)
        }
    }
}

/// Overwrites the beginning of every header that may be there, one after the other: with the first one,
/// what it refers to is of no use any more.
pub(crate) fn give_up(device: &dyn BlockDevice) -> Result<()> {
    for offset in std::iter::once(0).chain(COPY_SIZES) {
        let len = SECTOR.min(device.size().saturating_sub(offset));
        device.overwrite(offset, len)?;
        device.flush()?;
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
    let (there, kept) = (data_of(&there), data_of(backup.header()));
    match there == kept || there.is_none() {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "the header on {} is one of other data than the backup: another place or key length; \
             if it is to go, 'luks erase' it and overwrite it first",
            device.name()
        ))),
    }
}

/// Where data begins, and how long its key is.
fn data_of(header: &Header) -> Option<(u64, usize)> {
    match header {
        Header::V1(header) => Some((header.segment().offset, header.key_len())),
        Header::V2(header) => {
            let view = header.view();
            let slot = view.slots.values().find_map(|slot| slot.known.as_ref())?;
            Some((view.data_offset().unwrap_or(0), slot.key_len))
        }
    }
}
