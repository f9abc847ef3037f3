//! Converts a container between LUKS1 and LUKS2, without a change of its data.
//!
//! **LUKS1 to LUKS2.** The two copies of the new header take the first 32 KiB. Material of LUKS1 begins at 4 KiB. So
//! material in the way is first copied to another address, and the LUKS1 header refers to the copy, which is a change
//! of one sector. Then the second copy of the new header is written, then the first. If the power fails between
//! these, the rest of the LUKS1 header has the UUID of the second copy, which is whole. A reader then takes the
//! container as LUKS2 ([`Header::read`]).
//!
//! **LUKS2 to LUKS1.** Material stays where it is. The two sectors of the LUKS1 header are written over the first
//! copy, the one with the magic last. Until then, and until the second copy is overwritten, the container is LUKS2.

use std::io::IoSlice;
use std::sync::Arc;

use cipher::Random;
use serde_json::{Map, Value, json};

use super::Container;
use crate::header::Header;
use crate::header::luks1;
use crate::header::luks2::{self, COPY_SIZES, HeaderCopy};
use crate::keyslots::kdf::Kdf;
use crate::keyslots::material;
use crate::keyslots::slots::slot_json;
use crate::model::{ContainerVersion, KeyDigest, Keyslot, SECTOR};
use crate::{Error, Result, crypto};

impl Container {
    /// Makes the container one of another version.
    ///
    /// # Errors
    /// [`Error::Usage`] if the other version cannot hold what is there; [`Error::NoSpace`].
    pub fn convert(&mut self, to: ContainerVersion, random: &dyn Random) -> Result<()> {
        self.check_changeable()?;
        match (&self.header, to) {
            (Header::V1(header), ContainerVersion::V2) => {
                let new = self.to_luks2(&header.clone(), random)?;
                self.header = Header::V2(Box::new(new));
            }
            (Header::V2(header), ContainerVersion::V1) => {
                let new = self.to_luks1(&header.clone())?;
                self.header = Header::V1(Box::new(new));
            }
            _ => return Err(Error::Usage(format!("it is a container of {to} already"))),
        }
        Ok(())
    }

    fn to_luks2(&self, old: &luks1::Header, random: &dyn Random) -> Result<luks2::Header> {
        let copy_len = COPY_SIZES[0];
        let begin = 2 * copy_len;
        let data = old.segment().offset;
        let end = match data {
            0 => self.device.size(),
            data => data,
        };
        let areas_len = end.saturating_sub(begin);
        let areas_len = (areas_len - areas_len % luks2::AREA_ALIGN).min(luks2::AREAS_MAX);
        let mut moved = old.clone();
        let gone = moved.vacate(begin, begin + areas_len)?;
        let json = luks2_json(&moved, copy_len, areas_len);
        let mut header = luks2::Header::new(old.uuid().into(), json).map_err(Error::Usage)?;
        let device = &*self.device;
        if let Some((from, to)) = gone {
            let mut material = vec![0; material::area_len(old.key_len(), SECTOR) as usize];
            device.read_at(from, &mut material)?;
            device.write_at(to, &[IoSlice::new(&material)])?;
            device.flush()?;
            moved.write_growing(device)?;
        }
        header.epoch = 2;
        header.write_copy(device, HeaderCopy::Second, random)?;
        header.write_copy(device, HeaderCopy::First, random)?;
        if let Some((from, _)) = gone {
            // What the new header took is gone already.
            let end = from + material::area_len(old.key_len(), SECTOR);
            material::wipe(device, begin, end.saturating_sub(begin), random)?;
        }
        Ok(header)
    }

    fn to_luks1(&self, old: &luks2::Header) -> Result<luks1::Header> {
        let digest = self.digest()?;
        let slots = check_for_luks1(old, &digest)?;
        let segment = self.segment()?;
        let key_len = slots.first().map(|slot| slot.key_len);
        let key_len =
            key_len.ok_or_else(|| Error::usage("no key slot says how long the key is"))?;
        let mut first20 = [0; 20];
        first20.copy_from_slice(&digest.digest[..20]);
        let mut header = luks1::Header::new(&luks1::NewHeader {
            cipher: &segment.cipher,
            hash: &digest.hash,
            uuid: &old.uuid,
            key_len,
            data_offset: segment.offset,
            digest: first20,
            digest_salt: digest.salt,
            digest_iterations: digest.iterations,
            areas: luks1_areas(old, &slots, key_len)?,
        })?;
        for slot in &slots {
            if let Kdf::Pbkdf2 { iterations, .. } = slot.kdf {
                header.enable(slot.id, iterations, slot.salt);
            }
        }
        let device = Arc::clone(&self.device);
        header.write_growing(&*device)?;
        device.overwrite(old.view().copy_len, SECTOR)?;
        device.flush()?;
        Ok(header)
    }
}

