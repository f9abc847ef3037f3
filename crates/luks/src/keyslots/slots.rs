//! Key slots of a container: adding, changing and removing passphrases.
//!
//! Every change is durable when it returns. A power cut during it leaves the old state or the new one. Material of a
//! slot is written before the header refers to it, and overwritten before the header forgets it. So a removed slot
//! leaves nothing to guess at.

use std::sync::Arc;

use block::BlockDevice;
use cipher::Random;
use keys::SlotHash;
use secret::Secret;
use serde_json::{Value, json};

use super::kdf::{Kdf, KdfChoice, KdfKind};
use super::material;
use super::slot_refs::{forget, push};
use crate::container::Container;
use crate::header::Header;
use crate::header::luks1;
use crate::header::luks2;
use crate::model::{ContainerVersion, Keyslot, Priority, SALT_LEN};
use crate::{Error, Result, crypto};

/// A function that writes a LUKS2 header.
type HeaderWriter = fn(&mut luks2::Header, &dyn BlockDevice, &dyn Random) -> Result<()>;

/// The settings of a new key slot.
#[derive(Clone, Debug)]
pub struct SlotChoice {
    /// The password hash.
    pub kdf: KdfChoice,
    /// The hash of the splitter; only LUKS2 has a choice.
    pub af_hash: String,
    /// The cipher of the key material and the length of its key, in bytes. `None`: the cipher of the data if it has
    /// tweaks of its own.
    pub cipher: Option<(String, usize)>,
}

impl SlotChoice {
    /// Argon2id for LUKS2, PBKDF2 for LUKS1 and where FIPS mode is on; SHA-256.
    pub fn new(version: ContainerVersion) -> SlotChoice {
        let kind = match version {
            ContainerVersion::V1 => KdfKind::Pbkdf2,
            ContainerVersion::V2 => match SlotHash::usual() {
                SlotHash::Pbkdf2 => KdfKind::Pbkdf2,
                SlotHash::Argon2id => KdfKind::Argon2(super::kdf::Variant::Argon2id),
            },
        };
        SlotChoice {
            kdf: KdfChoice::new(kind),
            af_hash: "sha256".into(),
            cipher: None,
        }
    }
}

/// The encryption of key material if that of the data does not lend itself to it.
pub(crate) const MATERIAL_CIPHER: (&str, usize) = ("aes-xts-plain64", 64);
impl Container {
    /// Adds a passphrase that opens the container, and returns its slot.
    ///
    /// # Errors
    /// [`Error::SlotInUse`], [`Error::NoSpace`], [`Error::Usage`].
    pub fn add_key(
        &mut self,
        volume_key: &Secret,
        passphrase: &Secret,
        choice: &SlotChoice,
        slot: Option<u32>,
        random: &dyn Random,
    ) -> Result<u32> {
        self.check_changeable()?;
        if !self.is_volume_key(volume_key)? {
            return Err(Error::usage("this is not the key of the container"));
        }
        let id = self.free_slot(slot)?;
        let mut salt = [0; SALT_LEN];
        random.fill(&mut salt)?;
        let planned = self.plan_slot(id, volume_key.len(), choice, salt)?;
        material::write(&*self.device, &planned, volume_key, passphrase, random)?;
        self.enter_slot(&planned, random)?;
        Ok(id)
    }

    pub(crate) fn free_slot(&self, slot: Option<u32>) -> Result<u32> {
        let (used, most): (Vec<u32>, u32) = match &self.header {
            Header::V1(header) => {
                let used = header.slots().iter().map(|slot| slot.id).collect();
                (used, luks1::SLOTS as u32)
            }
            Header::V2(header) => {
                let used = header.view().slots.keys().copied().collect();
                (used, luks2::OBJECTS_MAX)
            }
        };
        match slot {
            Some(id) if id >= most => {
                let what = format!("key slots have numbers below {most}");
                Err(Error::Usage(what))
            }
            Some(slot) if used.contains(&slot) => Err(Error::SlotInUse { slot }),
            Some(id) => Ok(id),
            None => (0..most)
                .find(|id| !used.contains(id))
                .ok_or(Error::NoSpace {
                    what: format!("all {most} key slots are in use; remove one"),
                }),
        }
    }

    pub(crate) fn plan_slot(
        &self,
        id: u32,
        key_len: usize,
        choice: &SlotChoice,
        salt: [u8; SALT_LEN],
    ) -> Result<Keyslot> {
        self.plan_slot_at(id, key_len, choice, salt, None)
    }

