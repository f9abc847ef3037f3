//! The contents of the JSON area, after all of it was checked.
//!
//! The rules are those of the specification (section 3), and those by which cryptsetup refuses headers. Each object
//! is either usable, or of a kind that is named as unknown. Other members are not interpreted, and stay in the JSON
//! as they are.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::layout::{BINARY_LEN, COPY_SIZES};
use super::object::{Object, Result};
use crate::keyslots::kdf::{Argon2Cost, Kdf, Variant};
use crate::model::{
    Integrity, KEY_LEN_MAX, KeyDigest, Keyslot, Priority, SECTOR, STRIPES, Segment, material_len,
};

/// The largest number of key slots, of tokens, and of segments.
pub(crate) const OBJECTS_MAX: u32 = 32;

/// The largest number of digests.
pub(crate) const DIGESTS_MAX: u32 = 8;

/// The longest area for key material, in bytes.
pub(crate) const AREAS_MAX: u64 = 128 << 20;

/// The alignment of areas for key material, in bytes.
pub(crate) const AREA_ALIGN: u64 = 4096;

/// The parsed contents of the JSON area.
#[derive(Clone, Debug)]
pub(crate) struct HeaderView {
    pub(crate) slots: BTreeMap<u32, SlotView>,
    pub(crate) tokens: BTreeMap<u32, TokenView>,
    pub(crate) segments: BTreeMap<u32, SegmentView>,
    pub(crate) digests: BTreeMap<u32, DigestView>,
    /// Bytes in a copy of the header, with its binary part.
    pub(crate) copy_len: u64,
    /// Bytes for key material, behind both copies.
    pub(crate) areas_len: u64,
    pub(crate) flags: Vec<String>,
    pub(crate) requirements: Vec<String>,
}

/// A key slot of any type.
#[derive(Clone, Debug)]
pub(crate) struct SlotView {
    pub(crate) kind: String,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// The slot, if this program can use it.
    pub(crate) known: Option<Keyslot>,
    /// The reason why it cannot be used, if its type is known.
    pub(crate) oddity: Option<String>,
}

/// A token of any type.
#[derive(Clone, Debug)]
pub(crate) struct TokenView {
    pub(crate) kind: String,
    pub(crate) keyslots: Vec<u32>,
}

/// A segment of any type.
#[derive(Clone, Debug)]
pub(crate) struct SegmentView {
    pub(crate) kind: String,
    pub(crate) offset: u64,
    pub(crate) len: Option<u64>,
    pub(crate) is_backup: bool,
    pub(crate) flags: Vec<String>,
    pub(crate) crypt: Option<Segment>,
}

impl SegmentView {
    /// Returns the address and the encryption of the segment, if a re-encryption can have one of its type.
    pub(crate) fn extent(&self) -> Option<Segment> {
        let linear = (self.kind == "linear").then(|| Segment::linear(self.offset, self.len));
        self.crypt.clone().or(linear)
    }
}

/// A digest of any type.
#[derive(Clone, Debug)]
pub(crate) struct DigestView {
    pub(crate) kind: String,
    pub(crate) keyslots: Vec<u32>,
    pub(crate) segments: Vec<u32>,
    pub(crate) known: Option<KeyDigest>,
}

impl HeaderView {
    /// Checks everything.
    pub(crate) fn read(json: &Map<String, Value>) -> Result<HeaderView> {
        let all = Object::new("the JSON area", json);
        let slots = all.object("keyslots")?;
        let segments = all.object("segments")?;
        let digests = read_digests(&all.object("digests")?, &slots, &segments)?;
        let view = HeaderView {
            tokens: read_tokens(&all.object("tokens")?, &slots)?,
            slots: read_slots(&slots)?,
            segments: read_segments(&segments)?,
            digests,
            ..read_config(&all.object("config")?)?
        };
        view.check_segments()?;
        view.check_areas()?;
        view.check_bindings()?;
        Ok(view)
    }

    /// Returns the address of the first area for key material, in bytes.
    pub(crate) fn areas_offset(&self) -> u64 {
        2 * self.copy_len
    }

    /// Returns the end of the header with all key material, in bytes.
    pub(crate) fn header_len(&self) -> u64 {
        self.areas_offset() + self.areas_len
    }

