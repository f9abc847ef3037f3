//! A stream that breaks off, was changed, or meets a pool that is full or fails: all of it is received, or
//! nothing, or what goes on later.

use std::sync::Arc;

use crate::common::forgery::fitting;
use crate::common::model::*;
use crate::common::streams::*;
use crate::common::*;
use block::fault::{FaultClock, FaultDevice, Survival};
use pool::ArrayKind::{Data, Pages};
use pool::{Error, Pool};

#[test]
fn records_that_do_not_make_the_roots_are_not_received() {
    let from = with_history();
    for (to, base) in [("tank/a@one", None), ("tank/a@three", Some("tank/a@one"))] {
        let pool = other_pool();
        if let Some(base) = base {
            receive(&pool, &stream(&from, base, None), "tank/b").unwrap();
        }
        let before = read_pool(&pool);
        let mut forged = stream(&from, to, base);
        let begin = u32::from_le_bytes(forged[24..28].try_into().unwrap()) as usize;
        // The tag in the identity of the first record.
        forged[160 + begin + 32 + 24] ^= 1;
        let forged = fitting(&forged);
        refused(
            receive(&pool, &forged, "tank/b"),
            "does not hold what it says",
        );
        assert_eq!(read_pool(&pool), before);
        assert_clean(&pool);
    }
}

#[test]
fn a_stream_that_breaks_off_goes_on() {
    for how in [How::Sealed, How::Plain] {
        breaks_off(how);
    }
}

fn breaks_off(how: How) {
    let from = with_history();
    for (to, base) in [("tank/a@two", None), ("tank/a@four", Some("tank/a@one"))] {
        let whole = stream_as(how, &from, to, base);
        for cut in (0..whole.len()).step_by(997) {
            let pool = new_pool();
            if let Some(base) = base {
                receive(&pool, &stream_as(how, &from, base, None), "tank/b").unwrap();
            }
            let before = read_pool(&pool);
            assert!(receive_as(&pool, &whole[..cut], false, true, "tank/b").is_err());
            assert_eq!(read_pool(&pool), before);
            assert_clean(&pool);
            let Some(token) = pool.resume_token("tank/b").unwrap() else {
                continue;
            };
            let parsed = pool::ResumeToken::parse(&token.to_string()).unwrap();
            assert_eq!(parsed.plain, how == How::Plain);
            let (meant, _) = from.snapshots_of(&parsed).unwrap();
            assert_eq!(from.name_of(meant).unwrap(), to);
            let rest = rest_as(how, &from, to, base, parsed.next);
            assert!(rest.len() <= whole.len());
            receive(&pool, &rest, "tank/b").unwrap();
            let (_, last) = to.split_once('@').unwrap();
            assert_eq!(holds(&pool, &format!("tank/b@{last}")), holds(&from, to));
            assert_eq!(pool.resume_token("tank/b").unwrap(), None);
            assert_clean(&pool);
        }
    }
}

/// A token is refused if the receiver threw the received part away meanwhile.
#[test]
fn a_token_of_before_is_refused() {
    let (from, to) = (with_history(), other_pool());
    let whole = stream(&from, "tank/a@two", None);
    let receive_part = |len| receive_as(&to, &whole[..len], false, true, "tank/b").unwrap_err();
    receive_part(whole.len() - 200);
    let token = to.resume_token("tank/b").unwrap().unwrap();
    to.abandon_receive("tank/b", &origin()).unwrap();
    receive_part(whole.len() / 3);
    let now = to.resume_token("tank/b").unwrap().unwrap();
    assert!(now.next < token.next);
    let rest = stream_from(&from, "tank/a@two", None, token.next).unwrap();
    refused(
        receive(&to, &rest, "tank/b"),
        "further than what was received",
    );
    assert_eq!(to.resume_token("tank/b").unwrap(), Some(now.clone()));
    let rest = stream_from(&from, "tank/a@two", None, now.next).unwrap();
    receive(&to, &rest, "tank/b").unwrap();
    assert_eq!(holds(&to, "tank/b@two"), holds(&from, "tank/a@two"));
    assert_clean(&to);
}

