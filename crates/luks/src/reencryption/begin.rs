//! The beginning of a re-encryption. Key material of the new key is durable before one write of the header
//! makes the container one in re-encryption.

use block::BlockDevice;
use cipher::{Random, SectorCipher};
use secret::Secret;
use serde_json::json;

use super::keys::{BothKeys, missing, proven};
use crate::container::Container;
use crate::container::format::digest_json;
use crate::header::Header;
use crate::header::luks2::{
    AREA_ALIGN, Course, ReencryptionEntry, ReencryptionMode, ReencryptionPlan, Resilience,
};
use crate::keyslots::material;
use crate::keyslots::slots::{MATERIAL_CIPHER, SlotChoice, largest_gap, slot_json};
use crate::keyslots::unbound::free_digest;
use crate::model::{Keyslot, SALT_LEN, Segment};
use crate::{Error, Result, crypto};

/// The target of a re-encryption: the new cipher, and how the new key is protected.
#[derive(Clone, Debug)]
pub struct ReencryptionChoice {
    /// The cipher, for example `aes-xts-plain64`. `None`: the cipher stays.
    pub cipher: Option<String>,
    /// The length of the key, in bytes. `None`: the length stays if the cipher takes it, or is the longest that it
    /// takes.
    pub key_len: Option<usize>,
    /// The length of a sector, in bytes. `None`: the length stays.
    pub sector_size: Option<u32>,
    /// The protection of data while it is written.
    pub protection: Protection,
    /// The settings of the new key slots.
    pub slot: SlotChoice,
}

/// The protection of the hot zone against an interruption: the copy that is kept while it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protection {
    /// A hash of each sector, by this function. A sector that is written in part is lost.
    Checksum(String),
    /// The data itself.
    Journal,
    /// No copy: an interruption loses data.
    None,
}

impl Protection {
    pub(super) fn resilience(&self, unit: u32) -> Result<Resilience> {
        Ok(match self {
            Protection::Checksum(hash) => Resilience::Checksum {
                hash: crypto::digest(hash)?,
                // The smallest that can be: larger blocks are torn by a power cut.
                block: unit,
            },
            Protection::Journal => Resilience::Journal,
            Protection::None => Resilience::None,
        })
    }
}

impl Container {
    /// Begins to re-encrypt a container that is closed, and whose data is on `data`. The new key gets a slot for the
    /// passphrase of each slot in `kept`. The other slots go at the end. No data is written yet;
    /// [`Container::reencrypt`] does that.
    ///
    /// # Errors
    /// [`Error::Usage`] for what the cipher does not take, and for a wrong key; [`Error::Unsupported`] for what
    /// cannot be re-encrypted; [`Error::NoSpace`]; the failure of a device. Nothing is changed then.
    pub fn begin_reencryption(
        &mut self,
        data: &dyn BlockDevice,
        how: &ReencryptionChoice,
        old: Secret,
        kept: &[(u32, Secret)],
        random: &dyn Random,
    ) -> Result<BothKeys> {
        let target = self.check_reencryption(data, how)?;
        let key_len = key_len(&target.cipher, how, old.len(), &data.name())?;
        if !self.is_volume_key(&old)? || kept.is_empty() {
            return Err(Error::usage("this is not the key of the container"));
        }
        let mut key = Secret::zeroed(key_len)?;
        random.fill(key.expose_mut())?;
        let spec = crypto::spec(&target.cipher, &data.name())?;
        SectorCipher::new(spec, key.expose())?;
        let choice = slot_choice(how, &target.cipher, key_len)?;
        let mut next = self.draft();
        let (digest, slots) = next.plan_slots(how, &choice, &key, kept, random)?;
        let new = slots.iter().map(|slot| slot.id).next();
        let keys = BothKeys {
            slot: new.ok_or_else(|| Error::usage("no passphrase is kept"))?,
            old: Some(old),
            new: Some(key),
        };
        let segment = next.segment()?;
        let unit = target.sector_size.max(segment.sector_size);
        let plan = ReencryptionPlan {
            mode: ReencryptionMode::Reencrypt,
            course: Course::Forward,
            old: (&segment, Some(next.digest()?.id)),
            new: (&target, Some(digest)),
            moved: None,
            resilience: how.protection.resilience(unit)?,
            resilience_of_moved: None,
        };
        next.plan_reencryption(&plan, &how.slot, &keys, random)?;
        for (slot, (_, passphrase)) in slots.iter().zip(kept) {
            let key = keys.new.as_ref().ok_or_else(missing)?;
            material::write(&*self.device, slot, key, passphrase, random)?;
        }
        next.change_header(random, |_| Ok(()))?;
        self.header = next.header;
        Ok(keys)
    }

    /// Refuses what cannot be re-encrypted, or not so, and says how data is encrypted in the end.
    ///
    /// # Errors
    /// As for [`Container::begin_reencryption`].
    pub fn check_reencryption(
        &self,
        data: &dyn BlockDevice,
        how: &ReencryptionChoice,
    ) -> Result<Segment> {
        let segment = self.reencryptable()?;
        self.check_changeable()?;
        let target = target(&segment, how)?;
        key_len(&target.cipher, how, 0, &data.name())?;
        how.protection.resilience(target.sector_size)?;
        check_len(&segment, &target, data)?;
        Ok(target)
    }

    /// The only segment, if it can be re-encrypted.
    pub(super) fn reencryptable(&self) -> Result<Segment> {
        let refuse = |what: &str| Err(Error::unsupported(&self.device.name(), what));
        if let Header::V1(_) = &self.header {
            return refuse(
                "LUKS1 has no place for two keys at a time: convert it with 'luks convert --type luks2' first",
            );
        }
        let segment = self.segment()?;
        match segment.integrity {
            Some(_) => {
                refuse("a container with authenticated sectors is not re-encrypted in place")
            }
            None => Ok(segment),
        }
    }

