//! Records that are written, and in no tree yet.
//!
//! When a device joins or returns, it gets all later writes, and a resilver copies the records in the trees to it.
//! The resilver would miss a record that was written before the device joined, and that is put into a tree behind
//! the position of the resilver. So a resilver waits until all earlier records are in a tree, or dropped.

use std::sync::Arc;

use parking_lot::Mutex;

/// Held by a record from before its write until it is in a tree, or dropped.
pub(crate) struct Ticket {
    _held: Arc<()>,
}

/// Writes to the present set of devices, and writes that still go to an earlier set.
#[derive(Default)]
pub(crate) struct InFlight(Mutex<RoundCounters>);

#[derive(Default)]
struct RoundCounters {
    current: Arc<()>,
    past: Vec<Arc<()>>,
    /// Counts the changes of the devices.
    number: u64,
    /// The number of the change for which the resilver may run.
    resilver: Option<u64>,
}

impl InFlight {
    /// Taken before a write.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket {
            _held: Arc::clone(&self.0.lock().current),
        }
    }

    /// The devices have changed: earlier writes did not go to all of them.
    pub(crate) fn devices_changed(&self) {
        let mut rounds = self.0.lock();
        let past = std::mem::take(&mut rounds.current);
        rounds.past.push(past);
        rounds.number += 1;
    }

    /// Returns how often the devices have changed.
    pub(crate) fn round(&self) -> u64 {
        self.0.lock().number
    }

    /// The number of the change for which the resilver has waited.
    pub(crate) fn resilver_round(&self) -> Option<u64> {
        self.0.lock().resilver
    }

    /// The resilver has waited for all writes before this change.
    pub(crate) fn set_resilver_round(&self, round: u64) {
        self.0.lock().resilver = Some(round);
    }

    /// Returns whether every record written before the last change is in a tree, or dropped.
    pub(crate) fn is_settled(&self) -> bool {
        let mut rounds = self.0.lock();
        // Only the list has it: all tickets of that round are dropped. No new ones are given out.
        rounds.past.retain(|round| Arc::strong_count(round) > 1);
        rounds.past.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_waits_for_what_was_begun_before_it() {
        let in_flight = InFlight::default();
        assert!(in_flight.is_settled());
        let before = in_flight.ticket();
        in_flight.devices_changed();
        let _after = in_flight.ticket();
        assert!(!in_flight.is_settled());
        drop(before);
        assert!(in_flight.is_settled());
    }
}