/// A snapshot that came in the clear has the guid of the one that was sent, and other records.
#[test]
fn what_was_received_in_part_does_not_go_on_with_what_is_sealed_otherwise() {
    let (from, copy, to) = (with_history(), other_pool(), other_pool());
    let plain = stream_as(How::Plain, &from, "tank/a@two", None);
    receive(&copy, &plain, "tank/a").unwrap();
    let whole = stream(&from, "tank/a@two", None);
    receive_as(&to, &whole[..whole.len() - 200], false, true, "tank/b").unwrap_err();
    let token = to.resume_token("tank/b").unwrap().unwrap();
    let resealed = stream_from(&copy, "tank/a@two", None, token.next).unwrap();
    for other in [resealed, plain] {
        refused(receive(&to, &other, "tank/b"), "as it was sealed then");
    }
    assert_eq!(to.resume_token("tank/b").unwrap(), Some(token.clone()));
    let rest = stream_from(&from, "tank/a@two", None, token.next).unwrap();
    receive(&to, &rest, "tank/b").unwrap();
    assert_eq!(holds(&to, "tank/b@two"), holds(&from, "tank/a@two"));
    assert_clean(&to);
}

#[test]
fn what_came_in_the_clear_goes_on_with_that_only() {
    let (from, to) = (with_history(), other_pool());
    let whole = stream_as(How::Plain, &from, "tank/a@two", None);
    receive_as(&to, &whole[..whole.len() - 200], false, true, "tank/b").unwrap_err();
    let token = to.resume_token("tank/b").unwrap().unwrap();
    let sealed = stream_from(&from, "tank/a@two", None, token.next).unwrap();
    refused(receive(&to, &sealed, "tank/b"), "in the clear");
    let other = stream_as(How::Plain, &from, "tank/a@one", None);
    refused(receive(&to, &other, "tank/b"), "received into it in part");
    // The same guid, and another state.
    let mut forged = whole.clone();
    // Behind the numbers, the lineage of the state before and that of this one.
    forged[160 + 20 + 12 * 8 + 32] ^= 1;
    refused(receive(&to, &fitting(&forged), "tank/b"), "another state");
    assert_eq!(to.resume_token("tank/b").unwrap(), Some(token.clone()));
    let rest = rest_as(How::Plain, &from, "tank/a@two", None, token.next);
    receive(&to, &rest, "tank/b").unwrap();
    assert_eq!(holds(&to, "tank/b@two"), holds(&from, "tank/a@two"));
    // Once.
    refused(receive(&to, &rest, "tank/b"), "exists already");
    refused(receive(&to, &rest, "tank/c"), "of which nothing is here");
    assert_clean(&to);
}

#[test]
fn what_was_received_in_part_can_be_thrown_away() {
    let (from, to) = (with_history(), other_pool());
    let full = stream(&from, "tank/a@two", None);
    let cut = &full[..full.len() - 200];
    assert!(receive_as(&to, cut, false, true, "tank/b").is_err());
    let token = to.resume_token("tank/b").unwrap().unwrap();
    let other = stream(&from, "tank/a@one", None);
    refused(receive(&to, &other, "tank/b"), "received into it in part");
    let rest = stream_from(&from, "tank/a@two", None, token.next).unwrap();
    refused(receive(&to, &rest, "tank/c"), "of which nothing is here");
    // It is no dataset, and it counts.
    let top = to.top().unwrap().id;
    assert_eq!(to.list(top).unwrap().len(), 1);
    let seen = to.interrupted(top).unwrap();
    assert_eq!((seen.len(), &*seen[0].name), (1, "tank/b"));
    assert_eq!(seen[0].used, to.listed_one(top).unwrap().used_by_children);
    assert!(to.interrupted_as("tank/b").unwrap().is_some());
    assert!(to.interrupted_as("tank/c").unwrap().is_none());
    assert!(to.find("tank/%b").is_err());
    assert!(
        to.listed_one(to.top().unwrap().id)
            .unwrap()
            .used_by_children
            > 0
    );
    to.abandon_receive("tank/b", &origin()).unwrap();
    refused(
        to.abandon_receive("tank/b", &origin()),
        "no interrupted receive",
    );
    settle(&to);
    assert_eq!(
        to.listed_one(to.top().unwrap().id)
            .unwrap()
            .used_by_children,
        0
    );
    assert_clean(&to);

    // It follows its dataset, and goes with it.
    receive(&to, &other, "tank/b").unwrap();
    let next = stream(&from, "tank/a@two", Some("tank/a@one"));
    let cut = &next[..next.len() - 200];
    let without = to.listed_one(to.find("tank/b").unwrap().id).unwrap();
    assert!(receive_as(&to, cut, false, true, "tank/b").is_err());
    // It counts for its dataset, as everything below that.
    let with = to.listed_one(to.find("tank/b").unwrap().id).unwrap();
    assert!(with.used_by_children > without.used_by_children);
    assert_eq!(with.used - without.used, with.used_by_children);
    let freed = to.freed_by_destroying("tank/b", true).unwrap();
    assert_eq!(freed, with.used);
    assert!(to.interrupted(top).unwrap().is_empty());
    to.rename("tank/b", "tank/c", &origin()).unwrap();
    assert!(to.resume_token("tank/b").unwrap().is_none());
    assert!(to.resume_token("tank/c").unwrap().is_some());
    let gone = to.destroy_dataset("tank/c@one", false, &origin());
    refused(gone.map(|_| ()), "an interrupted receive goes on from it");
    let gone = to.destroy_dataset("tank/c", true, &origin()).unwrap();
    assert_eq!(gone.len(), 2);
    settle(&to);
    assert_clean(&to);
}

