//! The work that one command can cause, whatever its fields say.

mod common;

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use block::{BlockDevice, RangeStatus, Result, SectorSizes, TransferPool};
use common::Portal;
use iscsi::LogicalUnit;

const SIZE: u64 = 1 << 40;
const MIB: u64 = 1 << 20;

/// A large device that holds nothing, and counts what is done.
#[derive(Default)]
struct Counted {
    read: AtomicU64,
    written: AtomicU64,
    zeroed: AtomicU64,
    looks: AtomicU64,
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
        buf.fill(0);
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

    fn discard(&self, _offset: u64, len: u64) -> Result<()> {
        self.zeroed.fetch_add(len, SeqCst);
        Ok(())
    }

    fn zero(&self, _offset: u64, len: u64) -> Result<()> {
        self.zeroed.fetch_add(len, SeqCst);
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

/// An UNMAP list of so many ranges of this many blocks.
fn unmap(ranges: usize, blocks: u32) -> Vec<u8> {
    let described = 16 * ranges;
    let mut list = vec![0; 8];
    list[2..4].copy_from_slice(&(described as u16).to_be_bytes());
    for at in 0..ranges as u64 {
        list.extend((at * u64::from(blocks)).to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

fn fill_list(cdb: &mut [u8], list: &[u8]) {
    cdb[7..9].copy_from_slice(&(list.len() as u16).to_be_bytes());
}

/// The most that a command may do: bytes that are read, written and zeroed, and ranges that are looked at.
struct Bound(u64, u64, u64, u64);

const NONE: Bound = Bound(0, 0, 0, 0);

#[test]
fn each_command_has_a_bound_of_work_and_memory() {
    const F: u8 = 0xff;
    let long = |opcode: u8, action: u8, count: u32| {
        let mut cdb = vec![opcode, action, 0, 0, 0, 0, 0, 0, 0, 0];
        cdb.extend(count.to_be_bytes());
        cdb.extend([0, 0]);
        cdb
    };
    let (all, too_many) = (unmap(256, 4096), unmap(4095, 1));
    let mut unmap_all = vec![0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut unmap_many = unmap_all.clone();
    fill_list(&mut unmap_all, &all);
    fill_list(&mut unmap_many, &too_many);
    let block = vec![1; 512];
    #[rustfmt::skip]
    let rows: Vec<(&str, Vec<u8>, &[u8], Bound)> = vec![
        ("REPORT LUNS", vec![0xa0, 0, 0, 0, 0, 0, F, F, F, F, 0, 0], &[], NONE),
        ("INQUIRY", vec![0x12, 1, 0x83, F, F, 0], &[], NONE),
        ("MODE SENSE", vec![0x5a, 0, 0x3f, F, 0, 0, 0, F, F, 0], &[], NONE),
        ("LOG SENSE", vec![0x4d, 0, 0, 0, 0, 0, 0, F, F, 0], &[], NONE),
        ("READ FULL STATUS", vec![0x5e, 3, 0, 0, 0, 0, 0, F, F, 0], &[], NONE),
        ("REPORT OPCODES", vec![0xa3, 0x0c, 0x80, 0, 0, 0, F, F, F, F, 0, 0], &[], NONE),
        ("EXTENDED COPY", long(0x83, 0, u32::MAX), &[], NONE),
        ("READ", long(0x88, 0, u32::MAX), &[], NONE),
        ("GET LBA STATUS", long(0x9e, 0x12, u32::MAX), &[], Bound(0, 0, 0, 256)),
        ("VERIFY", long(0x8f, 0, 1 << 20), &[], Bound(512 * MIB, 0, 0, 0)),
        ("VERIFY of all", long(0x8f, 0, u32::MAX), &[], NONE),
        ("PRE-FETCH of all", long(0x90, 0, 0), &[], Bound(MIB, 0, 0, 0)),
        ("SYNCHRONIZE CACHE", long(0x91, 0, 0), &[], NONE),
        ("WRITE SAME", long(0x93, 0, 0xffff), &block, Bound(0, 32 * MIB, 0, 0)),
        ("WRITE SAME of all", long(0x93, 0, u32::MAX), &block, NONE),
        ("WRITE SAME of zeros", long(0x93, 1, 0xffff), &[], Bound(0, 0, 32 * MIB, 0)),
        ("UNMAP", unmap_all, &all, Bound(0, 0, 512 * MIB, 0)),
        ("UNMAP of many ranges", unmap_many, &too_many, NONE),
    ];
    for (name, cdb, out, bound) in rows {
        let device = Arc::new(Counted::default());
        let memory = TransferPool::new(256 << 20);
        let unit = LogicalUnit::new("disk", 1, device.clone(), false).unwrap();
        let views = vec![unit.view(0, None, false).unwrap()];
        let portal = Portal::with_memory(views, Arc::clone(&memory));
        let mut a = portal.log_in("a");
        let (before, room) = (memory.used(), if out.is_empty() { 1 << 20 } else { 0 });
        let outcome = a.run(&cdb, out, room);
        let now = |count: &AtomicU64| count.load(SeqCst);
        assert!(now(&device.read) <= bound.0, "{name} reads much");
        assert!(now(&device.written) <= bound.1, "{name} writes much");
        assert!(now(&device.zeroed) <= bound.2, "{name} zeroes much");
        assert!(now(&device.looks) <= bound.3, "{name} looks often");
        assert!(outcome.data.len() <= 64 << 10, "{name} answers much");
        // A helper may have been started, and the last data may go after the answer.
        assert!(memory.used() <= before + (256 << 10), "{name} keeps memory");
    }
}
