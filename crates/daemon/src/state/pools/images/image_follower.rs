//! The image of a pool in an object store: its device, and the attempts to copy states there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use block::AtomicDevice;
use parking_lot::{Condvar, Mutex};
use pool::FollowerInfo;

use crate::failure::{Failure, Result};

/// The time that an export waits for the last state to be copied.
pub(crate) const COPY_AT_EXPORT: Duration = Duration::from_secs(10);
/// The time that a command waits until an image has no old keys.
pub(crate) const COPY_OF_KEYS: Duration = Duration::from_secs(60);
/// The end of a pool waits so long for a copy to end by itself.
const END_MAX: Duration = Duration::from_secs(2);
/// The longest pause after a copy that failed.
const RETRY_MAX: Duration = Duration::from_secs(60);

pub(crate) struct ImageDevice {
    /// Opens it. This may take long.
    pub(crate) open: Box<dyn Fn() -> Result<Arc<dyn AtomicDevice>> + Send + Sync>,
    /// Ends all requests to it.
    pub(crate) abandon: Box<dyn Fn() + Send + Sync>,
}

/// The work on the image of a pool.
#[derive(Default)]
pub(crate) struct ImageFollower {
    device: Mutex<Option<Arc<ImageDevice>>>,
    turns: Mutex<CopyTurns>,
    changed: Condvar,
}

/// The attempts to copy a state.
#[derive(Default)]
struct CopyTurns {
    /// True if a command waits for the next one.
    is_asked: bool,
    begun: u64,
    ended: u64,
    /// The time before which no attempt begins by itself.
    not_before: Option<Instant>,
    /// The failure of the last attempt.
    failure: Option<String>,
    /// True if the image was reported to be late.
    is_late: bool,
}

impl ImageFollower {
    pub(crate) fn set(&self, device: Option<ImageDevice>) {
        let mut turns = self.turns.lock();
        turns.is_asked = device.is_some();
        turns.not_before = None;
        turns.failure = None;
        drop(turns);
        *self.device.lock() = device.map(Arc::new);
    }

    /// Waits for the end of a copy that is to end, and ends it if it does not soon.
    pub(crate) fn end(&self) {
        let mut turns = self.turns.lock();
        let is_running = |turns: &mut CopyTurns| turns.begun > turns.ended;
        self.changed.wait_while_for(&mut turns, is_running, END_MAX);
        let is_stuck = is_running(&mut turns);
        drop(turns);
        if let Some(device) = self.device.lock().clone().filter(|_| is_stuck) {
            (device.abandon)();
        }
    }

    /// Begins an attempt if one is due.
    pub(super) fn begin(&self, info: &FollowerInfo) -> bool {
        if self.device.lock().is_none() {
            return false;
        }
        let mut turns = self.turns.lock();
        let is_due = info.txg.is_none() || info.behind >= u64::from(info.interval);
        let may_begin = turns.not_before.is_none_or(|time| Instant::now() >= time);
        if !(turns.is_asked || is_due && may_begin) {
            return false;
        }
        turns.is_asked = false;
        turns.begun += 1;
        true
    }

    /// Ends an attempt. Returns whether the failure is another one than before.
    pub(super) fn note(&self, info: &FollowerInfo, failure: Option<String>) -> bool {
        let mut turns = self.turns.lock();
        turns.ended += 1;
        let pause = Duration::from_secs(info.interval.into()).min(RETRY_MAX);
        turns.not_before = failure.as_ref().map(|_| Instant::now() + pause);
        let is_new = turns.failure != failure;
        turns.failure = failure;
        drop(turns);
        self.changed.notify_all();
        is_new
    }

    /// The device.
    ///
    /// # Errors
    /// No device is set.
    pub(super) fn device(&self) -> Result<Arc<ImageDevice>> {
        let device = self.device.lock().clone();
        device.ok_or_else(|| Failure::other("its device is not known"))
    }

    /// Calls `connect` if a device is that of the image still. Returns whether it is. Until the end of the call it stays so.
    pub(super) fn while_present(&self, device: &Arc<ImageDevice>, connect: impl FnOnce()) -> bool {
        let present = self.device.lock();
        let is_present = { present.as_ref() }.is_some_and(|is| Arc::ptr_eq(is, device));
        if is_present {
            connect();
        }
        is_present
    }

    /// Asks for an attempt. Returns its number.
    pub(super) fn ask(&self) -> u64 {
        let mut turns = self.turns.lock();
        turns.is_asked = true;
        turns.begun + 1
    }

    /// Waits for the end of an attempt. Returns the failure of the last one.
    pub(super) fn await_end(
        &self,
        attempt: u64,
        patience: Duration,
    ) -> std::result::Result<Option<String>, String> {
        let deadline = Instant::now() + patience;
        let mut turns = self.turns.lock();
        while turns.ended < attempt {
            if self.changed.wait_until(&mut turns, deadline).timed_out() {
                return Err(format!("it was not reached for {} s", patience.as_secs()));
            }
        }
        Ok(turns.failure.clone())
    }

    /// Notes whether the image is late. Returns whether it was.
    pub(super) fn set_late(&self, is_late: bool) -> bool {
        std::mem::replace(&mut self.turns.lock().is_late, is_late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> ImageDevice {
        ImageDevice {
            open: Box::new(|| Err(Failure::other("it is not opened"))),
            abandon: Box::new(|| {}),
        }
    }

    #[test]
    fn a_device_that_was_opened_late_is_not_used_after_its_image_was_detached() {
        let image = ImageFollower::default();
        image.set(Some(device()));
        let opened = image.device().unwrap();
        assert!(image.while_present(&opened, || {}));
        for next in [None, Some(device())] {
            image.set(next);
            let is_present = image.while_present(&opened, || panic!("it is used"));
            assert!(!is_present);
        }
    }
}