    /// Enters a slot of the new key for each passphrase, and a digest of the key, in memory. Returns the number of
    /// the digest, and the slots.
    fn plan_slots(
        &mut self,
        how: &ReencryptionChoice,
        choice: &SlotChoice,
        key: &Secret,
        kept: &[(u32, Secret)],
        random: &dyn Random,
    ) -> Result<(u32, Vec<Keyslot>)> {
        let digest = digest_json(&how.slot, key, &[], &[], random)?;
        let header = self.luks2_mut("digests of two keys")?;
        let number = free_digest(header)?;
        header.change(|json| json["digests"][number.to_string()] = digest)?;
        let mut slots = Vec::new();
        for (old, _) in kept {
            let mut salt = [0; SALT_LEN];
            random.fill(&mut salt)?;
            let slot = self.plan_slot(self.free_slot(None)?, key.len(), choice, salt)?;
            let header = self.luks2_mut("key slots of two keys")?;
            header.follow((*old, slot.id), slot_json(&slot), number)?;
            slots.push(slot);
        }
        Ok((number, slots))
    }

    /// Enters a re-encryption, in memory.
    pub(super) fn plan_reencryption(
        &mut self,
        plan: &ReencryptionPlan<'_>,
        slot: &SlotChoice,
        keys: &BothKeys,
        random: &dyn Random,
    ) -> Result<()> {
        let unit = plan.old.0.sector_size.max(plan.new.0.sector_size);
        let id = self.free_slot(None)?;
        let header = self.luks2_mut("re-encryption")?;
        let (mut area, number) = (largest_gap(header), free_digest(header)?);
        let has_space = |kept: Resilience| area.1 > 0 && kept.capacity(area.1, unit) > 0;
        let kept = [Some(plan.resilience), plan.resilience_of_moved];
        if !kept.into_iter().flatten().all(has_space) {
            return Err(Error::NoSpace {
                what: "no space for key material is left; remove a key slot".into(),
            });
        }
        if kept == [Some(plan.resilience), None] && plan.moved.is_some() {
            // Nothing is kept in it.
            area.1 = AREA_ALIGN;
        }
        // What is to be proven is taken from what the header says then.
        let of_data = plan.new.1.or(plan.old.1).unwrap_or_default();
        let mut unproven = header.json()["digests"][of_data.to_string()].clone();
        unproven["keyslots"] = json!([id.to_string()]);
        header.begin(ReencryptionEntry {
            plan,
            id,
            proof: (number, unproven),
            area,
        })?;
        let proven = proven(&self.reencryption()?, keys)?;
        let proof = digest_json(slot, &proven, &[id], &[], random)?;
        match &mut self.header {
            Header::V1(_) => Ok(()),
            Header::V2(header) => header.change(|json| json["digests"][number.to_string()] = proof),
        }
    }
}

/// Returns the segment as it will be encrypted in the end.
fn target(segment: &Segment, how: &ReencryptionChoice) -> Result<Segment> {
    let sector_size = how.sector_size.unwrap_or(segment.sector_size);
    if ![512, 1024, 2048, 4096].contains(&sector_size) {
        return Err(Error::usage("a sector has 512, 1024, 2048 or 4096 bytes"));
    }
    Ok(Segment {
        cipher: how.cipher.as_ref().unwrap_or(&segment.cipher).clone(),
        sector_size,
        ..segment.clone()
    })
}

/// Returns the length of the new key: that of the old one, if the cipher takes it.
fn key_len(cipher: &str, how: &ReencryptionChoice, old_len: usize, device: &str) -> Result<usize> {
    let lens = crypto::spec(cipher, device)?.key_lens();
    let longest = lens.iter().copied().max().unwrap_or(old_len);
    let usual = match lens.contains(&old_len) {
        true => old_len,
        false => longest,
    };
    match how.key_len.unwrap_or(usual) {
        len if lens.contains(&len) => Ok(len),
        _ => Err(crypto::wrong_key_len(cipher, lens)),
    }
}

/// Refuses data that the new sectors do not fill.
pub(super) fn check_len(segment: &Segment, target: &Segment, data: &dyn BlockDevice) -> Result<()> {
    let there = data.size().saturating_sub(segment.offset);
    let len = segment.len.unwrap_or(there);
    let (sector, old) = (
        u64::from(target.sector_size),
        u64::from(segment.sector_size),
    );
    if len > there || len < sector.max(old) {
        return Err(Error::TooSmall {
            device: data.name(),
            size: data.size(),
            needed: segment.offset + len.max(sector).max(old),
        });
    }
    match (len - len % old) % sector {
        0 => Ok(()),
        _ => Err(Error::Usage(format!(
            "the {len} bytes of data are no whole number of sectors of {sector} bytes"
        ))),
    }
}

/// Returns the settings of the new slots. Their cost is measured once.
fn slot_choice(how: &ReencryptionChoice, cipher: &str, key_len: usize) -> Result<SlotChoice> {
    let mut choice = how.slot.clone();
    choice.kdf = choice.kdf.forced()?;
    let as_data = crypto::fits_material(cipher, key_len).then(|| (cipher.into(), key_len));
    let usual = (MATERIAL_CIPHER.0.into(), MATERIAL_CIPHER.1);
    choice.cipher.get_or_insert(as_data.unwrap_or(usual));
    Ok(choice)
}
