//! Devices that belong to one pool or to two.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::fault::FaultDevice;
use pool::Pool;
use store::{by_pool, probe};

use super::open_on;

/// The guid of the pool at first.
pub const OLD: u64 = 1;
/// The guid of a new pool, or of the same pool afterwards.
pub const NEW: u64 = 77;

/// The devices by the pools that an import finds.
pub fn pools(devices: &[Arc<FaultDevice>]) -> BTreeMap<u64, Vec<Arc<FaultDevice>>> {
    let probed = devices.iter().map(|device| {
        let found = probe(device.as_ref()).unwrap();
        (Arc::clone(device), found)
    });
    by_pool(probed.collect())
}

/// Imports a pool, as far as a host does before it uses it.
pub fn import(devices: &[Arc<FaultDevice>]) -> Pool {
    let pool = open_on(devices).unwrap();
    pool.claim("host").unwrap();
    pool
}
