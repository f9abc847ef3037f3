//! Initiators that say nothing: those that are there stay, and those that are gone leave nothing behind.

mod common;

use std::sync::Arc;
use std::time::Duration;

use block::{MemoryDevice, TransferPool};
use common::initiator::{CONFLICT, GOOD, Initiator};
use common::{Kept, Portal};
use iscsi::{IscsiTarget, LogicalUnit};

const READ_MIB: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 8, 0, 0];
const RESERVE: [u8; 6] = [0x16, 0, 0, 0, 0, 0];

/// A portal that asks silent initiators again and again.
fn portal(memory: &Arc<TransferPool>) -> Portal {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let keeper = Arc::new(Kept::default());
    let unit = LogicalUnit::with_keeper("disk", 1, device, false, Some(keeper)).unwrap();
    let views = vec![unit.view(0, None, false).unwrap()];
    Portal::with_limits(views, Arc::clone(memory), Duration::from_millis(500))
}

/// Waits until the session of an initiator has ended. It answers nothing meanwhile.
fn await_end(mut initiator: Initiator) {
    while let Ok(pdu) = initiator.try_hear() {
        assert!(pdu.is_question(), "{pdu:?}");
    }
}

fn await_sessions(target: &IscsiTarget, count: usize) {
    while target.sessions().len() != count {
        std::thread::yield_now();
    }
}

#[test]
fn an_initiator_that_answers_stays() {
    let portal = portal(&TransferPool::new(64 << 20));
    let mut there = portal.log_in("there");
    let mut status = None;
    // More questions than one may leave without an answer.
    for _ in 0..4 {
        let question = there.try_hear().unwrap();
        assert!(question.is_question(), "{question:?}");
        // A question is no status: it counts none.
        let number = question.head[24..28].to_vec();
        assert_eq!(*status.get_or_insert(number.clone()), number);
        there.answer(&question);
    }
    assert_eq!(portal.targets.all()[0].sessions().len(), 1);
    there.log_out();
}

#[test]
fn an_initiator_that_is_gone_leaves_nothing_but_its_registration() {
    let memory = TransferPool::new(64 << 20);
    let portal = portal(&memory);
    let target = portal.targets.all().remove(0);
    let before = memory.used();

    let mut gone = portal.log_in("gone");
    assert_eq!(gone.run(&RESERVE, &[], 0).status, GOOD);
    await_end(gone);
    await_sessions(&target, 0);
    assert_eq!(memory.used(), before);
    // RESERVE (6) ends with the session, and another initiator can write.
    let mut other = portal.log_in("other");
    assert_eq!(other.write(1, 5), GOOD);
    drop(other);
    await_sessions(&target, 0);

    // A registration belongs to the names, and outlives the session: only another registrant ends it.
    let mut gone = portal.log_in("gone");
    assert_eq!(gone.reserve_out(0, 0, 0, 7, 0).status, GOOD);
    assert_eq!(gone.reserve_out(1, 5, 7, 0, 0).status, GOOD);
    await_end(gone);
    await_sessions(&target, 0);
    assert_eq!(target.reserved().registrations, 1);
    let mut other = portal.log_in("other");
    assert_eq!(other.write(1, 5), CONFLICT);
}

/// An initiator that takes no answers holds no thread for ever.
#[test]
fn an_initiator_that_takes_nothing_is_gone() {
    let memory = TransferPool::new(64 << 20);
    let portal = portal(&memory);
    let target = portal.targets.all().remove(0);
    let mut full = portal.log_in("full");
    // More than the buffers of a connection hold.
    for _ in 0..64 {
        full.send(0x41, &READ_MIB, &[], 1 << 20);
    }
    await_sessions(&target, 0);
}
