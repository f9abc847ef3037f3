//! Reads what a header says of a re-encryption, and checks that it fits together.

use serde_json::{Map, Value};

use super::course::{Course, State};
use super::refusal::{ReencryptionRefusal, unsupported};
use super::resilience::{self, Resilience};
use super::state::{
    DataPiece, FINAL, HOT, MOVED, PREVIOUS, REQUIREMENT, REQUIREMENT_SHIFT, ReencryptionMode,
    ReencryptionState, Side,
};
use crate::header::luks2::object::Object;
use crate::header::luks2::view::{HeaderView, SegmentView};
use crate::model::{KeyDigest, Segment};

type Result<T> = std::result::Result<T, ReencryptionRefusal>;

fn damaged<T>(what: impl Into<String>) -> Result<T> {
    Err(ReencryptionRefusal::Damaged(what.into()))
}

/// Returns whether a re-encryption of a known kind is under way, and nothing else is required.
pub(crate) fn is_under_way(view: &HeaderView) -> bool {
    view.requirements == [REQUIREMENT] || view.requirements == [REQUIREMENT_SHIFT]
}

/// The re-encryption that is under way.
pub(crate) fn read(view: &HeaderView, json: &Map<String, Value>) -> Result<ReencryptionState> {
    if !is_under_way(view) {
        return unsupported("no re-encryption of a known kind is under way");
    }
    let mut slots = view.slots.iter().filter(|(_, of)| of.kind == "reencrypt");
    let (Some((id, slot)), None) = (slots.next(), slots.next()) else {
        return damaged("there is not one slot of the re-encryption");
    };
    let all = Object::new("the JSON area", json);
    let object = all.object("keyslots")?.object(&id.to_string())?;
    let slot_says = read_slot(&object)?;
    let mut metadata = slot_says.metadata;
    let old = side(view, PREVIOUS, &mut metadata)?;
    let new = side(view, FINAL, &mut metadata)?;
    let moved = marked(view, MOVED)?.map(|(_, any)| any);
    let moved = moved
        .map(|any| segment_of(any, MOVED, &mut metadata))
        .transpose()?;
    let backups = view.segments.values().filter(|of| of.is_backup);
    if backups.count() != 2 + usize::from(moved.is_some()) {
        return unsupported("it has segments of a re-encryption of an unknown kind");
    }
    let proof = view.digests.values().find(|of| of.keyslots.contains(id));
    let Some(proof) = proof.and_then(|digest| digest.known.clone()) else {
        return damaged("the re-encryption has no digest");
    };
    let mut made = ReencryptionState {
        mode: slot_says.mode,
        course: slot_says.course,
        old,
        new,
        moved,
        proof,
        prefix: prefix(view, slot_says.course),
        metadata,
        resilience: slot_says.resilience,
        resilience_of_moved: slot_says.resilience_of_moved,
        area: (slot.offset, slot.len),
        pieces: Vec::new(),
        limit: None,
    };
    check_requirement(view, made.course)?;
    made.check_sides()?;
    made.pieces = pieces(view, &made)?;
    made.limit = made.read_limit();
    made.check_hot_zone()?;
    Ok(made)
}

/// The version of the digest, as the digest has it.
fn prefix(view: &HeaderView, course: Course) -> &'static [u8] {
    match course == Course::Down && view.requirements == [REQUIREMENT_SHIFT] {
        true => b"v3",
        false => b"v2",
    }
}

fn check_requirement(view: &HeaderView, course: Course) -> Result<()> {
    let expected = match course {
        Course::Down => REQUIREMENT_SHIFT,
        _ => REQUIREMENT,
    };
    match view.requirements == [expected] {
        true => Ok(()),
        false => damaged(format!(
            "a re-encryption of this kind requires '{expected}', and it does not"
        )),
    }
}

/// The fields of the slot of a re-encryption.
struct SlotSays {
    mode: ReencryptionMode,
    course: Course,
    resilience: Resilience,
    resilience_of_moved: Option<Resilience>,
    /// The slot as the digest takes it.
    metadata: Vec<u8>,
}

