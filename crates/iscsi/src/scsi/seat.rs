//! An initiator at a unit: what it has to be told, and how often its commands were aborted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use meter::LogCount;
use parking_lot::Mutex;

use super::reservation::Nexus;
use super::sense::Sense;

/// The number of unit attention conditions that wait at most.
const ATTENTIONS_MAX: usize = 16;

/// An initiator that has a session.
#[derive(Debug)]
pub(crate) struct NexusState {
    pub(crate) nexus: Nexus,
    /// Unit attention conditions that it is not told of yet.
    attentions: Mutex<VecDeque<Sense>>,
    has_attentions: AtomicBool,
    aborts: AtomicU64,
    /// The number of changes of reservations by this initiator.
    pub(super) changes: LogCount,
}

impl NexusState {
    pub(crate) fn new(nexus: Nexus) -> NexusState {
        NexusState {
            nexus,
            attentions: Mutex::new([Sense::POWER_ON].into()),
            has_attentions: AtomicBool::new(true),
            aborts: AtomicU64::new(0),
            changes: LogCount::default(),
        }
    }

    /// Tells it a unit attention condition, once.
    pub(crate) fn tell(&self, sense: Sense) {
        let mut attentions = self.attentions.lock();
        if !attentions.contains(&sense) && attentions.len() < ATTENTIONS_MAX {
            attentions.push_back(sense);
        }
        self.has_attentions.store(true, SeqCst);
    }

    /// The next one.
    pub(crate) fn attention(&self) -> Option<Sense> {
        if !self.has_attentions.load(SeqCst) {
            return None;
        }
        let mut attentions = self.attentions.lock();
        let next = attentions.pop_front();
        self.has_attentions.store(!attentions.is_empty(), SeqCst);
        next
    }

    /// Aborts its commands.
    pub(crate) fn abort(&self) {
        self.aborts.fetch_add(1, SeqCst);
    }

    /// Aborts its commands, and tells it only that the unit was reset.
    pub(super) fn reset(&self) {
        self.abort();
        self.attentions.lock().clear();
        self.tell(Sense::RESET);
    }

    /// Returns the number of aborts of its commands. A command is aborted if the number has changed since it began.
    pub(crate) fn aborts(&self) -> u64 {
        self.aborts.load(SeqCst)
    }
}
