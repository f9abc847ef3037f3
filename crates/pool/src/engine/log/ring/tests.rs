use store::SegmentId;

use super::*;

const ALL: MayUse<'_> = &|_| true;

fn ring(sizes: &[u32]) -> Ring {
    let mut ring = Ring::new(&LogHead::default());
    let chunk = |(n, size): (usize, &u32)| Chunk {
        addr: Addr::new(SegmentId::new(n as u16 % 2, n as u32), 0, *size),
        shape: Shape::WHOLE,
        is_shut: false,
    };
    ring.chunks = sizes.iter().enumerate().map(chunk).collect();
    ring
}

/// The entry is written and flushed.
fn durable(ring: &mut Ring) {
    ring.written([1; 16], []);
    ring.flushed();
}

#[test]
fn entries_fill_chunk_after_chunk() {
    let mut ring = ring(&[65536, 65536]);
    for (n, segment) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        let reserved = ring.reserve(24576, ALL).unwrap();
        assert_eq!(reserved.sequence, 1 + n);
        assert_eq!(reserved.place.segment().index(), segment);
        assert_eq!(reserved.flushed, n);
        durable(&mut ring);
    }
    assert!(ring.reserve(24576, ALL).is_none());
    assert_eq!(ring.space(), (16384, 131_072));
}

#[test]
fn an_entry_that_is_not_flushed_does_not_count_as_durable() {
    let mut ring = ring(&[65536]);
    for (group, flushed) in [(0, 0), (1, 0)] {
        assert_eq!(ring.reserve(4096, ALL).unwrap().flushed, flushed);
        ring.written([1; 16], [group]);
    }
    assert_eq!(ring.unflushed(), BTreeSet::from([0, 1]));
    ring.flushed();
    assert!(ring.unflushed().is_empty());
    assert_eq!(ring.reserve(4096, ALL).unwrap().flushed, 2);
}

#[test]
fn a_commit_that_is_durable_leaves_nothing_of_its_entries_to_flush() {
    let mut ring = ring(&[65536]);
    ring.stage = LogStage::On;
    ring.reserve(4096, ALL).unwrap();
    ring.written([1; 16], [0]);
    ring.freeze(ALL);
    ring.reserve(4096, ALL).unwrap();
    ring.written([1; 16], [1]);
    // Not before it is durable.
    assert_eq!(ring.unflushed(), BTreeSet::from([0, 1]));
    ring.on_durable();
    assert_eq!(ring.unflushed(), BTreeSet::from([1]));
}

#[test]
fn an_abandoned_entry_leaves_no_gap() {
    let mut ring = ring(&[65536]);
    let first = ring.reserve(8192, ALL).unwrap();
    ring.abandon();
    let second = ring.reserve(4096, ALL).unwrap();
    assert_eq!((first.sequence, first.place.offset()), (1, 0));
    assert_eq!((second.sequence, second.place.offset()), (1, 0));
}

