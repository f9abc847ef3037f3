//! The wrapping key of a dataset: its own, behind slots, or an ancestor's.

use cipher::Random;

use crate::hash::argon2::WORK_MAX;
use crate::key::random_key;
use crate::{Error, GuessCost, HashWork, KeyMaterial, KeySlot, Result, SLOTS_MAX, WrappingKey};

/// The way of a keyring to its wrapping key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrappingKeyAccess {
    /// A wrapping key of its own: the dataset is an encryption root.
    Own {
        /// The id of the wrapping key.
        id: [u8; 16],
        /// The ways to it: 1 to 32, by ascending number.
        slots: Vec<KeySlot>,
    },
    /// The wrapping key of an ancestor.
    Inherited {
        /// The id of the wrapping key.
        id: [u8; 16],
    },
}

impl WrappingKeyAccess {
    /// A new wrapping key, and one slot, number 0, that `material` unlocks. `cost` is that of
    /// guessing, if the material is a passphrase; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// [`Error::KdfParams`] if the parameters are too cheap; [`Error::KdfMemory`];
    /// [`Error::Cipher`] if there are no random numbers.
    pub fn create(
        material: &KeyMaterial,
        cost: impl Into<GuessCost>,
        now: u64,
        random: &dyn Random,
    ) -> Result<(WrappingKeyAccess, WrappingKey)> {
        let mut id = [0; 16];
        random.fill(&mut id)?;
        let key = WrappingKey::new(id, random_key(random)?);
        let place = (0, KeySlot::PRIORITY_NORMAL);
        let slot = new_slot(place, &key, material, cost.into(), now, random)?;
        let slots = vec![slot];
        Ok((WrappingKeyAccess::Own { id, slots }, key))
    }

    /// The id of the wrapping key.
    pub fn id(&self) -> &[u8; 16] {
        match self {
            WrappingKeyAccess::Own { id, .. } | WrappingKeyAccess::Inherited { id } => id,
        }
    }

    /// The slots, by ascending number. None if the wrapping key is inherited.
    pub fn slots(&self) -> &[KeySlot] {
        match self {
            WrappingKeyAccess::Own { slots, .. } => slots,
            WrappingKeyAccess::Inherited { .. } => &[],
        }
    }

    /// The wrapping key, by [`WrappingKeyAccess::unlock_slot`].
    ///
    /// # Errors
    /// As for [`WrappingKeyAccess::unlock_slot`].
    pub fn unlock(&self, material: &KeyMaterial) -> Result<WrappingKey> {
        self.unlock_slot(material).map(|(_, key)| key)
    }

