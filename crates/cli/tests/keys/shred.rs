//! Assured delete: what wrapped the keys of a dataset is on no device any more, and what cannot be made
//! unreadable is named, or the command refused with nothing changed.

use std::fs;
use std::path::PathBuf;

use crate::common::*;

/// A mirror `tank` of two files, mounted below `mnt`.
fn mirror(place: &Place) -> [PathBuf; 2] {
    let [a, b] = ["a", "b"].map(|name| place.path(name));
    for file in [&a, &b] {
        fs::File::create(file).unwrap().set_len(64 << 20).unwrap();
    }
    place.ok(&format!(
        "pool create -m none tank mirror {} {}",
        a.display(),
        b.display()
    ));
    place.ok("keygen {DIR}/key");
    [a, b]
}

fn create(place: &Place, name: &str) {
    place.ok(&format!(
        "create -o encryption=on -o keysource=raw,file://{} {name}",
        place.arg("key")
    ));
}

/// Pieces of the wrapped keys of a dataset as they are stored now. Each is random.
fn wrapped(place: &Place, dataset: &str) -> Vec<Vec<u8>> {
    let copy = place.path("copy");
    place.ok(&format!("key backup {dataset} {}", copy.display()));
    let bytes = fs::read(&copy).unwrap();
    fs::remove_file(&copy).unwrap();
    let start = find(&bytes, b"SRKEYRNG").expect("a keyring") + 48;
    // Ends of slots and generations are tags and ciphertext.
    let keyring = &bytes[start..bytes.len() - 64];
    keyring
        .chunks_exact(32)
        .filter(|piece| piece.iter().filter(|byte| **byte == 0).count() < 4)
        .map(<[u8]>::to_vec)
        .collect()
}

fn is_anywhere(devices: &[PathBuf], piece: &[u8]) -> bool {
    devices.iter().any(|d| find_in_file(d, piece).is_some())
}

#[test]
fn no_device_has_the_wrapped_keys_any_more() {
    let place = Place::new();
    let devices = mirror(&place);
    create(&place, "tank/a");
    create(&place, "tank/other");
    place.ok("key rotate tank/a");
    place.ok("create tank/a/below");
    place.ok("snapshot -r tank/a@1");
    let pieces = [wrapped(&place, "tank/a"), wrapped(&place, "tank/a")].concat();
    let others = wrapped(&place, "tank/other");
    assert!(pieces.len() >= 8 && others.len() >= 4);
    for piece in &pieces {
        assert!(devices.iter().all(|d| find_in_file(d, piece).is_some()));
    }
    place.fails("destroy --shred -f tank/a", BUSY);
    let would = place.ok("destroy --shred -r -n tank/a");
    has(&would, "would destroy tank/a/below\n");
    assert!(is_anywhere(&devices, &pieces[0]));

    let said = place.ok("destroy --shred -r -f tank/a");
    has(&said, "destroyed tank/a@1\n");
    has(&said, "forgotten: 2 of 2 keyrings\n");
    has(
        &said,
        "zeros: 4 key blocks, twice on each device, 2 in all\n",
    );
    for piece in &pieces {
        assert!(!is_anywhere(&devices, piece));
    }
    // Of the keyring with the random key nothing is left either: all there are belong to the other.
    for piece in &others {
        assert!(devices.iter().all(|d| find_in_file(d, piece).is_some()));
    }
    place.fails("list tank/a", NOT_FOUND);
    let log = place.ok("pool history -i tank");
    has(&log, "keyring wrapped by a random key tank/a ");
}

#[test]
fn keys_that_are_not_loaded_are_overwritten_too() {
    let place = Place::new();
    let devices = mirror(&place);
    create(&place, "tank/a");
    let pieces = wrapped(&place, "tank/a");
    place.ok("key unload tank/a");
    place.says("destroy --shred -f tank/a", "not that of tank/a");
    assert!(pieces.iter().all(|piece| !is_anywhere(&devices, piece)));
}

#[test]
fn a_device_that_is_away_keeps_keys_and_so_nothing_is_destroyed() {
    let place = Place::new();
    let [a, b] = mirror(&place);
    create(&place, "tank/a");
    place.ok(&format!("pool offline tank {}", b.display()));
    let before = place.ok("pool history -i tank");
    let said = place.fails("destroy --shred -f tank/a", DEVICE);
    assert!(said.contains(b.to_str().unwrap()), "{said}");
    has(&said, "is missing");
    assert_eq!(place.ok("pool history -i tank"), before);
    let pieces = wrapped(&place, "tank/a");
    // A change of the key says that too.
    place.ok("keygen {DIR}/new");
    let change = "key change -o keysource=raw,file://{DIR}/new tank/a";
    let done = place.run_with(&place.words(change), b"");
    assert_eq!(done.code, 0, "{done:?}");
    has(
        &done.err,
        "1 of the devices of the pool could not be reached, and may keep the old",
    );
    assert!(
        pieces
            .iter()
            .any(|piece| is_anywhere(std::slice::from_ref(&b), piece))
    );
    place.ok(&format!("pool online tank {}", b.display()));
    place.ok("destroy --shred -f tank/a");
    assert!(
        pieces
            .iter()
            .all(|piece| !is_anywhere(&[a.clone(), b.clone()], piece))
    );
}

#[test]
fn clones_with_the_same_keys_are_named() {
    let place = Place::new();
    let devices = mirror(&place);
    create(&place, "tank/fs");
    place.ok("snapshot tank/fs@1");
    let clone = |options: &str, name: &str| {
        let key = place.arg("key");
        place.ok(&format!(
            "clone {options} -o keysource=raw,file://{key} tank/fs@1 {name}"
        ));
    };
    // Under the key of its origin, and then under another one, a clone has nothing of its own to destroy.
    place.ok("clone tank/fs@1 tank/fs/same");
    place.ok(&format!(
        "key change -o keysource=raw,file://{} tank/fs/same",
        place.arg("key")
    ));
    place.ok("rename tank/fs/same tank/same");
    let said = place.fails("destroy --shred -f tank/same", BUSY);
    has(&said, "'tank/fs' has the data keys");
    // After a promotion the origin is the clone.
    place.ok("promote tank/same");
    let said = place.fails("destroy --shred -f tank/fs", BUSY);
    has(&said, "'tank/same' has the data keys");
    place.ok("promote tank/fs");
    // A clone with another key has keys of its own, and the origin gets new ones.
    clone("-K", "tank/own");
    let pieces = wrapped(&place, "tank/own");
    let said = place.ok("destroy --shred -f tank/own");
    has(
        &said,
        "with the key of tank/fs: what tank/own wrote with generation 1",
    );
    has(&said, "with the key of tank/same");
    assert!(pieces.iter().all(|piece| !is_anywhere(&devices, piece)));

    place.ok("promote tank/same");
    place.ok("destroy --shred -f tank/fs");
    place.ok("key unload tank/same");
    place.ok("key load tank/same");
}

#[test]
fn what_has_no_keys_of_its_own_is_refused() {
    let place = Place::new();
    mirror(&place);
    place.ok("create tank/clear");
    create(&place, "tank/a");
    place.ok("snapshot tank/a@1");
    for name in ["tank/clear", "tank/a@1", "tank"] {
        place.fails(&format!("destroy --shred -f {name}"), USAGE);
    }
    place.fails("destroy --shred -f tank/nothing", NOT_FOUND);
    place.fails("destroy --shred tank/a", USAGE);
}
