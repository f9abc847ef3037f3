//! Groups of several devices: what members have that fail, join, leave and come back.

mod common;

use std::io::IoSlice;
use std::sync::Arc;

use block::fault::{Fault, FaultClock, FaultDevice};
use common::*;
use store::{DeviceAssignment, Error, Joins, MemberState, SegmentId, Store};

const FIRST: Joins = Joins::Group {
    group: 0,
    column: 0,
};

fn write(store: &Store, text: &[u8]) -> store::Result<()> {
    store.write(PLACE, 0, &[IoSlice::new(&unit(text))])
}

fn read_nth(store: &Store, nth: usize) -> Vec<u8> {
    let mut buf = vec![0; 4];
    store.read_nth(nth, PLACE, 0, &mut buf).unwrap();
    buf
}

fn state(store: &Store, guid: u64) -> MemberState {
    let members = store.members();
    members.iter().find(|m| m.guid == guid).unwrap().state
}

#[test]
fn every_member_has_what_is_written() {
    let devices = devices(3);
    let store = group(&devices, 0);
    write(&store, b"here").unwrap();
    store.flush().unwrap();
    assert_eq!(store.width(0), 3);
    for nth in 0..3 {
        assert_eq!(read_nth(&store, nth), b"here");
    }
    let parts = store.read_parts(PLACE, 0, 4, MemberState::Online).unwrap();
    assert!(parts.members().eq(100..103));
    assert!(parts.bad(b"here").is_empty());
    // Any one of them is enough to read it.
    drop(store);
    for device in &devices {
        let store = Store::open(dynamic(std::slice::from_ref(device))).unwrap();
        assert_eq!(read_nth(&store, 0), b"here");
        assert_eq!(store.superblocks().unwrap()[0].0, 1);
    }
}

#[test]
fn a_member_that_fails_is_not_used_any_more_and_the_last_one_is() {
    let devices = devices(2);
    let store = group(&devices, 0);
    devices[0].inject(Fault::DeadFrom(0));
    write(&store, b"more").unwrap();
    store.flush().unwrap();
    store.write_superblock(2, b"second").unwrap();
    store.flush().unwrap();
    let faults = store.take_faults();
    assert_eq!(faults.iter().map(|f| f.guid).collect::<Vec<_>>(), [100]);
    assert!(store.take_faults().is_empty());
    assert_eq!(state(&store, 100), MemberState::Faulted);
    assert!(store.members()[0].errors.write > 0);
    assert_eq!((store.width(0), read_nth(&store, 5)), (1, b"more".to_vec()));
    // It gets nothing, even when it works again.
    devices[0].heal();
    let before = devices[0].written();
    write(&store, b"last").unwrap();
    assert_eq!(devices[0].written(), before);
    devices[1].inject(Fault::DeadFrom(0));
    // What the last one does not take is kept, and is not durable until it does.
    assert!(store.stall().is_none());
    write(&store, b"kept").unwrap();
    assert_eq!(read_nth(&store, 0), b"kept");
    assert!(store.stall().is_some_and(|error| error.device().is_some()));
    assert!(store.flush().is_err());
    assert!(store.retry().is_err());
    assert_eq!(state(&store, 101), MemberState::Online);
    assert!(store.take_faults().is_empty());
    devices[1].heal();
    assert!(store.flush().is_err());
    assert!(!store.retry().unwrap());
    store.flush().unwrap();
    drop(store);
    let store = Store::open(dynamic(&devices[1..])).unwrap();
    assert_eq!(read_nth(&store, 0), b"kept");
}

#[test]
fn a_flush_that_fails_faults_a_member_but_the_last() {
    let clock = FaultClock::new();
    let devices: Vec<_> = (0..2)
        .map(|_| Arc::new(FaultDevice::new(SIZE, &clock)))
        .collect();
    let store = group(&devices, 0);
    let fail = |device: &FaultDevice| {
        for event in clock.now()..clock.now() + 20 {
            device.inject(Fault::FailFlush(event));
        }
    };
    write(&store, b"data").unwrap();
    fail(&devices[1]);
    store.flush().unwrap();
    assert_eq!(state(&store, 101), MemberState::Faulted);
    write(&store, b"more").unwrap();
    fail(&devices[0]);
    assert!(store.flush().is_err());
    // What the last one holds is not known: trying again is no success before it flushed.
    assert!(store.flush().is_err());
}

#[test]
fn a_read_that_fails_is_tried_elsewhere_and_counted() {
    let devices = devices(2);
    let store = group(&devices, 0);
    write(&store, b"here").unwrap();
    let (len, offset) = (SIZE as u64, 0);
    devices[0].inject(Fault::BadBytes { offset, len });
    let mut buf = [0; 4];
    for segment in 3..5 {
        // Of neighbouring segments one is read from the first, the other from the second.
        store.read(SegmentId::new(0, segment), 0, &mut buf).unwrap();
    }
    let errors: Vec<u64> = store.members().iter().map(|m| m.errors.read).collect();
    assert_eq!(errors, [1, 0]);
    assert_eq!(state(&store, 100), MemberState::Online);
    store.clear_errors(None);
    assert_eq!(store.members()[0].errors.read, 0);
}

