//! What is received is what was sent, or nothing.

mod common;

use std::sync::Arc;

use block::fault::{FaultClock, FaultDevice, Survival};
use block::{BlockDevice, DeviceMeter, MemoryDevice, Metered};
use common::model::*;
use common::streams::*;
use common::*;
use pool::ArrayKind::{Data, Pages};
use pool::{Error, NewDataset, Pool};

const BIG: u64 = 1 << 40;

fn new_pool() -> Pool {
    create_on(&fault_devices(1, &FaultClock::new()))
}

/// Another one, which draws other numbers.
fn other_pool() -> Pool {
    let devices = fault_devices(1, &FaultClock::new());
    create_on(&devices).export().unwrap();
    open_on(&devices).unwrap()
}

/// A pool with a dataset `tank/a` that has a short history.
fn with_history() -> Pool {
    let pool = new_pool();
    pool.create_dataset("tank/a", new_dataset(50), &origin())
        .unwrap();
    fill(&pool, "tank/a", Pages, &[(0, 1), (1, 2), (40, 3)]);
    fill(&pool, "tank/a", Data, &[(0, 10), (33, 11), (BIG, 12)]);
    snapshot(&pool, "tank/a@one");
    fill(&pool, "tank/a", Data, &[(33, 0), (BIG, 0), (5, 13)]);
    fill(&pool, "tank/a", Pages, &[(1, 4)]);
    snapshot(&pool, "tank/a@two");
    fill(&pool, "tank/a", Data, &[(0, 0), (5, 0)]);
    snapshot(&pool, "tank/a@three");
    fill(&pool, "tank/a", Data, &[(2, 14)]);
    snapshot(&pool, "tank/a@four");
    pool
}

#[test]
fn a_dataset_with_its_snapshots() {
    let (from, to) = (with_history(), other_pool());
    receive(&to, &stream(&from, "tank/a@one", None), "tank/b").unwrap();
    let mut last = "tank/a@one";
    for next in ["tank/a@two", "tank/a@three", "tank/a@four"] {
        receive(&to, &stream(&from, next, Some(last)), "tank/b").unwrap();
        last = next;
    }
    for snapshot in ["one", "two", "three", "four"] {
        let [sent, got] = [format!("tank/a@{snapshot}"), format!("tank/b@{snapshot}")];
        assert_eq!(holds(&from, &sent), holds(&to, &got));
        let [sent, got] = [from.find(&sent).unwrap(), to.find(&got).unwrap()];
        assert_eq!((sent.guid, sent.created), (got.guid, got.created));
        assert_eq!(
            sent.roots.map(|r| r.identity),
            got.roots.map(|r| r.identity)
        );
        assert_eq!(sent.logical, got.logical);
    }
    assert_eq!(holds(&to, "tank/b"), holds(&from, "tank/a@four"));
    assert_clean(&to);
    // What is received gives everything back.
    to.destroy_dataset("tank/b", true, &origin()).unwrap();
    settle(&to);
    assert_clean(&to);
}

#[test]
fn what_comes_in_the_clear_is_known_again() {
    let (from, to, third) = (with_history(), other_pool(), new_pool());
    let plain = |pool: &Pool, to: &str, from| stream_as(How::Plain, pool, to, from);
    let full = plain(&from, "tank/a@one", None);
    refused(receive_as(&to, &full, false, true, "tank/b"), "without -s");
    receive(&to, &full, "tank/b").unwrap();
    let next = plain(&from, "tank/a@three", Some("tank/a@one"));
    receive(&to, &next, "tank/b").unwrap();
    for snapshot in ["one", "three"] {
        let [sent, got] = [format!("tank/a@{snapshot}"), format!("tank/b@{snapshot}")];
        assert_eq!(holds(&from, &sent), holds(&to, &got));
        assert_eq!(from.find(&sent).unwrap().guid, to.find(&got).unwrap().guid);
    }
    // On from the copy, and then from where that came.
    receive(&third, &plain(&to, "tank/b@three", None), "tank/c").unwrap();
    let last = plain(&from, "tank/a@four", Some("tank/a@three"));
    receive(&third, &last, "tank/c").unwrap();
    assert_eq!(holds(&third, "tank/c"), holds(&from, "tank/a@four"));

    // A snapshot of that guid which holds something else is not what the stream goes on from.
    let other = new_pool();
    other
        .create_dataset("tank/a", new_dataset(50), &origin())
        .unwrap();
    fill(&other, "tank/a", Data, &[(0, 77)]);
    snapshot(&other, "tank/a@one");
    let (guid, guids) = (
        from.find("tank/a@one").unwrap().guid,
        &plain(&other, "tank/a@one", None),
    );
    let mut forged = guids.clone();
    // Its guid in the first frame, and hashes that fit it.
    forged[160 + 20..160 + 28].copy_from_slice(&guid.to_le_bytes());
    let fits = fitting(&forged);
    let fourth = new_pool();
    receive(&fourth, &fits, "tank/d").unwrap();
    assert_eq!(fourth.find("tank/d@one").unwrap().guid, guid);
    refused(receive(&fourth, &next, "tank/d"), "not in the state");
    for pool in [&to, &third, &fourth] {
        assert_clean(pool);
    }
}

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

