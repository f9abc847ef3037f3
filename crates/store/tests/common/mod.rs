//! What tests of groups share.
#![allow(missing_docs, unreachable_pub)]

use std::sync::Arc;

use block::BlockDevice;
use block::fault::{FaultClock, FaultDevice};
use store::SegmentId;

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
