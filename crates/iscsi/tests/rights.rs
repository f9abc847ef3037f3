//! The rights of initiators whose view of a unit is read-only, beside one that writes.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use block::MemoryDevice;
use common::Portal;
use common::initiator::{CHECK, CONFLICT, GOOD, Initiator};
use iscsi::{LogicalUnit, LunView, TargetAccess};

const PROTECTED: [u8; 3] = [7, 0x27, 0];
const RESERVE_6: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
const RELEASE_6: [u8; 6] = [0x17, 0, 0, 0, 0, 0];

/// The answers to task management.
const DONE: u8 = 0;
const NO_TASK: u8 = 1;
const NOT_AUTHORIZED: u8 = 6;

fn unit(number: u64) -> LogicalUnit {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    LogicalUnit::new("disk", number, device, false).unwrap()
}

fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|name| format!("iqn.x:{name}")).collect()
}

/// The unit for "writer", and for reading only to "reader".
fn views(unit: &LogicalUnit) -> Vec<LunView> {
    let view = |name, read_only| unit.view(0, Some(&names(&[name])), read_only).unwrap();
    vec![view("writer", false), view("reader", true)]
}

fn manage(initiator: &mut Initiator, function: u8) -> u8 {
    initiator.manage(function, 12345);
    let answer = initiator.hear();
    assert_eq!(answer.opcode(), 0x22);
    answer.head[2]
}

#[test]
fn a_reader_resets_no_unit_and_ends_no_reservation() {
    let unit = unit(1);
    let portal = Portal::with_views(views(&unit));
    let (mut writer, mut reader) = (portal.log_in("writer"), portal.log_in("reader"));
    assert_eq!(writer.run(&RESERVE_6, &[], 0).status, GOOD);
    for (name, function) in [("clear", 4), ("unit reset", 5), ("target reset", 6)] {
        assert_eq!(manage(&mut reader, function), NOT_AUTHORIZED, "{name}");
    }
    assert_eq!(unit.reserved().holders, ["iqn.x:writer"]);
    let none: [[u8; 3]; 0] = [];
    assert_eq!(writer.attentions(), none, "it is told of no reset");
    assert_eq!(reader.read(0).status, CONFLICT);
    // The tasks of the reader itself are its own.
    assert_eq!(manage(&mut reader, 1), NO_TASK);
    assert_eq!(manage(&mut reader, 2), DONE);
    assert_eq!(manage(&mut writer, 5), DONE);
    assert!(unit.reserved().holders.is_empty());
    assert_eq!(reader.attentions(), [[6, 0x29, 3]]);
}

#[test]
fn a_reader_is_told_which_functions_it_may_use() {
    let portal = Portal::with_views(views(&unit(1)));
    let functions = [0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0];
    let told = |name: &str| portal.log_in(name).run(&functions, &[], 16).data;
    assert_eq!(told("writer"), [0xda, 0, 0, 0]);
    assert_eq!(told("reader"), [0xc0, 0, 0, 0]);
}

/// A target reset concerns all units that an initiator sees.
#[test]
fn one_read_only_view_is_enough_to_refuse_a_target_reset() {
    let (one, two) = (unit(1), unit(2));
    let views = vec![
        one.view(0, None, false).unwrap(),
        two.view(1, None, true).unwrap(),
    ];
    let portal = Portal::with_views(views);
    let mut both = portal.log_in("both");
    assert_eq!(manage(&mut both, 6), NOT_AUTHORIZED);
    assert_eq!(manage(&mut both, 5), DONE, "the unit that it may change");
}

#[test]
fn a_reader_reserves_and_releases_nothing() {
    let unit = unit(1);
    let portal = Portal::with_views(views(&unit));
    let (mut writer, mut reader) = (portal.log_in("writer"), portal.log_in("reader"));
    assert_eq!(writer.reserve_out(6, 0, 0, 7, 0).status, GOOD);
    assert_eq!(writer.reserve_out(1, 1, 7, 0, 0).status, GOOD);
    for action in 0..=6 {
        for (key, other) in [(0, 9), (7, 0), (7, 7)] {
            let refused = reader.reserve_out(action, 1, key, other, 0);
            assert_eq!((refused.status, refused.sense), (CHECK, PROTECTED));
        }
    }
    for cdb in [RESERVE_6, RELEASE_6] {
        let refused = reader.run(&cdb, &[], 0);
        assert_eq!((refused.status, refused.sense), (CHECK, PROTECTED));
    }
    for action in 0..=3 {
        assert_eq!(reader.reserve_in(action).status, GOOD);
    }
    let now = unit.reserved();
    assert_eq!(
        (now.registrations, now.holders),
        (1, vec!["iqn.x:writer".into()])
    );
}

/// The data of a command come long after the command.
#[test]
fn a_view_that_becomes_read_only_counts_for_commands_that_wait() {
    let unit = unit(1);
    let portal = Portal::with_views(vec![unit.view(0, None, false).unwrap()]);
    let target = portal.targets.all().remove(0);
    let mut a = portal.log_in("a");
    let write = [0x2a, 0, 0, 0, 0, 3, 0, 0, 1, 0];
    let tag = a.send(0x21, &write, &[], 512);
    let ready = a.hear();
    assert_eq!((ready.opcode(), ready.tag()), (0x31, tag));
    target.set_views(vec![unit.view(0, None, true).unwrap()]);
    a.send_data(&ready, &[9; 512]);
    let refused = a.hear();
    assert_eq!((refused.tag(), refused.head[3]), (tag, CHECK));
    assert_eq!(refused.data[4], 7);
    assert_eq!(a.read(3).data, [0; 512]);
}

/// An initiator that loses its access loses its session, with what it has sent.
#[test]
fn access_that_ends_ends_commands_that_wait() {
    let unit = unit(1);
    let portal = Portal::with_views(vec![unit.view(0, None, false).unwrap()]);
    let target = portal.targets.all().remove(0);
    let (mut a, mut b) = (portal.log_in("a"), portal.log_in("b"));
    a.send(0x21, &[0x2a, 0, 0, 0, 0, 3, 0, 0, 1, 0], &[], 512);
    let ready = a.hear();
    let access = TargetAccess {
        initiators: vec!["iqn.x:b".into()],
        ..TargetAccess::default()
    };
    target.set_access(access).unwrap();
    let mut head = [0; 48];
    (head[0], head[1]) = (0x05, 0x80);
    head[16..24].copy_from_slice(&ready.head[16..24]);
    // The connection may be closed already.
    let _ = a.try_say(head, &[9; 512]);
    assert!(a.try_hear().is_err());
    assert_eq!(b.read(3).data, [0; 512]);
}
