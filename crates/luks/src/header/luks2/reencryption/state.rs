//! A re-encryption as a header says it.

use block::BlockDevice;

use super::course::{Course, Part, State};
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

/// What happens to the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It gets another key or cipher.
    Reencrypt,
    /// It was not encrypted before.
    Encrypt,
    /// It is not encrypted afterwards.
    Decrypt,
}

impl Mode {
    /// As headers have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Reencrypt => "reencrypt",
            Mode::Encrypt => "encrypt",
            Mode::Decrypt => "decrypt",
        }
    }
}

/// A change of how data is encrypted that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Reencryption {
    pub(crate) mode: Mode,
    pub(crate) course: Course,
    pub(crate) old: Side,
    pub(crate) new: Side,
    /// The first part of the data, as it was encrypted, where it was moved to.
    pub(crate) moved: Option<Segment>,
    /// What makes the metadata authentic.
    pub(crate) proof: KeyDigest,
    /// What goes into that before the keys, and behind them.
    pub(crate) prefix: &'static [u8],
    pub(crate) metadata: Vec<u8>,
    pub(crate) resilience: Resilience,
    /// What is kept of the moved part, where that is not the same.
    pub(crate) resilience_of_moved: Option<Resilience>,
    /// Where the area for the hot zone is, in bytes, and how long.
    pub(crate) area: (u64, u64),
    /// Without gaps, each of them what one of the sides says of its place.
    pub(crate) pieces: Vec<Piece>,
    /// Where the data ends if that is before the end of the device, in bytes.
    pub(crate) limit: Option<u64>,
}

/// How all data was, or will be, encrypted.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) segment: Segment,
    /// Of its key; nothing if data is not encrypted.
    pub(crate) digest: Option<KeyDigest>,
}

/// A part of the data.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) state: State,
    /// Where it begins in the data, in bytes.
    pub(crate) at: u64,
    pub(crate) segment: Segment,
}

impl Reencryption {
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

    /// What is kept of a part while it is written.
    pub(crate) fn resilience_of(&self, part: &Part) -> Resilience {
        let of_moved = self.resilience_of_moved.filter(|_| part.is_moved);
        of_moved.unwrap_or(self.resilience)
    }

    /// The part of which nothing says how it is encrypted.
    pub(crate) fn hot(&self) -> Option<Part> {
        let hot = self.pieces.iter().find(|piece| piece.state == State::Hot)?;
        Some(Part {
            at: hot.at,
            len: hot.segment.len.unwrap_or_default(),
            is_moved: self.moved.is_some() && hot.at == 0,
        })
    }

    /// Whether no part is as it was.
    pub(crate) fn is_new(&self) -> bool {
        self.pieces.iter().all(|piece| piece.state == State::New)
    }

    /// How much of so many bytes of data is new, but for the hot zone.
    pub(crate) fn done(&self, total: u64) -> u64 {
        let new = self.pieces.iter().filter(|of| of.state == State::New);
        let len = |of: &Piece| {
            let left = total.saturating_sub(of.at);
            of.segment.len.map_or(left, |len| len.min(left))
        };
        new.map(len).sum()
    }

    /// Whether the header says how the end of so many bytes of data is encrypted.
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

    /// What is kept as one while it is written, in bytes.
    pub(crate) fn block(&self) -> u32 {
        let kept = [Some(self.resilience), self.resilience_of_moved];
        let blocks = kept.into_iter().flatten().map(|kept| kept.block());
        blocks.max().unwrap_or(0).max(self.unit())
    }

    /// What is encrypted as one on either side, in bytes.
    pub(crate) fn unit(&self) -> u32 {
        let (old, new) = (&self.old.segment, &self.new.segment);
        old.sector_size.max(new.sector_size)
    }

    /// How long all data is on a device, in whole sectors.
    pub(crate) fn data_len(&self, device: u64) -> u64 {
        let there = device.saturating_sub(self.old.segment.offset);
        let len = self.old.segment.len.unwrap_or(there);
        let len = len.min(self.limit.unwrap_or(len));
        len - len % u64::from(self.unit())
    }

    /// How long all data is, unless it ends with the device.
    pub(crate) fn len(&self) -> Option<u64> {
        let last = self.pieces.last()?;
        last.segment.len.map(|len| last.at + len)
    }

    /// How long the moved part is, in bytes; zero if none was moved.
    pub(crate) fn moved_len(&self) -> u64 {
        self.moved.as_ref().and_then(|of| of.len).unwrap_or(0)
    }

    /// What the digest of the re-encryption is made of, but for the keys, which come after the first part.
    pub(crate) fn proven(&self) -> (&'static [u8], &[u8]) {
        (self.prefix, &self.metadata)
    }
}

impl Segment {
    /// Its part from byte `at` on.
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