    /// A slot whose key material goes where it is said, or else where there is free space.
    pub(crate) fn plan_slot_at(
        &self,
        id: u32,
        key_len: usize,
        choice: &SlotChoice,
        salt: [u8; SALT_LEN],
        area: Option<(u64, u64)>,
    ) -> Result<Keyslot> {
        match &self.header {
            Header::V1(_) if choice.cipher.is_some() => Err(Error::usage(
                "LUKS1 encrypts key material as it does the data: there is no other cipher for it",
            )),
            Header::V1(header) => {
                let mut kdf = choice.kdf.clone();
                kdf.hash = header.hash().into();
                let Kdf::Pbkdf2 { iterations, .. } = kdf.settle()? else {
                    return Err(Error::usage(
                        "LUKS1 knows no other password hash than pbkdf2",
                    ));
                };
                Ok(header.planned_slot(id, iterations, salt))
            }
            Header::V2(header) => {
                let (cipher, cipher_key_len) = self.material_cipher(choice, key_len)?;
                let needed = material::area_len(key_len, luks2::AREA_ALIGN);
                let (offset, len) = match area.filter(|(_, len)| *len >= needed) {
                    Some(area) => area,
                    None => (find_gap(header, needed)?, needed),
                };
                Ok(Keyslot {
                    id,
                    key_len,
                    priority: Priority::Normal,
                    kdf: choice.kdf.settle()?,
                    salt,
                    af_hash: choice.af_hash.clone(),
                    cipher,
                    cipher_key_len,
                    offset,
                    len,
                })
            }
        }
    }

    fn material_cipher(&self, choice: &SlotChoice, key_len: usize) -> Result<(String, usize)> {
        if let Some((cipher, key_len)) = &choice.cipher {
            crypto::check_material(cipher, *key_len)?;
            return Ok((cipher.clone(), *key_len));
        }
        let cipher = self.segment()?.cipher;
        Ok(match crypto::fits_material(&cipher, key_len) {
            true => (cipher, key_len),
            false => (MATERIAL_CIPHER.0.into(), MATERIAL_CIPHER.1),
        })
    }

    /// Writes a header that refers to a slot whose material is durable.
    fn enter_slot(&mut self, slot: &Keyslot, random: &dyn Random) -> Result<()> {
        let digest = self.digest()?.id;
        match &mut self.header {
            Header::V1(header) => {
                let mut changed = header.clone();
                changed.enable(slot.id, iterations(&slot.kdf), slot.salt);
                changed.write_growing(&*self.device)?;
                *header = changed;
            }
            Header::V2(header) => {
                let mut changed = header.clone();
                changed.change(|json| {
                    json["keyslots"][slot.id.to_string()] = slot_json(slot);
                    let keyslots = &mut json["digests"][digest.to_string()]["keyslots"];
                    push(keyslots, slot.id);
                })?;
                changed.write(&*self.device, random)?;
                *header = changed;
            }
        }
        Ok(())
    }

    /// Removes a slot: its material is overwritten, then the header forgets it.
    ///
    /// # Errors
    /// [`Error::NoSlot`]; [`Error::LastSlot`] unless `even_last`.
    pub fn remove_slot(&mut self, id: u32, even_last: bool, random: &dyn Random) -> Result<()> {
        self.check_changeable()?;
        let slots = self.slots();
        let (offset, len) = self.area_of(id)?;
        let bound = self.digest()?.keyslots;
        let others = slots
            .iter()
            .any(|other| other.id != id && bound.contains(&other.id));
        if bound.contains(&id) && !others && !even_last {
            return Err(Error::LastSlot { slot: id });
        }
        material::wipe(&*self.device, offset, len, random)?;
        self.forget_slots(&[id], random, luks2::Header::write)
    }

    /// Overwrites the material of all slots: no passphrase opens the container any more.
    ///
    /// The slot of a re-encryption that is under way holds no key, and the header refers to it. It stays, as with
    /// cryptsetup.
    ///
    /// A failure of the device in one copy of the header does not keep the keys: the rest is overwritten.
    ///
    /// # Errors
    /// [`Error::Overwritten`]; the first failure of the device or of the random generator. Slots may then be
    /// overwritten that the header, or a copy of it, still lists.
    pub fn erase(&mut self, random: &dyn Random) -> Result<()> {
        self.check_data_writable()?;
        let (areas, ids): (Vec<_>, Vec<u32>) = match &self.header {
            Header::V1(header) => {
                let len = material::area_len(header.key_len(), crate::model::SECTOR);
                let areas = header.areas().into_iter().map(|offset| (offset, len));
                let ids = header.slots().iter().map(|slot| slot.id).collect();
                (areas.collect(), ids)
            }
            Header::V2(header) => {
                let view = header.view();
                let slots = view
                    .slots
                    .iter()
                    .filter(|(_, slot)| slot.kind != "reencrypt");
                let ids = slots.map(|(id, _)| *id).collect();
                (vec![(view.areas_offset(), view.areas_len)], ids)
            }
        };
        let mut wiped = Ok(());
        for (offset, len) in areas {
            wiped = wiped.and(material::wipe(&*self.device, offset, len, random));
        }
        wiped.and(self.forget_slots(&ids, random, luks2::Header::write_what_goes))
    }