fn read_slot(slot: &Object<'_>) -> Result<SlotSays> {
    let (mode, direction) = (slot.text("mode")?, slot.text("direction")?);
    let mut metadata: Vec<u8> = [mode, direction].concat().into();
    let (resilience, resilience_of_moved) = resilience::read(&slot.object("area")?, &mut metadata)?;
    let is_shifted = matches!(resilience, Resilience::Shift(_));
    let has_other = resilience_of_moved.is_some();
    let (mode, course) = match (mode, direction, is_shifted, has_other) {
        ("reencrypt", "forward", false, false) => (ReencryptionMode::Reencrypt, Course::Forward),
        ("encrypt", "forward", false, false) => (ReencryptionMode::Encrypt, Course::Forward),
        ("encrypt", "backward", true, false) => (ReencryptionMode::Encrypt, Course::Up),
        ("decrypt", "backward", false, false) => (ReencryptionMode::Decrypt, Course::Backward),
        ("decrypt", "forward", true, true) => (ReencryptionMode::Decrypt, Course::Down),
        _ => {
            let kind = slot.object("area")?.text("type")?;
            return unsupported(format!(
                "it is in re-encryption of the mode '{mode}', {direction}, with the resilience '{kind}'"
            ));
        }
    };
    Ok(SlotSays {
        mode,
        course,
        resilience,
        resilience_of_moved,
        metadata,
    })
}

/// The only segment with this flag, if there is one.
fn marked<'a>(view: &'a HeaderView, flag: &str) -> Result<Option<(u32, &'a SegmentView)>> {
    let is_marked = |of: &SegmentView| of.flags.len() == 1 && of.flags[0] == flag;
    let mut found = view.segments.iter().filter(|(_, of)| is_marked(of));
    match (found.next(), found.next()) {
        (found, None) => Ok(found.map(|(id, any)| (*id, any))),
        _ => damaged(format!("there are several segments marked '{flag}'")),
    }
}

/// A segment that is kept; what the digest takes of it is added.
fn segment_of(any: &SegmentView, flag: &str, metadata: &mut Vec<u8>) -> Result<Segment> {
    let segment = any.extent().filter(|of| of.integrity.is_none());
    let Some(segment) = segment else {
        return unsupported(format!(
            "its segment marked '{flag}' is neither of the type 'linear' nor of the plain type 'crypt'"
        ));
    };
    metadata.extend(any.kind.bytes());
    metadata.extend(segment.offset.to_be_bytes());
    match segment.len {
        None => metadata.extend(b"dynamic"),
        Some(len) => metadata.extend(len.to_be_bytes()),
    }
    if !segment.is_linear() {
        metadata.extend(segment.iv_offset.to_be_bytes());
        metadata.extend(segment.cipher.bytes());
        metadata.extend(segment.sector_size.to_be_bytes());
    }
    Ok(segment)
}

/// The side that a flag marks; what the digest takes of it is added.
fn side(view: &HeaderView, flag: &str, metadata: &mut Vec<u8>) -> Result<Side> {
    let Some((id, any)) = marked(view, flag)? else {
        return damaged(format!("there is no segment marked '{flag}'"));
    };
    let segment = segment_of(any, flag, metadata)?;
    let digest = match segment.is_linear() {
        true => None,
        false => Some(digest_of(view, id).ok_or(format!("segment {id} has not one known digest"))?),
    };
    Ok(Side { segment, digest })
}

/// The only digest of a segment.
fn digest_of(view: &HeaderView, id: u32) -> Option<KeyDigest> {
    let mut digests = view.digests.values().filter(|of| of.segments.contains(&id));
    match (digests.next(), digests.next()) {
        (Some(digest), None) => digest.known.clone(),
        _ => None,
    }
}

impl ReencryptionState {
    /// Refuses sides that do not fit the mode and the course.
    fn check_sides(&self) -> Result<()> {
        let (old, new) = (&self.old.segment, &self.new.segment);
        let plain = (old.is_linear(), new.is_linear());
        let expected = match self.mode {
            ReencryptionMode::Reencrypt => (false, false),
            ReencryptionMode::Encrypt => (true, false),
            ReencryptionMode::Decrypt => (false, true),
        };
        if plain != expected {
            return damaged("its segments are not those of its mode");
        }
        let Resilience::Shift(shift) = self.resilience else {
            return match (old.offset, old.len) == (new.offset, new.len) && self.moved.is_none() {
                true => Ok(()),
                false => unsupported("its re-encryption moves data"),
            };
        };
        let Some(moved) = &self.moved else {
            return unsupported(
                "its re-encryption moves data, and no part of it before the others",
            );
        };
        let first = self.moved_len();
        let fits = match self.course {
            // The moved part is behind the last byte that is written.
            Course::Up => {
                let end = old.len.and_then(|len| new.offset.checked_add(len));
                old.offset.checked_add(shift) == Some(new.offset)
                    && end.is_some_and(|end| moved.offset >= end)
                    && old.len.is_some_and(|len| len >= first)
            }
            _ => {
                new.offset.checked_add(shift) == Some(old.offset)
                    && moved.offset == new.offset
                    && (moved.iv_offset, &moved.cipher) == (old.iv_offset, &old.cipher)
                    && moved.sector_size == old.sector_size
            }
        };
        let is_whole = [first, shift]
            .iter()
            .all(|n| n % u64::from(self.unit()) == 0);
        match fits
            && is_whole
            && (1..=shift).contains(&first)
            && moved.is_linear() == old.is_linear()
        {
            true => Ok(()),
            false => damaged("the part of the data that it moved does not fit the others"),
        }
    }