/// Returns the beginning of the ring after a commit.
fn frozen(ring: &mut Ring, may_use: MayUse<'_>) -> (u64, usize, u32) {
    ring.stage = LogStage::On;
    ring.freeze(may_use);
    match ring.frozen.take() {
        Some(HeadChange::From(sequence, chunk, offset, _)) => (sequence, chunk, offset),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_group_that_fails_is_passed_over_at_once() {
    let mut ring = ring(&[65536, 65536, 65536, 65536]);
    ring.reserve(4096, ALL).unwrap();
    durable(&mut ring);
    let second_only = |group| group == 1;
    let next = ring.reserve(4096, &second_only).unwrap();
    durable(&mut ring);
    assert_eq!(
        (next.sequence, next.at),
        (
            2,
            RingPosition {
                chunk: 1,
                offset: 0
            }
        )
    );
    // A reader looks no further than one chunk ahead.
    let third = ring.reserve(4096, &|group| group == 0).unwrap();
    assert_eq!(
        third.at,
        RingPosition {
            chunk: 2,
            offset: 0
        }
    );
    ring.abandon();
    assert_eq!(
        ring.at,
        RingPosition {
            chunk: 1,
            offset: 4096
        }
    );
    assert!(ring.reserve(65536 - 4096, &second_only).is_some());
    durable(&mut ring);
    assert!(ring.reserve(4096, &second_only).is_none());
}

#[test]
fn what_is_shut_stays_shut_until_a_commit_has_left_it() {
    let mut ring = ring(&[65536, 65536, 65536]);
    ring.reserve(4096, ALL).unwrap();
    durable(&mut ring);
    assert_eq!(frozen(&mut ring, ALL), (2, 0, 4096));
    assert_eq!(frozen(&mut ring, &|group| group == 1), (2, 1, 0));
    // The group works again; what was frozen says where the reader looks.
    assert_eq!(ring.reserve(4096, ALL).unwrap().at.chunk, 1);
    durable(&mut ring);
    assert_eq!(frozen(&mut ring, &|_| false), (3, 3, 0));
    assert!(ring.reserve(4096, ALL).is_none());
}

#[test]
fn nothing_is_written_behind_a_torn_entry() {
    let mut ring = ring(&[65536, 65536]);
    ring.reserve(4096, ALL).unwrap();
    durable(&mut ring);
    ring.reserve(4096, ALL).unwrap();
    ring.tear();
    assert!(ring.reserve(4096, ALL).is_none());
    assert_eq!(frozen(&mut ring, ALL), (3, 2, 0));
    assert!(ring.wants_commit());
}

#[test]
fn no_entry_is_written_that_could_not_be_read() {
    let mut ring = ring(&[8 << 20]);
    assert!(ring.reserve(ENTRY_MAX as u32 + 4096, ALL).is_none());
    assert!(ring.reserve(ENTRY_MAX as u32, ALL).is_some());
}

/// Appends an entry with this tag. Returns what the next entry continues.
fn append(ring: &mut Ring, tag: u8) -> PrecedingState {
    let bound = ring.reserve(4096, ALL).unwrap().bound;
    ring.written([tag; 16], []);
    bound
}

fn bound(state: u8, link: u8) -> PrecedingState {
    PrecedingState {
        state: [state; 16],
        link: [link; 16],
    }
}

/// Returns what the first entry continues if the transaction group closes now.
fn frozen_bound(ring: &mut Ring) -> PrecedingState {
    ring.freeze(ALL);
    match ring.frozen.take() {
        Some(HeadChange::From(.., bound)) => bound,
        other => panic!("{other:?}"),
    }
}

#[test]
fn entries_name_the_durable_state_and_the_entry_before() {
    let mut ring = ring(&[65536]);
    ring.stage = LogStage::On;
    ring.coming_state = Some([1; 16]);
    ring.on_durable();
    assert_eq!(append(&mut ring, 7), bound(1, 0));
    assert_eq!(frozen_bound(&mut ring), bound(1, 7));
    ring.coming_state = Some([2; 16]);
    assert_eq!(append(&mut ring, 8), bound(1, 7), "the commit is under way");
    ring.on_durable();
    assert_eq!(append(&mut ring, 9), bound(2, 8));
}

/// A head accepts entries of one state before its own, so no entry of another comes behind.
#[test]
fn an_entry_that_is_written_for_longer_than_a_commit_takes_keeps_its_state() {
    let mut ring = ring(&[65536]);
    ring.stage = LogStage::On;
    ring.bound = bound(1, 7);
    let slow = ring.reserve(4096, ALL).unwrap();
    ring.coming_state = Some([2; 16]);
    ring.on_durable();
    assert_eq!(frozen_bound(&mut ring), slow.bound);
    ring.written([8; 16], []);
    ring.coming_state = Some([3; 16]);
    assert_eq!(append(&mut ring, 9), bound(1, 8));
    ring.on_durable();
    assert_eq!(append(&mut ring, 10), bound(3, 9));
}

#[test]
fn an_entry_that_is_not_written_links_to_nothing() {
    let mut ring = ring(&[65536]);
    ring.stage = LogStage::On;
    assert_eq!(append(&mut ring, 7), bound(0, 0));
    ring.reserve(4096, ALL).unwrap();
    ring.abandon();
    assert_eq!(append(&mut ring, 8), bound(0, 7));
}
