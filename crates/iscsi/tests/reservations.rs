//! Reservations between sessions, and what is kept of them.

mod common;

use std::sync::Arc;

use block::MemoryDevice;
use common::initiator::{CHECK, CONFLICT, GOOD};
use common::{Kept, Portal};
use iscsi::{Error, LogicalUnit};

const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const RELEASE: u8 = 2;
const CLEAR: u8 = 3;
const PREEMPT: u8 = 4;
const PREEMPT_AND_ABORT: u8 = 5;
const ANY: u8 = 6;
const APTPL: u8 = 1;

fn portal() -> (Portal, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let device = Arc::new(MemoryDevice::new(1 << 20));
    (Portal::new(device, Some(kept.clone())), kept)
}

#[test]
fn others_are_kept_out_and_told() {
    let (portal, _) = portal();
    let (mut a, mut b, mut c) = (portal.log_in("a"), portal.log_in("b"), portal.log_in("c"));
    assert_eq!(a.reserve_out(REGISTER, 0, 0, 0xa, 0).status, GOOD);
    assert_eq!(b.reserve_out(REGISTER, 0, 0, 0xb, 0).status, GOOD);
    assert_eq!(a.reserve_out(RESERVE, 5, 0xa, 0, 0).status, GOOD);
    assert_eq!(
        (a.write(1, 1), b.write(1, 2), c.write(1, 3)),
        (GOOD, GOOD, CONFLICT)
    );
    assert_eq!(c.read(1).data, [2; 512]);
    assert_eq!(
        c.run(&[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[], 0).status,
        CONFLICT
    );
    // A command that sends data is refused before it is asked for them.
    let tag = c.send(0x21, &[0x2a, 0, 0, 0, 0, 1, 0, 0, 1, 0], &[], 512);
    let refused = c.hear();
    assert_eq!(
        (refused.opcode(), refused.tag(), refused.head[3]),
        (0x21, tag, CONFLICT)
    );
    assert_eq!(b.reserve_out(PREEMPT, 1, 0xb, 0xa, 0).status, GOOD);
    assert_eq!(a.attentions(), [[6, 0x2a, 5]]);
    assert_eq!((a.write(1, 1), b.write(1, 2)), (CONFLICT, GOOD));
    assert_eq!(a.reserve_in(0).data[8..], 0xb_u64.to_be_bytes());
    assert_eq!(b.reserve_out(RELEASE, 1, 0xb, 0, 0).status, GOOD);
    assert_eq!(a.write(1, 1), GOOD);
    assert_eq!(a.reserve_out(REGISTER, 0, 0, 0xa, 0).status, GOOD);
    assert_eq!(b.reserve_out(CLEAR, 0, 0xb, 0, 0).status, GOOD);
    assert_eq!(a.attentions(), [[6, 0x2a, 3]]);
    assert_eq!(c.attentions(), [[0; 3]; 0]);

    let target = &portal.targets.all()[0];
    assert_eq!(target.counts().conflicts, 4);
}

#[test]
fn a_preempted_initiator_writes_nothing_more() {
    let (portal, _) = portal();
    let (mut a, mut b) = (portal.log_in("a"), portal.log_in("b"));
    assert_eq!(a.reserve_out(ANY, 0, 0, 0xa, 0).status, GOOD);
    assert_eq!(b.reserve_out(ANY, 0, 0, 0xb, 0).status, GOOD);
    for action in [PREEMPT, PREEMPT_AND_ABORT] {
        assert_eq!(b.reserve_out(RESERVE, 3, 0xb, 0, 0).status, GOOD);
        // It is asked for data, and sends them too late.
        b.send(0x21, &[0x2a, 0, 0, 0, 0, 9, 0, 0, 1, 0], &[], 512);
        let ready = b.hear();
        assert_eq!(ready.opcode(), 0x31);
        assert_eq!(a.reserve_out(action, 3, 0xa, 0xb, 0).status, GOOD);
        b.send_data(&ready, &[7; 512]);
        if action == PREEMPT {
            let refused = b.hear();
            assert_eq!((refused.opcode(), refused.head[3]), (0x21, CONFLICT));
        }
        assert_eq!(b.attentions(), [[6, 0x2a, 5]]);
        assert_eq!(a.read(9).data, [0; 512]);
        assert_eq!(a.reserve_out(RELEASE, 3, 0xa, 0, 0).status, GOOD);
        assert_eq!(b.reserve_out(ANY, 0, 0, 0xb, 0).status, GOOD);
    }
}

#[test]
fn what_is_kept_is_saved_before_the_answer() {
    let (portal, kept) = portal();
    let mut a = portal.log_in("a");
    assert_eq!(a.reserve_out(REGISTER, 0, 0, 0xa, 0).status, GOOD);
    assert_eq!(*kept.text.lock().unwrap(), None);
    assert_eq!(a.reserve_out(ANY, 0, 0, 0xaa, APTPL).status, GOOD);
    assert_eq!(a.reserve_out(RESERVE, 3, 0xaa, 0, 0).status, GOOD);
    let text = kept.text.lock().unwrap().clone().unwrap();
    assert_eq!(text, "1 3 0\n00000000000000aa 00023d000001 0 iqn.x:a");
    assert_eq!(a.reserve_in(2).data[2..4], [0x15, 0x81]);
    *kept.fails.lock().unwrap() = true;
    let failed = a.reserve_out(RELEASE, 3, 0xaa, 0, 0);
    assert_eq!((failed.status, failed.sense), (CHECK, [4, 0x44, 0]));
    assert_eq!(a.reserve_in(1).data[7], 16, "it is reserved still");
    *kept.fails.lock().unwrap() = false;

    // Another portal, later or elsewhere.
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let again = Portal::new(device, Some(kept.clone()));
    let (mut b, mut a) = (again.log_in("b"), again.log_in("a"));
    assert_eq!(
        (b.write(1, 1), b.read(1).status, a.write(1, 1)),
        (CONFLICT, CONFLICT, GOOD)
    );
    // Who does not ask to keep them any more has them forgotten.
    assert_eq!(a.reserve_out(ANY, 0, 0, 0xab, 0).status, GOOD);
    assert_eq!(*kept.text.lock().unwrap(), None);
}

#[test]
fn what_cannot_be_read_or_kept_is_refused() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let kept = Arc::new(Kept::default());
    *kept.text.lock().unwrap() = Some("9 0 -".into());
    let failed = LogicalUnit::with_keeper("disk", 1, device.clone(), false, Some(kept));
    assert!(matches!(failed.err(), Some(Error::Reservations { .. })));

    let portal = Portal::new(device, None);
    let mut a = portal.log_in("a");
    assert_eq!(a.reserve_in(2).data[2..4], [0x14, 0x80]);
    let refused = a.reserve_out(REGISTER, 0, 0, 0xa, APTPL);
    assert_eq!((refused.status, refused.sense), (CHECK, [5, 0x26, 0]));
    assert_eq!(a.reserve_out(REGISTER, 0, 0, 0xa, 0).status, GOOD);
}

