//! Sectors that are authenticated: what `cryptsetup luksFormat --integrity` makes.
//!
//! As in the kernel, one mapping has two layers:
//!
//! - dm-crypt encrypts a sector and makes a tag of it ([`seal`]);
//! - dm-integrity keeps the tags, and writes a sector and its tag as one ([`tagged_device`]). The segment begins with a
//!   superblock, a journal, and then areas of tags and data in turn ([`superblock`], [`journal`]).
//!
//! A sector that an attacker changed, or that was never written, gives the reader an error of its own
//! ([`block::Error::Unauthentic`]). No byte of it is returned. A replay is not detected: a sector put back, with its
//! tag, as it was at an earlier time.

#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod journal;
mod seal;
mod superblock;
mod tagged_device;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use block::BlockDevice;
use cipher::{Random, SystemRandom};
use secret::Secret;

use crate::model::{Integrity, SECTOR, Segment};
use crate::{Container, Error, Result};
use seal::Seal;
pub(crate) use seal::SealSpec;
pub(crate) use tagged_device::TagMode;
use tagged_device::TaggedDevice;

/// The number of bytes that a wipe of the device writes at once.
const WIPE_PIECE: usize = 1 << 20;

/// Returns the name in headers of an option of cryptsetup: `hmac-sha256`, `hmac-sha512`, `aead`, `poly1305`.
///
/// # Errors
/// [`Error::Usage`] for what is not made here.
pub fn integrity_type(option: &str) -> Result<&'static str> {
    match option {
        "hmac-sha256" => Ok("hmac(sha256)"),
        "hmac-sha512" => Ok("hmac(sha512)"),
        "aead" => Ok("aead"),
        "poly1305" => Ok("poly1305"),
        _ => Err(Error::Usage(format!(
            "there is no integrity '{option}'; there are hmac-sha256, hmac-sha512, aead and poly1305"
        ))),
    }
}

