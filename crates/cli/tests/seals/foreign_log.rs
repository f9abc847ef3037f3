//! A log with a changed entry: the dataset is not mounted until the rest of the log is given up.

use std::fs;

use crate::common::*;

const UNIT: usize = 4096;
const HEADER: usize = 192;

/// Makes an entry one of the older kind, which continues no state, with the checksum that anyone can compute.
fn make_older(device: &std::path::Path, sequence: u8) {
    let mut image = fs::read(device).unwrap();
    let mut entries = image
        .chunks_exact_mut(UNIT)
        .filter(|unit| unit.starts_with(b"SR-LOGE3") && unit[32] == sequence);
    let entry = entries.next().expect("an entry of this number");
    assert_eq!(entry[48..52], (UNIT as u32).to_le_bytes(), "one unit");
    entry[..8].copy_from_slice(b"SR-LOGEN");
    let covered = [&entry[..160], blake3::hash(&entry[HEADER..]).as_bytes()].concat();
    entry[160..HEADER].copy_from_slice(blake3::hash(&covered).as_bytes());
    fs::write(device, image).unwrap();
}

#[test]
fn a_changed_log_is_refused_until_it_is_given_up() {
    needs!(can_mount());
    let mut place = Place::new();
    let device = place.pool("tank");
    fs::write(place.path("key"), [7; 32]).unwrap();
    let key = format!("-o keysource=raw,file://{}", place.arg("key"));
    let dir = place.path("home");
    let at = dir.display();
    place.ok(&format!(
        "create -o encryption=on {key} -o mountpoint={at} tank/home"
    ));
    place.ok(&format!("create -o encryption=on {key} -V 8M tank/disk"));
    for name in ["zero", "one", "two", "three"] {
        write_synced(&dir.join(name), name.as_bytes()).unwrap();
    }
    place.kill();
    // The log begins behind the first file, with a commit.
    make_older(&device, 2);
    place.start();
    for _ in 0..2 {
        let said = place.fails("mount tank/home", FOREIGN_LOG);
        has(&said, "After 1 good entries come 2 entries");
        has(&said, "--give-up-log tank/home");
    }
    place.ok("mount --give-up-log tank/home");
    let read = |name: &str| fs::read_to_string(dir.join(name)).ok();
    assert_eq!(read("zero").as_deref(), Some("zero"));
    assert_eq!(read("one").as_deref(), Some("one"));
    assert_eq!((read("two"), read("three")), (None, None));
    has(
        &place.ok("pool history -i tank"),
        "gave up 2 entries with 7808 bytes of the log of tank/home",
    );
    // What is logged now belongs to a log of its own.
    write_synced(&dir.join("four"), b"four").unwrap();
    write_synced(&dir.join("five"), b"five").unwrap();
    place.kill();
    place.start();
    // It answers when it has mounted what it could.
    place.ok("pool status tank");
    assert_eq!(read("five").as_deref(), Some("five"));
    // A volume is not mounted by it.
    place.ok("mount --give-up-log tank/disk");
    place.fails("mount tank/disk", USAGE);
}
