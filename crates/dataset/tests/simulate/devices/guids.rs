//! The pool gets another guid, and the power may fail at any label of it.

use std::sync::Arc;

use pool::DeviceState;
use store::{Store, by_pool, probe};

use crate::model::device::SimDevice;
use crate::sim::{Sim, dynamic};

/// The guids of the pool.
pub struct Guids {
    /// The guid of the pool.
    pub now: u64,
    /// The guid that it may have instead.
    next: Option<u64>,
}

impl Guids {
    pub const FIRST: Guids = Guids { now: 1, next: None };
}

impl Sim {
    /// Returns whether all devices would get the new guid. That cache devices get it is no matter of the pool.
    pub fn may_be_renumbered(&self) -> bool {
        let pool = self.pool();
        let is_there = |state| matches!(state, DeviceState::Online | DeviceState::Spare);
        let mut devices = pool.devices().into_iter();
        devices.all(|device| is_there(device.state))
            && pool.cache_devices().list().is_empty()
            && pool.refuse_waiting_logs().is_ok()
    }

    /// Gives an exported pool another guid.
    pub fn renumber(&mut self, devices: &[u64]) {
        let new = 1_000_000 + self.number();
        self.say(format!("the pool gets the guid {new}"));
        self.guids.next = Some(new);
        let own = self.own(&self.devices);
        let done = Store::open(dynamic(&own)).and_then(|store| store.renumber(new, devices));
        if let Err(error) = done {
            // A spare may be away.
            self.say(format!("   {error}"));
        }
    }

    /// Returns the devices that an import takes for devices of the pool, or that it cannot read.
    pub fn own(&self, there: &[Arc<SimDevice>]) -> Vec<Arc<SimDevice>> {
        let probed = there.iter().filter_map(|device| {
            let found = probe(device.as_ref()).ok()?;
            Some((device.guid, found))
        });
        let pools = by_pool(probed.collect());
        let next = self.guids.next.filter(|guid| pools.contains_key(guid));
        let guid = next.unwrap_or(self.guids.now);
        let is_of_other = |device: &&Arc<SimDevice>| {
            let mut others = pools.iter().filter(|(pool, _)| **pool != guid);
            others.any(|(_, devices)| devices.contains(&device.guid))
        };
        let own = there.iter().filter(|device| !is_of_other(device));
        own.map(Arc::clone).collect()
    }

    /// The guid that it was imported with.
    pub fn find_guid(&mut self, guid: u64) {
        let next = self.guids.next.take();
        assert!(guid == self.guids.now || Some(guid) == next, "{guid}");
        self.guids.now = guid;
    }
}