    /// Returns the end of the data, if the header has it. A hot zone at the end always has it, even at the end of the
    /// device. Without it, the bytes behind would be taken for data that is still old, or already new.
    fn read_limit(&self) -> Option<u64> {
        let state = self.pieces.last()?.state;
        let says = match self.course {
            Course::Forward => state != State::New,
            Course::Down => state == State::Old,
            Course::Backward => true,
            Course::Up => false,
        };
        self.len().filter(|_| says)
    }

    fn check_hot_zone(&self) -> Result<()> {
        let Some(hot) = self.hot() else {
            return Ok(());
        };
        if hot.len == 0 || hot.is_moved && hot.len != self.moved_len() {
            return damaged("the hot zone has no length, or not that of the part that was moved");
        }
        self.resilience_of(&hot)
            .check(hot.len, self.area.1, self.unit())
    }
}

/// The regular segments, each of which has to be what one of the sides says of its place.
fn pieces(view: &HeaderView, made: &ReencryptionState) -> Result<Vec<DataPiece>> {
    let unit = u64::from(made.unit());
    let mut pieces: Vec<DataPiece> = Vec::new();
    let (mut at, mut rank) = (Some(0), 0);
    for (id, any) in view.segments.iter().filter(|(_, of)| !of.is_backup) {
        let piece = piece(view, *id, any, at, made)
            .map_err(|_| format!("segment {id} is not what the re-encryption makes of it"))?;
        let follows = made.course.rank(piece.state, piece.at);
        if follows < rank {
            return damaged(format!("segment {id} is in the wrong place"));
        }
        if piece.at % unit != 0 {
            return damaged(format!("segment {id} begins inside of a sector"));
        }
        rank = follows;
        at = piece.segment.len.map(|len| piece.at + len);
        pieces.push(piece);
    }
    let hot = pieces.iter().filter(|piece| piece.state == State::Hot);
    let is_new = pieces.iter().all(|piece| piece.state == State::New);
    let ends = match made.course {
        Course::Up if is_new => at.is_none() || at == made.old.segment.len,
        Course::Down if at.is_none() => true,
        _ => made.old.segment.len.is_none() || at == made.old.segment.len,
    };
    let is_moved = pieces.first().is_none_or(|first| match made.moved {
        // It is the first, unless it is being written, or was.
        Some(_) => first.state != State::Old && (first.state != State::New || is_new),
        None => true,
    });
    match hot.count() <= 1 && ends && is_moved {
        true => Ok(pieces),
        false => damaged("the segments are not those of one re-encryption"),
    }
}

fn piece(
    view: &HeaderView,
    id: u32,
    any: &SegmentView,
    at: Option<u64>,
    made: &ReencryptionState,
) -> std::result::Result<DataPiece, String> {
    let at = at.ok_or("it comes after the end")?;
    let segment = any.extent().ok_or("it is of an unknown type")?;
    let digests = view.digests.iter();
    let of_it = digests.filter(|(_, of)| of.segments.contains(&id));
    let of_it: Vec<u32> = of_it.map(|(id, _)| *id).collect();
    let states: &[State] = match &any.flags[..] {
        // With one key and one cipher, both sides look the same, and are.
        [] if at == 0 => &[State::New, State::Moved, State::Old],
        [] => &[State::New, State::Old],
        [flag] if flag == HOT => &[State::Hot],
        _ => return Err("its flags are not known".into()),
    };
    let says = |state: State| match state {
        State::New | State::Hot => Some(made.new.segment.part(at, segment.len)),
        State::Old if at < made.moved_len() => None,
        State::Old => Some(made.old.segment.part(at, segment.len)),
        State::Moved => made.moved.clone(),
    };
    let belongs = |state: State| {
        let mut keys = made.digests_of(state);
        keys.sort();
        keys == of_it
    };
    let mut states = states.iter().copied();
    let state = states.find(|state| says(*state).as_ref() == Some(&segment) && belongs(*state));
    let state = state.ok_or("it is of neither side")?;
    Ok(DataPiece { state, at, segment })
}
