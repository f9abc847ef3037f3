//! What a header says of a re-encryption that is under way.
//!
//! The area has `backup-previous` and `backup-final` segments (how all data was and will be encrypted), and
//! regular segments that say how far it is: what is done, at most one piece marked `in-reencryption` (the
//! hot zone), and what is not done. A digest over both keys, both backups and the slot of the re-encryption
//! makes them authentic; it does not cover the regular segments, so those have to follow from the backups.

use block::BlockDevice;
use cipher::Digest as Hash;
use serde_json::{Map, Value};

use super::object::{Object, Result};
use super::view::{AnySegment, View};
use crate::model::{Digest, SECTOR, Segment};

/// The one requirement that is understood.
pub(super) const REQUIREMENT: &str = "online-reencrypt-v2";

/// The flags of segments.
pub(super) const PREVIOUS: &str = "backup-previous";
pub(super) const FINAL: &str = "backup-final";
pub(super) const HOT: &str = "in-reencryption";

/// Version 2, as the digest has it.
const DIGEST_PREFIX: &[u8] = b"v2";

/// The longest hot zone, in bytes, as with cryptsetup.
const HOT_ZONE_MAX: u64 = 1 << 30;

/// A change of the volume key or cipher that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Reencryption {
    pub(crate) old: Side,
    pub(crate) new: Side,
    /// What makes the metadata authentic.
    pub(crate) proof: Digest,
    /// What goes into that besides the keys.
    pub(crate) metadata: Vec<u8>,
    pub(crate) resilience: Resilience,
    /// Where the area for the hot zone is, in bytes, and how long.
    pub(crate) area: (u64, u64),
    /// Without gaps, and each to be found under one of the two keys.
    pub(crate) pieces: Vec<Piece>,
}

/// How all data was, or will be, encrypted.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) segment: Segment,
    pub(crate) digest: Digest,
}

/// A part of the data.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) state: State,
    /// Where it begins in the data, in bytes.
    pub(crate) at: u64,
    pub(crate) segment: Segment,
}

/// In the order in which they follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    New,
    /// A part of it is new, and nothing says which.
    Hot,
    Old,
}

/// What is kept of the hot zone while it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resilience {
    None,
    /// A hash of each block as it was.
    Checksum {
        hash: Hash,
        block: u32,
    },
    /// The hot zone as it was.
    Journal,
}

/// Why a re-encryption cannot be taken up.
#[derive(Debug)]
pub(crate) enum Refusal {
    Unsupported(String),
    Damaged(String),
}

impl From<String> for Refusal {
    fn from(what: String) -> Refusal {
        Refusal::Damaged(what)
    }
}

fn unsupported<T>(what: impl Into<String>) -> std::result::Result<T, Refusal> {
    Err(Refusal::Unsupported(what.into()))
}

/// Whether a re-encryption is under way that may be understood, and nothing else is required.
pub(super) fn is_under_way(view: &View) -> bool {
    view.requirements == [REQUIREMENT]
}

/// The re-encryption that is under way.
pub(super) fn read(
    view: &View,
    json: &Map<String, Value>,
) -> std::result::Result<Reencryption, Refusal> {
    if !is_under_way(view) {
        return unsupported("no re-encryption of a known kind is under way");
    }
    let mut slots = view.slots.iter().filter(|(_, of)| of.kind == "reencrypt");
    let (Some((id, slot)), None) = (slots.next(), slots.next()) else {
        return Err("there is not one slot of the re-encryption"
            .to_owned()
            .into());
    };
    let all = Object::new("the JSON area", json);
    let object = all.object("keyslots")?.object(&id.to_string())?;
    let (resilience, mut metadata) = read_slot(&object)?;
    let old = side(view, PREVIOUS, &mut metadata)?;
    let new = side(view, FINAL, &mut metadata)?;
    if view.segments.values().filter(|of| of.is_backup).count() != 2 {
        return unsupported("its re-encryption moves data");
    }
    let proof = view.digests.values().find(|of| of.keyslots.contains(id));
    let Some(proof) = proof.and_then(|digest| digest.known.clone()) else {
        return Err("the re-encryption has no digest".to_owned().into());
    };
    let pieces = pieces(view, &old, &new)?;
    let made = Reencryption {
        old,
        new,
        proof,
        metadata,
        resilience,
        area: (slot.offset, slot.len),
        pieces,
    };
    made.check_hot_zone()?;
    Ok(made)
}

impl Resilience {
    /// As headers have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Resilience::None => "none",
            Resilience::Checksum { .. } => "checksum",
            Resilience::Journal => "journal",
        }
    }

    /// How much of the data an area of this length keeps, in bytes, if sectors have `unit` bytes.
    pub(crate) fn capacity(self, area: u64, unit: u32) -> u64 {
        let unit = u64::from(unit);
        match self {
            Resilience::None => HOT_ZONE_MAX,
            Resilience::Journal => area - area % unit,
            Resilience::Checksum { hash, block } => {
                let blocks = area / hash.output_len() as u64;
                blocks.saturating_mul(block.into()).min(HOT_ZONE_MAX)
            }
        }
    }
}

