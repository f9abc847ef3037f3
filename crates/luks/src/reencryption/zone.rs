//! The hot zone: the part of the data that is being written. Nothing in the header says which of its blocks are new.
//!
//! Before the header calls it hot, its old contents are kept durably: in the header, or beside it where the data is
//! moved. With that copy, blocks that are still old are found later, encrypted anew and made durable before the
//! header says so. A power cut on the way leaves the hot zone as hot as before.

use std::collections::BTreeSet;
use std::io::IoSlice;

use block::BlockDevice;
use cipher::SectorCipher;
use secret::Secret;

use super::keys::BothKeys;
use super::traffic::Traffic;
use crate::header::luks2::{DataPart, ReencryptionState, Resilience};
use crate::model::{SECTOR, Segment};
use crate::{Result, crypto};

/// The longest piece of the hot zone that is encrypted at once, in bytes.
const CHUNK: u64 = 1 << 20;
/// A hot zone is worked on in at least so many pieces, if it has so many blocks.
const PIECES: u64 = 8;

/// The old or the new encryption of the zone, and the address of the zone under it.
struct ZoneSide {
    /// None where it is not encrypted.
    cipher: Option<SectorCipher>,
    sector: usize,
    iv_offset: u64,
    /// The address of the zone on the device, in bytes.
    begin: u64,
}

impl ZoneSide {
    fn new(segment: &Segment, key: Option<&Secret>, device: &dyn BlockDevice) -> Result<ZoneSide> {
        let cipher = match segment.is_linear() {
            true => None,
            false => {
                let spec = crypto::spec(&segment.cipher, &device.name())?;
                let key = key.ok_or_else(super::keys::missing)?;
                Some(SectorCipher::new(spec, key.expose())?)
            }
        };
        Ok(ZoneSide {
            cipher,
            sector: segment.sector_size as usize,
            iv_offset: segment.iv_offset,
            begin: segment.offset,
        })
    }

    fn iv(&self, from: u64) -> (u64, u64) {
        let first = self.iv_offset.wrapping_add(from / SECTOR);
        (first, self.sector as u64 / SECTOR)
    }

    fn decrypt(&self, from: u64, bytes: &mut [u8]) -> Result<()> {
        let (iv, step) = self.iv(from);
        match &self.cipher {
            None => Ok(()),
            Some(cipher) => Ok(cipher.decrypt(iv, step, self.sector, bytes)?),
        }
    }

    fn encrypt(&self, from: u64, bytes: &mut [u8]) -> Result<()> {
        let (iv, step) = self.iv(from);
        match &self.cipher {
            None => Ok(()),
            Some(cipher) => Ok(cipher.encrypt(iv, step, self.sector, bytes)?),
        }
    }
}

/// A zone as it is on the device, before the header calls it hot. From then on memory cannot be missing.
pub(super) struct ZoneContents {
    bytes: Vec<u8>,
    /// The buffer for decrypted bytes of a piece.
    buffer: Secret,
}

/// The hot zone of a re-encryption.
pub(super) struct HotZone<'a> {
    /// The device with the area of the re-encryption.
    kept: &'a dyn BlockDevice,
    data: &'a dyn BlockDevice,
    /// The address of the area, in bytes.
    area: u64,
    resilience: Resilience,
    old: ZoneSide,
    new: ZoneSide,
    /// The address of the zone in the data, in bytes.
    at: u64,
    len: u64,
    /// The length of a piece that is encrypted at once, in bytes.
    piece: u64,
}

