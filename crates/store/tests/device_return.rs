//! A device that was away: it may have lost writes, or be another one.

mod common;

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{BlockDevice, MemoryDevice, Result, SectorSizes};
use common::*;
use parking_lot::RwLock;
use store::{CreateOptions, Error, Store, UNIT};

/// A device like the export of a server that can be reached or not, and says with its first flush afterwards that it
/// may have lost
/// writes.
struct Remote {
    medium: RwLock<Arc<MemoryDevice>>,
    is_away: AtomicBool,
    may_have_lost: AtomicBool,
}

impl Remote {
    fn new() -> Arc<Remote> {
        Arc::new(Remote {
            medium: RwLock::new(Arc::new(MemoryDevice::new(SIZE))),
            is_away: AtomicBool::new(false),
            may_have_lost: AtomicBool::new(false),
        })
    }

    fn there(&self) -> Result<Arc<MemoryDevice>> {
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(self.failure("it is away")),
            false => Ok(Arc::clone(&self.medium.read())),
        }
    }

    fn failure(&self, reason: &str) -> block::Error {
        block::Error::Io {
            device: self.name(),
            operation: "asking",
            offset: 0,
            len: 0,
            source: io::Error::other(reason.to_owned()),
        }
    }
}

impl BlockDevice for Remote {
    block::plain_device!();

    fn size(&self) -> u64 {
        SIZE as u64
    }

    fn sector_sizes(&self) -> SectorSizes {
        SectorSizes::COMMON
    }

    fn name(&self) -> String {
        "remote".into()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.there()?.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.there()?.write_at(offset, pieces)
    }

    fn flush(&self) -> Result<()> {
        self.there()?;
        match self.may_have_lost.swap(false, Ordering::SeqCst) {
            true => Err(self.failure("writes may be lost")),
            false => Ok(()),
        }
    }

    fn discard(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }
}

fn store(device: &Arc<Remote>, pool_guid: u64) -> Store {
    let devices = vec![vec![Arc::clone(device) as Arc<dyn BlockDevice>].into()];
    let options = CreateOptions {
        pool_guid,
        device_guids: vec![100],
        created: 0,
        force: false,
    };
    let store = Store::create_groups(devices, Vec::new(), &options).unwrap();
    store.write_superblock(1, b"first").unwrap();
    store.flush().unwrap();
    store.commit_labels().unwrap();
    store.flush().unwrap();
    store
}

#[test]
fn what_may_be_lost_is_known_after_one_try() {
    let device = Remote::new();
    let store = store(&device, 7);
    let (sent, kept) = (unit(b"sent"), unit(b"kept"));
    store.write(PLACE, 0, &[IoSlice::new(&sent)]).unwrap();
    device.is_away.store(true, Ordering::SeqCst);
    store.write(PLACE, UNIT, &[IoSlice::new(&kept)]).unwrap();
    assert!(store.stall().is_some() && store.retry().is_err());
    device.is_away.store(false, Ordering::SeqCst);
    device.may_have_lost.store(true, Ordering::SeqCst);
    // The pool has to read what it wrote, and can go on.
    assert!(store.retry().unwrap(), "writes may be lost");
    store.flush().unwrap();
    let mut buf = vec![0; 2 * UNIT as usize];
    store.read_nth(0, PLACE, 0, &mut buf).unwrap();
    assert!(buf == [sent, kept].concat());
}

#[test]
fn another_device_gets_nothing() {
    let device = Remote::new();
    let ours = store(&device, 7);
    device.is_away.store(true, Ordering::SeqCst);
    let kept = unit(b"kept");
    ours.write(PLACE, 0, &[IoSlice::new(&kept)]).unwrap();
    device.is_away.store(false, Ordering::SeqCst);
    let own = Arc::clone(&device.medium.read());
    let foreign = Remote::new();
    drop(store(&foreign, 8));
    let foreign = foreign.medium.read().to_bytes();
    let others = [MemoryDevice::new(SIZE), MemoryDevice::from_bytes(foreign)];
    for other in others {
        let before = other.to_bytes();
        let other = Arc::new(other);
        *device.medium.write() = Arc::clone(&other);
        assert!(matches!(ours.retry(), Err(Error::OtherDevice { .. })));
        assert!(other.to_bytes() == before);
    }
    *device.medium.write() = own;
    assert!(!ours.retry().unwrap());
}