impl Reencryption {
    /// The slots that go with it: its own, and those of the old key.
    pub(crate) fn passing_slots(&self) -> Vec<u32> {
        let mut gone = self.proof.keyslots.clone();
        if self.old.digest.id != self.new.digest.id {
            gone.extend(&self.old.digest.keyslots);
        }
        gone
    }

    /// The piece of which nothing says how it is encrypted.
    pub(crate) fn hot(&self) -> Option<&Piece> {
        self.pieces.iter().find(|piece| piece.state == State::Hot)
    }

    /// Whether no part is as it was.
    pub(crate) fn is_new(&self) -> bool {
        self.pieces.iter().all(|piece| piece.state == State::New)
    }

    /// How the last piece is.
    pub(crate) fn last_state(&self) -> State {
        self.pieces.last().map_or(State::Old, |piece| piece.state)
    }

    /// Where begins what is as it was, once the hot zone is put right.
    pub(crate) fn done(&self) -> u64 {
        let others = self.pieces.iter().filter(|piece| piece.state != State::Old);
        let mut ends = others.map(|piece| piece.segment.len.map_or(u64::MAX, |len| piece.at + len));
        ends.next_back().unwrap_or(0)
    }

    /// Whether nothing is left to do on a device of this size when the hot zone is put right.
    pub(crate) fn is_over(&self, device: u64) -> bool {
        self.last_state() != State::Old && self.done() >= self.data_len(device)
    }

    /// Refuses a device that is smaller than what the header says of it: it may be the wrong one.
    pub(crate) fn check_device(&self, data: &dyn BlockDevice) -> crate::Result<()> {
        let last = self.pieces.last();
        let end = last.map_or(0, |last| {
            last.segment.offset + last.segment.len.unwrap_or(0)
        });
        let needed = end.max(self.old.segment.offset.saturating_add(self.unit().into()));
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
        match self.resilience {
            Resilience::Checksum { block, .. } => block,
            Resilience::Journal | Resilience::None => self.unit(),
        }
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
        len - len % u64::from(self.unit())
    }

    /// How long all data is, unless it ends with the device.
    pub(crate) fn len(&self) -> Option<u64> {
        let last = self.pieces.last()?;
        last.segment.len.map(|len| last.at + len)
    }

    /// What the digest of the re-encryption is made of, but for the keys, which come after the first part.
    pub(crate) fn proven(&self) -> (&'static [u8], &[u8]) {
        (DIGEST_PREFIX, &self.metadata)
    }

    fn check_hot_zone(&self) -> std::result::Result<(), Refusal> {
        let Some(hot) = self.hot() else {
            return Ok(());
        };
        let len = hot.segment.len.filter(|len| *len <= HOT_ZONE_MAX);
        let Some(len) = len else {
            return Err("the hot zone is too long".to_owned().into());
        };
        let (unit, needed) = match self.resilience {
            Resilience::None => {
                return unsupported(
                    "its re-encryption was interrupted while data was written, and nothing was kept of that",
                );
            }
            Resilience::Journal => (self.unit(), len),
            Resilience::Checksum { hash, block } => {
                (block, len / u64::from(block) * hash.output_len() as u64)
            }
        };
        let is_whole = len % u64::from(unit) == 0 && unit % self.unit() == 0;
        match is_whole && needed <= self.area.1 {
            true => Ok(()),
            false => Err("the hot zone does not fit its area".to_owned().into()),
        }
    }
}

/// What is kept of the hot zone, and the slot as the digest takes it.
fn read_slot(slot: &Object<'_>) -> std::result::Result<(Resilience, Vec<u8>), Refusal> {
    let area = slot.object("area")?;
    let (mode, direction) = (slot.text("mode")?, slot.text("direction")?);
    if (mode, direction) != ("reencrypt", "forward") {
        return unsupported(format!(
            "it is in re-encryption of the mode '{mode}', {direction}"
        ));
    }
    let kind = area.text("type")?;
    let mut metadata: Vec<u8> = [mode, direction, kind].concat().into();
    metadata.extend(area.u64("offset")?.to_be_bytes());
    metadata.extend(area.u64("size")?.to_be_bytes());
    let resilience = match kind {
        "none" => Resilience::None,
        "journal" => Resilience::Journal,
        "checksum" => {
            let (name, block) = (area.text("hash")?, area.u32("sector_size")?);
            let Some(hash) = Hash::from_name(name) else {
                return unsupported(format!("its re-encryption has checksums by '{name}'"));
            };
            if !block.is_power_of_two() || !(512..=1 << 16).contains(&block) {
                return Err(format!("checksums of {block} bytes").into());
            }
            metadata.extend(name.bytes());
            metadata.extend(block.to_be_bytes());
            Resilience::Checksum { hash, block }
        }
        other => return unsupported(format!("its re-encryption has the resilience '{other}'")),
    };
    Ok((resilience, metadata))
}