/// Writes zeros over the data of a container with integrity, so that all of it can be read. A sector that was never
/// written is not authentic. `go_on` is told how many bytes are done, and of how many, and says whether to go on.
/// Returns whether all was written.
///
/// # Errors
/// [`Error::Usage`] if its sectors are not authenticated, or this is not its key.
pub fn wipe(
    container: &Container,
    key: &Secret,
    go_on: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<bool> {
    let segment = container.segment()?;
    let Some(integrity) = &segment.integrity else {
        return Err(Error::usage("its sectors are not authenticated"));
    };
    if !container.is_volume_key(key)? {
        return Err(Error::usage("this is not the key of the container"));
    }
    let device = Arc::clone(container.device());
    // The device has no other user yet, and torn sectors stay unauthentic: there is nothing to keep.
    let sealed = SealedSectors::open(&segment, integrity, device, key, TagMode::Direct)?;
    let len = sealed.data_len();
    let mut buffer = Vec::with_capacity(WIPE_PIECE);
    let mut done = 0;
    while done < len {
        buffer.clear();
        buffer.resize(WIPE_PIECE.min((len - done) as usize), 0);
        sealed.write(done, &mut buffer)?;
        done += buffer.len() as u64;
        if !go_on(done, len) {
            return Ok(false);
        }
    }
    sealed.flush()?;
    Ok(true)
}

/// Refuses what may not be used, or a key that does not fit.
pub(crate) fn check_allowed(spec: SealSpec, key: &Secret, device: &str) -> Result<()> {
    Seal::new(spec, key, 0, device).map(drop)
}

/// Makes an empty superblock and journal for a segment; with this nothing of it is authentic.
pub(crate) fn create(
    device: &Arc<dyn BlockDevice>,
    segment: &Segment,
    integrity: &Integrity,
) -> Result<()> {
    let spec = SealSpec::parse(&segment.cipher, integrity, &device.name())?;
    let block = segment.sector_size as usize;
    TaggedDevice::create(Arc::clone(device), segment.offset, spec.tag_len(), block)
}

/// Checks that a device has space for a segment with integrity, and some data.
pub(crate) fn check_space(
    device: &dyn BlockDevice,
    segment: &Segment,
    integrity: &Integrity,
) -> Result<()> {
    let spec = SealSpec::parse(&segment.cipher, integrity, &device.name())?;
    let block = segment.sector_size as usize;
    tagged_device::check_space(device, segment.offset, spec.tag_len(), block)
}

/// The data of a segment with integrity, decrypted.
pub(crate) struct SealedSectors {
    tagged: TaggedDevice,
    seal: Seal,
    /// The length of a sector, in bytes.
    sector: usize,
    name: String,
}

impl SealedSectors {
    /// Opens a segment, and carries out what its journal has.
    ///
    /// # Errors
    /// [`Error::Unsupported`]; [`Error::Integrity`]; [`Error::TooSmall`].
    pub(crate) fn open(
        segment: &Segment,
        integrity: &Integrity,
        device: Arc<dyn BlockDevice>,
        key: &Secret,
        mode: TagMode,
    ) -> Result<SealedSectors> {
        let name = device.name();
        let spec = SealSpec::parse(&segment.cipher, integrity, &name)?;
        let seal = Seal::new(spec, key, segment.iv_offset, &name)?;
        let sector = segment.sector_size as usize;
        let tagged = TaggedDevice::open(device, segment.offset, spec.tag_len(), sector, mode)?;
        Ok(SealedSectors {
            tagged,
            seal,
            sector,
            name,
        })
    }

    /// Returns the length of the data, in bytes.
    pub(crate) fn data_len(&self) -> u64 {
        self.tagged.data_len()
    }

    /// Reads whole sectors. On failure the buffer is zeroed.
    ///
    /// # Errors
    /// [`block::Error::Unauthentic`] for the first sector that is not.
    pub(crate) fn read(&self, offset: u64, data: &mut [u8]) -> block::Result<()> {
        let mut tags = Vec::new();
        let first = offset / self.sector as u64;
        let read = self.tagged.read(first, data, &mut tags);
        let read = read.and_then(|()| self.open_sectors(offset, data, &tags));
        read.inspect_err(|_| data.fill(0))
    }

    fn open_sectors(&self, offset: u64, data: &mut [u8], tags: &[u8]) -> block::Result<()> {
        let tags = tags.chunks_exact(self.seal.spec().tag_len());
        let offsets = (offset..).step_by(self.sector);
        for ((at, sector), tag) in offsets.zip(data.chunks_exact_mut(self.sector)).zip(tags) {
            match self.seal.open(at / SECTOR, sector, tag) {
                Ok(()) => {}
                Err(cipher::Error::Unauthentic) => {
                    return Err(block::Error::Unauthentic {
                        device: format!("the mapping of {}", self.name),
                        offset: at,
                        len: self.sector as u64,
                    });
                }
                Err(error) => return Err(self.failed("decryption", at, error)),
            }
        }
        Ok(())
    }

    /// Encrypts whole sectors where they are, and writes them.
    pub(crate) fn write(&self, offset: u64, data: &mut [u8]) -> block::Result<()> {
        let sealed = self.seal_sectors(offset, data);
        let tags = sealed.inspect_err(|_| data.fill(0))?;
        self.tagged.write(offset / self.sector as u64, data, &tags)
    }

    fn seal_sectors(&self, offset: u64, data: &mut [u8]) -> block::Result<Vec<u8>> {
        let count = data.len() / self.sector;
        let (tag_len, random_len) = (self.seal.spec().tag_len(), self.seal.random_len());
        let mut random = vec![0; count * random_len];
        let drawn = SystemRandom.fill(&mut random);
        drawn.map_err(|error| self.failed("encryption", offset, error))?;
        let mut tags = vec![0; count * tag_len];
        for (n, sector) in data.chunks_exact_mut(self.sector).enumerate() {
            let at = offset + (n * self.sector) as u64;
            let tag = &mut tags[n * tag_len..(n + 1) * tag_len];
            let random = &random[n * random_len..(n + 1) * random_len];
            let sealed = self.seal.seal(at / SECTOR, sector, tag, random);
            sealed.map_err(|error| self.failed("encryption", at, error))?;
        }
        Ok(tags)
    }

    /// Makes what was written durable.
    pub(crate) fn flush(&self) -> block::Result<()> {
        self.tagged.flush()
    }

    fn failed(&self, operation: &'static str, offset: u64, error: cipher::Error) -> block::Error {
        block::Error::Io {
            device: format!("the mapping of {}", self.name),
            operation,
            offset,
            len: self.sector as u64,
            source: std::io::Error::other(error),
        }
    }
}
