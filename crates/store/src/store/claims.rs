//! Claims: while the devices of the store are reserved, no other machine writes to them.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use block::{BlockDevice, Claim, Claimant};

use crate::Result;
use crate::group::member::Member;
use crate::store::devices::Store;

/// A device is waited for so long before its reservation ends later.
const RELEASE_MAX: Duration = Duration::from_secs(2);

impl Store {
    /// Does the same as [`Store::open`], but reserves all devices before it reads anything. It passes over devices
    /// that cannot be
    /// reserved, as long as one can.
    ///
    /// # Errors
    /// As [`Store::open`]. [`block::Error::Reserved`] for any device, [`block::Error::NoReservations`] if it is so for
    /// all. Then none is reserved.
    pub fn open_claimed(devices: Vec<Arc<dyn BlockDevice>>, by: &Claimant) -> Result<Store> {
        let (mut reserved, mut claims, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        for device in devices {
            match device.claim(by) {
                Ok(claim) => {
                    reserved.push(device);
                    claims.push(claim);
                }
                Err(error @ block::Error::NoReservations { .. }) => failures.push(error),
                Err(error) => return Err(error.into()),
            }
        }
        if let (true, Some(_)) = (reserved.is_empty(), failures.first()) {
            return Err(failures.swap_remove(0).into());
        }
        // Another machine may have changed data that this one has read and cached.
        reserved
            .iter()
            .try_for_each(|device| device.drop_cached())?;
        let mut store = Store::open(reserved.clone())?;
        let failures = failures.iter().map(block::Error::to_string);
        store.passed_over.extend(failures);
        *store.claimant.lock() = Some(*by);
        let layout = store.groups.now();
        for (device, claim) in reserved.iter().zip(claims) {
            // The claim of a device that is not used ends here.
            let member = layout.all().find(|it| Arc::ptr_eq(&it.device, device));
            if let Some(member) = member {
                *member.claim().lock() = Some(claim);
            }
        }
        Ok(store)
    }

    /// Fails if a machine has reserved a device for a pool, also if it is this machine. It changes nothing.
    ///
    /// # Errors
    /// [`block::Error::Reserved`]
    pub fn check_unreserved(&self) -> Result<()> {
        let layout = self.groups.now();
        let mut checked = layout.all().map(|member| member.device.check_unreserved());
        Ok(checked.try_for_each(|it| it)?)
    }

    /// Takes over the claims of another store on the same devices.
    pub(crate) fn inherit_claims(&self, other: &Store) {
        *self.claimant.lock() = *other.claimant.lock();
        let before = other.groups.now();
        for member in self.groups.now().all() {
            let old = before
                .all()
                .find(|it| Arc::ptr_eq(&it.device, &member.device));
            *member.claim().lock() = old.and_then(|old| old.claim().lock().take());
        }
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
        self.groups.now().all().for_each(|it| {
            it.release();
        });
    }

    /// Returns whether the devices are reserved.
    pub fn is_claimed(&self) -> bool {
        self.claimant.lock().is_some()
    }

    /// Asks the devices in use whether this machine still has them. A device may take long to answer.
    ///
    /// # Errors
    /// [`block::Error::ClaimLost`]: another machine may use the pool now, and no more writes may be acknowledged.
    pub fn check_claims(&self) -> Result<()> {
        let layout = self.groups.now();
        let mut active = layout.active();
        active.try_for_each(|it| self.groups.check_claim(it))
    }

    /// Fails if a device is known to be lost. It does not ask the devices.
    ///
    /// # Errors
    /// As [`Store::check_claims`].
    pub fn check_lost(&self) -> Result<()> {
        match self.groups.lost() {
            None => Ok(()),
            Some((device, loss)) => Err(block::Error::ClaimLost { device, loss }.into()),
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
        self.end_released(&mut claim);
        if claim.is_none() {
            *claim = Some(self.device.claim(by)?);
        }
        Ok(())
    }

    /// Ends the reservation of the device, and says whether it has ended. If the device does not answer another question
    /// about it, it ends when the device does.
    pub(crate) fn release(&self) -> bool {
        self.is_released().store(true, SeqCst);
        let claim = self.claim().try_lock_for(RELEASE_MAX);
        claim
            .map(|mut claim| self.end_released(&mut claim))
            .is_some()
    }

    fn end_released(&self, claim: &mut Option<Claim>) {
        if self.is_released().swap(false, SeqCst) {
            drop(claim.take());
        }
    }

    /// Asks the device whether this machine still has it.
    ///
    /// # Errors
    /// [`block::Error::ClaimLost`]
    pub(crate) fn check_claim(&self) -> block::Result<()> {
        let mut claim = self.claim().lock();
        let checked = claim.as_ref().map_or(Ok(()), Claim::check);
        match self.is_released().load(SeqCst) {
            true => {
                self.end_released(&mut claim);
                Ok(())
            }
            false => checked,
        }
    }
}

#[cfg(test)]
mod tests {
    use block::SharedDisk;
    use zerocopy::FromZeros;

    use super::*;
    use crate::layout::frames::Label;
    use crate::layout::geometry::Geometry;

    #[test]
    fn a_claim_ends_when_the_question_about_it_is_answered_and_never_a_newer_one() {
        let disk = SharedDisk::new(1 << 20);
        let geometry = Geometry {
            segment_size: 1 << 16,
            segments: 1,
            key_blocks: 1,
            header_size: 4096,
            device_size: 1 << 20,
        };
        let device = || Arc::new(disk.seen_by(1));
        let member = Member::new(device(), Label::new_zeroed(), geometry);
        let by = Claimant::new((1, "one"), "boot", 7);
        let other = disk.seen_by(2);
        let is_free = || other.check_unreserved().is_ok();
        member.take_claim(&by).unwrap();
        assert!(!is_free());
        // The device is being asked.
        let asked = member.claim().lock();
        assert!(!member.release());
        assert!(!is_free());
        drop(asked);
        member.check_claim().unwrap();
        assert!(is_free());
        // It is taken again, before the question is answered.
        member.take_claim(&by).unwrap();
        let asked = member.claim().lock();
        assert!(!member.release());
        drop(asked);
        member.take_claim(&by).unwrap();
        member.check_claim().unwrap();
        assert!(!is_free());
        assert!(member.release() && is_free());
    }
}