    /// Returns the address of the data, in bytes; `None` if it is on another device.
    pub(crate) fn data_offset(&self) -> Option<u64> {
        let segments = self.segments.values().filter(|segment| !segment.is_backup);
        segments
            .map(|segment| segment.offset)
            .min()
            .filter(|offset| *offset > 0)
    }

    fn check_segments(&self) -> Result<()> {
        let regular: Vec<_> = self.segments.iter().filter(|(_, s)| !s.is_backup).collect();
        if regular.is_empty() {
            return Err("there is no segment".into());
        }
        for (expected, number) in self.segments.keys().enumerate() {
            if *number != expected as u32 {
                return Err(format!("there is no segment {expected}"));
            }
        }
        if regular
            .iter()
            .enumerate()
            .any(|(n, (id, _))| **id != n as u32)
        {
            return Err("a segment stands behind one that is kept for re-encryption".into());
        }
        let mut end = 0;
        let mut sorted: Vec<_> = regular
            .iter()
            .map(|(id, s)| (s.offset, s.len, **id))
            .collect();
        sorted.sort();
        for (n, (offset, len, id)) in sorted.iter().enumerate() {
            if *offset < end {
                return Err(format!("segment {id} overlaps another"));
            }
            end = match len {
                Some(len) => offset
                    .checked_add(*len)
                    .ok_or(format!("segment {id} has no end"))?,
                None if n + 1 == sorted.len() => u64::MAX,
                None => return Err(format!("segment {id} has no end, and is not the last")),
            };
        }
        for (id, segment) in &self.segments {
            let has_digest = self
                .digests
                .values()
                .any(|digest| digest.segments.contains(id));
            if segment.crypt.is_some() && !has_digest {
                return Err(format!("segment {id} belongs to no digest"));
            }
        }
        match self.data_offset() {
            Some(data) if data < self.header_len() => {
                Err(format!("data begins at {data}, inside of the header"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that each key slot belongs to one digest.
    fn check_bindings(&self) -> Result<()> {
        for id in self.slots.keys() {
            let digests = self.digests.values();
            match digests.filter(|of| of.keyslots.contains(id)).count() {
                1 => {}
                0 => return Err(format!("key slot {id} belongs to no digest")),
                n => return Err(format!("key slot {id} belongs to {n} digests")),
            }
        }
        Ok(())
    }

    fn check_areas(&self) -> Result<()> {
        let mut areas: Vec<_> = self
            .slots
            .iter()
            .map(|(id, s)| (s.offset, s.len, *id))
            .collect();
        areas.sort();
        let mut end = self.areas_offset();
        for (offset, len, id) in areas {
            if len == 0 {
                return Err(format!("the area of key slot {id} is empty"));
            }
            if offset < end {
                return Err(format!("the area of key slot {id} overlaps something else"));
            }
            end = offset
                .checked_add(len)
                .filter(|end| *end <= self.header_len())
                .ok_or_else(|| {
                    format!("the area of key slot {id} does not end inside of the header")
                })?;
        }
        Ok(())
    }
}

fn read_config(config: &Object<'_>) -> Result<HeaderView> {
    let copy_len = config.u64("json_size")?.saturating_add(BINARY_LEN as u64);
    if !COPY_SIZES.contains(&copy_len) {
        return Err(format!(
            "a copy of the header cannot be {copy_len} bytes long"
        ));
    }
    let areas_len = config.u64("keyslots_size")?;
    if areas_len > AREAS_MAX || areas_len % AREA_ALIGN != 0 {
        return Err(format!("key material cannot have {areas_len} bytes"));
    }
    let flags = match config.has("flags") {
        true => config.texts("flags")?,
        false => Vec::new(),
    };
    let mut requirements = Vec::new();
    if config.has("requirements") {
        let object = config.object("requirements")?;
        if object.has("mandatory") {
            requirements = object.texts("mandatory")?;
        }
    }
    let owned = |texts: Vec<&str>| texts.into_iter().map(String::from).collect();
    Ok(HeaderView {
        slots: BTreeMap::new(),
        tokens: BTreeMap::new(),
        segments: BTreeMap::new(),
        digests: BTreeMap::new(),
        copy_len,
        areas_len,
        flags: owned(flags),
        requirements: owned(requirements),
    })
}

fn read_tokens(tokens: &Object<'_>, slots: &Object<'_>) -> Result<BTreeMap<u32, TokenView>> {
    let token = |(id, token): (u32, Object<'_>)| Ok((id, read_token(&token, slots)?));
    tokens
        .numbered("token", OBJECTS_MAX)?
        .into_iter()
        .map(token)
        .collect()
}

/// Reads a token, which names key slots that there are.
pub(crate) fn read_token(token: &Object<'_>, slots: &Object<'_>) -> Result<TokenView> {
    Ok(TokenView {
        kind: token.text("type")?.into(),
        keyslots: token.members_of("keyslots", slots)?,
    })
}

fn read_digests(
    digests: &Object<'_>,
    slots: &Object<'_>,
    segments: &Object<'_>,
) -> Result<BTreeMap<u32, DigestView>> {
    let digest = |(id, digest): (u32, Object<'_>)| {
        let kind = digest.text("type")?.to_owned();
        let keyslots = digest.members_of("keyslots", slots)?;
        let segments = digest.members_of("segments", segments)?;
        let known = (kind == "pbkdf2").then(|| {
            Ok::<_, String>(KeyDigest {
                id,
                hash: digest.text("hash")?.into(),
                iterations: digest.u32("iterations")?,
                salt: digest.base64("salt")?,
                digest: digest_bytes(&digest)?,
                keyslots: keyslots.clone(),
                segments: segments.clone(),
            })
        });
        let known = known.transpose()?;
        let any = DigestView {
            kind,
            keyslots,
            segments,
            known,
        };
        Ok((id, any))
    };
    digests
        .numbered("digest", DIGESTS_MAX)?
        .into_iter()
        .map(digest)
        .collect()
}

/// Reads the bytes of a digest. They are at least as many as in LUKS1, so that a few bits do not identify a key, and
/// at most those of the hash.
fn digest_bytes(digest: &Object<'_>) -> Result<Vec<u8>> {
    let bytes = digest.base64_bytes("digest")?;
    match bytes.len() {
        20..=64 => Ok(bytes),
        len => Err(format!("a digest cannot have {len} bytes")),
    }
}

fn read_slots(slots: &Object<'_>) -> Result<BTreeMap<u32, SlotView>> {
    let slot = |(id, slot): (u32, Object<'_>)| Ok((id, read_slot(id, &slot)?));
    slots
        .numbered("key slot", OBJECTS_MAX)?
        .into_iter()
        .map(slot)
        .collect()
}

/// Reads a slot. The area of its material has to be right. Any other oddity makes the slot one that cannot be used.
fn read_slot(id: u32, slot: &Object<'_>) -> Result<SlotView> {
    let kind = slot.text("type")?.to_owned();
    let area = slot.object("area")?;
    let (offset, len) = (area.u64("offset")?, area.u64("size")?);
    let usable = (kind == "luks2").then(|| read_usable(id, slot, &area, (offset, len)));
    let (known, oddity) = match usable {
        None => (None, None),
        Some(Ok(known)) => (Some(known), None),
        Some(Err(why)) => (None, Some(why)),
    };
    Ok(SlotView {
        kind,
        offset,
        len,
        known,
        oddity,
    })
}

fn read_usable(
    id: u32,
    slot: &Object<'_>,
    area: &Object<'_>,
    (offset, len): (u64, u64),
) -> Result<Keyslot> {
    let area_kind = area.text("type")?;
    if area_kind != "raw" {
        return Err(format!("its area is of the type '{area_kind}'"));
    }
    let kdf = slot.object("kdf")?;
    let known = Keyslot {
        id,
        key_len: key_len_of(slot.u32("key_size")?)?,
        priority: read_priority(slot)?,
        kdf: read_kdf(&kdf)?,
        salt: kdf.base64("salt")?,
        af_hash: read_af(&slot.object("af")?)?,
        cipher: area.text("encryption")?.into(),
        cipher_key_len: key_len_of(area.u32("key_size")?)?,
        offset,
        len,
    };
    match len < material_len(known.key_len) {
        true => Err("its area is too small for its key".into()),
        false => Ok(known),
    }
}

fn key_len_of(len: u32) -> Result<usize> {
    match len as usize {
        len @ 1..=KEY_LEN_MAX => Ok(len),
        len => Err(format!("it cannot have a key of {len} bytes")),
    }
}

fn read_priority(slot: &Object<'_>) -> Result<Priority> {
    if !slot.has("priority") {
        return Ok(Priority::Normal);
    }
    let number = slot.u32("priority")?;
    let unknown = || format!("it cannot have the priority {number}");
    Priority::from_number(number).ok_or_else(unknown)
}

/// Reads what makes a key of a passphrase. Parameters that are left of another function do not count.
fn read_kdf(kdf: &Object<'_>) -> Result<Kdf> {
    let argon2 = |variant| {
        let cost = Argon2Cost {
            memory_kib: kdf.u32("memory")?,
            passes: kdf.u32("time")?,
            lanes: kdf.u32("cpus")?,
        };
        Ok(Kdf::Argon2(variant, cost))
    };
    match kdf.text("type")? {
        "pbkdf2" => Ok(Kdf::Pbkdf2 {
            hash: kdf.text("hash")?.into(),
            iterations: kdf.u32("iterations")?,
        }),
        "argon2i" => argon2(Variant::Argon2i),
        "argon2id" => argon2(Variant::Argon2id),
        other => Err(format!("it hashes its passphrase with '{other}'")),
    }
}

fn read_af(af: &Object<'_>) -> Result<String> {
    let kind = af.text("type")?;
    if kind != "luks1" || af.u32("stripes")? != STRIPES {
        return Err("it splits its key in a way that is not known".into());
    }
    Ok(af.text("hash")?.into())
}

fn read_segments(segments: &Object<'_>) -> Result<BTreeMap<u32, SegmentView>> {
    let segment = |(id, segment): (u32, Object<'_>)| Ok((id, read_segment(id, &segment)?));
    segments
        .numbered("segment", OBJECTS_MAX)?
        .into_iter()
        .map(segment)
        .collect()
}

fn read_segment(id: u32, segment: &Object<'_>) -> Result<SegmentView> {
    let kind = segment.text("type")?.to_owned();
    let offset = segment.u64("offset")?;
    let len = match segment.text("size")? {
        "dynamic" => None,
        _ => Some(segment.u64("size")?),
    };
    if offset % SECTOR != 0 || len.is_some_and(|len| len == 0 || len % SECTOR != 0) {
        return Err(format!("segment {id} is not made of whole sectors"));
    }
    let flags = match segment.has("flags") {
        true => segment
            .texts("flags")?
            .into_iter()
            .map(String::from)
            .collect(),
        false => Vec::new(),
    };
    let crypt = (kind == "crypt")
        .then(|| read_crypt(id, segment, offset, len))
        .transpose()?;
    Ok(SegmentView {
        kind,
        offset,
        len,
        is_backup: flags
            .iter()
            .any(|flag: &String| flag.starts_with("backup-")),
        flags,
        crypt,
    })
}

fn read_integrity(integrity: &Object<'_>) -> Result<Integrity> {
    let key_len = match integrity.has("key_size") {
        true => Some(integrity.u32("key_size")? as usize),
        false => None,
    };
    let journal = [
        integrity.text("journal_encryption")?,
        integrity.text("journal_integrity")?,
    ];
    let used: Vec<&str> = journal.into_iter().filter(|by| *by != "none").collect();
    Ok(Integrity {
        kind: integrity.text("type")?.to_owned(),
        key_len,
        journal: (!used.is_empty()).then(|| used.join(" and ")),
    })
}

fn read_crypt(id: u32, segment: &Object<'_>, offset: u64, len: Option<u64>) -> Result<Segment> {
    let sector_size = segment.u32("sector_size")?;
    if ![512, 1024, 2048, 4096].contains(&sector_size) {
        return Err(format!(
            "segment {id} cannot have sectors of {sector_size} bytes"
        ));
    }
    if len.is_some_and(|len| len % u64::from(sector_size) != 0) {
        return Err(format!("segment {id} does not end with a sector"));
    }
    let integrity = match segment.has("integrity") {
        true => Some(read_integrity(&segment.object("integrity")?)?),
        false => None,
    };
    Ok(Segment {
        offset,
        len,
        iv_offset: segment.u64("iv_tweak")?,
        cipher: segment.text("encryption")?.into(),
        sector_size,
        integrity,
    })
}
