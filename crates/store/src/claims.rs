//! Claims: while the devices of the store are reserved, no other machine writes to them.

use std::sync::Arc;

use block::{BlockDevice, Claimant};

use crate::devices::Store;
use crate::member::Member;
use crate::{Error, Result};

impl Store {
    /// As [`Store::open`], but reserves all devices before it reads anything.
    ///
    /// # Errors
    /// As [`Store::open`]. [`block::Error::Reserved`] and [`block::Error::NoReservations`] for any device. Then none is
    /// reserved.
    pub fn open_claimed(devices: Vec<Arc<dyn BlockDevice>>, by: &Claimant) -> Result<Store> {
        let claims = devices.iter().map(|device| device.claim(by));
        let claims: Vec<_> = claims.collect::<block::Result<_>>()?;
        // Another machine may have changed data that this one has read and cached.
        devices.iter().try_for_each(|device| device.drop_cached())?;
        let store = Store::open(devices.clone())?;
        *store.claimant.lock() = Some(*by);
        let layout = store.groups.now();
        for (device, claim) in devices.iter().zip(claims) {
            // The claim of a device that is not used ends here.
            let member = layout.all().find(|it| Arc::ptr_eq(&it.device, device));
            if let Some(member) = member {
                *member.claim().lock() = Some(claim);
            }
        }
        Ok(store)
    }

    /// Reserves all devices, and later those that join.
    ///
    /// # Errors
    /// As [`Store::open_claimed`].
    pub fn claim(&self, by: &Claimant) -> Result<()> {
        let layout = self.groups.now();
        for member in layout.all() {
            if let Err(error) = member.take_claim(by) {
                self.release();
                return Err(error);
            }
        }
        *self.claimant.lock() = Some(*by);
        Ok(())
    }

    /// Ends the reservations. All writes must be durable.
    pub fn release(&self) {
        *self.claimant.lock() = None;
        self.groups.now().all().for_each(|it| it.release());
    }

    /// Whether the devices are reserved.
    pub fn is_claimed(&self) -> bool {
        self.claimant.lock().is_some()
    }

    /// Asks all devices whether this machine still has them.
    ///
    /// # Errors
    /// [`block::Error::ClaimLost`]: another machine may use the pool now, and no more writes may be acknowledged.
    pub fn check_claims(&self) -> Result<()> {
        let layout = self.groups.now();
        layout.all().try_for_each(|it| self.groups.check_claim(it))
    }

    /// Fails if a device is known to be lost. It does not ask the devices.
    ///
    /// # Errors
    /// As [`Store::check_claims`].
    pub fn check_lost(&self) -> Result<()> {
        match self.groups.lost() {
            None => Ok(()),
            Some(device) => Err(block::Error::ClaimLost { device }.into()),
        }
    }

    /// Reserves a device that joins, if the others are.
    pub(crate) fn claim_new(&self, member: &Member) -> Result<()> {
        let by = *self.claimant.lock();
        by.map_or(Ok(()), |by| member.take_claim(&by))
    }
}

impl Member {
    fn take_claim(&self, by: &Claimant) -> Result<()> {
        let mut claim = self.claim().lock();
        if claim.is_none() {
            *claim = Some(self.device.claim(by)?);
        }
        Ok(())
    }

    /// Ends the reservation of the device.
    pub(crate) fn release(&self) {
        drop(self.claim().lock().take());
    }

    /// Asks the device whether this machine still has it.
    ///
    /// # Errors
    /// [`block::Error::ClaimLost`]
    pub(crate) fn check_claim(&self) -> Result<()> {
        let claim = self.claim().lock();
        let claim = claim.as_ref();
        claim.map_or(Ok(()), |claim| claim.check().map_err(Error::from))
    }
}
