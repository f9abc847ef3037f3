//! The two keys of a container in re-encryption, and the proof that its header is what was made with them.

use secret::Secret;

use crate::container::Container;
use crate::header::Header;
use crate::luks2::{Reencryption, Refusal};
use crate::{Error, Result, keyslot};

/// The two volume keys of a container in re-encryption.
pub struct BothKeys {
    /// The slot of the new one.
    pub slot: u32,
    /// The one that goes, unless all data is encrypted anew and its slots are gone.
    pub old: Option<Secret>,
    /// The one that comes.
    pub new: Secret,
}

impl BothKeys {
    pub(crate) fn old(&self) -> Result<&Secret> {
        let missing = || Error::usage("the old key of the container is needed");
        self.old.as_ref().ok_or_else(missing)
    }
}

impl Container {
    /// Whether a re-encryption was begun and not ended. Such a container is unlocked with
    /// [`Container::unlock_both`].
    pub fn is_in_reencryption(&self) -> bool {
        match &self.header {
            Header::V1(_) => false,
            Header::V2(header) => header.is_in_reencryption(),
        }
    }

    /// Where data begins, in bytes. Zero if the header is elsewhere.
    ///
    /// # Errors
    /// As for [`Container::segment`].
    pub fn data_offset(&self) -> Result<u64> {
        match self.is_in_reencryption() {
            true => Ok(self.reencryption()?.old.segment.offset),
            false => Ok(self.segment()?.offset),
        }
    }

    /// Both volume keys, which have a slot each with this passphrase; and the header is what was made with
    /// them: who has neither cannot have changed how data is encrypted.
    ///
    /// # Errors
    /// As for [`Container::unlock`]; [`Error::Damaged`] if the header was changed.
    pub fn unlock_both(&self, passphrase: &Secret) -> Result<BothKeys> {
        let state = self.reencryption()?;
        let old = match self.try_slots(&state.old.digest, passphrase, None) {
            Ok(old) => Some(old.key),
            // Its slots are the first that go when all data is encrypted anew.
            Err(Error::WrongPassphrase { .. } | Error::KeyMaterial { .. }) if state.is_new() => {
                None
            }
            Err(error) => return Err(error),
        };
        let new = self.try_slots(&state.new.digest, passphrase, None)?;
        let keys = BothKeys {
            slot: new.slot,
            old,
            new: new.key,
        };
        self.check_proof(&state, &keys)?;
        Ok(keys)
    }

    /// What the header says of the re-encryption that is under way.
    pub(crate) fn reencryption(&self) -> Result<Reencryption> {
        let read = match &self.header {
            Header::V1(_) => Err(Refusal::Unsupported(
                "LUKS1 is not re-encrypted here".into(),
            )),
            Header::V2(header) => header.reencryption(),
        };
        read.map_err(|refusal| match refusal {
            Refusal::Unsupported(what) => Error::unsupported(&self.device.name(), what),
            Refusal::Damaged(what) => Error::damaged(&*self.device, what),
        })
    }

    /// Refuses a header that was changed since the re-encryption began, and wrong keys.
    pub(crate) fn check_proof(&self, state: &Reencryption, keys: &BothKeys) -> Result<()> {
        if state.is_new() && keys.old.is_none() {
            // There is one segment with one key, as in any container.
            return match keyslot::is_key_of(&state.new.digest, &keys.new)? {
                true => Ok(()),
                false => Err(Error::usage("this is not the key of the container")),
            };
        }
        match keyslot::is_key_of(&state.proof, &proven(state, keys)?)? {
            true => Ok(()),
            false => Err(Error::damaged(
                &*self.device,
                "what it says of its re-encryption is not what was written",
            )),
        }
    }
}

/// What the digest of a re-encryption is made of.
pub(super) fn proven(state: &Reencryption, keys: &BothKeys) -> Result<Secret> {
    let (first, rest) = state.proven();
    let new = match state.old.digest.id == state.new.digest.id {
        true => &[][..],
        false => keys.new.expose(),
    };
    let parts = [first, keys.old()?.expose(), new, rest];
    let mut proven = Secret::zeroed(parts.iter().map(|part| part.len()).sum())?;
    let mut at = 0;
    for part in parts {
        proven.expose_mut()[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    Ok(proven)
}
