//! The two keys of a container in re-encryption, and the proof that its header is what was made with them.

use secret::Secret;

use crate::container::{Container, END_WITHOUT_KEY, UnlockedKey};
use crate::header::Header;
use crate::header::luks2::{ReencryptionMode, ReencryptionRefusal, ReencryptionState};
use crate::keyslots::material;
use crate::model::KeyDigest;
use crate::{Error, Result};

/// The two volume keys of a container in re-encryption.
pub struct BothKeys {
    /// The slot of the new one, or of the old one if there is no new one.
    pub slot: u32,
    /// The one that goes, unless all data is encrypted anew and its slots are gone. None if data was not
    /// encrypted before.
    pub old: Option<Secret>,
    /// The one that comes. None if data is not encrypted afterwards.
    pub new: Option<Secret>,
}

impl BothKeys {
    /// Returns the length of the new key, or of the old one if there is no new key, in bytes.
    pub fn key_len(&self) -> usize {
        let key = self.new.as_ref().or(self.old.as_ref());
        key.map_or(0, Secret::len)
    }
}

/// A key is missing that the segments need.
pub(crate) fn missing() -> Error {
    Error::usage("both keys of the container are needed")
}

impl Container {
    /// Returns whether a re-encryption was begun and not ended. Such a container is unlocked with
    /// [`Container::unlock_both`].
    pub fn is_in_reencryption(&self) -> bool {
        match &self.header {
            Header::V1(_) => false,
            Header::V2(header) => header.is_in_reencryption(),
        }
    }

    /// Returns the address of the data, in bytes. Zero if the header is elsewhere.
    ///
    /// # Errors
    /// As for [`Container::segment`].
    pub fn data_offset(&self) -> Result<u64> {
        match &self.header {
            Header::V2(header) if header.is_in_reencryption() => {
                Ok(header.view().data_offset().unwrap_or(0))
            }
            _ => Ok(self.segment()?.offset),
        }
    }

    /// Returns both volume keys, which this passphrase has to open. The digest over them proves the header: without
    /// the keys nobody can change how data is encrypted.
    ///
    /// # Errors
    /// As for [`Container::unlock`]; [`Error::Reencryption`] if the header was changed.
    pub fn unlock_both(&self, passphrase: &Secret) -> Result<BothKeys> {
        let state = self.reencryption()?;
        let unlock = |digest: &Option<KeyDigest>| {
            let unlocked = digest
                .as_ref()
                .map(|of| self.try_slots(of, passphrase, None));
            unlocked.transpose()
        };
        let is_new = state.is_new() && state.mode == ReencryptionMode::Reencrypt;
        let old = match unlock(&state.old.digest) {
            Ok(old) => old,
            // Its slots are the first that go when all data is encrypted anew.
            Err(
                Error::WrongPassphrase { .. }
                | Error::NoUsableSlot { .. }
                | Error::KeyMaterial { .. },
            ) if is_new => None,
            // They are the first that go when all data is decrypted.
            Err(Error::NoUsableSlot { .. }) if state.is_new() => return Err(self.is_decrypted()),
            Err(error) => return Err(error),
        };
        let new = unlock(&state.new.digest)?;
        let slot = new.as_ref().or(old.as_ref()).map(|of| of.slot);
        let keys = BothKeys {
            slot: slot.ok_or_else(missing)?,
            old: old.map(|old| old.key),
            new: new.map(|new| new.key),
        };
        self.check_proof(&state, &keys)?;
        Ok(keys)
    }

    /// The variant of [`Container::test`] for a container in re-encryption: the passphrase has to open each key that
    /// is needed.
    pub(crate) fn test_both(&self, passphrase: &Secret, slot: Option<u32>) -> Result<UnlockedKey> {
        if let Some(slot) = slot {
            return Err(self.no_slot(slot));
        }
        let keys = self.unlock_both(passphrase)?;
        let key = keys.new.or(keys.old).ok_or_else(missing)?;
        Ok(UnlockedKey {
            slot: keys.slot,
            key,
        })
    }

    /// The variant of [`Container::check_slots`] for a container in re-encryption.
    pub(crate) fn check_slots_of_both(&self, slot: Option<u32>) -> Result<()> {
        let state = self.reencryption()?;
        let digests = [state.old.digest, state.new.digest];
        let mut tried = digests.iter().flatten();
        let found = tried.any(|digest| self.slots_to_try(digest, slot).is_ok());
        match (found, slot) {
            (true, _) => Ok(()),
            (false, Some(slot)) => Err(self.no_slot(slot)),
            (false, None) => Err(self.no_usable_slot(END_WITHOUT_KEY.into())),
        }
    }

    fn is_decrypted(&self) -> Error {
        Error::Usage(format!(
            "the data of {} is decrypted already: 'luks reencrypt --resume-only' ends that, without a passphrase",
            self.device.name()
        ))
    }

    /// Returns the re-encryption that is under way, as the header describes it.
    pub(crate) fn reencryption(&self) -> Result<ReencryptionState> {
        let read = match &self.header {
            Header::V1(_) => Err(ReencryptionRefusal::Unsupported(
                "LUKS1 is not re-encrypted here".into(),
            )),
            Header::V2(header) => header.reencryption(),
        };
        read.map_err(|refusal| match refusal {
            ReencryptionRefusal::Unsupported(what) => Error::unsupported(&self.device.name(), what),
            ReencryptionRefusal::Damaged(what) => self.does_not_go_on(&what),
        })
    }

    fn does_not_go_on(&self, what: &str) -> Error {
        Error::Reencryption {
            device: self.device.name(),
            what: what.into(),
        }
    }

    /// Refuses a header that was changed since the re-encryption began, and wrong keys.
    pub(crate) fn check_proof(&self, state: &ReencryptionState, keys: &BothKeys) -> Result<()> {
        let all_new = state.is_new() && state.mode == ReencryptionMode::Reencrypt;
        if let (true, None, Some(digest)) = (all_new, &keys.old, &state.new.digest) {
            // There is one segment with one key, as in any container.
            let key = keys.new.as_ref().ok_or_else(missing)?;
            return match material::is_key_of(digest, key)? {
                true => Ok(()),
                false => Err(Error::usage("this is not the key of the container")),
            };
        }
        match material::is_key_of(&state.proof, &proven(state, keys)?)? {
            true => Ok(()),
            false => Err(self.does_not_go_on("what its header says is not what was written")),
        }
    }
}

/// Returns the bytes over which the digest of a re-encryption is computed.
pub(super) fn proven(state: &ReencryptionState, keys: &BothKeys) -> Result<Secret> {
    let (first, rest) = state.proven();
    let (old, new) = (&state.old.digest, &state.new.digest);
    let is_same = old.as_ref().map(|of| of.id) == new.as_ref().map(|of| of.id);
    let new = new.as_ref().filter(|_| !is_same);
    let parts = [
        first,
        key_of(old.as_ref(), &keys.old)?,
        key_of(new, &keys.new)?,
        rest,
    ];
    let mut proven = Secret::zeroed(parts.iter().map(|part| part.len()).sum())?;
    let mut at = 0;
    for part in parts {
        proven.expose_mut()[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    Ok(proven)
}

/// The key of a side, which is nothing if the side is not encrypted.
fn key_of<'a>(digest: Option<&KeyDigest>, key: &'a Option<Secret>) -> Result<&'a [u8]> {
    match (digest, key) {
        (None, _) => Ok(&[]),
        (Some(_), Some(key)) => Ok(key.expose()),
        (Some(_), None) => Err(missing()),
    }
}