    /// Tries `material` on each slot that takes its kind, by descending priority. Returns the number of the slot
    /// that opened, and the wrapping key. A passphrase is tried in normalization form C, and then as it was typed.
    ///
    /// # Errors
    /// [`Error::WrongKey`] if no slot opens; [`Error::KindMismatch`] if none takes this kind;
    /// [`Error::Damaged`] if the material is right for a slot that was changed, and for no other;
    /// [`Error::Inherited`]; [`Error::KdfMemory`], [`Error::KdfBudget`]; [`Error::KdfWork`] if the slots
    /// that were tried cost so much that no owner made them.
    pub fn unlock_slot(&self, material: &KeyMaterial) -> Result<(u32, WrappingKey)> {
        let WrappingKeyAccess::Own { id, slots } = self else {
            return Err(Error::Inherited);
        };
        let mut order: Vec<&KeySlot> = slots.iter().collect();
        order.sort_by_key(|slot| std::cmp::Reverse(slot.priority()));
        // Slots of before have passphrases as they were typed.
        let normalized = material.normalized()?;
        let forms: Vec<&KeyMaterial> = normalized.iter().chain([material]).collect();
        let tries = forms
            .iter()
            .flat_map(|form| order.iter().map(move |slot| (*slot, *form)));
        let mut failure = Error::KindMismatch(material.kind());
        let mut work = HashWork::new(WORK_MAX);
        for (slot, material) in tries {
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
    /// [`WrappingKeyAccess::create`]. Nothing is changed then.
    pub fn add_slot(
        &mut self,
        key: &WrappingKey,
        priority: u8,
        material: &KeyMaterial,
        cost: impl Into<GuessCost>,
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
        let slot = new_slot((number, priority), key, material, cost.into(), now, random)?;
        slots.insert(place, slot);
        Ok(number)
    }

    /// Replaces what unlocks a slot, with a new salt. Number and priority stay.
    ///
    /// # Errors
    /// [`Error::NoSlot`]; [`Error::WrongKey`] if `key` is another wrapping key; otherwise as
    /// [`WrappingKeyAccess::create`]. Nothing is changed then.
    pub fn replace_slot(
        &mut self,
        number: u32,
        key: &WrappingKey,
        material: &KeyMaterial,
        cost: impl Into<GuessCost>,
        now: u64,
        random: &dyn Random,
    ) -> Result<()> {
        let slots = self.own_slots(key)?;
        let slot = slots.iter_mut().find(|slot| slot.number() == number);
        let slot = slot.ok_or(Error::NoSlot(number))?;
        let place = (number, slot.priority());
        *slot = new_slot(place, key, material, cost.into(), now, random)?;
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

    fn own_slots(&mut self, key: &WrappingKey) -> Result<&mut Vec<KeySlot>> {
        match self {
            WrappingKeyAccess::Inherited { .. } => Err(Error::Inherited),
            WrappingKeyAccess::Own { id, .. } if id != key.id() => Err(Error::WrongKey),
            WrappingKeyAccess::Own { slots, .. } => Ok(slots),
        }
    }
}

/// A new slot. A passphrase is in normalization form C in it.
fn new_slot(
    place: (u32, u8),
    key: &WrappingKey,
    material: &KeyMaterial,
    cost: GuessCost,
    now: u64,
    random: &dyn Random,
) -> Result<KeySlot> {
    let normalized = material.normalized()?;
    let material = normalized.as_ref().unwrap_or(material);
    KeySlot::create(place, key, material, cost, now, random)
}

#[cfg(test)]
mod tests {
    use cipher::SeededRandom;
    use secret::Secret;

    use super::*;
    use crate::Argon2Params;

    const CHEAP: Argon2Params = Argon2Params::insecure_for_tests();
    const COMPOSED: &str = "Schl\u{fc}ssel";
    const DECOMPOSED: &str = "Schlu\u{308}ssel";

    fn passphrase(text: &str) -> KeyMaterial {
        KeyMaterial::Passphrase(Secret::from_slice(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_passphrase_opens_however_it_is_typed() {
        for made in [COMPOSED, DECOMPOSED] {
            let random = SeededRandom::new(1);
            let material = passphrase(made);
            let (wrapping, key) = WrappingKeyAccess::create(&material, &CHEAP, 0, &random).unwrap();
            for typed in [COMPOSED, DECOMPOSED] {
                let opened = wrapping.unlock(&passphrase(typed)).unwrap();
                assert_eq!(opened.key().expose(), key.key().expose());
            }
            let wrong = wrapping.unlock(&passphrase("Schlussel"));
            assert!(matches!(wrong, Err(Error::WrongKey)));
        }
    }

    /// Before, the hash was of the bytes as they were typed.
    #[test]
    fn a_slot_of_before_opens_as_it_was_typed() {
        let random = SeededRandom::new(1);
        let key = WrappingKey::new([7; 16], random_key(&random).unwrap());
        let old = passphrase(DECOMPOSED);
        let slot = KeySlot::create((0, 1), &key, &old, (&CHEAP).into(), 0, &random).unwrap();
        let mut wrapping = WrappingKeyAccess::Own {
            id: [7; 16],
            slots: vec![slot],
        };
        let opened = wrapping.unlock(&old).unwrap();
        assert_eq!(opened.key().expose(), key.key().expose());
        let composed = wrapping.unlock(&passphrase(COMPOSED));
        assert!(matches!(composed, Err(Error::WrongKey)));
        // A key change makes a new slot of it.
        wrapping
            .replace_slot(0, &key, &old, &CHEAP, 0, &random)
            .unwrap();
        wrapping.unlock(&passphrase(COMPOSED)).unwrap();
    }
}
