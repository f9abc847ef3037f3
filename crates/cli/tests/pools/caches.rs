//! Cache devices of a mounted pool: they hold ciphertext only, and whatever becomes of them programs read what
//! they wrote.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::common::*;

const SIZE: usize = 3 << 20;

fn contents() -> Vec<u8> {
    let lines = (0..).flat_map(|n| format!("line {n} of what nobody may read\n").into_bytes());
    lines.take(SIZE).collect()
}

/// A pool with an encrypted dataset that holds one file, and a cache device.
fn place() -> Place {
    let place = Place::new();
    fs::write(place.path("raw"), "0123456789abcdef0123456789abcdef").unwrap();
    let (pool, key) = (place.arg("a"), place.arg("raw"));
    place.ok(&format!("pool create -s 64M -m none tank {pool}"));
    let file = fs::File::create(place.path("cache")).unwrap();
    file.set_len(16 << 20).unwrap();
    place.ok("pool add tank cache {DIR}/cache");
    place.ok(&format!(
        "create -o encryption=on -o compression=off -o recordsize=16K -o keysource=raw,file://{key} \
         -o mountpoint={} tank/fs",
        place.arg("mnt")
    ));
    fs::write(place.path("mnt/telling-name"), contents()).unwrap();
    place
}

/// Reads the file when nothing of it is in memory.
fn read_anew(place: &Place) {
    place.ok("unmount tank/fs");
    place.ok("mount tank/fs");
    assert!(fs::read(place.path("mnt/telling-name")).unwrap() == contents());
}

/// Bytes that the cache device holds, and those that were read from it.
fn held_and_read(place: &Place) -> (u64, u64) {
    let pools = place.json("--json pool iostat tank");
    let cache = &pools[0]["caches"][0];
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    (
        number(&cache["allocated"]),
        number(&cache["device"]["read"]["bytes"]),
    )
}

/// Reads until the file is in the cache, and was read from there.
fn warm_up(place: &Place) {
    for _ in 0..1000 {
        let (_, before) = held_and_read(place);
        read_anew(place);
        let (held, read) = held_and_read(place);
        if held >= SIZE as u64 && read - before >= SIZE as u64 {
            return;
        }
    }
    panic!("it is not cached: {:?}", held_and_read(place));
}

#[test]
fn what_is_cached_is_ciphertext() {
    let _turn = turn();
    needs!(can_mount());
    let place = place();
    warm_up(&place);
    place.ok("unmount tank/fs");
    place.ok("key unload tank/fs");
    for wanted in [
        &b"nobody may read"[..],
        b"telling-name",
        b"0123456789abcdef",
    ] {
        assert_eq!(find_in_file(&place.path("cache"), wanted), None);
    }
    // Nothing of a dataset that does not want it.
    place.ok("set secondarycache=none tank");
    place.ok("key load tank/fs");
    place.ok("mount tank/fs");
    let before = held_and_read(&place);
    read_anew(&place);
    assert_eq!(held_and_read(&place), before);
    place.ok("pool remove tank {DIR}/cache");
    let json = place.ok("--json pool status tank");
    lacks(&json, "\"is_cache\": true");
}

#[test]
fn whatever_becomes_of_it_programs_read_what_they_wrote() {
    let _turn = turn();
    needs!(can_mount());
    let place = place();
    warm_up(&place);
    // Its bytes are changed.
    let cache = fs::File::options().write(true).open(place.path("cache"));
    let noise: Vec<u8> = (0..16 << 20).map(|n: u32| (n ^ n >> 9) as u8).collect();
    cache.unwrap().write_all_at(&noise, 0).unwrap();
    read_anew(&place);
    let pools = place.json("--json pool status tank");
    let rows = pools[0]["devices"].as_array().unwrap().iter();
    let row = rows.clone().find(|row| row["is_cache"] == true).unwrap();
    assert!(row["checksum"].as_u64() > Some(0), "{row}");
    assert_eq!(pools[0]["health"], "ONLINE");
    // It becomes shorter than it was, and longer again by what is written to it.
    let cache = fs::File::options().write(true).open(place.path("cache"));
    cache.unwrap().set_len(1 << 20).unwrap();
    read_anew(&place);
    read_anew(&place);
    fs::write(place.path("mnt/more"), contents()).unwrap();
    place.ok("pool sync tank");
    // It is not there at the next import, or another one is.
    place.ok("pool export tank");
    fs::remove_file(place.path("cache")).unwrap();
    place.ok("pool import -l -d {DIR}/a tank");
    assert!(fs::read(place.path("mnt/more")).unwrap() == contents());
    let fresh = fs::File::create(place.path("cache")).unwrap();
    fresh.set_len(16 << 20).unwrap();
    let online = format!("pool online tank {}", place.arg("cache"));
    place.refuses(&online, 12, "remove it from the pool, and add it again");
    place.ok("pool remove tank {DIR}/cache");
    place.ok("pool add tank cache {DIR}/cache");
    warm_up(&place);
    place.says("inspect --check tank", "belongs to exactly one thing");
}