/// The side that a flag marks; what the digest takes of it is added.
fn side(view: &View, flag: &str, metadata: &mut Vec<u8>) -> std::result::Result<Side, Refusal> {
    let marked = |of: &AnySegment| of.flags.len() == 1 && of.flags[0] == flag;
    let mut found = view.segments.iter().filter(|(_, of)| marked(of));
    let (Some((id, any)), None) = (found.next(), found.next()) else {
        return Err(format!("there is not one segment marked '{flag}'").into());
    };
    let Some(segment) = any.crypt.clone().filter(|of| of.integrity.is_none()) else {
        return unsupported(format!(
            "its segment marked '{flag}' is not of the plain type 'crypt'"
        ));
    };
    metadata.extend(any.kind.bytes());
    metadata.extend(segment.offset.to_be_bytes());
    match segment.len {
        None => metadata.extend(b"dynamic"),
        Some(len) => metadata.extend(len.to_be_bytes()),
    }
    metadata.extend(segment.iv_offset.to_be_bytes());
    metadata.extend(segment.cipher.bytes());
    metadata.extend(segment.sector_size.to_be_bytes());
    let digest = digest_of(view, *id).ok_or(format!("segment {id} has not one known digest"))?;
    Ok(Side { segment, digest })
}

/// The only digest of a segment.
fn digest_of(view: &View, id: u32) -> Option<Digest> {
    let mut digests = view.digests.values().filter(|of| of.segments.contains(&id));
    match (digests.next(), digests.next()) {
        (Some(digest), None) => digest.known.clone(),
        _ => None,
    }
}

/// The regular segments, each of which has to be what one of the sides says of its place.
fn pieces(view: &View, old: &Side, new: &Side) -> std::result::Result<Vec<Piece>, Refusal> {
    if (old.segment.offset, old.segment.len) != (new.segment.offset, new.segment.len) {
        return unsupported("its re-encryption moves data");
    }
    let unit = u64::from(old.segment.sector_size.max(new.segment.sector_size));
    let mut pieces: Vec<Piece> = Vec::new();
    let mut at = Some(0);
    for (id, any) in view.segments.iter().filter(|(_, of)| !of.is_backup) {
        let piece = piece(view, *id, any, at, old, new)
            .map_err(|_| format!("segment {id} is not what the re-encryption makes of it"))?;
        if pieces.last().is_some_and(|last| last.state > piece.state) {
            return Err(format!("segment {id} is in the wrong place").into());
        }
        if piece.at % unit != 0 {
            return Err(format!("segment {id} begins inside of a sector").into());
        }
        at = piece.segment.len.map(|len| piece.at + len);
        pieces.push(piece);
    }
    let hot = pieces.iter().filter(|piece| piece.state == State::Hot);
    if hot.count() > 1 || old.segment.len.is_some() && at != old.segment.len {
        return Err("the segments are not those of one re-encryption"
            .to_owned()
            .into());
    }
    Ok(pieces)
}

fn piece(
    view: &View,
    id: u32,
    any: &AnySegment,
    at: Option<u64>,
    old: &Side,
    new: &Side,
) -> Result<Piece> {
    let at = at.ok_or("it comes after the end")?;
    let segment = any.crypt.clone().ok_or("it is not encrypted")?;
    let digests = view.digests.iter();
    let of_it = digests.filter(|(_, of)| of.segments.contains(&id));
    let of_it: Vec<u32> = of_it.map(|(id, _)| *id).collect();
    let is_hot = match &any.flags[..] {
        [] => false,
        [flag] if flag == HOT => true,
        _ => return Err("its flags are not known".into()),
    };
    let expected = |side: &Side| {
        let moved = Segment {
            offset: side.segment.offset.saturating_add(at),
            iv_offset: side.segment.iv_offset.saturating_add(at / SECTOR),
            len: segment.len,
            ..side.segment.clone()
        };
        moved == segment && of_it.contains(&side.digest.id)
    };
    // What is hot belongs to both keys, as cryptsetup has it, and any other segment to one.
    let keys = if is_hot && old.digest.id != new.digest.id {
        2
    } else {
        1
    };
    if of_it.len() != keys || is_hot && !of_it.contains(&old.digest.id) {
        return Err("it does not belong to its keys".into());
    }
    let state = match (is_hot, expected(new), expected(old)) {
        (true, true, _) => State::Hot,
        // With one key and one cipher, both sides look the same, and are.
        (false, true, _) => State::New,
        (false, false, true) => State::Old,
        _ => return Err("it is of neither side".into()),
    };
    Ok(Piece { state, at, segment })
}
