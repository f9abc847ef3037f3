//! The header of a device that is full of data. It is put at the beginning so that a power cut loses neither.
//!
//! The first part of the data is moved behind the end, and the new header is written into free space (the *stage*).
//! Then a *marker* in the first sector says that the header is to be put at the beginning. Until the marker is
//! durable, the data is as it was. From then on this can be done again as often as needed. The first sector of the
//! header replaces the marker last. FORMAT.md has the bytes.

use std::io::IoSlice;
use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use cipher::{Digest, Random};
use secret::Secret;

use crate::container::Container;
use crate::container::backup::BACKUP_LEN_MAX;
use crate::header::{Header, STAGE_MAGIC as MAGIC};
use crate::keyslots::material;
use crate::model::SECTOR;
use crate::{Error, Result};

/// The length of data that is moved at once, in bytes.
const CHUNK: u64 = 1 << 20;

/// The fields of a marker: each 8 bytes, then two hashes.
const FIELDS: usize = MAGIC.len() + 3 * 8;
const HASH: usize = 32;

/// A header that is to be put at the beginning of a device.
pub struct HeaderStage {
    /// The header with its key material, up to the last byte that is in use.
    image: Vec<u8>,
    /// The length of the space for the header at the beginning, in bytes.
    shift: u64,
    /// The size of the device, in bytes.
    size: u64,
}

impl HeaderStage {
    pub(super) fn new(device: &dyn BlockDevice, shift: u64, image: Vec<u8>) -> Result<HeaderStage> {
        let stage = HeaderStage {
            image,
            shift,
            size: device.size(),
        };
        match stage.fits() {
            true => Ok(stage),
            false => Err(Error::NoSpace {
                what: format!("a header does not fit into {shift} bytes"),
            }),
        }
    }

    fn fits(&self) -> bool {
        let len = self.image.len() as u64;
        let is_whole = len.is_multiple_of(SECTOR) && len >= 2 * SECTOR;
        let fits = len <= self.shift && len <= BACKUP_LEN_MAX;
        is_whole && fits && self.shift <= self.size / 3
    }

    /// Returns the address of the stage: in the free space before the moved part.
    fn at(&self) -> u64 {
        self.size - 2 * self.shift
    }

    /// The stage that a device has, if there is one.
    ///
    /// # Errors
    /// [`Error::Damaged`] if there is a marker and not what it says; [`Error::TooSmall`]; the failure of the device.
    pub fn find(device: &dyn BlockDevice) -> Result<Option<HeaderStage>> {
        let mut marker = [0; SECTOR as usize];
        if device.size() < SECTOR {
            return Ok(None);
        }
        device.read_at(0, &mut marker)?;
        if !marker.starts_with(MAGIC) {
            return Ok(None);
        }
        let damaged = || Error::damaged(device, "the marker of its encryption is damaged");
        let (size, shift, len, hash) = decode(&marker).ok_or_else(damaged)?;
        if device.size() < size {
            return Err(Error::TooSmall {
                device: device.name(),
                size: device.size(),
                needed: size,
            });
        }
        if len > BACKUP_LEN_MAX {
            return Err(damaged());
        }
        let mut stage = HeaderStage {
            image: vec![0; len as usize],
            shift,
            size,
        };
        if !stage.fits() {
            return Err(damaged());
        }
        let at = stage.at();
        device.read_at(at, &mut stage.image)?;
        match Digest::Sha256.hash(&[&stage.image])[..] == hash {
            true => Ok(Some(stage)),
            false => Err(damaged()),
        }
    }

    /// Moves the first part of the data and keeps the header. The beginning of the device is as it was until the
    /// last write.
    pub(super) fn prepare(&self, device: &dyn BlockDevice) -> Result<()> {
        copy(device, 0, self.size - self.shift, self.shift)?;
        device.write_at(self.at(), &[IoSlice::new(&self.image)])?;
        device.flush()?;
        let marker = encode(self);
        device.write_at(0, &[IoSlice::new(&marker)])?;
        Ok(device.flush()?)
    }

