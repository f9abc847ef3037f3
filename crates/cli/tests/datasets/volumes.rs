//! Volumes in use: a pool on a volume of another, under load, in a pool that is full, while keys change, after
//! the daemon was stopped or killed, and as copies that were sent.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::*;

const BUSY: i32 = 5;

/// A pool `outer` with an encrypted volume, and a pool `inner` on it with a dataset mounted at `mnt`.
fn nested(place: &Place, pool: &str, volume: &str) {
    fs::write(place.path("raw"), "0123456789abcdef0123456789abcdef").unwrap();
    let (file, key) = (place.arg("outer.pool"), place.arg("raw"));
    place.ok(&format!("pool create -s {pool} -m none outer {file}"));
    place.ok(&format!(
        "create {volume} -o encryption=on -o keysource=raw,file://{key} outer/vol"
    ));
    place.ok("pool create -m none inner volume:outer/vol");
    place.ok("create -o mountpoint={DIR}/mnt inner/fs");
}

/// Several programs write to both pools at once, more than memory takes, while snapshots are made of both. No thread
/// waits for ever for one that waits for it.
#[test]
fn both_pools_are_written_at_once() {
    needs!(can_mount());
    let mut place = Place::with_cache("16M");
    nested(&place, "700M", "-s -V 300M");
    let own = place.arg("own");
    place.ok(&format!("create -o mountpoint={own} outer/fs"));
    let dirs: [PathBuf; 2] = [place.path("mnt"), place.path("own")];
    let file = |dir: usize, thread: usize, n: usize| dirs[dir].join(format!("{thread}-{n}"));
    let bytes = |thread: usize, n: usize| contents(thread * 100 + n, 1_500_000 + n * 1000);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            scope.spawn(move || {
                for n in 0..12 {
                    let path = file(thread % 2, thread, n % 6);
                    match n % 3 {
                        0 => write_synced(&path, &bytes(thread, n)).unwrap(),
                        _ => fs::write(&path, bytes(thread, n)).unwrap(),
                    }
                }
            });
        }
        for n in 0..4 {
            place.ok(&format!("snapshot inner/fs@{n} "));
            place.ok(&format!("snapshot outer/vol@{n} outer/fs@{n}"));
        }
    });
    let check = |thread: usize| {
        for n in 6..12 {
            let found = fs::read(file(thread % 2, thread, n % 6)).unwrap();
            assert!(found == bytes(thread, n), "{thread}-{n}");
        }
    };
    (0..6).for_each(check);
    // Inner pools are let go first, and imported last.
    assert!(place.terminate());
    place.start();
    // Commands wait until the daemon has imported its pools again.
    place.ok("list");
    (0..6).for_each(check);
    place.ok("pool scrub -w inner");
    place.ok("pool scrub -w outer");
    assert!(place.ok("pool status").matches("with 0 errors").count() == 2);
}

/// Data that were synced in the inner pool are there after the daemon was killed, through the logs of both pools.
#[test]
fn what_was_synced_outlives_the_daemon() {
    needs!(can_mount());
    let mut place = Place::new();
    nested(&place, "200M", "-V 64M");
    let all: Vec<Vec<u8>> = (0..10).map(|n| contents(n, 100_000)).collect();
    for (n, bytes) in all.iter().enumerate() {
        write_synced(&place.path("mnt").join(format!("{n}")), bytes).unwrap();
    }
    place.kill();
    place.start();
    place.ok("list");
    for (n, bytes) in all.iter().enumerate() {
        let found = fs::read(place.path("mnt").join(format!("{n}"))).unwrap();
        assert!(found == *bytes, "{n}");
    }
}