    /// Writes a header without these slots.
    fn forget_slots(
        &mut self,
        ids: &[u32],
        random: &dyn Random,
        write: HeaderWriter,
    ) -> Result<()> {
        match &mut self.header {
            Header::V1(header) => {
                let mut changed = header.clone();
                ids.iter().for_each(|id| changed.disable(*id));
                changed.write_shrinking(&*self.device)?;
                *header = changed;
            }
            Header::V2(header) => {
                let mut changed = header.clone();
                changed.change(|json| ids.iter().for_each(|id| forget(json, *id)))?;
                write(&mut changed, &*self.device, random)?;
                *header = changed;
            }
        }
        Ok(())
    }

    /// Sets the order in which a slot is tried.
    ///
    /// # Errors
    /// [`Error::NoSlot`]; [`Error::Usage`] for LUKS1.
    pub fn set_priority(&mut self, id: u32, priority: Priority, random: &dyn Random) -> Result<()> {
        let known = self.slots().iter().any(|slot| slot.id == id);
        let missing = self.no_slot(id);
        let device = Arc::clone(&self.device);
        let header = self.luks2_mut("priorities")?;
        if !known {
            return Err(missing);
        }
        // The header in memory stays as it is on the device if the write fails.
        let mut changed = header.clone();
        changed.change(|json| {
            let slot = &mut json["keyslots"][id.to_string()];
            match (priority, slot.as_object_mut()) {
                (Priority::Normal, Some(slot)) => drop(slot.remove("priority")),
                _ => slot["priority"] = priority.number().into(),
            }
        })?;
        changed.write(&*device, random)?;
        *header = changed;
        Ok(())
    }
}

pub(crate) fn iterations(kdf: &Kdf) -> u32 {
    match kdf {
        Kdf::Pbkdf2 { iterations, .. } => *iterations,
        Kdf::Argon2(..) => unreachable!("LUKS1 slots are planned with PBKDF2"),
    }
}

/// Returns the address and the length of each gap between areas, and behind the last area.
fn gaps(header: &luks2::Header) -> Vec<(u64, u64)> {
    let view = header.view();
    let slots = view.slots.values();
    let mut areas: Vec<_> = slots.map(|slot| (slot.offset, slot.len)).collect();
    areas.sort();
    areas.push((view.header_len(), 0));
    let mut at = view.areas_offset();
    let gap = |(offset, len): (u64, u64)| {
        let gap = (at, offset.saturating_sub(at));
        at = (offset + len).next_multiple_of(luks2::AREA_ALIGN);
        gap
    };
    areas.into_iter().map(gap).collect()
}

/// The first gap between areas with space for `len` bytes.
fn find_gap(header: &luks2::Header, len: u64) -> Result<u64> {
    let mut gaps = gaps(header).into_iter();
    let fits = gaps.find(|(_, gap)| *gap >= len);
    fits.map(|(at, _)| at).ok_or_else(|| Error::NoSpace {
        what: format!(
            "key material has {} bytes; remove a key slot",
            header.view().areas_len
        ),
    })
}

/// The largest gap between areas, in whole units that areas are aligned to.
pub(crate) fn largest_gap(header: &luks2::Header) -> (u64, u64) {
    let gaps = gaps(header).into_iter();
    let (at, len) = gaps.max_by_key(|(_, len)| *len).unwrap_or_default();
    (at, len - len % luks2::AREA_ALIGN)
}

/// A slot as it stands in the JSON area.
pub(crate) fn slot_json(slot: &Keyslot) -> Value {
    let salt = crypto::base64(&slot.salt);
    let kdf = match &slot.kdf {
        Kdf::Pbkdf2 { hash, iterations } => {
            json!({"type": "pbkdf2", "salt": salt, "hash": hash, "iterations": iterations})
        }
        Kdf::Argon2(_, cost) => json!({
            "type": slot.kdf.name(), "salt": salt,
            "time": cost.passes, "memory": cost.memory_kib, "cpus": cost.lanes,
        }),
    };
    json!({
        "type": "luks2",
        "key_size": slot.key_len,
        "af": {"type": "luks1", "stripes": crate::model::STRIPES, "hash": slot.af_hash},
        "area": {
            "type": "raw",
            "offset": slot.offset.to_string(),
            "size": slot.len.to_string(),
            "encryption": slot.cipher,
            "key_size": slot.cipher_key_len,
        },
        "kdf": kdf,
    })
}
