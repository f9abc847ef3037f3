//! The units that an initiator sees, and what it has to be told of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use crate::scsi::sense::Sense;
use crate::scsi::unit::Unit;
use crate::target::Target;

/// What one session sees of a target.
#[derive(Default)]
pub(super) struct Units {
    /// Which views of the target these are.
    pub(super) version: u64,
    /// By number.
    pub(super) all: BTreeMap<u16, Seen>,
    pub(super) numbers: Vec<u16>,
}

/// A unit, as one session sees it. The session does not keep it from going.
pub(super) struct Seen {
    pub(super) unit: Weak<Unit>,
    pub(super) is_read_only: bool,
    /// Unit attention conditions that the initiator is not told of yet.
    pub(super) attentions: VecDeque<Sense>,
    pub(super) resets: u64,
    /// The size that the initiator knows.
    pub(super) blocks: u64,
}

impl Seen {
    fn new(unit: &Arc<Unit>, is_read_only: bool) -> Seen {
        Seen {
            unit: Arc::downgrade(unit),
            is_read_only,
            attentions: [Sense::POWER_ON].into(),
            resets: unit.resets(),
            blocks: unit.blocks(),
        }
    }

    pub(super) fn is_of(&self, unit: &Arc<Unit>) -> bool {
        std::ptr::eq(self.unit.as_ptr(), Arc::as_ptr(unit))
    }

    pub(super) fn tell(&mut self, sense: Sense) {
        if !self.attentions.contains(&sense) {
            self.attentions.push_back(sense);
        }
    }
}

impl Units {
    /// What an initiator sees of a target.
    pub(super) fn of(target: &Target, initiator: &str) -> Units {
        let (version, views) = target.views();
        let seen = views.iter().filter(|view| view.shows(initiator));
        // The first view of a number counts.
        let seen = seen
            .rev()
            .map(|view| (view.lun, Seen::new(&view.unit, view.read_only)));
        let all: BTreeMap<u16, Seen> = seen.collect();
        Units {
            version,
            numbers: all.keys().copied().collect(),
            all,
        }
    }
}
