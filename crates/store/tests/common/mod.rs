//! Helpers of the tests of groups.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::sync::Arc;

use block::BlockDevice;
use block::fault::{FaultClock, FaultDevice};
use store::{CreateOptions, NewGroup, NewMember, SegmentId, Store};

pub const SIZE: usize = 12 << 20;
pub const PLACE: SegmentId = SegmentId::new(0, 3);

pub fn devices(count: usize) -> Vec<Arc<FaultDevice>> {
    let clock = FaultClock::new();
    (0..count)
        .map(|_| Arc::new(FaultDevice::new(SIZE, &clock)))
        .collect()
}

pub fn dynamic(devices: &[Arc<FaultDevice>]) -> Vec<Arc<dyn BlockDevice>> {
    let devices = devices.iter();
    devices
        .map(|d| Arc::clone(d) as Arc<dyn BlockDevice>)
        .collect()
}

/// A block that begins with a text: pools write whole blocks.
pub fn unit(text: &[u8]) -> Vec<u8> {
    let mut unit = text.to_vec();
    unit.resize(text.len().next_multiple_of(store::UNIT as usize), 0);
    unit
}

/// A group of all devices; their guids count from 100.
pub fn group(devices: &[Arc<FaultDevice>], parity: usize) -> Store {
    let store = new_group(dynamic(devices), parity);
    store.write_superblock(1, b"first").unwrap();
    store.flush().unwrap();
    store.commit_labels().unwrap();
    store
}

/// The same before its first commit.
pub fn new_group(devices: Vec<Arc<dyn BlockDevice>>, parity: usize) -> Store {
    let options = CreateOptions {
        pool_guid: 7,
        device_guids: (100..).take(devices.len()).collect(),
        created: 1,
        force: false,
    };
    let group = NewGroup { devices, parity };
    Store::create_groups(vec![group], vec![], &options).unwrap()
}

pub fn new_member(device: &Arc<FaultDevice>, guid: u64) -> NewMember {
    NewMember {
        device: Arc::clone(device) as Arc<dyn BlockDevice>,
        guid,
        created: 2,
        force: false,
    }
}
