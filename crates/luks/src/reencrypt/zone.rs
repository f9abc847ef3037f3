//! A hot zone: the part of the data that is being written, of which nothing in the header says what is new.
//!
//! Before the header calls it hot, something durable is kept of how it was. With that, what is still as it was is
//! found later, encrypted anew and made durable before the header says so: a power cut on the way leaves the hot
//! zone as hot as before.

use std::io::IoSlice;

use block::BlockDevice;
use cipher::SectorCipher;
use secret::Secret;

use crate::luks2::{Reencryption, Resilience, Side};
use crate::model::SECTOR;
use crate::{Result, crypto};

/// How much of the hot zone is worked on at once, in bytes.
const CHUNK: usize = 1 << 20;

/// One of the two encryptions.
struct Half {
    cipher: SectorCipher,
    sector: usize,
    iv_offset: u64,
}

impl Half {
    fn new(side: &Side, key: &Secret, device: &dyn BlockDevice) -> Result<Half> {
        let spec = crypto::spec(&side.segment.cipher, &device.name())?;
        Ok(Half {
            cipher: SectorCipher::new(spec, key.expose())?,
            sector: side.segment.sector_size as usize,
            iv_offset: side.segment.iv_offset,
        })
    }

    fn iv(&self, at: u64) -> (u64, u64) {
        let first = self.iv_offset.wrapping_add(at / SECTOR);
        (first, self.sector as u64 / SECTOR)
    }
}

/// The hot zone of a re-encryption.
pub(super) struct Zone<'a> {
    /// Where the area of the re-encryption is.
    kept: &'a dyn BlockDevice,
    data: &'a dyn BlockDevice,
    state: &'a Reencryption,
    old: Half,
    new: Half,
    /// Where it begins in the data, in bytes.
    at: u64,
    len: u64,
}

impl<'a> Zone<'a> {
    /// `len` bytes from byte `at` of the data on, with the old key and the new one.
    pub(super) fn new(
        kept: &'a dyn BlockDevice,
        state: &'a Reencryption,
        data: &'a dyn BlockDevice,
        (old, new): (&Secret, &Secret),
        (at, len): (u64, u64),
    ) -> Result<Zone<'a>> {
        Ok(Zone {
            kept,
            data,
            state,
            old: Half::new(&state.old, old, data)?,
            new: Half::new(&state.new, new, data)?,
            at,
            len,
        })
    }

    /// Where it begins on the device.
    fn begin(&self) -> u64 {
        self.state.old.segment.offset + self.at
    }

    /// All of it, as it is on the device.
    pub(super) fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.len as usize];
        self.data.read_at(self.begin(), &mut bytes)?;
        Ok(bytes)
    }

    /// Keeps durably what makes it possible to recover all of it, which is these bytes now.
    pub(super) fn protect(&self, bytes: &[u8]) -> Result<()> {
        let sums: Vec<u8>;
        let kept = match self.state.resilience {
            Resilience::None => return Ok(()),
            Resilience::Journal => bytes,
            Resilience::Checksum { hash, block } => {
                let blocks = bytes.chunks(block as usize);
                sums = blocks
                    .flat_map(|block| hash.hash(&[block]).to_vec())
                    .collect();
                &sums
            }
        };
        self.kept
            .write_at(self.state.area.0, &[IoSlice::new(kept)])?;
        Ok(self.kept.flush()?)
    }

    /// Encrypts all of it, which is these bytes now, anew, durably.
    pub(super) fn write(&self, old: &[u8]) -> Result<()> {
        let mut bytes = Secret::zeroed(CHUNK.min(old.len()))?;
        let mut from = 0;
        for chunk in old.chunks(CHUNK) {
            let bytes = &mut bytes.expose_mut()[..chunk.len()];
            bytes.copy_from_slice(chunk);
            self.anew(from, bytes)?;
            from += chunk.len() as u64;
        }
        Ok(self.data.flush()?)
    }

    /// Encrypts what is left of it anew, durably.
    pub(super) fn recover(&self) -> Result<()> {
        let mut done = 0;
        while done < self.len {
            let n = (CHUNK as u64).min(self.len - done);
            self.recover_part(done, n as usize)?;
            done += n;
        }
        Ok(self.data.flush()?)
    }

    /// Works on `len` bytes, `from` bytes behind the beginning of the hot zone.
    fn recover_part(&self, from: u64, len: usize) -> Result<()> {
        let (area, at) = (self.state.area.0, self.begin() + from);
        let mut bytes = Secret::zeroed(len)?;
        match self.state.resilience {
            Resilience::None => Ok(()),
            Resilience::Journal => {
                self.kept.read_at(area + from, bytes.expose_mut())?;
                self.anew(from, bytes.expose_mut())
            }
            Resilience::Checksum { hash, block } => {
                self.data.read_at(at, bytes.expose_mut())?;
                let (block, hash_len) = (block as usize, hash.output_len());
                let mut sums = vec![0; len / block * hash_len];
                let skipped = from / block as u64 * hash_len as u64;
                self.kept.read_at(area + skipped, &mut sums)?;
                let sums = sums.chunks_exact(hash_len);
                let blocks = bytes.expose_mut().chunks_exact_mut(block);
                for (n, (bytes, sum)) in blocks.zip(sums).enumerate() {
                    if &hash.hash(&[bytes])[..] == sum {
                        self.anew(from + (n * block) as u64, bytes)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Encrypts bytes anew, and writes them where they belong.
    fn anew(&self, from: u64, bytes: &mut [u8]) -> Result<()> {
        let at = self.at + from;
        let (iv, step) = self.old.iv(at);
        self.old.cipher.decrypt(iv, step, self.old.sector, bytes)?;
        let (iv, step) = self.new.iv(at);
        self.new.cipher.encrypt(iv, step, self.new.sector, bytes)?;
        let piece = [IoSlice::new(bytes)];
        Ok(self.data.write_at(self.begin() + from, &piece)?)
    }
}