    /// Puts the header at the beginning of the device, if the passphrase opens it. The stage may have been made by a
    /// user who can write to the device.
    ///
    /// # Errors
    /// [`Error::WrongPassphrase`], [`Error::Damaged`]; the failure of the device. This can be done again then.
    pub fn complete(
        &self,
        device: &dyn BlockDevice,
        passphrase: &Secret,
        random: &dyn Random,
    ) -> Result<()> {
        self.container(random)?.unlock_both(passphrase)?;
        self.install(device, random)
    }

    /// The header, in memory.
    fn container(&self, random: &dyn Random) -> Result<Container> {
        let mut image = self.image.clone();
        // Its copies are all that is read, and they are in there; its areas may end behind that.
        image.resize(self.shift.min(BACKUP_LEN_MAX) as usize, 0);
        Container::open(Arc::new(MemoryDevice::from_bytes(image)), random)
    }

    pub(super) fn install(&self, device: &dyn BlockDevice, random: &dyn Random) -> Result<()> {
        let container = self.container(random)?;
        let Header::V2(header) = container.header() else {
            return Err(Error::damaged(device, "its new header is not LUKS2"));
        };
        let areas = (header.view().areas_offset() as usize).min(self.image.len());
        let used = self.image.len() as u64;
        write(device, &self.image, areas, self.image.len())?;
        // What is left there of the data was moved.
        material::wipe(device, used, self.shift - used, random)?;
        // From here on the second copy of the header counts for others.
        write(device, &self.image, SECTOR as usize, areas)?;
        write(device, &self.image, 0, SECTOR as usize)?;
        material::wipe(device, self.at(), used, random)
    }
}

/// Writes a part of an image where it belongs, and makes it durable.
fn write(device: &dyn BlockDevice, image: &[u8], from: usize, to: usize) -> Result<()> {
    device.write_at(from as u64, &[IoSlice::new(&image[from..to])])?;
    Ok(device.flush()?)
}

/// Copies a part of a device to another address, which does not overlap with it, and makes that durable.
pub(super) fn copy(device: &dyn BlockDevice, from: u64, to: u64, len: u64) -> Result<()> {
    let mut bytes = vec![0; CHUNK.min(len) as usize];
    let mut done = 0;
    while done < len {
        let piece = &mut bytes[..CHUNK.min(len - done) as usize];
        device.read_at(from + done, piece)?;
        device.write_at(to + done, &[IoSlice::new(piece)])?;
        done += piece.len() as u64;
    }
    Ok(device.flush()?)
}

fn encode(stage: &HeaderStage) -> [u8; SECTOR as usize] {
    let mut sector = [0; SECTOR as usize];
    sector[..MAGIC.len()].copy_from_slice(MAGIC);
    let numbers = [stage.size, stage.shift, stage.image.len() as u64];
    let fields = sector[MAGIC.len()..FIELDS].chunks_exact_mut(8);
    for (field, number) in fields.zip(numbers) {
        field.copy_from_slice(&number.to_le_bytes());
    }
    let hash = Digest::Sha256.hash(&[&stage.image]);
    sector[FIELDS..FIELDS + HASH].copy_from_slice(&hash[..]);
    let own = Digest::Sha256.hash(&[&sector[..FIELDS + HASH]]);
    sector[FIELDS + HASH..FIELDS + 2 * HASH].copy_from_slice(&own[..]);
    sector
}

/// The size of the device, the space for the header, the length of the header, and its hash.
fn decode(sector: &[u8; SECTOR as usize]) -> Option<(u64, u64, u64, [u8; HASH])> {
    let (fields, rest) = sector.split_at(FIELDS);
    let own = Digest::Sha256.hash(&[&sector[..FIELDS + HASH]]);
    if own[..] != rest[HASH..2 * HASH] {
        return None;
    }
    let number = |n: usize| {
        let bytes = fields.get(MAGIC.len() + n * 8..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    };
    let hash = rest.first_chunk::<HASH>()?;
    Some((number(0)?, number(1)?, number(2)?, *hash))
}
