//! The volumes that have a call under way. The specification wants a second call refused.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::status::{GrpcCode, GrpcStatus, Result};

/// The volumes and names of the calls under way.
#[derive(Default)]
pub(crate) struct Busy {
    names: Mutex<HashSet<String>>,
}

/// The right to work on something. Dropping it lets others.
#[must_use]
pub(crate) struct VolumeGuard<'a> {
    busy: &'a Busy,
    name: String,
}

impl Busy {
    /// Takes a volume, or a name that is to be one.
    pub(crate) fn take(&self, name: &str) -> Result<VolumeGuard<'_>> {
        let name = name.to_owned();
        match self.names().insert(name.clone()) {
            true => Ok(VolumeGuard { busy: self, name }),
            false => Err(GrpcStatus::new(
                GrpcCode::Aborted,
                format!("another call for '{name}' is under way; try again later"),
            )),
        }
    }

    fn names(&self) -> MutexGuard<'_, HashSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for VolumeGuard<'_> {
    fn drop(&mut self) {
        self.busy.names().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_at_a_time() {
        let busy = Busy::default();
        let turn = busy.take("a").unwrap();
        let other = busy.take("b").unwrap();
        assert_eq!(busy.take("a").err().unwrap().code, GrpcCode::Aborted);
        drop(turn);
        assert!(busy.take("a").is_ok());
        drop(other);
    }
}
