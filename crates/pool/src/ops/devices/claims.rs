//! Reservations of the devices (`reservations=on`): the devices themselves refuse the writes of other hosts.
//!
//! The store makes the reservations. If another host has taken a device, the pool is suspended until the next import,
//! even if it could work without that device: the other host has the pool, or will have it soon.

use store::Claimant;

use crate::error::Result;
use crate::ops::lifecycle::multihost::Multihost;

/// The property of the root dataset that asks for reservations.
const PROPERTY: &str = "reservations";

impl Multihost<'_> {
    /// Returns whether the property asks for reservations.
    ///
    /// # Errors
    /// As [`crate::Pool::top`].
    pub fn wants_claims(&self) -> Result<bool> {
        Ok(self
            .engine
            .state
            .read()
            .top()
            .cloned()?
            .props
            .get(PROPERTY)
            .is_some_and(|it| it == "on"))
    }

    /// Returns whether the devices are reserved.
    pub fn is_claimed(&self) -> bool {
        self.engine.disk.store.is_claimed()
    }

    /// Reserves the devices, and later the devices that join.
    ///
    /// # Errors
    /// [`crate::Error::Store`] for a device that cannot be reserved. Then no device is reserved.
    pub fn claim_devices(&self, by: &Claimant) -> Result<()> {
        Ok(self.engine.disk.store.claim(by)?)
    }

    /// Ends the reservations. All writes must be durable.
    pub fn release_devices(&self) {
        self.engine.disk.store.release();
    }

    /// Returns whether another host is known to have taken a device. The devices are not asked.
    pub fn is_taken(&self) -> bool {
        self.engine.disk.store.check_lost().is_err()
    }

    /// Asks the devices whether this host still has them. The daemon calls it from time to time.
    ///
    /// # Errors
    /// The pool is suspended: another host has taken a device.
    pub fn check_claims(&self) -> Result<()> {
        let checked = self.engine.disk.store.check_claims();
        checked.map_err(|error| self.engine.suspend_for_good(error.into()))
    }
}
