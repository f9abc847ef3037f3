//! A mapping without its key: requests wait until the key is given again, or it is closed.

use std::io;
use std::sync::Arc;

use secret::Secret;

use super::Mapping;
use super::identity::other_header;
use super::regions::Regions;
use super::sectors::SectorCore;
use super::serving::{FailureGuard, Serving};
use crate::{BothKeys, Container, Error, Result};

impl Mapping {
    /// Returns whether the key is gone, so that requests wait.
    pub fn is_suspended(&self) -> bool {
        self.serving.is_suspended()
    }

    /// Ends the requests that are under way, makes durable what was written, and wipes the key. Requests that come
    /// then wait. The container has to be the one that is open, so that [`Mapping::resume`] is possible.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is suspended, has no header, is in re-encryption, or has another header;
    /// [`Error::Busy`] if requests do not end; the failure of the device. Then it goes on.
    pub fn suspend(&self, container: &Container) -> Result<()> {
        let own = self.own.lock();
        let Some(own) = &*own else {
            return Err(Error::usage(
                "only a mapping of a LUKS container that is not in re-encryption is suspended",
            ));
        };
        if container.is_in_reencryption() {
            return Err(Error::usage(
                "the container is in re-encryption: complete that first, with 'luks reencrypt --resume-only'",
            ));
        }
        if container.segment()? != own.segment || container.digest()?.digest != own.digest.digest {
            return Err(other_header());
        }
        self.serving.suspend(|serving| match self.read_only {
            true => Ok(()),
            false => Ok(serving.flush()?),
        })
    }

    /// Continues with the key, and serves the requests that wait.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is not suspended, or this is not the container, or not its key. Then it stays suspended.
    pub fn resume(&self, container: &Container, key: &Secret) -> Result<()> {
        let own = self.own.lock();
        let own = own.as_ref().filter(|_| self.is_suspended());
        let own = own.ok_or_else(not_suspended)?;
        own.check(key)?;
        if container.segment()? != own.segment {
            return Err(other_header());
        }
        let device = Arc::clone(&self.device);
        let core = SectorCore::new(&own.segment, device, key, self.mode)?;
        // A provider that was chosen stays.
        let core = match self.provider() {
            Some(provider) => core.by(provider)?,
            None => core,
        };
        self.serving.replace(Serving::All(core));
        Ok(())
    }

    /// The variant of [`Mapping::resume`] for a container whose re-encryption was begun meanwhile. No data may be new
    /// yet.
    ///
    /// # Errors
    /// As for [`Mapping::resume`]; [`Error::Damaged`] if the header was changed.
    pub fn resume_in_reencryption(&self, container: &Container, keys: &BothKeys) -> Result<()> {
        let mut identity = self.own.lock();
        let own = identity.as_ref().filter(|_| self.is_suspended());
        let own = own.ok_or_else(not_suspended)?;
        let state = container.reencryption()?;
        container.check_proof(&state, keys)?;
        let old = keys.old.as_ref().ok_or_else(other_header)?;
        own.check(old)?;
        let before = SectorCore::new(&own.segment, Arc::clone(&self.device), old, self.mode)?;
        let regions = Regions::new(&state, &self.device, keys)?;
        if !regions.is_all_like(&before)? {
            return Err(Error::usage(
                "data was re-encrypted while the mapping was suspended: close it, and open it again",
            ));
        }
        *identity = None;
        self.serving.replace(Serving::Regions(Box::new(regions)));
        Ok(())
    }

    /// Returns a guard: while it exists, requests do not wait for a key, but fail. The caller wants the clients to
    /// end.
    pub fn fail_while_suspended(&self) -> FailureGuard {
        FailureGuard::begin(&self.serving)
    }

    /// Makes requests fail instead of waiting for a key, because the process ends.
    pub fn give_up(&self) {
        self.serving.give_up();
    }

    pub(super) fn given_up(&self) -> block::Error {
        block::Error::Io {
            device: format!("the mapping of {}", self.device.name()),
            operation: "use",
            offset: 0,
            len: 0,
            source: io::Error::other("it is suspended, and its user is ended"),
        }
    }
}

fn not_suspended() -> Error {
    Error::usage("the mapping is not suspended")
}
