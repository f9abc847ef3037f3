//! Streams that go on from bookmarks: the same arrives as from the snapshots, whatever became of these.

use std::collections::BTreeMap;

use crate::common::model::*;
use crate::common::streams::*;
use crate::common::*;
use block::fault::{FaultClock, Survival};
use pool::ArrayKind::{Data, Pages};
use pool::{Pool, SendOf, StreamPosition};

fn bookmark(pool: &Pool, of: &str, name: &str) -> pool::Result<()> {
    pool.bookmark(of, name, &origin())
}

/// The rest of a stream from a bookmark.
fn rest(pool: &Pool, to: &str, mark: &str, start: StreamPosition) -> pool::Result<Vec<u8>> {
    let to = pool.find(to)?;
    let keyring = match to.suite {
        0 => Vec::new(),
        _ => pool.keyring(to.id)?,
    };
    let what = SendOf {
        to: to.id,
        from: None,
        start,
        keyring,
        keys_txg: to.keys_txg(),
        props: BTreeMap::new(),
        open: None,
        readers: 0,
    };
    let sending = pool.send_since(what, Some(&pool.find_bookmark(mark)?))?;
    let mut bytes = Vec::new();
    sending.write(&mut bytes)?;
    assert_eq!(sending.size()?, bytes.len() as u64);
    Ok(bytes)
}

fn since(pool: &Pool, to: &str, mark: &str) -> Vec<u8> {
    rest(pool, to, mark, StreamPosition::START).unwrap()
}

/// Every pair of snapshots of one history, the older of which is gone when it is sent.
#[test]
fn what_was_freed_and_written_arrives() {
    let pool = with_history();
    let names = ["one", "two", "three", "four"];
    // Arrays that become lower, empty, and high again.
    fill(&pool, "tank/a", Pages, &[(0, 0), (1, 0), (40, 0)]);
    fill(&pool, "tank/a", Data, &[(2, 0), (0, 7)]);
    snapshot(&pool, "tank/a@five");
    fill(&pool, "tank/a", Data, &[(0, 0), (BIG, 9)]);
    fill(&pool, "tank/a", Pages, &[(1, 8)]);
    snapshot(&pool, "tank/a@six");
    let names = [&names[..], &["five", "six"]].concat();
    for name in &names {
        bookmark(&pool, &format!("tank/a@{name}"), &format!("tank/a#{name}")).unwrap();
    }
    let held: Vec<_> = names
        .iter()
        .map(|name| holds(&pool, &format!("tank/a@{name}")))
        .collect();
    let fulls: Vec<_> = names
        .iter()
        .map(|name| stream(&pool, &format!("tank/a@{name}"), None))
        .collect();
    for (older, name) in names.iter().enumerate() {
        let mark = format!("tank/a#{name}");
        if older > 0 {
            let before = format!("tank/a@{}", names[older - 1]);
            pool.destroy_dataset(&before, false, &origin()).unwrap();
            settle(&pool);
        }
        for newer in older + 1..names.len() {
            let other = other_pool();
            receive(&other, &fulls[older], "tank/b").unwrap();
            let to = format!("tank/a@{}", names[newer]);
            receive(&other, &since(&pool, &to, &mark), "tank/b").unwrap();
            assert_eq!(holds(&other, "tank/b"), held[newer], "{mark} {to}");
            assert_clean(&other);
        }
        let itself = rest(
            &pool,
            &format!("tank/a@{name}"),
            &mark,
            StreamPosition::START,
        );
        refused(itself.map(drop), "not of an earlier state");
    }
    assert_clean(&pool);
}

