//! A key that the TPM of this machine seals and opens.

use std::sync::{Mutex, PoisonError};

use cipher::{Random, SystemRandom};
use secret::{Key, Secret};

use super::blob::{Opens, SealedByTpm};
use super::seal::seal;
use super::unseal::unseal;
use crate::key::random_key;
use crate::{Error, Result, TpmSource};

/// A TPM counts each refused PIN, and locks itself for all its users after some. So no PIN is tried at more objects.
const REFUSED_MAX: usize = 2;

/// A TPM, and the PIN that it wants.
#[derive(Debug)]
pub struct TpmKey {
    source: TpmSource,
    /// Empty if none is needed.
    pin: Secret,
    /// The sealed key, if a slot is to be made.
    made: Option<(Key, SealedByTpm)>,
    /// The objects that the PIN did not open.
    refused: Mutex<Vec<SealedByTpm>>,
}

impl TpmKey {
    /// A TPM, which is asked when a slot is made or opened. `pin` is what a person gave if the source
    /// [wants it](TpmSource::has_pin).
    ///
    /// # Errors
    /// [`Error::TpmPin`] for an empty PIN.
    pub fn new(source: &TpmSource, pin: Option<Secret>) -> Result<TpmKey> {
        let pin = match pin.filter(|_| source.pin) {
            Some(pin) => pin,
            None => Secret::from_slice(&[])?,
        };
        // The TPM would count it as a wrong one.
        if source.pin && pin.is_empty() {
            return Err(Error::TpmPin("a PIN has at least one character".into()));
        }
        Ok(TpmKey {
            source: source.clone(),
            pin,
            made: None,
            refused: Mutex::default(),
        })
    }

    /// Has the TPM seal a key now, so that nothing waits for it when a slot is made.
    ///
    /// # Errors
    /// [`Error::Tpm`], [`Error::TpmPin`], [`Error::TpmLocked`].
    pub fn seal(mut self, random: &dyn Random) -> Result<TpmKey> {
        self.made = Some(self.make(random)?);
        Ok(self)
    }

    fn make(&self, random: &dyn Random) -> Result<(Key, SealedByTpm)> {
        let key = random_key(random)?;
        let sealed = self.seal_bytes(key.expose(), random)?;
        Ok((key, sealed))
    }

    pub(crate) fn source(&self) -> &TpmSource {
        &self.source
    }

    /// Seals up to 128 bytes.
    pub(crate) fn seal_bytes(&self, bytes: &[u8], random: &dyn Random) -> Result<SealedByTpm> {
        let TpmSource { pcrs, pin, .. } = self.source;
        let opens = Opens::of(pcrs, pin);
        let device = self.source.device();
        seal(device, bytes, opens, self.pin.expose(), random)
    }

    /// The key of a new slot, and what the slot keeps.
    pub(crate) fn wrap(&self, random: &dyn Random) -> Result<(Key, SealedByTpm)> {
        match &self.made {
            Some((key, sealed)) => Ok((key.try_clone()?, sealed.clone())),
            None => self.make(random),
        }
    }

    /// Opens the key of a slot. `None` if only one of slot and source wants a PIN.
    pub(crate) fn unwrap(&self, sealed: &SealedByTpm) -> Result<Option<Key>> {
        if !is_for_tpm(sealed, &self.source) {
            return Ok(None);
        }
        let opened = self.open_bytes(sealed)?;
        let opened = opened.expose().try_into();
        let opened = opened.map_err(|_| Error::Damaged("the parameters of a key slot"))?;
        Ok(Some(Key::from_bytes(opened)?))
    }

    /// Opens what may be no key. A pool can have the same object many times: a PIN that does not open it is not tried
    /// again.
    pub(crate) fn open_bytes(&self, sealed: &SealedByTpm) -> Result<Secret> {
        // Parts of a key are opened at the same time.
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = refused.iter().any(|known| known.is_same_object(sealed));
        if sealed.has_pin() && (is_known || refused.len() >= REFUSED_MAX) {
            return Err(Error::TpmPin(
                "the PIN is wrong; it is not tried again, because the TPM counts each try".into(),
            ));
        }
        let (device, pin) = (self.source.device(), self.pin.expose());
        let opened = unseal(device, sealed, pin, &SystemRandom);
        if let Err(Error::TpmPin(_)) = opened {
            refused.push(sealed.clone());
        }
        opened
    }

    /// The name of this kind of key, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self.source.pin {
            true => "key of a TPM with a PIN",
            false => "key of a TPM without a PIN",
        }
    }
}

/// Returns whether a source may open this slot. The slot itself names the PCRs.
pub(crate) fn is_for_tpm(sealed: &SealedByTpm, source: &TpmSource) -> bool {
    sealed.has_pin() == source.pin
}