/// The inner pool holds what it had committed, and goes on when there is space again.
#[test]
fn a_full_outer_pool_is_a_device_that_fails() {
    needs!(can_mount());
    let place = Place::new();
    nested(&place, "64M", "-s -V 200M");
    let mnt = place.path("mnt");
    let kept = contents(1, 1_000_000);
    write_synced(&mnt.join("kept"), &kept).unwrap();
    place.ok("pool sync inner");
    place.ok("create -o mountpoint={DIR}/own outer/fs");
    write_synced(&place.path("own/filler"), &contents(2, 30_000_000)).unwrap();
    let is_full = (0..100).any(|n| {
        let path = mnt.join(format!("more-{n}"));
        write_synced(&path, &contents(n, 1_000_000)).is_err()
    });
    assert!(is_full);
    place.says("pool status inner", "SUSPENDED");
    // The outer one goes on.
    fs::remove_file(place.path("own/filler")).unwrap();
    place.ok("pool sync outer");
    fs::write(place.path("own/other"), "something").unwrap();
    place.ok("pool export -f inner");
    place.ok("pool import -d volume:outer/vol inner");
    assert!(fs::read(mnt.join("kept")).unwrap() == kept);
    write_synced(&mnt.join("again"), &kept).unwrap();
    place.ok("pool scrub -w inner");
    place.says("pool status inner", "with 0 errors");
}

/// Keys rotate and records are sealed anew while the volume is in use; its key is not unloaded, but by force.
#[test]
fn keys_change_while_it_is_in_use() {
    needs!(can_mount());
    let place = Place::new();
    nested(&place, "200M", "-V 32M");
    let file = place.path("mnt/data");
    let bytes = contents(3, 5_000_000);
    write_synced(&file, &bytes).unwrap();
    place.ok("key rotate --reencrypt outer/vol");
    while place.ok("get -H -o value reencryption outer/vol").trim() != "-" {
        place.ok("pool sync outer");
    }
    let generations = place.ok("key generations outer/vol");
    assert!(generations.contains('2'), "{generations}");
    assert!(fs::read(&file).unwrap() == bytes);
    let refused = place.fails("key unload outer/vol", BUSY);
    has(&refused, "'outer/vol' is used by the pool 'inner'");
    place.fails("destroy -f -r outer/none", 3);
    place.ok("unmount inner/fs");
    place.ok("key unload -f outer/vol");
    // Whatever is asked of it now fails, and nothing waits.
    place.run(&["mount", "inner/fs"]);
    assert!(fs::read(&file).is_err());
    place.ok("pool export -f inner");
    place.fails("pool import -d volume:outer/vol inner", 8);
    place.ok("key load outer/vol");
    place.ok("pool import -d volume:outer/vol inner");
    assert!(fs::read(&file).unwrap() == bytes);
}

fn send(place: &Place, what: &str, into: &str) {
    let mut sending = place.command();
    let mut sending = sending
        .args(words(what))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut receiving: Command = place.command();
    let received = receiving
        .args(words(into))
        .stdin(sending.stdout.take().unwrap())
        .status();
    assert!(received.unwrap().success() && sending.wait().unwrap().success());
}

/// A copy of the volume is a copy of the pool on it, also of another size and as it was sent piece after piece.
#[test]
fn copies_are_the_same_pool() {
    needs!(can_mount());
    let place = Place::new();
    nested(&place, "400M", "-s -V 40M");
    let mnt = place.path("mnt");
    let first = contents(4, 3_000_000);
    write_synced(&mnt.join("first"), &first).unwrap();
    place.ok("pool sync inner");
    place.ok("snapshot outer/vol@1");
    write_synced(&mnt.join("second"), &first[..500_000]).unwrap();
    place.ok("unmount inner/fs");
    place.ok("pool export inner");
    place.ok("set volsize=60M outer/vol");
    place.ok("snapshot outer/vol@2");
    for (n, (how, options)) in [("-w", ""), ("", "-o encryption=off ")].iter().enumerate() {
        let copy = format!("outer/copy{n}");
        send(
            &place,
            &format!("send {how} outer/vol@1"),
            &format!("receive {options}{copy}"),
        );
        assert_eq!(
            place.ok(&format!("get -H -o value volsize {copy}")),
            "40M\n"
        );
        send(
            &place,
            &format!("send {how} -i @1 outer/vol@2"),
            &format!("receive {copy}"),
        );
        assert_eq!(
            place.ok(&format!("get -H -o value volsize {copy}")),
            "60M\n"
        );
        if *how == "-w" {
            place.ok(&format!("key load -L file://{{DIR}}/raw {copy}"));
        }
        place.ok(&format!("pool import -d volume:{copy} inner"));
        assert!(fs::read(mnt.join("first")).unwrap() == first);
        assert!(fs::read(mnt.join("second")).unwrap() == first[..500_000]);
        place.ok("unmount inner/fs");
        place.ok("pool export inner");
        place.ok(&format!("destroy -r -f {copy}"));
    }
    // A file system is no place for a volume.
    place.ok("create -o mountpoint=none outer/fs");
    place.ok("snapshot outer/fs@1");
    place.ok("pool scrub -w outer");
    place.says("pool status outer", "with 0 errors");
}

