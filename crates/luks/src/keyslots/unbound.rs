//! Key slots with a key of their own, which encrypts no data of the container. Programs keep a key in a header with
//! them.

use std::sync::Arc;

use cipher::Random;
use secret::Secret;

use super::material;
use super::slots::{MATERIAL_CIPHER, SlotChoice, slot_json};
use crate::container::Container;
use crate::container::format::digest_json;
use crate::header::luks2::{self, DIGESTS_MAX};
use crate::model::{KEY_LEN_MAX, SALT_LEN};
use crate::{Error, Result};

impl Container {
    /// Adds a new random key of `key_len` bytes in a key slot, and returns the slot. No passphrase of the container is
    /// needed, and this one does not open it.
    ///
    /// # Errors
    /// [`Error::SlotInUse`], [`Error::NoSpace`]; [`Error::Usage`] for LUKS1, and for a key that is too long.
    pub fn add_unbound_key(
        &mut self,
        key_len: usize,
        passphrase: &Secret,
        choice: &SlotChoice,
        slot: Option<u32>,
        random: &dyn Random,
    ) -> Result<u32> {
        self.luks2_mut("key slots without data")?;
        if !(1..=KEY_LEN_MAX).contains(&key_len) {
            return Err(Error::Usage(format!(
                "a key has 8 to {} bits",
                KEY_LEN_MAX * 8
            )));
        }
        let id = self.free_slot(slot)?;
        let mut choice = choice.clone();
        let (cipher, cipher_key_len) = MATERIAL_CIPHER;
        choice.cipher.get_or_insert((cipher.into(), cipher_key_len));
        let mut key = Secret::zeroed(key_len)?;
        random.fill(key.expose_mut())?;
        let mut salt = [0; SALT_LEN];
        random.fill(&mut salt)?;
        let planned = self.plan_slot(id, key_len, &choice, salt)?;
        let digest = digest_json(&choice, &key, &[id], &[], random)?;
        let device = Arc::clone(&self.device);
        let header = self.luks2_mut("key slots without data")?;
        let number = free_digest(header)?;
        let mut changed = header.clone();
        changed.change(|json| {
            json["keyslots"][id.to_string()] = slot_json(&planned);
            json["digests"][number.to_string()] = digest;
        })?;
        material::write(&*device, &planned, &key, passphrase, random)?;
        changed.write(&*device, random)?;
        *header = changed;
        Ok(id)
    }
}

/// A number that no digest has.
pub(crate) fn free_digest(header: &luks2::Header) -> Result<u32> {
    let digests = &header.view().digests;
    let number = (0..DIGESTS_MAX).find(|number| !digests.contains_key(number));
    number.ok_or(Error::NoSpace {
        what: format!("there are {DIGESTS_MAX} digests of keys; remove a key slot without data"),
    })
}
