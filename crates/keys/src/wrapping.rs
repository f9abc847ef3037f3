//! The wrapping key of a dataset: its own, behind slots, or an ancestor's.

use cipher::Random;

use crate::kdf::WORK_MAX;
use crate::key::random_key;
use crate::{Argon2Params, Error, HashWork, KeyMaterial, Result, SLOTS_MAX, Slot, WrappingKey};

/// Whose wrapping key a keyring uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrapping {
    /// Its own: the dataset is an encryption root.
    Own {
        /// The id of the wrapping key.
        id: [u8; 16],
        /// The ways to it: 1 to 32, by ascending number.
        slots: Vec<Slot>,
    },
    /// That of an ancestor.
    Inherited {
        /// The id of the wrapping key.
        id: [u8; 16],
    },
}

impl Wrapping {
    /// A new wrapping key, and one slot, number 0, that `material` unlocks. `params` are the cost of
    /// guessing, if the material is a passphrase; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// [`Error::KdfParams`] if the parameters are too cheap; [`Error::KdfMemory`];
    /// [`Error::Cipher`] if there are no random numbers.
    pub fn create(
        material: &KeyMaterial,
        params: &Argon2Params,
        now: u64,
        random: &dyn Random,
    ) -> Result<(Wrapping, WrappingKey)> {
        let mut id = [0; 16];
        random.fill(&mut id)?;
        let key = WrappingKey::new(id, random_key(random)?);
        let place = (0, Slot::PRIORITY_NORMAL);
        let slot = Slot::create(place, &key, material, params, now, random)?;
        let slots = vec![slot];
        Ok((Wrapping::Own { id, slots }, key))
    }

    /// The id of the wrapping key.
    pub fn id(&self) -> &[u8; 16] {
        match self {
            Wrapping::Own { id, .. } | Wrapping::Inherited { id } => id,
        }
    }

    /// The slots, by ascending number. None if the wrapping key is inherited.
    pub fn slots(&self) -> &[Slot] {
        match self {
            Wrapping::Own { slots, .. } => slots,
            Wrapping::Inherited { .. } => &[],
        }
    }

    /// The wrapping key, by [`Wrapping::unlock_slot`].
    ///
    /// # Errors
    /// As for [`Wrapping::unlock_slot`].
    pub fn unlock(&self, material: &KeyMaterial) -> Result<WrappingKey> {
        self.unlock_slot(material).map(|(_, key)| key)
    }

    /// Tries `material` on each slot that takes its kind, by descending priority, and returns the number of the
    /// slot that opened, and the wrapping key.
    ///
    /// # Errors
    /// [`Error::WrongKey`] if no slot opens; [`Error::KindMismatch`] if none takes this kind;
    /// [`Error::Damaged`] if the material is right for a slot that was changed, and for no other;
    /// [`Error::Inherited`]; [`Error::KdfMemory`], [`Error::KdfBudget`]; [`Error::KdfWork`] if the slots
    /// that were tried cost so much that no owner made them.
    pub fn unlock_slot(&self, material: &KeyMaterial) -> Result<(u32, WrappingKey)> {
        let Wrapping::Own { id, slots } = self else {
            return Err(Error::Inherited);
        };
        let mut order: Vec<&Slot> = slots.iter().collect();
        order.sort_by_key(|slot| std::cmp::Reverse(slot.priority()));
        let mut failure = Error::KindMismatch(material.kind());
        let mut work = HashWork::new(WORK_MAX);
        for slot in order {
            let paid = work.spend(slot.work(material));
            match paid.and_then(|()| slot.unlock(id, material)) {
                Ok(Some(key)) => return Ok((slot.number(), key)),
                Ok(None) => {}
                Err(Error::WrongKey) if failure.is_of_one_slot() => {}
                Err(error) if matches!(error, Error::WrongKey) || error.is_of_one_slot() => {
                    if error.rank() >= failure.rank() {
                        failure = error;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(failure)
    }

    /// Adds a slot that `material` unlocks, and returns its number: the lowest that is free.
    ///
    /// # Errors
    /// [`Error::SlotsFull`]; [`Error::WrongKey`] if `key` is another wrapping key; otherwise as
    /// [`Wrapping::create`]. Nothing is changed then.
    pub fn add_slot(
        &mut self,
        key: &WrappingKey,
        priority: u8,
        material: &KeyMaterial,
        params: &Argon2Params,
        now: u64,
        random: &dyn Random,
    ) -> Result<u32> {
        let slots = self.own_slots(key)?;
        if slots.len() >= SLOTS_MAX {
            return Err(Error::SlotsFull);
        }
        // Numbers ascend, so the first that differs from its place is a gap.
        let gap = (0..)
            .zip(slots.iter())
            .position(|(n, slot)| slot.number() != n);
        let place = gap.unwrap_or(slots.len());
        let number = place as u32;
        let slot = Slot::create((number, priority), key, material, params, now, random)?;
        slots.insert(place, slot);
        Ok(number)
    }

    /// Replaces what unlocks a slot, with a new salt. Number and priority stay.
    ///
    /// # Errors
    /// [`Error::NoSlot`]; [`Error::WrongKey`] if `key` is another wrapping key; otherwise as
    /// [`Wrapping::create`]. Nothing is changed then.
    pub fn replace_slot(
        &mut self,
        number: u32,
        key: &WrappingKey,
        material: &KeyMaterial,
        params: &Argon2Params,
        now: u64,
        random: &dyn Random,
    ) -> Result<()> {
        let slots = self.own_slots(key)?;
        let slot = slots.iter_mut().find(|slot| slot.number() == number);
        let slot = slot.ok_or(Error::NoSlot(number))?;
        let place = (number, slot.priority());
        *slot = Slot::create(place, key, material, params, now, random)?;
        Ok(())
    }

    /// Removes a slot, but not the last one that this program can use. `key` shows that another way is
    /// known, or not needed.
    ///
    /// # Errors
    /// [`Error::NoSlot`]; [`Error::LastSlot`]; [`Error::WrongKey`] if `key` is another wrapping key.
    pub fn remove_slot(&mut self, number: u32, key: &WrappingKey) -> Result<()> {
        let slots = self.own_slots(key)?;
        let index = slots.iter().position(|slot| slot.number() == number);
        let index = index.ok_or(Error::NoSlot(number))?;
        let others = slots.iter().filter(|slot| slot.number() != number);
        if !others.into_iter().any(|slot| slot.kind().is_known()) {
            return Err(Error::LastSlot(number));
        }
        slots.remove(index);
        Ok(())
    }

    fn own_slots(&mut self, key: &WrappingKey) -> Result<&mut Vec<Slot>> {
        match self {
            Wrapping::Inherited { .. } => Err(Error::Inherited),
            Wrapping::Own { id, .. } if id != key.id() => Err(Error::WrongKey),
            Wrapping::Own { slots, .. } => Ok(slots),
        }
    }
}
