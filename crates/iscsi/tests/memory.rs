//! The memory that all sessions share.

mod common;

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use block::{BlockDevice, MemoryDevice, TransferPool};
use common::initiator::{GOOD, Initiator, Pdu};
use common::{Portal, TARGET};
use iscsi::LogicalUnit;

const MIB: usize = 1 << 20;
/// The memory that a session has in any case.
const SESSION: usize = 256 << 10;
const TASK_SET_FULL: u8 = 0x28;
/// 2048 blocks of 512 bytes.
const WRITE_MIB: [u8; 10] = [0x2a, 0, 0, 0, 0, 0, 0, 8, 0, 0];
const READ_MIB: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 8, 0, 0];

fn portal(device: Arc<dyn BlockDevice>, memory: &Arc<TransferPool>) -> Portal {
    let unit = LogicalUnit::new("disk", 1, device, false).unwrap();
    let views = vec![unit.view(0, None, false).unwrap()];
    Portal::with_memory(views, Arc::clone(memory))
}

fn disk() -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(2 * MIB))
}

fn is_ready(pdu: &Pdu) -> bool {
    pdu.opcode() == 0x31
}

/// Sends the data that are asked for, now and later, until so many commands have ended. Returns their tags.
fn finish(initiator: &mut Initiator, asked: Vec<Pdu>, count: usize) -> Vec<u32> {
    let (mut heard, mut done) = (VecDeque::from(asked), Vec::new());
    while done.len() < count {
        let pdu = heard.pop_front().unwrap_or_else(|| initiator.hear());
        if !is_ready(&pdu) {
            assert_eq!((pdu.opcode(), pdu.head[3]), (0x21, GOOD));
            done.push(pdu.tag());
            continue;
        }
        let len = u32::from_be_bytes(*pdu.head[44..].first_chunk().unwrap());
        let mut head = [0; 48];
        (head[0], head[1]) = (0x05, 0x80);
        head[16..24].copy_from_slice(&pdu.head[16..24]);
        head[40..44].copy_from_slice(&pdu.head[40..44]);
        initiator.say(head, &vec![7; len as usize]);
    }
    done.sort_unstable();
    done
}

#[test]
fn writes_wait_for_memory_and_none_is_lost() {
    let memory = TransferPool::new(8 * MIB);
    let portal = portal(disk(), &memory);
    let (mut a, mut b) = (portal.log_in("a"), portal.log_in("b"));
    assert_eq!(memory.used(), 2 * SESSION);
    let tags: Vec<u32> = (0..6).map(|_| a.send(0x21, &WRITE_MIB, &[], MIB)).collect();
    // Half of all, less the sessions themselves.
    let asked: Vec<Pdu> = (0..3).map(|_| a.hear()).collect();
    assert!(asked.iter().all(is_ready));
    assert_eq!(memory.used(), 3 * MIB + 2 * SESSION);
    // The same address holds all: it is asked to come again.
    b.send(0x21, &WRITE_MIB, &[], MIB);
    assert_eq!(b.hear().head[3], TASK_SET_FULL);
    assert_eq!(b.read(0).status, GOOD, "the session goes on");
    assert_eq!(finish(&mut a, asked, tags.len()), tags);
    let tag = b.send(0x21, &WRITE_MIB, &[], MIB);
    assert_eq!(finish(&mut b, Vec::new(), 1), [tag]);
    // On a machine that is slow, helpers have some, and the last data go after the answer.
    assert!(memory.used() < 2 * MIB);
    a.log_out();
    b.log_out();
}

#[test]
fn a_login_without_memory_is_refused() {
    let memory = TransferPool::new(3 * SESSION);
    let portal = portal(disk(), &memory);
    let a = portal.log_in("a");
    let text = format!("InitiatorName=iqn.x:b\0TargetName={TARGET}\0");
    let (_, told) = Initiator::try_log_in(portal.address, 1, &text);
    assert_eq!(told.head[36..38], [3, 2], "out of resources");
    assert_eq!(memory.used(), SESSION);
    a.log_out();
}

#[test]
fn reads_need_no_memory_of_others() {
    let memory = TransferPool::new(3 * SESSION);
    let device = disk();
    let content: Vec<u8> = (0..2 * MIB).map(|at| (at / 512 + at) as u8).collect();
    device.write_at(0, &[IoSlice::new(&content)]).unwrap();
    let portal = portal(device, &memory);
    let mut a = portal.log_in("a");
    let read = a.run(&READ_MIB, &[], MIB);
    assert!(read.status == GOOD && read.data == content[..MIB]);
    // Also parts of blocks.
    let read = a.run(&READ_MIB, &[], MIB - 100);
    assert!(read.status == GOOD && read.data == content[..MIB - 100]);
    // A helper may have been started.
    assert!(memory.used() <= SESSION + SESSION / 2);
    a.log_out();
}

#[test]
fn an_abort_frees_memory() {
    let memory = TransferPool::new(256 * MIB);
    let portal = portal(disk(), &memory);
    let mut a = portal.log_in("a");
    for _ in 0..10 {
        a.send(0x21, &WRITE_MIB, &[], MIB);
    }
    for _ in 0..4 {
        assert!(is_ready(&a.hear()));
    }
    assert_eq!(memory.used(), 4 * MIB + SESSION);
    a.manage(2, 0);
    assert_eq!((a.hear().opcode(), memory.used()), (0x22, SESSION));
    a.log_out();
}
