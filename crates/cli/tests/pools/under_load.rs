//! Changes of a pool by its administrator while programs write to it, and replication of many snapshots.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use crate::common::bench::Bench;
use crate::common::*;

/// Each writer keeps so many files.
const KEPT: u64 = 6;
const LEN: usize = 200_000;

/// The contents of a file.
fn contents(writer: u64, n: u64) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    let seed = (writer << 32 | n).to_le_bytes();
    blake3::Hasher::new()
        .update(&seed)
        .finalize_xof()
        .fill(&mut bytes);
    bytes
}

fn name(dir: &Path, writer: u64, n: u64) -> PathBuf {
    dir.join(format!("{writer}-{n}"))
}

/// Writes files and removes old ones until it is told to stop; returns how many it wrote.
fn write_on(dir: &Path, writer: u64, stop: &AtomicBool) -> u64 {
    let mut n = 0;
    while !stop.load(Relaxed) {
        let mut file = File::create(name(dir, writer, n)).expect("a file");
        file.write_all(&contents(writer, n)).expect("a write");
        if n % 4 == 0 {
            file.sync_all().expect("an fsync");
        }
        if let Some(old) = n.checked_sub(KEPT) {
            fs::remove_file(name(dir, writer, old)).expect("a removal");
        }
        n += 1;
    }
    n
}

/// Does something while three programs write to a dataset; they write before, meanwhile and after.
/// Returns how many files each wrote.
fn under_load(dir: &Path, act: impl FnOnce()) -> Vec<u64> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let stop = &stop;
                scope.spawn(move || write_on(dir, writer, stop))
            })
            .collect();
        // Even if it panics, or they would never end.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        stop.store(true, Relaxed);
        let wrote = writers.into_iter().map(|it| it.join().expect("a writer"));
        let wrote = wrote.collect();
        done.expect("what is done meanwhile");
        wrote
    })
}

fn check(dir: &Path, wrote: &[u64]) {
    let mut expected = BTreeSet::new();
    for (writer, &count) in (0..).zip(wrote) {
        for n in count.saturating_sub(KEPT)..count {
            let path = name(dir, writer, n);
            assert!(
                fs::read(&path).expect("a file") == contents(writer, n),
                "{path:?}"
            );
            expected.insert(path);
        }
    }
    let there = fs::read_dir(dir).unwrap();
    let there: BTreeSet<PathBuf> = there.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(there, expected);
}

/// A pool with a mounted dataset; where it is mounted.
fn mounted(place: &Place) -> PathBuf {
    let dir = place.arg("mnt");
    place.ok(&format!(
        "pool create -s 96M -m {dir} tank {}",
        place.arg("tank.pool")
    ));
    place.ok("create tank/work");
    place.path("mnt").join("work")
}

/// All is there after an import, and no record is damaged.
fn check_all(place: &Place, dir: &Path, wrote: &[u64]) {
    check(dir, wrote);
    place.ok("pool export tank");
    place.ok(&format!("pool import -d {} tank", place.arg("tank.pool")));
    check(dir, wrote);
    place.ok("pool scrub -w tank");
    place.ok("inspect --check tank");
    place.says("pool status -x", "healthy");
}

#[test]
fn a_pool_grows_while_programs_write() {
    needs!(can_mount());
    let place = Place::new();
    let dir = mounted(&place);
    let size = || -> u64 {
        let shown = place.ok("pool list -H -p -o size tank");
        shown.trim().parse().expect("a number")
    };
    let wrote = under_load(&dir, || {
        for megabytes in [128_u64, 160, 224] {
            let before = size();
            let file = File::options().write(true).open(place.path("tank.pool"));
            file.and_then(|file| file.set_len(megabytes << 20)).unwrap();
            place.ok(&format!("pool online -e tank {}", place.arg("tank.pool")));
            assert!(size() > before, "{megabytes}");
        }
    });
    check_all(&place, &dir, &wrote);
}

#[test]
fn free_space_is_trimmed_while_programs_write() {
    needs!(can_mount());
    let place = Place::new();
    let dir = mounted(&place);
    let wrote = under_load(&dir, || {
        for _ in 0..4 {
            place.ok("pool trim -w tank");
            place.ok("pool sync tank");
        }
    });
    check_all(&place, &dir, &wrote);
}

#[test]
fn a_thousand_snapshots_with_clones_are_replicated() {
    let bench = needs!(Bench::new());
    for n in 0..20 {
        bench.ok(&format!("create -u tank/a/d{n}"));
    }
    for n in 0..50 {
        bench.write("tank/a", &format!("file{}", n % 7), &n.to_string());
        bench.ok(&format!("snapshot -r tank/a@s{n}"));
        if n % 10 == 3 {
            // Later snapshots are of the clones too.
            bench.ok(&format!("clone -u tank/a@s{n} tank/a/clone{n}"));
            bench.ok(&format!("clone -u tank/a/d7@s{n} tank/a/d3/of{n}"));
        }
    }
    let list = |top: &str| {
        let all = bench.ok(&format!("list -H -r -t snapshot -o name,guid {top}"));
        let all = all.lines().map(|line| line.replacen(top, "", 1));
        all.collect::<BTreeSet<String>>()
    };
    let sent = list("tank/a");
    assert!(sent.len() > 1000, "{}", sent.len());
    bench.send("-R tank/a@s49", "all");
    let done = bench.receive_bytes("safe/copy", &bench.stream("all"));
    assert_eq!(done.code, 0, "{done:?}\n{}", bench.place.log());
    assert_eq!(list("safe/copy"), sent);
    for n in [3, 13, 23, 33, 43] {
        for (clone, origin) in [("clone", ""), ("d3/of", "/d7")] {
            let line = format!("get -H -o value origin safe/copy/{clone}{n}");
            assert_eq!(bench.ok(&line).trim(), format!("safe/copy{origin}@s{n}"));
        }
    }
    // What is new goes by itself, and what left goes there too.
    bench.write("tank/a", "last", "new");
    bench.ok("destroy -f tank/a/d5@s0%s9");
    bench.ok("snapshot -r tank/a@last");
    bench.send("-R -i @s49 tank/a@last", "new");
    let done = bench.receive_bytes("-F safe/copy", &bench.stream("new"));
    assert_eq!(done.code, 0, "{done:?}\n{}", bench.place.log());
    assert_eq!(list("safe/copy"), list("tank/a"));
    bench.ok("key accept -r safe");
    bench.ok("key load -r safe/copy");
    bench.ok("mount safe/copy");
    assert_eq!(bench.read("safe/copy", "last"), Some("new".into()));
    assert_eq!(bench.read("safe/copy", "file6"), Some("48".into()));
    bench.ok("inspect --check safe");
    bench.ok("pool scrub -w safe");
}
