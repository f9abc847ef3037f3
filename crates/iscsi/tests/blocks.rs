//! A block is read as a whole, however an initiator wants it sent.

mod common;

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use block::{BlockDevice, Result, SectorSizes, TransferPool};
use common::initiator::{GOOD, Initiator};
use common::{Portal, TARGET};
use iscsi::LogicalUnit;

const BLOCK: usize = 4096;
/// 48 blocks.
const READ: [u8; 10] = [0x28, 0, 0, 0, 0, 5, 0, 0, 48, 0];
const LEN: usize = 48 * BLOCK;

/// A device that is written between any two reads: each read finds another byte everywhere.
#[derive(Default)]
struct Changing(AtomicU8);

impl BlockDevice for Changing {
    block::plain_device!();

    fn size(&self) -> u64 {
        1 << 20
    }

    fn sector_sizes(&self) -> SectorSizes {
        SectorSizes {
            logical: BLOCK as u32,
            physical: BLOCK as u32,
        }
    }

    fn name(&self) -> String {
        "changing".into()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        assert!(offset.is_multiple_of(BLOCK as u64) && buf.len().is_multiple_of(BLOCK));
        buf.fill(self.0.fetch_add(1, SeqCst));
        Ok(())
    }

    fn write_at(&self, _offset: u64, _pieces: &[IoSlice<'_>]) -> Result<()> {
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }
}

#[test]
fn no_block_is_half_old_and_half_new() {
    let enough = 256 << 20;
    // For a session, but not for many answers.
    let little = 768 << 10;
    let bursts = "MaxRecvDataSegmentLength=200000\0MaxBurstLength=70000\0";
    let rows = [
        ("", LEN, enough),
        ("MaxRecvDataSegmentLength=512\0", LEN, enough),
        ("MaxRecvDataSegmentLength=3000\0", LEN, enough),
        ("MaxRecvDataSegmentLength=6000\0", LEN - 100, enough),
        ("MaxRecvDataSegmentLength=6000\0", LEN - 100, little),
        ("MaxBurstLength=6144\0FirstBurstLength=512\0", LEN, enough),
        ("MaxBurstLength=1300\0", 700, enough),
        (bursts, LEN - 100, enough),
        (bursts, LEN - 100, little),
    ];
    for (keys, expected, memory) in rows {
        let row = (keys, expected, memory);
        let unit = LogicalUnit::new("disk", 1, Arc::new(Changing::default()), false).unwrap();
        let views = vec![unit.view(0, None, false).unwrap()];
        let portal = Portal::with_memory(views, TransferPool::new(memory));
        let text = format!("InitiatorName=iqn.x:a\0TargetName={TARGET}\0{keys}");
        let (mut a, told) = Initiator::try_log_in(portal.address, 1, &text);
        assert_eq!(told.head[36..38], [0, 0], "{row:?}");
        a.attentions();
        let outcome = a.run(&READ, &[], expected);
        assert_eq!((outcome.status, outcome.data.len()), (GOOD, expected));
        for block in outcome.data.chunks(BLOCK) {
            let is_torn = block.iter().any(|byte| *byte != block[0]);
            assert!(!is_torn, "{row:?}: a block is of two reads");
        }
        a.log_out();
    }
}