/// Histories with clones, promotions, rollbacks and frees: a bookmark that is there is right for everything that goes on
/// from it, and what does not is refused.
#[test]
fn bookmarks_of_random_histories() {
    let mut sent = 0;
    for seed in seeds(40, 4) {
        let devices = fault_devices(2, &FaultClock::new());
        let mut workload = Workload::new(create_on(&devices), seed);
        // By guid: what each snapshot held, and a full stream of it.
        let mut known = BTreeMap::new();
        for _ in 0..4 {
            workload.run(40);
            let pool = &workload.pool;
            let top = pool.top().unwrap().id;
            let all = pool.list(top).unwrap();
            for listed in all.iter().filter(|listed| listed.entry.is_snapshot()) {
                let name = &listed.name;
                known.entry(listed.entry.guid).or_insert_with(|| {
                    let _ = bookmark(pool, name, &name.replace('@', "#"));
                    (holds(pool, name), stream(pool, name, None))
                });
            }
            let (tos, heads): (Vec<_>, Vec<_>) =
                all.iter().partition(|listed| listed.entry.is_snapshot());
            let marks = heads.iter().flat_map(|head| {
                let marks = pool.bookmarks(head.entry.id).unwrap();
                marks.into_iter().map(|marked| (head.entry.id, marked))
            });
            let pairs = marks.flat_map(|mark| tos.iter().map(move |to| (mark.clone(), to)));
            let pairs: Vec<_> = pairs.collect();
            let step = (pairs.len() / 40).max(1);
            for ((head, marked), to) in pairs.into_iter().step_by(step) {
                let Ok(bytes) = rest(pool, &to.name, &marked.name, StreamPosition::START) else {
                    // What is later in the bookmark's own dataset goes on from it.
                    let is_own = to.entry.parent == head;
                    let is_later = to.entry.created_txg > marked.bookmark.created_txg;
                    assert!(!(is_own && is_later), "{seed} {} {}", marked.name, to.name);
                    continue;
                };
                if sent % 4 == 0 {
                    let other = create_on(&fault_devices(2, &FaultClock::new()));
                    receive(&other, &known[&marked.bookmark.guid].1, "tank/b").unwrap();
                    receive(&other, &bytes, "tank/b").unwrap();
                    assert_eq!(holds(&other, "tank/b"), known[&to.entry.guid].0);
                }
                sent += 1;
            }
            settle(pool);
            assert_clean(pool);
        }
    }
    assert!(sent > 20, "{sent}");
}

#[test]
fn a_bookmark_goes_with_its_line() {
    let pool = with_history();
    bookmark(&pool, "tank/a@one", "tank/a#one").unwrap();
    bookmark(&pool, "tank/a@three", "tank/a#three").unwrap();
    bookmark(&pool, "tank/a#three", "tank/a#again").unwrap();
    let names = |pool: &Pool, dataset: &str| {
        let marks = pool.bookmarks(pool.find(dataset).unwrap().id).unwrap();
        let names = marks.into_iter().map(|marked| marked.name);
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        names(&pool, "tank/a"),
        "tank/a#one tank/a#again tank/a#three"
    );
    for (of, name, why) in [
        ("tank/a@one", "tank/a#one", "exists"),
        (
            "tank/a@one",
            "tank#one",
            "belongs to the dataset of its snapshot",
        ),
        ("tank/a", "tank/a#x", "not a snapshot"),
        ("tank/a@none", "tank/a#x", "no"),
        ("tank/a#none", "tank/a#x", "no"),
        ("tank/a@one", "tank/a#", "valid name"),
        ("tank/a@one", "tank/a#x/y", "valid name"),
        ("tank/a@one", "tank/a@one#x", "write DATASET#BOOKMARK"),
        ("tank/a@one", "tank/a@x", "dataset#bookmark"),
    ] {
        refused(bookmark(&pool, of, name), why);
    }
    // A promotion moves snapshots, and no bookmark.
    pool.clone_snapshot("tank/a@two", "tank/c", new_clone(60), &origin())
        .unwrap();
    pool.promote("tank/c", None, &origin()).unwrap();
    let bytes = since(&pool, "tank/a@four", "tank/a#one");
    let other = other_pool();
    receive(&other, &stream(&pool, "tank/c@one", None), "tank/b").unwrap();
    receive(&other, &bytes, "tank/b").unwrap();
    assert_eq!(holds(&other, "tank/b"), holds(&pool, "tank/a@four"));
    // The clone shares the state of the first bookmark, and not that of the third.
    fill(&pool, "tank/c", Data, &[(3, 3)]);
    snapshot(&pool, "tank/c@own");
    since(&pool, "tank/c@own", "tank/a#one");
    let foreign = rest(&pool, "tank/c@own", "tank/a#three", StreamPosition::START);
    refused(foreign.map(drop), "not of an earlier state");
    // A rename does not matter, and a rollback takes what is later.
    pool.rename("tank/a", "tank/d", &origin()).unwrap();
    refused(
        pool.rollback("tank/d@three", false, &origin()).map(drop),
        "later snapshots exist",
    );
    pool.rollback("tank/d@three", true, &origin()).unwrap();
    assert_eq!(
        names(&pool, "tank/d"),
        "tank/d#one tank/d#again tank/d#three"
    );
    pool.destroy_bookmark("tank/d#again", &origin()).unwrap();
    refused(pool.destroy_bookmark("tank/d#again", &origin()), "no");
    pool.clone_snapshot("tank/d@three", "tank/e", new_clone(60), &origin())
        .unwrap();
    assert_eq!(names(&pool, "tank/e"), "");
    snapshot(&pool, "tank/d@last");
    bookmark(&pool, "tank/d@last", "tank/d#last").unwrap();
    pool.destroy_dataset("tank/d@last", false, &origin())
        .unwrap();
    refused(
        pool.rollback("tank/d@three", false, &origin()).map(drop),
        "later bookmarks exist (#last)",
    );
    pool.rollback("tank/d@three", true, &origin()).unwrap();
    assert_eq!(names(&pool, "tank/d"), "tank/d#one tank/d#three");
    assert_clean(&pool);
}

