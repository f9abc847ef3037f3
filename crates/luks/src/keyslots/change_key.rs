//! Changing the passphrase of a key slot.

use std::sync::Arc;

use cipher::Random;
use secret::Secret;

use super::material;
use super::slot_refs::{exchange, replace};
use super::slots::{SlotChoice, iterations, slot_json};
use crate::container::{Container, UnlockedKey};
use crate::header::Header;
use crate::model::{Keyslot, SALT_LEN};
use crate::{Error, Result};

impl Container {
    /// Exchanges the passphrase of a slot, and says which slot the new one has: in LUKS2 the same.
    ///
    /// The new one is complete before the old one goes. A power cut between leaves both, or, in LUKS2 with all slots
    /// in use, one or the other.
    ///
    /// # Errors
    /// As [`Container::add_key`]: there must be space for one more.
    pub fn change_key(
        &mut self,
        old: &UnlockedKey,
        passphrase: &Secret,
        choice: &SlotChoice,
        random: &dyn Random,
    ) -> Result<u32> {
        let is_full = matches!(self.free_slot(None), Err(Error::NoSpace { .. }));
        if let (true, Header::V2(_)) = (is_full, &self.header) {
            return self.move_slot(old, passphrase, choice, random);
        }
        let added = self.add_key(&old.key, passphrase, choice, None, random);
        let new = added.map_err(|error| match error {
            Error::NoSpace { what } => no_space(&what),
            other => other,
        })?;
        let gone = match &mut self.header {
            Header::V1(_) => old.slot,
            Header::V2(header) => {
                let mut changed = header.clone();
                changed.change(|json| exchange(json, old.slot, new))?;
                changed.write(&*self.device, random)?;
                *header = changed;
                new
            }
        };
        self.remove_slot(gone, false, random)?;
        Ok(if gone == new { old.slot } else { new })
    }

    /// Exchanges the passphrase of a slot whose number cannot change, because all are in use. The new key material
    /// goes into free space, then the header refers to it, then the old material goes.
    fn move_slot(
        &mut self,
        old: &UnlockedKey,
        passphrase: &Secret,
        choice: &SlotChoice,
        random: &dyn Random,
    ) -> Result<u32> {
        self.check_change(old)?;
        let (offset, len) = self.area_of(old.slot)?;
        let planned = self.plan_anew(old, choice, None, random);
        let planned = planned.map_err(|error| match error {
            Error::NoSpace { what } => no_space(&what),
            other => other,
        })?;
        let changed = self.header_with(&planned)?;
        material::write(&*self.device, &planned, &old.key, passphrase, random)?;
        self.write_header(changed, random)?;
        material::wipe(&*self.device, offset, len, random)?;
        Ok(old.slot)
    }

    /// Exchanges the passphrase of a slot when no space is left: the new key material overwrites the old. A power cut
    /// meanwhile can leave neither.
    ///
    /// # Errors
    /// [`Error::LastSlot`] if no other slot opens the container; the failure of the device, after which the old key
    /// material was put back if that could be done.
    pub fn change_key_in_place(
        &mut self,
        old: &UnlockedKey,
        passphrase: &Secret,
        choice: &SlotChoice,
        random: &dyn Random,
    ) -> Result<u32> {
        self.check_change(old)?;
        let bound = self.digest()?.keyslots;
        let mut slots = self.slots().into_iter();
        if !slots.any(|other| other.id != old.slot && bound.contains(&other.id)) {
            return Err(Error::LastSlot { slot: old.slot });
        }
        let (offset, len) = self.area_of(old.slot)?;
        let planned = self.plan_anew(old, choice, Some((offset, len)), random)?;
        let mut before = vec![0; len as usize];
        self.device.read_at(offset, &mut before)?;
        // All that can be refused is refused before the old material is gone.
        let changed = self.header_with(&planned)?;
        let written = material::write(&*self.device, &planned, &old.key, passphrase, random)
            .and_then(|()| self.write_header(changed, random));
        if written.is_err() && !self.is_stored(&planned) {
            // What the device refuses now stays lost; the first failure says why.
            let pieces = [std::io::IoSlice::new(&before)];
            let _ = self.device.write_durably_at(offset, &pieces);
        }
        written.map(|()| old.slot)
    }

    fn check_change(&self, old: &UnlockedKey) -> Result<()> {
        self.check_changeable()?;
        match self.is_volume_key(&old.key)? {
            true => Ok(()),
            false => Err(Error::usage("this is not the key of the container")),
        }
    }

    /// The slot with another passphrase: in this space, or where there is free space.
    fn plan_anew(
        &self,
        old: &UnlockedKey,
        choice: &SlotChoice,
        area: Option<(u64, u64)>,
        random: &dyn Random,
    ) -> Result<Keyslot> {
        let mut salt = [0; SALT_LEN];
        random.fill(&mut salt)?;
        self.plan_slot_at(old.slot, old.key.len(), choice, salt, area)
    }

    /// A header that says of a slot what is planned. Its number, priority and users stay.
    fn header_with(&self, slot: &Keyslot) -> Result<Header> {
        Ok(match &self.header {
            Header::V1(header) => {
                let mut changed = header.clone();
                changed.enable(slot.id, iterations(&slot.kdf), slot.salt);
                Header::V1(changed)
            }
            Header::V2(header) => {
                let mut changed = header.clone();
                changed.change(|json| replace(json, slot.id, slot_json(slot)))?;
                Header::V2(changed)
            }
        })
    }

    fn write_header(&mut self, mut changed: Header, random: &dyn Random) -> Result<()> {
        match &mut changed {
            Header::V1(header) => header.write_growing(&*self.device)?,
            Header::V2(header) => header.write(&*self.device, random)?,
        }
        self.header = changed;
        Ok(())
    }

    /// Returns whether the header on the device has this slot.
    fn is_stored(&self, slot: &Keyslot) -> bool {
        let stored = Container::look(Arc::clone(&self.device));
        stored.is_ok_and(|stored| {
            let mut slots = stored.slots().into_iter();
            slots.any(|stored| stored.id == slot.id && stored.salt == slot.salt)
        })
    }
}

fn no_space(what: &str) -> Error {
    Error::NoSpace {
        what: format!("{what}, or change the slot itself with --in-place"),
    }
}