#[test]
fn no_byte_can_be_changed_or_lacking() {
    let from = new_pool();
    fill(&from, "tank", Pages, &[(0, sized(1, 1))]);
    fill(&from, "tank", Data, &[(9, sized(2, 1))]);
    snapshot(&from, "tank@one");
    fill(&from, "tank", Data, &[(3, sized(3, 1)), (9, 0)]);
    snapshot(&from, "tank@two");
    for how in [How::Sealed, How::Plain] {
        no_byte_of(&from, how);
    }
}

fn no_byte_of(from: &Pool, how: How) {
    let full = stream_as(how, from, "tank@one", None);
    let next = stream_as(how, from, "tank@two", Some("tank@one"));
    let to = new_pool();
    receive(&to, &full, "tank/kept").unwrap();
    let before = read_pool(&to);
    for (whole, target) in [(&full, "tank/b"), (&next, "tank/kept")] {
        let is_payload = |at: usize| {
            whole[at.saturating_sub(64)..(at + 64).min(whole.len())]
                .windows(2)
                .all(|pair| pair[1].wrapping_sub(pair[0]) <= 1)
        };
        for at in 0..whole.len() {
            if is_payload(at) && at % 97 != 0 {
                continue;
            }
            let mut bad = whole.clone();
            bad[at] ^= 1 << (at % 8);
            let error = receive(&to, &bad, target).unwrap_err();
            assert!(matches!(error, Error::Stream { .. }), "byte {at}: {error}");
            let error = receive(&to, &whole[..at], target).unwrap_err();
            assert!(
                matches!(error, Error::Stream { .. }),
                "cut at {at}: {error}"
            );
        }
        assert_eq!(read_pool(&to), before);
        settle(&to);
        assert_clean(&to);
        let trailing = [whole.as_slice(), b"x"].concat();
        refused(receive(&to, &trailing, target), "ends too early");
        if target == "tank/b" {
            to.destroy_dataset(target, true, &origin()).unwrap();
        }
    }
    assert_eq!(holds(&to, "tank/kept@two"), holds(from, "tank@two"));
    assert_clean(&to);
}