/// The same frames, with hashes that fit what is in them.
fn fitting(stream: &[u8]) -> Vec<u8> {
    let (mut out, mut chain, mut rest) = (Vec::new(), [0; 32], stream);
    while !rest.is_empty() {
        let (head, more) = rest.split_at(160);
        let len = u32::from_le_bytes(head[24..28].try_into().unwrap());
        let (payload, more) = more.split_at(len as usize);
        let mut head = head.to_vec();
        head[96..128].copy_from_slice(blake3::hash(payload).as_bytes());
        let mut hasher = blake3::Hasher::new();
        hasher.update(&chain).update(&head[..128]);
        chain = *hasher.finalize().as_bytes();
        head[128..].copy_from_slice(&chain);
        out.extend([head.as_slice(), payload].concat());
        rest = more;
    }
    out
}

#[test]
fn several_streams_one_behind_the_other() {
    let (from, to) = (with_history(), other_pool());
    let all = [
        stream(&from, "tank/a@one", None),
        stream(&from, "tank/a@four", Some("tank/a@one")),
    ];
    receive(&to, &all.concat(), "tank/b").unwrap();
    assert_eq!(holds(&to, "tank/b"), holds(&from, "tank/a@four"));
    assert_clean(&to);
}

#[test]
fn an_incremental_stream_reads_what_changed_and_little_else() {
    let meter = Arc::new(DeviceMeter::default());
    let memory = MemoryDevice::new(96 << 20);
    let device: Arc<dyn BlockDevice> = Arc::new(Metered::new(memory, Arc::clone(&meter)));
    let records = 1024;
    let pool = create_on_device(&device);
    let all: Vec<_> = (0..records)
        .map(|slot| (slot, sized(slot + 1, 16)))
        .collect();
    fill(&pool, "tank", Data, &all);
    snapshot(&pool, "tank@one");
    let changed: Vec<_> = (0..10).map(|n| (n * 100, sized(n + 5000, 16))).collect();
    fill(&pool, "tank", Data, &changed);
    snapshot(&pool, "tank@two");
    drop(pool);

    // Nothing is in memory.
    let pool = open_devices(vec![device]).unwrap();
    let before = meter.read.totals().bytes;
    let bytes = stream(&pool, "tank@two", Some("tank@one"));
    let read = meter.read.totals().bytes - before;
    let (new, whole) = (10 * 16 * 4096, records * 16 * 4096);
    assert!(
        bytes.len() as u64 - new < new / 50,
        "{} bytes sent",
        bytes.len()
    );
    assert!(read < whole * 15 / 1000, "{read} of {whole} bytes read");
}

fn create_on_device(device: &Arc<dyn BlockDevice>) -> Pool {
    use store::{CreateOptions, DeviceStore, Store};
    let options = CreateOptions {
        pool_guid: 1,
        device_guids: vec![10],
        created: 1,
        force: false,
    };
    let group = vec![store::NewGroup {
        devices: vec![Arc::clone(device)],
        parity: 0,
    }];
    let store = Arc::new(DeviceStore::create_groups(group, Vec::new(), &options).unwrap());
    let env = TestEnv::new(1);
    let pool = Pool::create(store.clone() as Arc<dyn Store>, env, "tank", new_dataset(2)).unwrap();
    store.commit_labels().unwrap();
    pool
}

