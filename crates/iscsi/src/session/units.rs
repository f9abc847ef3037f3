//! The units that an initiator sees, and what it has to be told of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::task::UnitReference;
use crate::scsi::reservation::Nexus;
use crate::scsi::seat::NexusState;
use crate::scsi::unit::ScsiUnit;
use crate::targets::target::IscsiTarget;

/// The units that a session sees of a target.
#[derive(Default)]
pub(super) struct Units {
    /// The version of the views of the target.
    pub(super) version: u64,
    /// By number.
    pub(super) all: BTreeMap<u16, VisibleUnit>,
    pub(super) numbers: Arc<[u16]>,
}

/// A unit, as one session sees it. The session does not keep it from going.
pub(super) struct VisibleUnit {
    pub(super) unit: Weak<ScsiUnit>,
    pub(super) seat: Arc<NexusState>,
    pub(super) is_read_only: bool,
    /// The number of its commands that others aborted.
    pub(super) aborts: u64,
    /// The size that the initiator knows.
    pub(super) blocks: u64,
}

impl VisibleUnit {
    fn new(unit: &Arc<ScsiUnit>, nexus: &Nexus, is_read_only: bool) -> VisibleUnit {
        let seat = unit.sit(nexus.clone());
        VisibleUnit {
            unit: Arc::downgrade(unit),
            aborts: seat.aborts(),
            seat,
            is_read_only,
            blocks: unit.blocks(),
        }
    }

    pub(super) fn is_of(&self, unit: &Arc<ScsiUnit>) -> bool {
        std::ptr::eq(self.unit.as_ptr(), Arc::as_ptr(unit))
    }

    /// The place of a command that comes now. `version` is that of the views which the session follows.
    pub(super) fn place(&self, version: u64) -> UnitReference {
        UnitReference {
            unit: Weak::clone(&self.unit),
            seat: Arc::clone(&self.seat),
            version,
            is_read_only: self.is_read_only,
            begun: self.aborts,
        }
    }
}

impl Drop for VisibleUnit {
    fn drop(&mut self) {
        if let Some(unit) = self.unit.upgrade() {
            unit.leave(&self.seat);
        }
    }
}

impl Units {
    /// Returns the units that an initiator sees of a target now. Takes units that it has seen already out of
    /// `before`. True if there is something else.
    pub(super) fn of(target: &IscsiTarget, nexus: &Nexus, before: &mut Units) -> (Units, bool) {
        let (version, views) = target.views();
        let mut shown = BTreeMap::new();
        for view in views.iter().filter(|view| view.shows(&nexus.initiator)) {
            // As in `TargetSession::view_now`, the first view of a number counts.
            shown.entry(view.lun).or_insert(view);
        }
        let numbers: Arc<[u16]> = shown.keys().copied().collect();
        let mut has_changed = numbers != before.numbers;
        let mut all = BTreeMap::new();
        for (lun, view) in shown {
            let old = before.all.remove(&lun).filter(|old| old.is_of(&view.unit));
            let mut seen = old.unwrap_or_else(|| {
                has_changed = true;
                VisibleUnit::new(&view.unit, nexus, view.read_only)
            });
            seen.is_read_only = view.read_only;
            all.insert(lun, seen);
        }
        let units = Units {
            version,
            all,
            numbers,
        };
        (units, has_changed)
    }
}
