//! Changes are settled before they are answered.

mod common;

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use block::{BlockDevice, Error, MemoryDevice, Result};
use common::*;

const FUA: u16 = 1;

/// A device that counts changes that are not settled.
struct Counting {
    memory: MemoryDevice,
    unsettled: AtomicUsize,
    settles: AtomicUsize,
    fails: AtomicBool,
}

impl Counting {
    fn new() -> Arc<Counting> {
        Arc::new(Counting {
            memory: MemoryDevice::new(1 << 20),
            unsettled: AtomicUsize::new(0),
            settles: AtomicUsize::new(0),
            fails: AtomicBool::new(false),
        })
    }
}

impl BlockDevice for Counting {
    block::delegate!(self => self.memory; size refresh_size sector_sizes name read_at flush drop_cached begin_anew);
    block::delegate!(self => self.memory; waits_on_write would_wait io_mode);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.unsettled.fetch_add(1, SeqCst);
        self.memory.write_at(offset, pieces)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.unsettled.fetch_add(1, SeqCst);
        self.memory.discard(offset, len)
    }

    fn settle(&self) -> Result<()> {
        if self.fails.load(SeqCst) {
            return Err(Error::Io {
                device: self.name(),
                operation: "log",
                offset: 0,
                len: 0,
                source: std::io::ErrorKind::Other.into(),
            });
        }
        self.settles.fetch_add(1, SeqCst);
        self.unsettled.store(0, SeqCst);
        Ok(())
    }
}

#[test]
fn what_is_answered_is_settled() {
    let device = Counting::new();
    let place = Place::with(device.clone());
    let mut client = place.client();
    for kind in [WRITE, TRIM, WRITE_ZEROES] {
        client.request(kind, 0, 0, 4096);
        if kind == WRITE {
            client.say(&[1; 4096]);
        }
        assert_eq!(client.outcome(), 0);
        assert_eq!(device.unsettled.load(SeqCst), 0, "kind {kind}");
    }
    // A large write comes in pieces, and is settled once.
    device.settles.store(0, SeqCst);
    client.request(WRITE, 0, 0, 1 << 20);
    client.say(&vec![2; 1 << 20]);
    assert_eq!(client.outcome(), 0);
    assert_eq!(device.settles.load(SeqCst), 1);
    // Reads settle nothing.
    client.request(READ, 0, 0, 512);
    client.answer();
    assert_eq!(device.settles.load(SeqCst), 1);
}

#[test]
fn what_cannot_be_settled_is_an_error() {
    let device = Counting::new();
    let place = Place::with(device.clone());
    let mut client = place.client();
    device.fails.store(true, SeqCst);
    for (kind, flags, outcome) in [(WRITE, 0, 5), (TRIM, 0, 5), (WRITE, FUA, 0)] {
        client.request(kind, flags, 0, 512);
        if kind == WRITE {
            client.say(&[1; 512]);
        }
        assert_eq!(client.outcome(), outcome);
    }
    device.fails.store(false, SeqCst);
    assert!(client.works());
}