#[test]
fn members_join_and_leave() {
    let all = devices(3);
    let store = group(&all[..1], 0);
    write(&store, b"old!").unwrap();
    store.write_key_block(3, b"key").unwrap();
    let info = store.join(&new_member(&all[1], 200), FIRST).unwrap();
    assert_eq!(info.state, MemberState::Resilvering);
    store.refresh_headers(200, &[3]).unwrap();
    // It is asked last, and gets what is written.
    assert_eq!(store.holders(PLACE, 0, 4)[0].0, 100);
    assert_ne!(read_nth(&store, 1), b"old!");
    write(&store, b"new!").unwrap();
    store.write_superblock(2, b"second").unwrap();
    store.set_state(200, MemberState::Online);
    store.let_go(100, true).unwrap();
    assert_eq!(store.members().len(), 1);
    assert_eq!(read_nth(&store, 0), b"new!");
    assert_eq!(store.read_key_block(3).unwrap(), b"key");
    let gone = Store::open(dynamic(&all[..1]));
    assert!(matches!(gone.err(), Some(Error::NotAPool { .. })));
    assert!(all[0].to_bytes()[..65536].iter().all(|byte| *byte == 0));

    // A spare is in no group until it steps in.
    store
        .join(&new_member(&all[2], 300), Joins::Spares)
        .unwrap();
    assert!(store.members()[1].is_spare);
    assert_eq!(store.width(0), 1);
    drop(store);
    let store = Store::open(dynamic(&all[1..])).unwrap();
    assert_eq!((store.groups().len(), store.members().len()), (1, 2));
    store.enlist(300, 0, 0).unwrap();
    assert_eq!(
        (store.width(0), state(&store, 300)),
        (2, MemberState::Resilvering)
    );
    let again = store.join(&new_member(&all[2], 400), Joins::Spares);
    assert!(matches!(again.err(), Some(Error::InUse { .. })));
}

#[test]
fn a_device_that_is_too_small_says_both_sizes() {
    let all = devices(1);
    let store = group(&all, 0);
    let small = Arc::new(FaultDevice::new(SIZE - (1 << 20), &FaultClock::new()));
    let refused = store.join(&new_member(&small, 200), FIRST).err().unwrap();
    let text = refused.to_string();
    assert!(
        text.contains("11534336 bytes") && text.contains("at least 12"),
        "{text}"
    );
}

#[test]
fn a_key_block_is_never_read_from_a_member_that_missed_something() {
    let devices = devices(2);
    let store = group(&devices, 0);
    store.write_key_block(0, b"old key").unwrap();
    store.write_key_block(1, b"gone key").unwrap();
    store.set_state(100, MemberState::Offline);
    store.write_key_block(0, b"new key").unwrap();
    store.wipe_key_block(1).unwrap();
    store.set_state(100, MemberState::Resilvering);
    assert_eq!(store.read_key_block(0).unwrap(), b"new key");
    assert!(
        !store.key_block_is_blank(1).unwrap(),
        "the stale one has it"
    );
    store.refresh_headers(100, &[0]).unwrap();
    store.set_state(101, MemberState::Offline);
    store.set_state(100, MemberState::Online);
    assert_eq!(store.read_key_block(0).unwrap(), b"new key");
    assert!(store.key_block_is_blank(1).unwrap());
    let bytes = devices[0].to_bytes();
    for old in [&b"old key"[..], b"gone key"] {
        assert!(!bytes.windows(old.len()).any(|window| window == old));
    }
}

#[test]
fn headers_are_mended_from_complete_members_only() {
    let devices = devices(2);
    let store = group(&devices, 0);
    store.set_state(100, MemberState::Offline);
    store.write_key_block(0, b"new key").unwrap();
    store.set_state(100, MemberState::Resilvering);
    let check = store.check_headers(1, &[0], true).unwrap();
    assert_eq!((check.lost, check.repaired), (0, 2));
    let check = store.check_headers(1, &[0], true).unwrap();
    assert_eq!((check.lost, check.repaired), (0, 0));
}

#[test]
fn only_what_the_pool_lists_is_used() {
    let devices = devices(2);
    drop(group(&devices, 0));
    let store = Store::open(dynamic(&devices)).unwrap();
    store.assign(&[DeviceAssignment {
        guid: 101,
        state: MemberState::Online,
        errors: Default::default(),
    }]);
    let before = devices[0].written();
    write(&store, b"data").unwrap();
    assert_eq!((store.width(0), devices[0].written()), (1, before));
    let newest = store.newest_superblocks();
    assert_eq!((newest.len(), newest[0].guid), (1, 101));
}

/// Groups were about to be added when the power failed; later another one was.
#[test]
fn a_group_that_was_never_listed_is_let_go() {
    let clock = FaultClock::new();
    let first = devices(1);
    drop(group(&first, 0));
    let others = [12, 13, 14].map(|size| Arc::new(FaultDevice::new(size << 20, &clock)));
    let add = |n: usize| {
        let store = Store::open(dynamic(&first)).unwrap();
        let new = new_member(&others[n], 200 + n as u64);
        store.add_group(&[new], 0, u32::MAX).unwrap();
        store
    };
    let guids = |devices: &[&Arc<FaultDevice>], listed: &[u64]| -> Vec<u64> {
        let devices: Vec<_> = devices.iter().map(|device| Arc::clone(device)).collect();
        let store = Store::open(dynamic(&devices)).unwrap();
        // By their labels alone they may be members of a group that has grown.
        assert_eq!(store.members().len(), devices.len());
        let listed = listed.iter().map(|guid| DeviceAssignment {
            guid: *guid,
            state: MemberState::Online,
            errors: Default::default(),
        });
        store.assign(&listed.collect::<Vec<_>>());
        store.members().iter().map(|member| member.guid).collect()
    };
    let [a, b, c] = &others;
    drop((add(0), add(1)));
    assert_eq!(guids(&[&first[0], a, b], &[100]), [100]);
    let store = add(2);
    store.write_superblock(2, b"listed").unwrap();
    store.flush().unwrap();
    assert_eq!(guids(&[&first[0], a, b, c], &[100, 202]), [100, 202]);
    assert_eq!(guids(&[c, b, a, &first[0]], &[100, 202]), [100, 202]);
}
