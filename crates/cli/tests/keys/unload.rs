//! `key unload -f` ends whatever has the keys, and `destroy -f` whatever has the volume.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

use crate::common::*;

/// A pool with an encrypted dataset `tank/a` that is mounted at `mnt`.
fn place() -> Place {
    let place = Place::new();
    let (key, mnt) = (place.arg("k"), place.arg("mnt"));
    place.ok(&format!("keygen {key}"));
    place.ok("pool create -s 128M -m none tank {DIR}/tank.pool");
    place.ok(&format!(
        "create -o encryption=on -o keysource=raw,file://{key} -o mountpoint={mnt} tank/a"
    ));
    place
}

const LEN: usize = 16 << 20;

fn noise() -> Vec<u8> {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 24) as u8)
    };
    std::iter::repeat(())
        .scan(7, |state, ()| next(state))
        .take(LEN)
        .collect()
}

#[test]
fn a_stream_and_readers_end_with_the_key() {
    needs!(can_mount());
    let place = place();
    fs::write(place.path("mnt").join("f"), noise()).unwrap();
    place.ok("snapshot tank/a@1");
    let file = fs::File::open(place.path("mnt").join(".snapshot/1/f")).unwrap();
    file.read_exact_at(&mut [0; 4096], 0).unwrap();

    let mut sending = place
        .command()
        .args(["send", "tank/a@1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stream = sending.stdout.take().unwrap();
    // It is under way, and its reader stops.
    stream.read_exact(&mut [0; 1000]).unwrap();
    place.ok("unmount -f tank/a");
    place.refuses("key unload tank/a", BUSY, "a stream that is sent");
    place.ok("key unload -f tank/a");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.len() < LEN, "all of it came");
    assert!(!sending.wait().unwrap().success());
    let late = file.read_exact_at(&mut [0; 4096], (LEN - 4096) as u64);
    assert!(late.is_err(), "a reader goes on");
    place.fails("send tank/a@1", NO_KEY);
}

#[test]
fn exports_of_a_volume_end_with_its_key_and_with_it() {
    let mut place = Place::new();
    let key = place.arg("k");
    place.ok(&format!("keygen {key}"));
    place.ok("pool create -s 128M -m none tank {DIR}/tank.pool");
    let keysource = format!("-o keysource=raw,file://{key}");
    place.ok(&format!(
        "create -s -V 16M -o encryption=on {keysource} tank/vol"
    ));
    place.ok("snapshot tank/vol@1");
    place.ok("nbd export tank/vol");
    place.ok("nbd export tank/vol@1");
    let sizes = || {
        let rows = place.ok("nbd list -H");
        let size = |row: &str| row.split('\t').nth(2).unwrap().to_owned();
        rows.lines().map(size).collect::<Vec<_>>()
    };
    assert_eq!(sizes(), ["16M", "16M"]);
    place.fails("key unload tank/vol", BUSY);
    place.ok("key unload -f tank/vol");
    assert!(sizes().iter().all(|size| size != "16M"), "{:?}", sizes());
    place.ok("key load tank/vol");
    assert_eq!(sizes(), ["16M", "16M"]);

    // The same with its pool.
    place.fails("pool export tank", BUSY);
    place.ok("pool export -f tank");
    assert!(sizes().iter().all(|size| size != "16M"), "{:?}", sizes());
    place.ok("pool import -l -d {DIR} tank");
    assert_eq!(sizes(), ["16M", "16M"]);

    place.ok("destroy -r -f tank/vol");
    assert_eq!(place.ok("nbd list -H"), "");
    place.ok("daemon stop");
    place.wait_for_end();
    place.start();
    assert_eq!(place.ok("nbd list -H"), "");

    place.ok("create -V 16M tank/vol");
    place.ok("nbd export tank/vol");
    place.ok("pool destroy -f tank");
    assert_eq!(place.ok("nbd list -H"), "");
}

#[test]
fn mount_loads_the_keys_of_what_it_mounts() {
    needs!(can_mount());
    let place = place();
    let key = place.arg("k");
    place.ok(&format!(
        "create -u -o encryption=on -o keysource=raw,file://{key} -o canmount=noauto tank/later"
    ));
    let state = |name: &str| place.ok(&format!("get -H -o value keystatus {name}"));
    place.ok("unmount -a");
    place.ok("key unload -a");
    place.ok("mount -a -l");
    assert_eq!(state("tank/a"), "available\n");
    assert_eq!(state("tank/later"), "unavailable\n");

    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/file"), "x").unwrap();
    let mount = "mount -l tank/later {DIR}/full";
    place.refuses(mount, BUSY, "is not empty");
    assert_eq!(state("tank/later"), "unavailable\n");
    place.ok("key load tank/later");
    place.refuses(mount, BUSY, "is not empty");
    assert_eq!(state("tank/later"), "available\n", "it was loaded before");
}
