//! The suspension of a pool: after a failure it refuses changes, until `pool clear` or until the next import.

use parking_lot::Mutex;

use crate::error::{Error, Result, SuspensionEnd};

/// The state in which the pool refuses changes, and the reason.
#[derive(Default)]
pub(crate) struct Suspension(Mutex<Option<FirstFailure>>);

/// The first failure.
struct FirstFailure {
    reason: String,
    /// The name of the device that failed, if it was one.
    device: Option<String>,
    until: SuspensionEnd,
    /// True if a flush has failed. Data written since the last commit then has to be read back before a commit relies
    /// on it.
    is_doubtful: bool,
}

impl Suspension {
    /// Remembers a failure. True if it is the first one.
    pub(crate) fn begin(&self, error: &Error, until: SuspensionEnd) -> bool {
        let mut current = self.0.lock();
        if let Some(first) = current.as_mut() {
            if until == SuspensionEnd::Imported {
                first.until = until;
            }
            return false;
        }
        *current = Some(FirstFailure {
            reason: error.to_string(),
            device: error.device().map(str::to_owned),
            until,
            is_doubtful: false,
        });
        true
    }

    /// Allows changes again.
    pub(crate) fn end(&self) {
        *self.0.lock() = None;
    }

    /// Notes whether data written since the last commit has to be read back.
    pub(crate) fn set_doubtful(&self, is_doubtful: bool) {
        if let Some(first) = &mut *self.0.lock() {
            first.is_doubtful = is_doubtful;
        }
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.0
            .lock()
            .as_ref()
            .is_some_and(|first| first.is_doubtful)
    }

    /// Returns why the pool refuses changes, and until when.
    pub(crate) fn now(&self) -> Option<(String, SuspensionEnd)> {
        let current = self.0.lock();
        let first = current.as_ref()?;
        Some((first.reason.clone(), first.until))
    }

    /// The name of the device that failed.
    pub(crate) fn device(&self) -> Option<String> {
        self.0.lock().as_ref()?.device.clone()
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self.now() {
            Some((reason, until)) => Err(Error::Suspended { reason, until }),
            None => Ok(()),
        }
    }
}
