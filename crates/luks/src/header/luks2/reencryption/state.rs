//! A re-encryption as a header says it.

use block::BlockDevice;

use super::course::{Course, DataPart, State};
use super::resilience::Resilience;
use crate::model::{KeyDigest, SECTOR, Segment};

/// The requirements that are understood: the second one for a decryption that moves data.
pub(crate) const REQUIREMENT: &str = "online-reencrypt-v2";
pub(crate) const REQUIREMENT_SHIFT: &str = "online-reencrypt-v3";

/// The flags of segments.
pub(crate) const PREVIOUS: &str = "backup-previous";
pub(crate) const FINAL: &str = "backup-final";
pub(crate) const MOVED: &str = "backup-moved-segment";
pub(crate) const HOT: &str = "in-reencryption";

/// the change of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReencryptionMode {
    /// The data gets another key or cipher.
    Reencrypt,
    /// The data was not encrypted before.
    Encrypt,
    /// The data is not encrypted afterwards.
    Decrypt,
}

impl ReencryptionMode {
    /// Returns the name of the change in headers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ReencryptionMode::Reencrypt => "reencrypt",
            ReencryptionMode::Encrypt => "encrypt",
            ReencryptionMode::Decrypt => "decrypt",
        }
    }
}

/// A change of how data is encrypted that is under way.
#[derive(Clone, Debug)]
pub(crate) struct ReencryptionState {
    pub(crate) mode: ReencryptionMode,
    pub(crate) course: Course,
    pub(crate) old: Side,
    pub(crate) new: Side,
    /// The first part of the data, as it was encrypted, where it was moved to.
    pub(crate) moved: Option<Segment>,
    /// The digest that makes the metadata authentic.
    pub(crate) proof: KeyDigest,
    /// The bytes that the digest covers before the keys; those behind them are `metadata`.
    pub(crate) prefix: &'static [u8],
    pub(crate) metadata: Vec<u8>,
    pub(crate) resilience: Resilience,
    /// The protection of the moved part, if it differs.
    pub(crate) resilience_of_moved: Option<Resilience>,
    /// The address and the length of the area for the hot zone, in bytes.
    pub(crate) area: (u64, u64),
    /// The data in pieces, without gaps. Each piece is a part of the old side, of the new side, or of the moved part.
    pub(crate) pieces: Vec<DataPiece>,
    /// The end of the data, if it is before the end of the device, in bytes.
    pub(crate) limit: Option<u64>,
}

/// The encryption of all data before the change, or after it.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) segment: Segment,
    /// The digest of its key; `None` if data is not encrypted.
    pub(crate) digest: Option<KeyDigest>,
}

/// A part of the data.
#[derive(Clone, Debug)]
pub(crate) struct DataPiece {
    pub(crate) state: State,
    /// The address of the piece in the data, in bytes.
    pub(crate) at: u64,
    pub(crate) segment: Segment,
}

impl ReencryptionState {
    /// The slots that go with it: its own, and those of the old key.
    pub(crate) fn passing_slots(&self) -> Vec<u32> {
        let mut gone = self.proof.keyslots.clone();
        if let Some(old) = self.passing_digest() {
            gone.extend(&old.keyslots);
        }
        gone
    }

    /// The digest of the old key, if that is not the new one.
    pub(crate) fn passing_digest(&self) -> Option<&KeyDigest> {
        let new = self.new.digest.as_ref().map(|new| new.id);
        self.old.digest.as_ref().filter(|old| Some(old.id) != new)
    }

    /// The digests of what is encrypted in a header for data in this state.
    pub(crate) fn digests_of(&self, state: State) -> Vec<u32> {
        let (old, new) = (&self.old.digest, &self.new.digest);
        let (is_plain, of_it) = match state {
            State::New => (self.new.segment.is_linear(), [&None, new]),
            State::Hot => (self.new.segment.is_linear(), [old, new]),
            State::Old | State::Moved => (self.old.segment.is_linear(), [old, &None]),
        };
        let ids = of_it.into_iter().flatten().map(|digest| digest.id);
        let mut ids: Vec<u32> = ids.filter(|_| !is_plain).collect();
        ids.dedup();
        ids
    }