#[test]
fn a_power_cut_at_every_write_leaves_all_or_what_goes_on() {
    let from = with_history();
    for (how, resumable) in [
        (How::Sealed, false),
        (How::Sealed, true),
        (How::Plain, false),
        (How::Plain, true),
    ] {
        let full = stream_as(how, &from, "tank/a@one", None);
        let next = stream_as(how, &from, "tank/a@four", Some("tank/a@one"));
        for (bytes, snapshot) in [(&full, "one"), (&next, "four")] {
            let clock = FaultClock::new();
            let devices = fault_devices(1, &clock);
            let pool = create_on(&devices);
            if snapshot == "four" {
                receive(&pool, &full, "tank/b").unwrap();
                fill(&pool, "tank/b", Data, &[(70, 7)]);
            }
            let before = read_pool(&pool);
            devices[0].take_journal();
            let first = clock.now();
            // In pieces, with commits between them.
            let mut input = Committing { bytes, pool: &pool };
            let into = pool::ReceiveInto {
                target: "tank/b",
                force: true,
                resumable,
                is_open: false,
            };
            pool.receive(&mut input, &into, &AsItIs, &origin()).unwrap();
            let after = read_pool(&pool);
            let (journal, end) = (devices[0].take_journal(), clock.now());
            for cut in first..=end {
                let survival = Survival::in_turn(cut, cut);
                let pool = open_on(&after_cut([&journal], cut, survival)).unwrap();
                pool.claim("here").unwrap();
                let found = read_pool(&pool);
                assert!(found == before || found == after, "cut {cut}");
                assert_clean(&pool);
                let token = pool.resume_token("tank/b").unwrap();
                if !resumable || found == after {
                    assert_eq!(token, None, "cut {cut}");
                }
                if let Some(token) = token {
                    let base = (snapshot == "four").then_some("tank/a@one");
                    let to = format!("tank/a@{snapshot}");
                    let rest = rest_as(how, &from, &to, base, token.next);
                    receive_as(&pool, &rest, true, false, "tank/b").unwrap();
                    assert_eq!(read_pool(&pool), after, "cut {cut}");
                    assert_clean(&pool);
                }
            }
        }
    }
}

/// Commits the pool each time something is read.
struct Committing<'a> {
    bytes: &'a [u8],
    pool: &'a Pool,
}

impl std::io::Read for Committing<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.pool.commit().unwrap();
        self.bytes.read(buf)
    }
}

#[test]
fn a_full_pool_takes_nothing() {
    let from = new_pool();
    let all: Vec<_> = (0..10).map(|slot| (slot, sized(slot + 1, 128))).collect();
    fill(&from, "tank", Data, &all);
    snapshot(&from, "tank@one");
    let full = stream(&from, "tank@one", None);
    for resumable in [false, true] {
        let to = new_pool();
        let mine: Vec<_> = (0..9).map(|slot| (slot, sized(slot + 1, 128))).collect();
        fill(&to, "tank", Data, &mine);
        let before = read_pool(&to);
        let result = receive_as(&to, &full, false, resumable, "tank/b");
        assert!(matches!(result, Err(Error::NoSpace)), "{result:?}");
        settle(&to);
        assert_eq!(read_pool(&to), before);
        assert_clean(&to);
        let token = to.resume_token("tank/b").unwrap();
        assert_eq!(token.is_some(), resumable);
        if let Some(token) = token {
            let empty: Vec<_> = (0..9).map(|slot| (slot, 0)).collect();
            fill(&to, "tank", Data, &empty);
            let rest = stream_from(&from, "tank@one", None, token.next).unwrap();
            assert!(rest.len() < full.len());
            receive(&to, &rest, "tank/b").unwrap();
            assert_eq!(holds(&to, "tank/b"), holds(&from, "tank@one"));
            assert_clean(&to);
        }
    }
}

#[test]
fn damage_at_the_sender_ends_the_stream() {
    let clock = FaultClock::new();
    let devices: Vec<Arc<FaultDevice>> = fault_devices(1, &clock);
    let pool = create_on(&devices);
    fill(&pool, "tank", Data, &[(0, sized(1, 2)), (1, sized(2, 2))]);
    snapshot(&pool, "tank@one");
    let image = devices[0].to_bytes();
    let needle = contents(sized(2, 2));
    let at = image
        .windows(needle.len())
        .position(|bytes| bytes == needle)
        .unwrap();
    devices[0].flip(at as u64, 1);
    let to = new_pool();
    let entry = pool.find("tank@one").unwrap();
    for readers in [0, 2] {
        let what = pool::SendOf {
            to: entry.id,
            from: None,
            start: pool::StreamPosition::START,
            keyring: Vec::new(),
            keys_txg: entry.keys_txg(),
            props: Default::default(),
            open: None,
            readers,
        };
        let mut bytes = Vec::new();
        let sent = pool.send(what).unwrap().write(&mut bytes);
        assert!(matches!(sent, Err(Error::Damaged { .. })));
        refused(receive(&to, &bytes, "tank/b"), "ends too early");
        assert_clean(&to);
    }
}
