//! Decryption in place. The header is not on the device. If it was, it is exported first, and the data moves to the
//! space of the header.

use block::BlockDevice;
use cipher::Random;
use serde_json::{Map, Value, json};

use super::begin::Protection;
use super::keys::BothKeys;
use super::run::ReencryptionPace;
use super::stage::copy;
use crate::container::backup::read_backup;
use crate::container::{Container, UnlockedKey};
use crate::header::Header;
use crate::header::luks2::{
    self, COPY_SIZES, Course, ReencryptionMode, ReencryptionPlan, Resilience,
};
use crate::keyslots::slots::{SlotChoice, largest_gap};
use crate::model::{SECTOR, Segment};
use crate::{Error, Result};

/// The longest first part of data that moves, unless it is said, in bytes: it is read at once.
const FIRST_MAX: u64 = 64 << 20;

/// The type of the token in a header that was exported to decrypt its device.
const EXPORTED: &str = "strongroom-decrypt";

impl Container {
    /// The bytes of a header for another file, with which [`Container::begin_decryption`] decrypts the device of
    /// this one.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for what cannot be decrypted in place; the failure of the device.
    pub fn export_for_decryption(&self, random: &dyn Random) -> Result<Vec<u8>> {
        self.reencryptable()?;
        self.check_changeable()?;
        let mut exported = read_backup(self.backup()?, random)?;
        let mut token = Map::new();
        token.insert("type".into(), EXPORTED.into());
        token.insert("keyslots".into(), json!([]));
        exported.add_token(token, None, random)?;
        let mut bytes = vec![0; exported.device.size() as usize];
        exported.device.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// The token of a header that was exported, if this is one.
    fn export_token(&self) -> Option<u32> {
        let Header::V2(header) = &self.header else {
            return None;
        };
        let mut tokens = header.view().tokens.iter();
        let found = tokens.find(|(_, token)| token.kind == EXPORTED);
        found.map(|(id, _)| *id)
    }

    /// Begins to decrypt data on `data`, of a container that is closed, and whose header is elsewhere. If the header
    /// was exported, the first part of the data is moved into its space. Nothing else is written yet:
    /// [`Container::reencrypt`] does the rest.
    ///
    /// # Errors
    /// [`Error::Usage`] if the header is one that lies before its data, and for a wrong key;
    /// [`Error::Unsupported`]; the failure of a device. The header of the container is as it was then.
    pub fn begin_decryption(
        &mut self,
        data: &dyn BlockDevice,
        protection: &Protection,
        pace: ReencryptionPace,
        unlocked: UnlockedKey,
        choice: &SlotChoice,
        random: &dyn Random,
    ) -> Result<BothKeys> {
        let segment = self.check_decryption(data)?;
        if !self.is_volume_key(&unlocked.key)? {
            return Err(Error::usage("this is not the key of the container"));
        }
        let digest = self.digest()?.id;
        let keys = BothKeys {
            slot: unlocked.slot,
            old: Some(unlocked.key),
            new: None,
        };
        let kept = protection.resilience(segment.sector_size)?;
        let moved = match segment.offset {
            0 => None,
            shift => Some(self.moved(data, &segment, kept, shift, pace)?),
        };
        let (course, resilience) = match &moved {
            None => (Course::Backward, kept),
            Some(_) => (Course::Down, Resilience::Shift(segment.offset)),
        };
        let new = Segment::linear(0, segment.len.filter(|_| moved.is_none()));
        let plan = ReencryptionPlan {
            mode: ReencryptionMode::Decrypt,
            course,
            old: (&segment, Some(digest)),
            new: (&new, None),
            moved: moved.as_ref(),
            resilience,
            resilience_of_moved: moved.as_ref().map(|_| kept),
        };
        let mut next = self.draft();
        next.plan_reencryption(&plan, choice, &keys, random)?;
        if let Some(moved) = &moved {
            // The header is durable elsewhere.
            forget_header(data, segment.offset)?;
            copy(data, segment.offset, 0, moved.len.unwrap_or_default())?;
        }
        let token = self.export_token();
        next.change_header(random, |header| {
            header.change(|json| {
                let tokens = json["tokens"].as_object_mut();
                if let (Some(tokens), Some(token)) = (tokens, token) {
                    tokens.remove(&token.to_string());
                }
            })
        })?;
        self.header = next.header;
        Ok(keys)
    }

    /// Refuses what cannot be decrypted in place.
    ///
    /// # Errors
    /// As for [`Container::begin_decryption`].
    pub fn check_decryption(&self, data: &dyn BlockDevice) -> Result<Segment> {
        let segment = self.reencryptable()?;
        self.check_changeable()?;
        let len = data.size().saturating_sub(segment.offset);
        let len = segment.len.unwrap_or(len);
        let sector = u64::from(segment.sector_size);
        if len < sector || data.size() < segment.offset + len {
            return Err(Error::TooSmall {
                device: data.name(),
                size: data.size(),
                needed: segment.offset + len.max(sector),
            });
        }
        if len % sector != 0 || segment.offset % sector != 0 {
            return Err(Error::Usage(format!(
                "the {len} bytes of data are no whole number of sectors of {sector} bytes"
            )));
        }
        if segment.offset == 0 {
            return Ok(segment);
        }
        let is_other = match Header::read(data) {
            Ok(there) => !self.is_exported_from(&there),
            // It was forgotten already.
            Err(Error::NotLuks { .. }) => false,
            Err(error) => return Err(error),
        };
        match self.export_token() {
            Some(_) if !is_other => Ok(segment),
            _ => Err(Error::usage(
                "its data begins behind a header: name with --header a new file, to which the header is exported",
            )),
        }
    }

    /// Returns whether the data and its key are still those of the header on the device. The device may have been
    /// re-encrypted since the export.
    fn is_exported_from(&self, there: &Header) -> bool {
        let (Header::V2(own), Header::V2(there)) = (&self.header, there) else {
            return false;
        };
        let proofs = |header: &luks2::Header| -> Vec<(u32, Value, Value)> {
            let digests = header.json()["digests"].as_object().into_iter().flatten();
            let proof = |(id, digest): (&String, &Value)| {
                let used = digest["segments"]
                    .as_array()
                    .is_some_and(|all| !all.is_empty());
                let id = id.parse().ok().filter(|_| used)?;
                Some((id, digest["salt"].clone(), digest["digest"].clone()))
            };
            digests.filter_map(proof).collect()
        };
        own.uuid == there.uuid
            && own.json()["segments"] == there.json()["segments"]
            && proofs(own) == proofs(there)
    }

    /// The first part of the data of `segment`, moved to the beginning of its device.
    fn moved(
        &self,
        data: &dyn BlockDevice,
        segment: &Segment,
        kept: Resilience,
        shift: u64,
        pace: ReencryptionPace,
    ) -> Result<Segment> {
        let Header::V2(header) = &self.header else {
            return Err(Error::usage("LUKS1 is not decrypted in place"));
        };
        if kept == Resilience::None {
            return Err(Error::usage(
                "data that moves is protected: use the resilience checksum or journal",
            ));
        }
        let len = segment.len.unwrap_or(data.size() - shift);
        let space = kept.capacity(largest_gap(header).1, segment.sector_size);
        // cryptsetup 2.6 resumes at any moment only if this is as long as the space of the header.
        let longest = pace
            .zone
            .unwrap_or(shift.min(FIRST_MAX))
            .min(shift)
            .min(len)
            .min(space);
        let sector = u64::from(segment.sector_size);
        match longest - longest % sector {
            0 => Err(Error::Usage(format!(
                "the first part of the data has at least {sector} bytes, and there is space for {space}"
            ))),
            first => Ok(Segment {
                offset: 0,
                len: Some(first),
                ..segment.clone()
            }),
        }
    }
}

/// Overwrites the beginning of each copy of a header that lies in the first bytes of a device.
fn forget_header(data: &dyn BlockDevice, len: u64) -> Result<()> {
    let copies = std::iter::once(0).chain(COPY_SIZES);
    for offset in copies.filter(|offset| offset + SECTOR <= len) {
        data.overwrite(offset, SECTOR)?;
    }
    Ok(data.flush()?)
}