/// The first gap of `len` bytes between sorted ranges.
pub(crate) fn gap(taken: &[(u64, u64)], begin: u64, end: u64, len: u64) -> Option<u64> {
    let mut at = begin;
    for (from, to) in taken {
        if *from >= at + len {
            break;
        }
        at = at.max(*to).next_multiple_of(luks2::AREA_ALIGN);
    }
    (at + len <= end).then_some(at)
}

fn luks2_json(old: &luks1::Header, copy_len: u64, areas_len: u64) -> Map<String, Value> {
    let digest = old.digest();
    let mut slots = old.slots();
    for slot in &mut slots {
        slot.len = material::area_len(slot.key_len, luks2::AREA_ALIGN);
    }
    let names: Vec<String> = slots.iter().map(|slot| slot.id.to_string()).collect();
    let keyslots: Map<_, _> = slots
        .iter()
        .map(|s| (s.id.to_string(), slot_json(s)))
        .collect();
    let json = json!({
        "keyslots": keyslots,
        "tokens": {},
        "segments": {"0": {
            "type": "crypt",
            "offset": old.segment().offset.to_string(),
            "size": "dynamic",
            "iv_tweak": "0",
            "encryption": old.cipher(),
            "sector_size": SECTOR,
        }},
        "digests": {"0": {
            "type": "pbkdf2",
            "keyslots": names,
            "segments": ["0"],
            "hash": digest.hash,
            "iterations": digest.iterations,
            "salt": crypto::base64(&digest.salt),
            "digest": crypto::base64(&digest.digest),
        }},
        "config": {
            "json_size": (copy_len - luks2::BINARY_LEN as u64).to_string(),
            "keyslots_size": areas_len.to_string(),
        },
    });
    match json {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The slots, if LUKS1 can hold all that the header says.
fn check_for_luks1(header: &luks2::Header, digest: &KeyDigest) -> Result<Vec<Keyslot>> {
    let refuse = |what: &str| {
        Err(Error::Usage(format!(
            "LUKS1 cannot hold this container: {what}"
        )))
    };
    let view = header.view();
    let segment = view
        .segments
        .values()
        .find_map(|segment| segment.crypt.as_ref());
    let Some(segment) = segment.filter(|_| view.segments.len() == 1) else {
        return refuse("it has several segments");
    };
    if segment.sector_size != 512 || segment.iv_offset != 0 || segment.len.is_some() {
        return refuse("its sectors, tweaks or size are not those of LUKS1");
    }
    if segment.integrity.is_some() {
        return refuse("its sectors are authenticated");
    }
    if !view.tokens.is_empty() {
        return refuse("it has tokens; remove them first");
    }
    if view.digests.len() != 1 {
        return refuse("it has several digests");
    }
    let mut slots = Vec::new();
    for (id, slot) in &view.slots {
        let known = slot.known.as_ref();
        let fits = known.filter(|slot| {
            let hash_is_same =
                matches!(&slot.kdf, Kdf::Pbkdf2 { hash, .. } if *hash == digest.hash);
            hash_is_same
                && slot.af_hash == digest.hash
                && slot.cipher == segment.cipher
                && slot.cipher_key_len == slot.key_len
                && (*id as usize) < luks1::SLOTS
                && digest.keyslots.contains(id)
        });
        match fits {
            Some(slot) => slots.push(slot.clone()),
            None => {
                return refuse(&format!(
                    "key slot {id} does not use pbkdf2 with {} and {}, or its number is above 7; \
                 'luks change-key --pbkdf pbkdf2' makes it fit",
                    digest.hash, segment.cipher
                ));
            }
        }
    }
    Ok(slots)
}

/// The areas of LUKS1 slots. Slots in use keep theirs, the others get gaps, even in the header of LUKS2. Nothing is
/// written to an area before its slot comes into use.
fn luks1_areas(
    header: &luks2::Header,
    slots: &[Keyslot],
    key_len: usize,
) -> Result<[u64; luks1::SLOTS]> {
    let view = header.view();
    let len = material::area_len(key_len, luks1::AREA_ALIGN);
    let mut taken: Vec<_> = slots
        .iter()
        .map(|slot| (slot.offset, slot.offset + slot.len))
        .collect();
    let mut areas = [0; luks1::SLOTS];
    for (id, area) in areas.iter_mut().enumerate() {
        if let Some(slot) = slots.iter().find(|slot| slot.id as usize == id) {
            *area = slot.offset;
            continue;
        }
        taken.sort();
        let offset = gap(&taken, luks1::AREA_ALIGN, view.header_len(), len);
        *area = offset.ok_or_else(|| Error::NoSpace {
            what: "LUKS1 has eight areas for key material, and there is space for fewer".into(),
        })?;
        taken.push((*area, *area + len));
    }
    Ok(areas)
}