/// Streams into a dataset may be older than a bookmark that was made meanwhile.
#[test]
fn a_receive_keeps_no_later_bookmark() {
    let (pool, other) = (with_history(), other_pool());
    receive(&other, &stream(&pool, "tank/a@one", None), "tank/b").unwrap();
    snapshot(&other, "tank/b@mine");
    bookmark(&other, "tank/b@one", "tank/b#one").unwrap();
    bookmark(&other, "tank/b@mine", "tank/b#mine").unwrap();
    other
        .destroy_dataset("tank/b@mine", false, &origin())
        .unwrap();
    let next = stream(&pool, "tank/a@two", Some("tank/a@one"));
    refused(receive(&other, &next, "tank/b"), "newer bookmarks (#mine)");
    receive_as(&other, &next, true, false, "tank/b").unwrap();
    assert!(other.find_bookmark("tank/b#mine").is_err());
    // The other one is good for a further hop.
    let back = since(&other, "tank/b@two", "tank/b#one");
    let third = new_pool();
    receive(&third, &stream(&pool, "tank/a@one", None), "tank/c").unwrap();
    receive(&third, &back, "tank/c").unwrap();
    assert_eq!(holds(&third, "tank/c"), holds(&pool, "tank/a@two"));
}

/// A token of an interrupted receive finds the bookmark that its stream went on from.
#[test]
fn an_interrupted_receive_goes_on() {
    let (pool, other) = (with_history(), other_pool());
    bookmark(&pool, "tank/a@one", "tank/a#one").unwrap();
    receive(&other, &stream(&pool, "tank/a@one", None), "tank/b").unwrap();
    pool.destroy_dataset("tank/a@one", false, &origin())
        .unwrap();
    let whole = since(&pool, "tank/a@four", "tank/a#one");
    let cut = &whole[..whole.len() * 2 / 3];
    receive_as(&other, cut, false, true, "tank/b").unwrap_err();
    let token = other.resume_token("tank/b").unwrap().unwrap();
    assert_eq!(pool.snapshots_of(&token), None);
    let (_, marked) = pool.bookmark_of(&token).unwrap();
    assert_eq!(marked.name, "tank/a#one");
    let more = rest(&pool, "tank/a@four", &marked.name, token.next).unwrap();
    assert!(more.len() < whole.len());
    receive_as(&other, &more, false, true, "tank/b").unwrap();
    assert_eq!(holds(&other, "tank/b"), holds(&pool, "tank/a@four"));
}

/// A power cut at any time leaves the bookmark, or no bookmark.
#[test]
fn power_cuts() {
    let clock = FaultClock::new();
    let devices = fault_devices(1, &clock);
    let pool = create_on(&devices);
    pool.create_dataset("tank/a", new_dataset(50), &origin())
        .unwrap();
    fill(&pool, "tank/a", Data, &[(0, 1), (40, 2)]);
    snapshot(&pool, "tank/a@one");
    let full = stream(&pool, "tank/a@one", None);
    devices[0].take_journal();
    let first = clock.now();
    bookmark(&pool, "tank/a@one", "tank/a#one").unwrap();
    pool.destroy_dataset("tank/a@one", false, &origin())
        .unwrap();
    fill(&pool, "tank/a", Data, &[(0, 3), (40, 0)]);
    snapshot(&pool, "tank/a@two");
    pool.rollback("tank/a@two", true, &origin()).unwrap();
    pool.destroy_bookmark("tank/a#one", &origin()).unwrap();
    let end = clock.now();
    let journal = devices[0].take_journal();
    drop(pool);
    let mut sent = 0;
    for cut in first..=end {
        let survival = Survival::in_turn(cut, cut);
        let pool = open_on(&after_cut([&journal], cut, survival)).unwrap();
        assert_clean(&pool);
        if pool.find("tank/a@two").is_ok() && pool.find_bookmark("tank/a#one").is_ok() {
            let other = other_pool();
            receive(&other, &full, "tank/b").unwrap();
            receive(&other, &since(&pool, "tank/a@two", "tank/a#one"), "tank/b").unwrap();
            assert_eq!(holds(&other, "tank/b"), holds(&pool, "tank/a@two"));
            sent += 1;
        }
        let either = pool.find("tank/a@one").is_ok() || pool.find_bookmark("tank/a#one").is_ok();
        assert!(either || pool.find("tank/a@two").is_ok(), "{cut}");
    }
    assert!(sent > 0);
}