    /// Returns the protection of a part while it is written.
    pub(crate) fn resilience_of(&self, part: &DataPart) -> Resilience {
        let of_moved = self.resilience_of_moved.filter(|_| part.is_moved);
        of_moved.unwrap_or(self.resilience)
    }

    /// The part of which nothing says how it is encrypted.
    pub(crate) fn hot(&self) -> Option<DataPart> {
        let hot = self.pieces.iter().find(|piece| piece.state == State::Hot)?;
        Some(DataPart {
            at: hot.at,
            len: hot.segment.len.unwrap_or_default(),
            is_moved: self.moved.is_some() && hot.at == 0,
        })
    }

    /// Returns whether all parts are new.
    pub(crate) fn is_new(&self) -> bool {
        self.pieces.iter().all(|piece| piece.state == State::New)
    }

    /// Returns the number of new bytes, without the hot zone, of `total` bytes of data.
    pub(crate) fn done(&self, total: u64) -> u64 {
        let new = self.pieces.iter().filter(|of| of.state == State::New);
        let len = |of: &DataPiece| {
            let left = total.saturating_sub(of.at);
            of.segment.len.map_or(left, |len| len.min(left))
        };
        new.map(len).sum()
    }

    /// Returns whether the header describes the end of `total` bytes of data.
    pub(crate) fn covers(&self, total: u64) -> bool {
        self.len().is_none_or(|len| len >= total)
    }

    /// Refuses a device that is smaller than what the header says of it: it may be the wrong one.
    pub(crate) fn check_device(&self, data: &dyn BlockDevice) -> crate::Result<()> {
        let end = |of: &Segment| of.offset.saturating_add(of.len.unwrap_or(0));
        let ends = self.pieces.iter().map(|piece| end(&piece.segment));
        let least = self.old.segment.offset.saturating_add(self.unit().into());
        let needed = ends.chain([least]).max().unwrap_or(least);
        match data.size() {
            size if size < needed => Err(crate::Error::TooSmall {
                device: data.name(),
                size,
                needed,
            }),
            _ => Ok(()),
        }
    }

    /// Returns the length of a block that is protected as one, in bytes.
    pub(crate) fn block(&self) -> u32 {
        let kept = [Some(self.resilience), self.resilience_of_moved];
        let blocks = kept.into_iter().flatten().map(|kept| kept.block());
        blocks.max().unwrap_or(0).max(self.unit())
    }

    /// Returns the longer sector of both sides, in bytes.
    pub(crate) fn unit(&self) -> u32 {
        let (old, new) = (&self.old.segment, &self.new.segment);
        old.sector_size.max(new.sector_size)
    }

    /// Returns the length of all data on a device of `device` bytes, in whole sectors.
    pub(crate) fn data_len(&self, device: u64) -> u64 {
        let there = device.saturating_sub(self.old.segment.offset);
        let len = self.old.segment.len.unwrap_or(there);
        let len = len.min(self.limit.unwrap_or(len));
        len - len % u64::from(self.unit())
    }

    /// Returns the length of all data, unless it ends with the device.
    pub(crate) fn len(&self) -> Option<u64> {
        let last = self.pieces.last()?;
        last.segment.len.map(|len| last.at + len)
    }

    /// Returns the length of the moved part, in bytes; zero if none was moved.
    pub(crate) fn moved_len(&self) -> u64 {
        self.moved.as_ref().and_then(|of| of.len).unwrap_or(0)
    }

    /// Returns the two parts that the digest of the re-encryption covers. The keys come between them.
    pub(crate) fn proven(&self) -> (&'static [u8], &[u8]) {
        (self.prefix, &self.metadata)
    }
}

impl Segment {
    /// Returns the part of the segment from byte `at` on.
    pub(crate) fn part(&self, at: u64, len: Option<u64>) -> Segment {
        let iv_offset = match self.is_linear() {
            true => 0,
            false => self.iv_offset.saturating_add(at / SECTOR),
        };
        Segment {
            offset: self.offset.saturating_add(at),
            iv_offset,
            len,
            ..self.clone()
        }
    }
}
