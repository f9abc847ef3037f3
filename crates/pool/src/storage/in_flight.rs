//! Records that have a place on the devices and are in no tree yet.
//!
//! When a device joins, or comes back, it gets everything that is written from then on, and a resilver
//! brings it what the trees hold. Between the two is what was written before, and will be put into a
//! tree after the resilver has passed there. So a resilver begins only when there is none of it left.

use std::sync::Arc;

use parking_lot::Mutex;

/// Held by a record from before it is written until it is in a tree, or given up.
pub(crate) struct Ticket {
    _held: Arc<()>,
}

/// Writes to the present set of devices, and writes that still go to an earlier set.
#[derive(Default)]
pub(crate) struct InFlight(Mutex<Rounds>);

#[derive(Default)]
struct Rounds {
    current: Arc<()>,
    past: Vec<Arc<()>>,
    /// Counts the changes of the devices.
    number: u64,
    /// The change after which the resilver may run.
    resilver: Option<u64>,
}

impl InFlight {
    /// Asked for before something is written.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket {
            _held: Arc::clone(&self.0.lock().current),
        }
    }

    /// The devices have changed: what was written before did not go to all of them.
    pub(crate) fn devices_changed(&self) {
        let mut rounds = self.0.lock();
        let past = std::mem::take(&mut rounds.current);
        rounds.past.push(past);
        rounds.number += 1;
    }

    /// How often the devices have changed.
    pub(crate) fn round(&self) -> u64 {
        self.0.lock().number
    }

    /// The change for which the resilver has waited.
    pub(crate) fn resilver_round(&self) -> Option<u64> {
        self.0.lock().resilver
    }

    /// The resilver has waited for what was written before this change.
    pub(crate) fn set_resilver_round(&self, round: u64) {
        self.0.lock().resilver = Some(round);
    }

    /// Whether everything that was written before the last change is in a tree, or given up.
    pub(crate) fn is_settled(&self) -> bool {
        let mut rounds = self.0.lock();
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
