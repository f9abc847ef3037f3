//! Devices that another machine has taken, which says so in the answer to a write.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{BlockDevice, Loss, MemoryDevice};
use store::{CreateOptions, NewGroup, SegmentId, Store};

/// A device whose writes fail once another machine has taken it.
struct FencedDevice {
    inner: MemoryDevice,
    is_taken: AtomicBool,
}

impl BlockDevice for FencedDevice {
    block::delegate!(self => self.inner; name size refresh_size sector_sizes read_at claim check_unreserved would_wait);
    block::delegate!(self => self.inner; io_mode settle flush drop_cached begin_anew discard zero_fast is_blank);
    block::delegate!(self => self.inner; status_at overwrite);

    fn waits_on_write(&self) -> bool {
        true
    }

    fn write_at(&self, at: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        match self.is_taken.load(Ordering::SeqCst) {
            true => Err(block::Error::ClaimLost {
                device: self.name(),
                loss: Loss::Taken,
            }),
            false => self.inner.write_at(at, pieces),
        }
    }
}

/// A store on one group of so many devices; another machine takes the first one.
fn taken_store(devices: u64) -> Store {
    let first = Arc::new(FencedDevice {
        inner: MemoryDevice::new(16 << 20),
        is_taken: AtomicBool::new(false),
    });
    let others =
        (1..devices).map(|_| Arc::new(MemoryDevice::new(16 << 20)) as Arc<dyn BlockDevice>);
    let group = NewGroup {
        devices: std::iter::once(Arc::clone(&first) as _)
            .chain(others)
            .collect(),
        parity: 0,
    };
    let options = CreateOptions {
        pool_guid: 1,
        device_guids: (2..2 + devices).collect(),
        created: 3,
        force: false,
    };
    let store = Store::create_by(vec![group], Vec::new(), &options, None).unwrap();
    store.flush().unwrap();
    store.check_lost().unwrap();
    first.is_taken.store(true, Ordering::SeqCst);
    store
}

#[track_caller]
fn is_lost(store: &Store) {
    let lost = store.check_lost().unwrap_err().to_string();
    assert!(lost.contains("another machine has taken it"), "{lost}");
}

/// The other half of a mirror has everything, and still the pool may not go on with it: the other machine has the pool.
#[test]
fn a_pool_is_lost_with_any_of_its_devices() {
    for devices in [1, 2] {
        let store = taken_store(devices);
        let _ = store.write(SegmentId::new(0, 0), 0, &[IoSlice::new(&[1; 4096])]);
        is_lost(&store);
        store.flush().unwrap_err();
    }
}

#[test]
fn a_durable_write_tells_that_the_pool_is_lost() {
    let store = taken_store(1);
    let segment = SegmentId::new(0, 0);
    store.write_durably(segment, 0, &[1; 4096]).unwrap_err();
    is_lost(&store);
}