/// An export holds the volume, is there again after the daemon, and serves what is written to it.
#[test]
fn a_volume_is_exported() {
    let mut place = Place::new();
    fs::write(place.path("raw"), "0123456789abcdef0123456789abcdef").unwrap();
    let (file, key) = (place.arg("tank.pool"), place.arg("raw"));
    place.ok(&format!("pool create -s 128M -m none tank {file}"));
    place.ok(&format!(
        "create -V 16M -o encryption=on -o keysource=raw,file://{key} tank/vol"
    ));
    place.ok("nbd export tank/vol");
    let taken = place.fails("nbd export --name other tank/vol", BUSY);
    has(&taken, "in use, by the export 'tank/vol'");
    place.fails("pool create -m none inner volume:tank/vol", BUSY);
    place.fails("rename tank/vol tank/other", BUSY);
    place.fails("key unload tank/vol", BUSY);
    place.fails("nbd export tank", 2);
    place.refuses("nbd export some/file", 3, "./some/file");
    place.ok("snapshot tank/vol@1");
    place.ok("nbd export tank/vol@1");
    place.ok("set volsize=20M tank/vol");
    let rows = |place: &Place| -> Vec<(String, String, String)> {
        let rows = place.ok("nbd list -H");
        let cells = rows
            .lines()
            .map(|row| row.split('\t').map(str::to_owned).collect());
        let row = |cells: Vec<String>| (cells[0].clone(), cells[2].clone(), cells[3].clone());
        cells.map(row).collect()
    };
    let row = |name: &str, size: &str, access: &str| (name.into(), size.into(), access.into());
    let expected = vec![
        row("tank/vol", "20M", "read-write"),
        row("tank/vol@1", "16M", "read-only"),
    ];
    assert_eq!(rows(&place), expected);
    place.ok("daemon stop");
    place.wait_for_end();
    place.start();
    assert_eq!(rows(&place), expected);
    // Without its key it waits.
    place.ok("daemon stop");
    place.wait_for_end();
    fs::rename(&key, place.path("away")).unwrap();
    place.start();
    assert_eq!(rows(&place)[0].1, "-");
    fs::rename(place.path("away"), &key).unwrap();
    place.ok("key load tank/vol");
    assert_eq!(rows(&place), expected);
    place.ok("nbd unexport tank/vol");
    place.fails("rollback tank/none@1", 3);
    place.ok("nbd unexport tank/vol@1");
    place.ok("rollback tank/vol@1");
    place.ok("rename tank/vol tank/other");
}

/// A refused command makes no pool, and no command takes the name for the path of a file.
#[test]
fn devices_of_kinds_that_cannot_be_opened_are_refused() {
    let place = Place::new();
    let file = place.arg("tank.pool");
    for (name, instead) in [
        ("nbd+vsock://2/disk", "unix sockets"),
        ("nbd://host/disk?socket=/run/nbd", "nbd+unix"),
        ("gcs://bucket/pool", "gs://bucket"),
    ] {
        for line in [
            format!("pool create -m none tank {name}"),
            format!("pool create -s 100M -m none tank {file} {name}"),
            format!("pool import -d {name}"),
            format!("luks dump {name}"),
            format!("luks open {name} secret"),
        ] {
            let refusal = place.fails(&line, 2);
            assert!(refusal.contains(instead), "{line}: {refusal}");
        }
    }
    assert!(!place.path("tank.pool").exists());
    assert_eq!(place.ok("pool list -H"), "");
}
