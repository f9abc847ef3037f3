//! Writes the labels of golden pools (`crates/cli/tests/golden_pools/features/make labels`), as a power cut leaves them.

mod common;

use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, DeviceAccess, FileDevice};
use common::*;
use pool::NewPool;
use store::Store;

/// The guids that pools get.
const GUIDS: [u64; 3] = [0x5eed_0001, 0x5eed_0002, 0x5eed_0003];

fn devices(pool: &str) -> Vec<Arc<dyn BlockDevice>> {
    let dir = std::env::var("GOLDEN_DIR").expect("the directory of the devices");
    let open = |device| {
        let path = Path::new(&dir).join(format!("{pool}.{device}"));
        Arc::new(FileDevice::open(&path, DeviceAccess::Exclusive).unwrap()) as Arc<dyn BlockDevice>
    };
    ["a", "b"].map(open).into()
}

#[test]
#[ignore = "`golden_pools/features/make labels` runs it, on devices that it makes"]
fn labels_of_golden_pools() {
    let pool = open_devices(devices("split")).unwrap();
    pool.claim("golden").unwrap();
    let members = pool.split_members(&[]).unwrap();
    let new = NewPool {
        guid: GUIDS[0],
        name: "half",
    };
    assert!(pool.split(new, &members, &origin()).unwrap().is_none());
    export(pool);

    let store = Store::open(devices("splitting")).unwrap();
    let last = store.superblocks().unwrap()[0].0;
    let member = store.members()[1].guid;
    let new = (GUIDS[1], "half");
    store.prepare_split(&[member], new, last + 1).unwrap();

    let store = Store::open(devices("reguid")).unwrap();
    let member = store.members()[0].guid;
    store.renumber(GUIDS[2], &[member]).unwrap();
}