impl<'a> HotZone<'a> {
    /// A part of the data.
    pub(super) fn new(
        kept: &'a dyn BlockDevice,
        state: &ReencryptionState,
        data: &'a dyn BlockDevice,
        keys: &BothKeys,
        part: &DataPart,
    ) -> Result<HotZone<'a>> {
        let old = match &state.moved {
            Some(moved) if part.is_moved => moved.clone(),
            _ => state.old.segment.part(part.at, None),
        };
        let new = state.new.segment.part(part.at, None);
        let unit = u64::from(state.block());
        Ok(HotZone {
            kept,
            data,
            area: state.area.0,
            resilience: state.resilience_of(part),
            old: ZoneSide::new(&old, keys.old.as_ref(), data)?,
            new: ZoneSide::new(&new, keys.new.as_ref(), data)?,
            at: part.at,
            len: part.len,
            piece: (part.len / PIECES).clamp(1, CHUNK).next_multiple_of(unit),
        })
    }

    /// Reads the zone from the device, and allocates all that a write of it needs.
    pub(super) fn read(&self) -> Result<ZoneContents> {
        let mut bytes = vec![0; self.len as usize];
        let buffer = Secret::zeroed(self.piece.min(self.len) as usize)?;
        self.data.read_at(self.old.begin, &mut bytes)?;
        Ok(ZoneContents { bytes, buffer })
    }

    /// Keeps durably what makes it possible to recover all of it, which is this now.
    pub(super) fn protect(&self, ZoneContents { bytes, .. }: &ZoneContents) -> Result<()> {
        let sums: Vec<u8>;
        let kept = match self.resilience {
            // The device keeps it where it was.
            Resilience::None | Resilience::Shift(_) => return Ok(()),
            Resilience::Journal => bytes,
            Resilience::Checksum { hash, block } => {
                let blocks = bytes.chunks(block as usize);
                sums = blocks
                    .flat_map(|block| hash.hash(&[block]).to_vec())
                    .collect();
                &sums
            }
        };
        self.kept.write_at(self.area, &[IoSlice::new(kept)])?;
        Ok(self.kept.flush()?)
    }

    /// Encrypts all of it, which is this now, anew, durably: next what a request waits for.
    pub(super) fn write(&self, mut old: ZoneContents, traffic: &dyn Traffic) -> Result<()> {
        // Bytes of another zone would be encrypted in place of these.
        assert_eq!(old.bytes.len() as u64, self.len, "the zone was read before");
        let mut left: BTreeSet<u64> = (0..self.len.div_ceil(self.piece)).collect();
        while let Some(first) = left.first() {
            let wanted = traffic
                .wanted()
                .map(|at| at.saturating_sub(self.at) / self.piece);
            let n = wanted.filter(|n| left.contains(n)).unwrap_or(*first);
            left.remove(&n);
            let from = n * self.piece;
            let len = self.piece.min(self.len - from);
            traffic.hold_piece(self.at + from, len);
            debug_assert!(len > 0, "each piece has bytes");
            let bytes = &mut old.buffer.expose_mut()[..len as usize];
            bytes.copy_from_slice(&old.bytes[from as usize..(from + len) as usize]);
            self.anew(from, bytes)?;
            traffic.release_piece();
        }
        Ok(self.data.flush()?)
    }

    /// Encrypts what is left of it anew, durably.
    pub(super) fn recover(&self) -> Result<()> {
        let mut done = 0;
        while done < self.len {
            let n = self.piece.min(self.len - done);
            self.recover_part(done, n as usize)?;
            done += n;
        }
        Ok(self.data.flush()?)
    }

    /// Works on `len` bytes, `from` bytes behind the beginning of the hot zone.
    fn recover_part(&self, from: u64, len: usize) -> Result<()> {
        let mut bytes = Secret::zeroed(len)?;
        match self.resilience {
            Resilience::None => Ok(()),
            Resilience::Journal => {
                self.kept.read_at(self.area + from, bytes.expose_mut())?;
                self.anew(from, bytes.expose_mut())
            }
            Resilience::Shift(_) => {
                let at = self.old.begin + from;
                self.data.read_at(at, bytes.expose_mut())?;
                self.anew(from, bytes.expose_mut())
            }
            Resilience::Checksum { hash, block } => {
                let at = self.new.begin + from;
                self.data.read_at(at, bytes.expose_mut())?;
                let (block, hash_len) = (block as usize, hash.output_len());
                let mut sums = vec![0; len / block * hash_len];
                let skipped = from / block as u64 * hash_len as u64;
                self.kept.read_at(self.area + skipped, &mut sums)?;
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
        self.old.decrypt(from, bytes)?;
        self.new.encrypt(from, bytes)?;
        let piece = [IoSlice::new(bytes)];
        Ok(self.data.write_at(self.new.begin + from, &piece)?)
    }
}