#[track_caller]
fn refused(result: pool::Result<()>, why: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_with_the_reason() {
    let (from, to) = (with_history(), other_pool());
    let full = stream(&from, "tank/a@two", None);
    let next = stream(&from, "tank/a@three", Some("tank/a@two"));
    refused(receive(&to, &next, "tank/b"), "no such dataset");
    receive(&to, &full, "tank/b").unwrap();
    refused(receive(&to, &full, "tank/b"), "exists already");
    refused(receive(&to, &full, "tank/c/d"), "no such dataset");
    let later = stream(&from, "tank/a@four", Some("tank/a@three"));
    refused(receive(&to, &later, "tank/b"), "lacks the snapshot");
    refused(receive(&to, &next, "tank/b@two"), "exists already");

    // It has gone on by itself.
    fill(&to, "tank/b", Data, &[(70, 7)]);
    refused(receive(&to, &next, "tank/b"), "was changed since @two");
    snapshot(&to, "tank/b@own");
    refused(
        receive(&to, &next, "tank/b"),
        "newer snapshots (@own) than @two",
    );
    to.hold(&["tank/b@own".into()], "keep", false, &origin())
        .unwrap();
    refused(receive_as(&to, &next, true, false, "tank/b"), "is held");
    to.release(&["tank/b@own".into()], "keep", false, &origin())
        .unwrap();
    let open = to.open_dataset(to.find("tank/b").unwrap().id).unwrap();
    refused(receive_as(&to, &next, true, false, "tank/b"), "in use");
    drop(open);
    let before = read_pool(&to);
    refused(
        receive_as(&to, &next[..next.len() - 1], true, false, "tank/b"),
        "ends too early",
    );
    assert_eq!(
        read_pool(&to),
        before,
        "-F takes back only what it replaces"
    );
    receive_as(&to, &next, true, false, "tank/b").unwrap();
    assert_eq!(holds(&to, "tank/b"), holds(&from, "tank/a@three"));
    assert!(to.find("tank/b@own").is_err());
    assert_clean(&to);

    // A snapshot of the same guid that holds something else.
    let other = with_history();
    fill(&other, "tank/a", Data, &[(90, 99)]);
    snapshot(&other, "tank/a@five");
    let strange = stream(&other, "tank/a@five", Some("tank/a@four"));
    receive(&to, &later, "tank/b").unwrap();
    let four = to.find("tank/b@four").unwrap().guid;
    assert_eq!(
        four,
        other.find("tank/a@four").unwrap().guid,
        "replayed from one seed"
    );
    receive(&to, &strange, "tank/b").unwrap();
    assert_clean(&to);
}

#[test]
fn a_stream_that_breaks_off_goes_on() {
    let from = with_history();
    for (to, base) in [("tank/a@two", None), ("tank/a@four", Some("tank/a@one"))] {
        let whole = stream(&from, to, base);
        for cut in (0..whole.len()).step_by(997) {
            let pool = new_pool();
            if let Some(base) = base {
                receive(&pool, &stream(&from, base, None), "tank/b").unwrap();
            }
            let before = read_pool(&pool);
            assert!(receive_as(&pool, &whole[..cut], false, true, "tank/b").is_err());
            assert_eq!(read_pool(&pool), before);
            assert_clean(&pool);
            let Some(token) = pool.resume_token("tank/b").unwrap() else {
                continue;
            };
            let parsed = pool::ResumeToken::parse(&token.to_string()).unwrap();
            let (meant, _) = from.snapshots_of(&parsed).unwrap();
            assert_eq!(from.name_of(meant).unwrap(), to);
            let rest = stream_from(&from, to, base, parsed.next).unwrap();
            assert!(rest.len() <= whole.len());
            receive(&pool, &rest, "tank/b").unwrap();
            let (_, last) = to.split_once('@').unwrap();
            assert_eq!(holds(&pool, &format!("tank/b@{last}")), holds(&from, to));
            assert_eq!(pool.resume_token("tank/b").unwrap(), None);
            assert_clean(&pool);
        }
    }
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
    // Nobody can see it, and it counts.
    assert_eq!(to.list(to.top().unwrap().id).unwrap().len(), 1);
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
    assert!(receive_as(&to, cut, false, true, "tank/b").is_err());
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
            };
            pool.receive(&mut input, &into, &AsItIs, &origin()).unwrap();
            let after = read_pool(&pool);
            let (journal, end) = (devices[0].take_journal(), clock.now());
            for cut in first..=end {
                let survival = match cut % 3 {
                    0 => Survival::None,
                    1 => Survival::All,
                    _ => Survival::Seeded(cut),
                };
                let image = journal.image(cut, survival);
                let pool = open_images(vec![image]).unwrap();
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
                    let rest = stream_from(&from, &to, base, token.next).unwrap();
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

/// What a sealed dataset of a stream needs: the seal and where it belongs, and its keyring.
#[test]
fn seals_and_keyrings_come_as_they_are() {
    let from = new_pool();
    let new = NewDataset {
        suite: 1,
        keyring: Some(Box::new(|_| Ok(vec![7; 5000]))),
        is_key_root: true,
        ..new_dataset(77)
    };
    from.create_dataset("tank/a", new, &origin()).unwrap();
    fill(&from, "tank/a", Pages, &[(0, 1)]);
    snapshot(&from, "tank/a@one");
    let (b, c) = (new_pool(), new_pool());
    receive(&b, &stream(&from, "tank/a@one", None), "tank/b").unwrap();
    receive(&c, &stream(&b, "tank/b@one", None), "tank/c").unwrap();
    let sent = from.find("tank/a@one").unwrap();
    for (pool, name) in [(&b, "tank/b"), (&c, "tank/c")] {
        let head = pool.find(name).unwrap();
        let got = pool.find(&format!("{name}@one")).unwrap();
        assert_ne!(head.guid, 77);
        assert_eq!(
            (head.family, head.suite, head.key_root),
            (sent.family, 1, head.id)
        );
        assert_eq!(
            (got.sequence, got.seal, got.keys_txg()),
            (sent.sequence, sent.seal, sent.keys_txg())
        );
        assert_eq!(pool.keyring(head.id).unwrap(), vec![7; 5000]);
        for entry in [&head, &got] {
            let input = pool::SealInput::of(entry, head.guid);
            assert_eq!(input.guid, 77, "the seal is over what it was made over");
            assert_eq!(input.roots, sent.roots.map(|root| root.identity));
        }
        // A clone is its own, and its keyring goes on where the other one is.
        let keyring: pool::MakeKeyring = Box::new({
            let floor = sent.keys_txg();
            move |txg| {
                if txg > floor {
                    Ok(vec![8; 10])
                } else {
                    Err("it descends".into())
                }
            }
        });
        let clone = pool::NewClone {
            keyring: Some(keyring),
            is_key_root: true,
            reseal: Some(Box::new(|old, new| {
                assert_ne!(new.guid, 77);
                Ok([old.seal[0]; 32])
            })),
            ..new_clone(900)
        };
        pool.clone_snapshot(&format!("{name}@one"), "tank/clone", clone, &origin())
            .unwrap();
        let clone = pool.find("tank/clone").unwrap();
        assert_eq!(pool::SealInput::of(&clone, clone.guid).guid, 900);
        assert_clean(pool);
    }
}

#[test]
fn random_histories_through_other_pools_and_back() {
    for seed in seeds(0, 6) {
        let devices = fault_devices(2, &FaultClock::new());
        let mut workload = Workload::new(create_on(&devices), seed);
        let others: Vec<Pool> = (0..2)
            .map(|_| create_on(&fault_devices(2, &FaultClock::new())))
            .collect();
        let mut dice = Dice(seed ^ 0xabcd);
        let mut names: Vec<(u64, String)> = Vec::new();
        for round in 0..6 {
            for _ in 0..40 {
                workload.step();
            }
            workload.pool.commit().unwrap();
            let model = normal(workload.model.clone());
            for (name, snapshots) in &model.snapshots {
                let id = workload.pool.find(name).unwrap().id;
                let last: Vec<String> = snapshots
                    .iter()
                    .map(|(s, _)| format!("{name}@{s}"))
                    .collect();
                let known = names.iter().find(|(known, _)| *known == id);
                let target = match known {
                    Some((_, target)) => target.clone(),
                    None => {
                        names.push((id, format!("tank/r{}", names.len())));
                        names.last().unwrap().1.clone()
                    }
                };
                let mut hop = &workload.pool;
                let mut hop_name = name.clone();
                for (other, how) in others.iter().zip([How::Sealed, How::Plain]) {
                    carry(how, hop, &hop_name, &last, other, &target, &mut dice);
                    (hop, hop_name) = (other, target.clone());
                }
                for other in &others {
                    for (snapshot, arrays) in snapshots {
                        let got = format!("{target}@{snapshot}");
                        if other.find(&got).is_ok() {
                            assert_eq!(holds(other, &got), *arrays, "seed {seed} {round} {got}");
                        }
                    }
                }
            }
            for other in &others {
                assert_clean(other);
            }
        }
        // And back, beside what is there.
        let (_, target) = &names[0];
        let Ok(entry) = others[1].find(target) else {
            continue;
        };
        let newest = others[1].snapshots(entry.id).unwrap().pop().unwrap();
        let newest = others[1].name_of(newest.id).unwrap();
        let back = receive(
            &workload.pool,
            &stream(&others[1], &newest, None),
            "tank/back",
        );
        if !matches!(back, Err(Error::NoSpace)) {
            back.unwrap();
            assert_eq!(
                holds(&workload.pool, "tank/back"),
                holds(&others[1], &newest)
            );
        }
        settle(&workload.pool);
        assert_clean(&workload.pool);
    }
}

/// Brings the receiver the snapshots of a dataset that it lacks: some of them, broken off here and there.
fn carry(
    how: How,
    from: &Pool,
    name: &str,
    all: &[String],
    to: &Pool,
    target: &str,
    dice: &mut Dice,
) {
    let mine = |full: &String| {
        let (_, last) = full.split_once('@').unwrap();
        format!("{name}@{last}")
    };
    let all: Vec<String> = all
        .iter()
        .map(mine)
        .filter(|s| from.find(s).is_ok())
        .collect();
    let guid = |pool: &Pool, name: &str| pool.find(name).unwrap().guid;
    let newest_there = to.find(target).ok().and_then(|head| {
        let snapshots = to.snapshots(head.id).unwrap();
        Some(snapshots.last()?.guid)
    });
    let base = all.iter().position(|s| Some(guid(from, s)) == newest_there);
    let mut last = base.map(|at| all[at].clone());
    if base.is_none() && to.find(target).is_ok() {
        to.destroy_dataset(target, pool::Reach::Clones, &origin())
            .unwrap();
        settle(to);
    }
    for next in &all[base.map_or(0, |at| at + 1)..] {
        if dice.below(3) == 0 {
            continue;
        }
        let mut bytes = stream_as(how, from, next, last.as_deref());
        if dice.below(2) == 0 {
            let cut = dice.below(bytes.len() as u64) as usize;
            let is_resumable = how == How::Sealed;
            assert!(receive_as(to, &bytes[..cut], false, is_resumable, target).is_err());
            if let Some(token) = to.resume_token(target).unwrap() {
                bytes = stream_from(from, next, last.as_deref(), token.next).unwrap();
            }
        }
        match receive(to, &bytes, target) {
            Ok(()) => last = Some(next.clone()),
            Err(Error::NoSpace) => {
                let _ = to.abandon_receive(target, &origin());
                settle(to);
                return;
            }
            Err(error) => panic!("{next} into {target}: {error}"),
        }
    }
}

#[test]
fn what_is_sent_cannot_be_destroyed_meanwhile() {
    let from = with_history();
    let id = from.find("tank/a@two").unwrap().id;
    let what = pool::SendOf {
        to: id,
        from: None,
        start: pool::Position::START,
        keyring: Vec::new(),
        props: Default::default(),
        open: None,
    };
    let sending = from.send(what).unwrap();
    let gone = from.destroy_dataset("tank/a@two", false, &origin());
    refused(gone.map(|_| ()), "in use");
    drop(sending);
    from.destroy_dataset("tank/a@two", false, &origin())
        .unwrap();
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
    let sending = pool
        .send(pool::SendOf {
            to: entry.id,
            from: None,
            start: pool::Position::START,
            keyring: Vec::new(),
            props: Default::default(),
            open: None,
        })
        .unwrap();
    let mut bytes = Vec::new();
    assert!(matches!(
        sending.write(&mut bytes),
        Err(Error::Damaged { .. })
    ));
    refused(receive(&to, &bytes, "tank/b"), "ends too early");
    assert_clean(&to);
}
