//! The work that one small request can cause.

mod common;

use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use block::{BlockDevice, DeviceAccess, RangeStatus, Result, SectorSizes, TransferPool};
use common::*;
use nbd::{Address, ClientTimeouts, Remote, RemoteExport};

const SIZE: u64 = 1 << 40;
const MIB: u64 = 1 << 20;
/// The longest request that is whole sectors.
const ALL: u32 = u32::MAX - 511;
const NO_HOLE: u16 = 1 << 1;

/// A large device that holds nothing, and counts what is done.
#[derive(Default)]
struct Counted {
    read: AtomicU64,
    written: AtomicU64,
    looks: AtomicU64,
    /// The ranges that were zeroed or discarded: offset and length.
    emptied: Mutex<Vec<(u64, u64)>>,
}

impl Counted {
    fn emptied(&self) -> Vec<(u64, u64)> {
        self.emptied.lock().unwrap().clone()
    }
}

impl BlockDevice for Counted {
    block::plain_methods!(refresh_size claim check_unreserved waits_on_write would_wait io_mode);
    block::plain_methods!(settle drop_cached begin_anew zero_fast is_blank overwrite);

    fn size(&self) -> u64 {
        SIZE
    }

    fn sector_sizes(&self) -> SectorSizes {
        SectorSizes::COMMON
    }

    fn name(&self) -> String {
        "counted".into()
    }

    fn read_at(&self, _offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read.fetch_add(buf.len() as u64, SeqCst);
        Ok(())
    }

    fn write_at(&self, _offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.written.fetch_add(len as u64, SeqCst);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.emptied.lock().unwrap().push((offset, len));
        Ok(())
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.emptied.lock().unwrap().push((offset, len));
        Ok(())
    }

    fn status_at(&self, _offset: u64, _len: u64) -> Result<RangeStatus> {
        self.looks.fetch_add(1, SeqCst);
        Ok(RangeStatus {
            len: 512,
            is_hole: false,
            is_zero: false,
        })
    }
}

#[test]
fn each_request_has_a_bound_of_work_and_memory() {
    // Kind, flags, length; the most that is read and looked at, and the longest part.
    let rows: [(u16, u16, u32, u64, u64, u64); 6] = [
        (READ, 0, ALL, 0, 0, 0),
        (CACHE, 0, ALL, 32 * MIB, 0, 0),
        (BLOCK_STATUS, 0, ALL, 0, 4096, 0),
        (TRIM, 0, ALL, 0, 0, 64 * MIB),
        (WRITE_ZEROES, 0, ALL, 0, 0, 64 * MIB),
        (WRITE_ZEROES, NO_HOLE, 512, 0, 0, 0),
    ];
    for (kind, flags, len, read, looks, longest) in rows {
        let device = Arc::new(Counted::default());
        let memory = TransferPool::new(512 << 20);
        let place = Place::with_memory(device.clone(), Arc::clone(&memory));
        let mut client = place.connect();
        client.hello();
        assert_eq!(client.option(STRUCTURED, &[]), [(ACK, vec![])]);
        let context = b"\0\0\0\x01x\0\0\0\x01\0\0\0\x0fbase:allocation";
        assert_eq!(client.option(SET_CONTEXT, context).len(), 2);
        client.go();
        let before = memory.used();
        client.request(kind, flags, 0, len);
        client.outcome();
        let now = |count: &AtomicU64| count.load(SeqCst);
        let row = (kind, flags, len);
        assert!(now(&device.read) <= read, "{row:?}: it reads much");
        assert!(now(&device.looks) <= looks, "{row:?}: it looks often");
        let is_bounded = device.emptied().iter().all(|it| it.1 <= longest);
        assert!(is_bounded, "{row:?}: it does much at once");
        assert!(now(&device.written) <= u64::from(len), "{row:?}");
        // A helper may have been started.
        assert!(
            memory.used() <= before + (256 << 10),
            "{row:?}: it keeps memory"
        );
    }
}

/// The first range begins at an offset, and the last ends at another one. Between them no block of a volume is split.
fn are_parts(emptied: &[(u64, u64)], from: u64, end: u64) -> bool {
    let mut at = from;
    emptied.iter().all(|(offset, len)| {
        let is_begin = at == from || at.is_multiple_of(64 * MIB);
        let is_next = *offset == at;
        at += len;
        is_begin && is_next
    }) && at == end
}

#[test]
fn parts_end_between_blocks_of_a_volume() {
    const PART: u64 = 64 * MIB;
    let from = 512;
    for kind in [TRIM, WRITE_ZEROES] {
        for len in [512, PART - from, PART, 5 * PART + 1024] {
            let device = Arc::new(Counted::default());
            let place = Place::with(device.clone());
            let mut client = place.client();
            client.request(kind, 0, from, len as u32);
            assert_eq!(client.outcome(), 0);
            let emptied = device.emptied();
            assert!(are_parts(&emptied, from, from + len), "{emptied:?}");
        }
    }
}

#[test]
fn requests_of_the_client_end_between_blocks_of_a_volume() {
    let (from, len) = (512, 2500 * MIB);
    for is_trim in [false, true] {
        let device = Arc::new(Counted::default());
        let place = Place::with(device.clone());
        let remote = Remote {
            address: Address::Unix(place.socket()),
            export: "x".into(),
            tls: None,
            name: "remote".into(),
            patience: ClientTimeouts::default(),
        };
        let export = RemoteExport::open(remote, DeviceAccess::Exclusive).unwrap();
        match is_trim {
            true => export.discard(from, len).unwrap(),
            false => export.zero(from, len).unwrap(),
        }
        let emptied = device.emptied();
        assert!(are_parts(&emptied, from, from + len), "{emptied:?}");
    }
}