#[test]
fn simple_reservations_end_with_the_session_or_a_reset() {
    let (portal, _) = portal();
    let (mut a, mut b) = (portal.log_in("a"), portal.log_in("b"));
    let (reserve, release) = ([0x16, 0, 0, 0, 0, 0], [0x17, 0, 0, 0, 0, 0]);
    assert_eq!(a.run(&reserve, &[], 0).status, GOOD);
    assert_eq!(b.run(&reserve, &[], 0).status, CONFLICT);
    assert_eq!(b.run(&release, &[], 0).status, GOOD);
    assert_eq!((a.write(1, 1), b.write(1, 1)), (GOOD, CONFLICT));
    assert_eq!(b.read(1).status, CONFLICT);
    assert_eq!(b.reserve_in(0).status, CONFLICT);
    a.log_out();
    while portal.targets.all()[0].sessions().len() > 1 {}
    assert_eq!(b.write(1, 1), GOOD);
    let mut a = portal.log_in("a");
    assert_eq!(b.run(&reserve, &[], 0).status, GOOD);
    assert_eq!(a.write(1, 1), CONFLICT);
    a.manage(5, 0);
    let done = a.hear();
    assert_eq!((done.opcode(), done.head[2]), (0x22, 0));
    assert_eq!(b.attentions(), [[6, 0x29, 3]]);
    assert_eq!(a.attentions(), [[6, 0x29, 3]]);
    assert_eq!(a.write(1, 1), GOOD);
}
