//! Streams forged without the key: they bring nothing that opens, and take nothing away.

use crate::common::bench::Bench;
use crate::common::*;

/// The head of a frame, and where in it the length, the hash of what follows and the chain are.
const HEAD: usize = 160;
const LEN: usize = 24;
const PAYLOAD: usize = 96;
const CHAIN: usize = 128;
/// The offset of the seal in the first frame.
const SEAL: usize = 116;
/// The head of a generation and what it wraps, and the checksum behind the last.
const GENERATION: usize = 280;
const CHECKSUM: usize = 32;

/// A stream with another first frame, and hashes that fit it.
fn forged(stream: &[u8], change: &dyn Fn(&mut Vec<u8>)) -> Vec<u8> {
    let is_first = std::cell::Cell::new(true);
    forged_frames(stream, &|_, payload| {
        if is_first.take() {
            change(payload);
        }
    })
}

/// A stream with other frames, and hashes that fit them. `change` gets the head and the bytes of each.
fn forged_frames(stream: &[u8], change: &dyn Fn(&mut [u8], &mut Vec<u8>)) -> Vec<u8> {
    let (mut out, mut chain, mut rest) = (Vec::new(), [0; 32], stream);
    while !rest.is_empty() {
        let (head, more) = rest.split_at(HEAD);
        let len = u32::from_le_bytes(head[LEN..LEN + 4].try_into().unwrap());
        let (payload, more) = more.split_at(len as usize);
        let (mut head, mut payload) = (head.to_vec(), payload.to_vec());
        change(&mut head, &mut payload);
        head[LEN..LEN + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        head[PAYLOAD..CHAIN].copy_from_slice(blake3::hash(&payload).as_bytes());
        let mut hasher = blake3::Hasher::new();
        hasher.update(&chain).update(&head[..CHAIN]);
        chain = *hasher.finalize().as_bytes();
        head[CHAIN..].copy_from_slice(&chain);
        out.extend_from_slice(&head);
        out.extend_from_slice(&payload);
        rest = more;
    }
    out
}

/// Changes bytes of the newest generation that a first frame brings, from `at` on.
fn change_generation(begin: &mut [u8], at: usize, bytes: &[u8]) {
    let keyring = find(begin, b"SRKEYRNG").unwrap();
    let sum = begin.len() - CHECKSUM;
    let at = sum - GENERATION + at;
    begin[at..at + bytes.len()].copy_from_slice(bytes);
    let checksum = *blake3::hash(&begin[keyring..sum]).as_bytes();
    begin[sum..].copy_from_slice(&checksum);
}

/// A copy `safe/b`, and a stream with new data keys that goes on from it.
fn bench() -> Option<(Bench, Vec<u8>)> {
    let bench = Bench::new()?;
    bench.copy("tank/a@1", "full", "safe/b");
    bench.ok("key rotate tank/a");
    bench.write_for("tank/a@2", "second", "2");
    bench.send("-i @1 tank/a@2", "next");
    let next = bench.stream("next");
    Some((bench, next))
}

fn states(bench: &Bench) -> Vec<String> {
    let rows = bench.ok("key generations -H safe/b");
    let rows = rows.lines();
    rows.map(|row| row.split('\t').nth(3).unwrap().to_owned())
        .collect()
}

#[test]
fn forged_keys_leave_the_others_in_use() {
    let (bench, next) = needs!(bench());
    for (what, at) in [
        ("a sealed key", 100),
        ("a commitment", 70),
        ("its time", 16),
    ] {
        let bad = forged(&next, &|begin| change_generation(begin, at, &[0xee; 8]));
        let done = bench.receive_bytes("safe/b", &bad);
        assert_eq!(
            done.code, 0,
            "forgery cannot be seen without a key: {done:?}"
        );
        bench.ok("key load safe/b");
        assert_eq!(states(&bench)[1..], ["foreign"], "{what}");
        let error = bench.place.fails("mount safe/b", DAMAGED);
        has(&error, "Generation 2 of its keyring does not open");
        has(&error, "rollback -r");
        let dir = bench.place.arg("old");
        bench.ok(&format!("mount safe/b@1 {dir}"));
        bench.ok(&format!("unmount {dir}"));

        bench.ok("rollback -r safe/b@1");
        bench.ok("mount safe/b");
        assert_eq!(bench.read("safe/b", "first"), Some("1".repeat(300_000)));
        bench.write("safe/b", "own", what);
        bench.open_again("safe");
        assert_eq!(bench.read("safe/b", "own"), Some(what.into()));
        let log = bench.place.log();
        has(&log, "does not open");
        bench.ok("unmount safe/b");

        // With the key the true ones come in their place; without it they cannot be told apart.
        bench.ok("key unload safe/b");
        bench.refused("-F safe/b", "next", "load the key");
        bench.ok("key load safe/b");
        bench.receive("-F safe/b", "next");
        assert_eq!(states(&bench)[1..], ["newest"]);
        bench.ok("mount safe/b");
        assert_eq!(bench.read("safe/b", "second"), Some("2".into()));
        bench.ok("unmount safe/b");

        // The same once more.
        bench.ok("destroy -rf safe/b");
        bench.receive("safe/b", "full");
    }
}

#[test]
fn commands_with_the_key_leave_out_what_does_not_open() {
    let (bench, next) = needs!(bench());
    let last_txg = (u64::MAX >> 2).to_le_bytes();
    let bad = forged(&next, &|begin| change_generation(begin, 8, &last_txg));
    for (command, states_then) in [
        ("key rotate safe/b", vec!["in use", "newest"]),
        (
            &format!("key change -o {} safe/b", bench.key("b")),
            vec!["newest"],
        ),
    ] {
        let done = bench.receive_bytes("safe/b", &bad);
        assert_eq!(done.code, 0, "{done:?}");
        bench.ok("rollback -r safe/b@1");
        bench.ok("key load safe/b");
        bench.ok(command);
        assert_eq!(states(&bench), states_then, "{command}");
        bench.ok("mount safe/b");
        bench.write("safe/b", "own", "o");
        bench.open_again("safe");
        assert_eq!(bench.read("safe/b", "own"), Some("o".into()));
        assert_eq!(bench.read("safe/b", "first"), Some("1".repeat(300_000)));
        bench.ok("unmount safe/b");
        bench.ok("destroy -rf safe/b");
        bench.receive("safe/b", "full");
    }
}

#[test]
fn a_forged_seal_opens_nothing_and_harms_nothing() {
    let (bench, next) = needs!(bench());
    let bad = forged(&next, &|begin| begin[SEAL] ^= 1);
    let done = bench.receive_bytes("safe/b", &bad);
    assert_eq!(done.code, 0, "{done:?}");
    bench.ok("key load safe/b");
    let error = bench.place.fails("mount safe/b", DAMAGED);
    has(&error, "the seal over the dataset");
    lacks(&error, "does not open");
    bench.ok("rollback -r safe/b@1");
    bench.receive("safe/b", "next");
    bench.ok("mount safe/b");
    assert_eq!(bench.read("safe/b", "second"), Some("2".into()));
}

#[test]
fn what_no_rotation_makes_is_refused() {
    let (bench, next) = needs!(bench());
    for (at, bytes) in [(0, &[0xff; 4][..]), (4, &[8])] {
        let bad = forged(&next, &|begin| change_generation(begin, at, bytes));
        let done = bench.receive_bytes("safe/b", &bad);
        assert_ne!(done.code, 0);
    }
    bench.ok("key load safe/b");
    let bad = forged(&next, &|begin| change_generation(begin, 100, &[0xee]));
    let done = bench.receive_bytes("safe/b", &bad);
    assert_eq!(done.code, USAGE, "{done:?}");
    has(&done.err, "do not open");
    assert_eq!(states(&bench), ["newest"]);
}

/// The offset of the kind in the head of a frame, the kind of a record, and the hash in the identity of a record.
const KIND: usize = 4;
const RECORD: u8 = 2;
const CHECK: std::ops::Range<usize> = 84..96;

/// Without a key, and before anything of the record is kept.
#[test]
fn a_changed_record_is_refused_by_who_has_no_key() {
    let (bench, next) = needs!(bench());
    let before = bench.ok("list -H -o name,used -t all -r safe");
    for hides_it in [false, true] {
        let bad = forged_frames(&next, &|head, payload| {
            if head[KIND] == RECORD {
                payload[2000] ^= 1;
                if hides_it {
                    head[CHECK].copy_from_slice(&blake3::hash(payload).as_bytes()[16..28]);
                }
            }
        });
        let done = bench.receive_bytes("safe/b", &bad);
        assert_eq!(done.code, DAMAGED, "{hides_it}: {done:?}");
        let why = match hides_it {
            false => "has a record that is not the one that was sealed",
            true => "does not hold what it says that it does",
        };
        has(&done.err, why);
        assert_eq!(bench.ok("list -H -o name,used -t all -r safe"), before);
    }
    let done = bench.receive_bytes("safe/b", &next);
    assert_eq!(done.code, 0, "{done:?}");
}
