//! The blocks of files are what is stored: after compression, with all copies, through whatever happens to the pool.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use crate::common::*;
use rustix::fs::copy_file_range;

const MIB: u64 = 1 << 20;

/// Bytes that become far less when they are compressed, and are no zeros.
fn soft(len: u64) -> Vec<u8> {
    (0..len).map(|at| (at / 5000) as u8 | 1).collect()
}

/// Bytes that do not become less.
fn hard(len: u64) -> Vec<u8> {
    contents(77, len as usize)
}

/// The size on disk that a file shows.
fn stored(file: &Path) -> u64 {
    fs::metadata(file).unwrap().blocks() * 512
}

/// The sum that `du` shows for the contents of a directory, without the directories.
fn du(dir: &Path) -> u64 {
    let output = Command::new("find")
        .arg(dir)
        .args(["-type", "f", "-printf", "%b\n"])
        .output()
        .expect("find");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| line.parse::<u64>().unwrap() * 512)
        .sum()
}

fn number(place: &Place, property: &str, dataset: &str) -> u64 {
    let said = place.ok(&format!("get -Hp -o value {property} {dataset}"));
    said.trim().parse().unwrap()
}

fn assert_clean(place: &Place, pool: &str) {
    let report = place.ok(&format!("inspect --check {pool}"));
    has(&report, "belongs to exactly one thing");
}

/// The files of a dataset take what the dataset refers to, but for metadata.
fn assert_like_referenced(place: &Place, dataset: &str, dir: &Path) {
    place.ok("pool sync");
    let (files, all) = (du(dir), number(place, "referenced", dataset));
    let metadata = all.checked_sub(files).expect("no more than there is");
    assert!(metadata < 2 * MIB, "{files} of {all} in {dataset}");
}

/// A pool in two files, mounted at `mnt`, with a sealed dataset.
fn place() -> Option<Place> {
    needs!(can_mount());
    let place = Place::new();
    place.ok("pool create -s 192M -m {DIR}/mnt tank {DIR}/a {DIR}/b");
    place.ok("keygen {DIR}/key");
    place
        .ok("create -o encryption=on -o keysource=raw,file://{DIR}/key -o compression=lz4 tank/fs");
    Some(place)
}

#[test]
fn du_says_what_is_stored() {
    let place = needs!(place());
    let dir = place.path("mnt/fs");
    let (soft_file, hard_file) = (dir.join("soft"), dir.join("hard"));
    fs::write(&soft_file, soft(8 * MIB)).unwrap();
    fs::write(&hard_file, hard(8 * MIB)).unwrap();
    // No program takes it for a hole.
    assert!(stored(&soft_file) > 0);
    place.ok("pool sync");
    // The kernel does not keep what it was told before.
    assert!(stored(&soft_file) < MIB, "{}", stored(&soft_file));
    assert_eq!(stored(&hard_file), 8 * MIB);
    assert_like_referenced(&place, "tank/fs", &dir);
    let logical = number(&place, "logicalreferenced", "tank/fs");
    assert!(logical >= 16 * MIB && du(&dir) < 9 * MIB);

    // A write in the middle counts at once, and as it is stored after a commit.
    let before = stored(&soft_file);
    let file = File::options().write(true).open(&soft_file).unwrap();
    file.write_all_at(&hard(128 << 10), 4 * MIB).unwrap();
    assert!(stored(&soft_file) >= before);
    place.ok("pool sync");
    let grown = stored(&soft_file) - before;
    assert!((100 << 10..=128 << 10).contains(&grown), "{grown}");

    // Holes count nothing, and what is cut off goes.
    let sparse = dir.join("sparse");
    let file = File::create(&sparse).unwrap();
    file.write_all_at(&hard(128 << 10), 512 * MIB).unwrap();
    place.ok("pool sync");
    assert_eq!(stored(&sparse), 128 << 10);
    file.set_len(MIB).unwrap();
    place.ok("pool sync");
    assert_eq!(stored(&sparse), 0);
    File::options()
        .write(true)
        .open(&hard_file)
        .unwrap()
        .set_len(MIB)
        .unwrap();
    place.ok("pool sync");
    assert_eq!(stored(&hard_file), MIB);

    // Both of two files that share records show them.
    let copy = dir.join("copy");
    let (from, to) = (
        File::open(&hard_file).unwrap(),
        File::create(&copy).unwrap(),
    );
    let copied = copy_file_range(&from, None, &to, None, MIB as usize).unwrap();
    assert_eq!(copied as u64, MIB);
    place.ok("pool sync");
    assert_eq!(stored(&copy), MIB);

    // `copies=2` counts twice.
    place.ok("set copies=2 tank/fs");
    let twice = dir.join("twice");
    fs::write(&twice, hard(2 * MIB)).unwrap();
    place.ok("pool sync");
    assert_eq!(stored(&twice), 4 * MIB);
    assert_clean(&place, "tank");
}

#[test]
fn nothing_that_happens_to_a_pool_changes_it() {
    let mut place = needs!(place());
    let dir = place.path("mnt/fs");
    let names = ["soft", "hard", "small", "tiny"];
    fs::write(dir.join("soft"), soft(20 * MIB)).unwrap();
    fs::write(dir.join("hard"), hard(5 * MIB + 1)).unwrap();
    fs::write(dir.join("small"), hard(5000)).unwrap();
    fs::write(dir.join("tiny"), b"in the tree").unwrap();
    place.ok("pool sync");
    let all = |dir: &Path| names.map(|name| stored(&dir.join(name)));
    let expected = all(&dir);
    assert!(expected[0] < 3 * MIB, "{expected:?}");
    // The last record is one byte long.
    assert_eq!(expected[1..], [5 * MIB + 4096, 8192, 512]);

    // A snapshot keeps what it had, and a clone has the same.
    place.ok("snapshot tank/fs@then");
    place.ok("clone -o keysource=raw,file://{DIR}/key tank/fs@then tank/clone");
    fs::write(dir.join("soft"), soft(1000 * 1000)).unwrap();
    place.ok("pool sync");
    assert!(stored(&dir.join("soft")) < expected[0]);
    let then = dir.join(".snapshot/then");
    assert_eq!(all(&then), expected);
    let clone = place.path("mnt/clone");
    assert_eq!(all(&clone), expected);

    // Another import, by another daemon.
    place.ok("pool export tank");
    assert!(place.terminate());
    place.start();
    place.ok("pool import -d {DIR} tank");
    place.ok("key load -a");
    place.ok("mount -a");
    assert_eq!(all(&clone), expected);
    assert_eq!(all(&then), expected);

    // All is sealed again.
    place.ok("key rotate --reencrypt tank/clone");
    while place.ok("get -H -o value reencryption tank/clone") == "running\n" {
        place.ok("pool sync");
    }
    assert_eq!(all(&clone), expected);

    // A copy in another pool, sealed and in the clear.
    place.ok("pool create -s 192M -m {DIR}/to vault {DIR}/c");
    for (flags, line) in [
        ("-w", "receive -u vault/sealed"),
        ("", "receive -u -o encryption=off vault/clear"),
    ] {
        let mut send = place.command();
        let sent = send
            .args(words(&format!("send {flags} tank/fs@then")))
            .output()
            .unwrap();
        assert!(sent.status.success(), "{sent:?}");
        let done = place.run_with(&place.words(line), &sent.stdout);
        assert_eq!(done.code, 0, "{done:?}");
    }
    place.ok("key load -L file://{DIR}/key vault/sealed");
    // The clone took new keys for its origin, and this state has the older ones.
    place.ok("rollback vault/sealed@then");
    for name in ["sealed", "clear"] {
        place.ok(&format!("mount vault/{name} {{DIR}}/to/{name}"));
        let dir = place.path("to").join(name);
        assert_eq!(all(&dir)[1..], expected[1..], "{name}");
    }
    assert_eq!(all(&place.path("to/sealed")), expected);
    assert_clean(&place, "vault");

    // Half of it moves to the other device.
    place.ok("pool remove -w tank {DIR}/b");
    assert_eq!(all(&clone), expected);
    place.ok("unmount tank/clone");
    place.ok("mount tank/clone");
    assert_eq!(all(&clone), expected);
    assert_clean(&place, "tank");
}

/// An earlier program wrote no sums. The few nodes of these files are read.
#[test]
fn files_of_an_older_pool_show_what_is_stored_too() {
    needs!(can_mount());
    let place = Place::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_pools/v1.pool.zst");
    let packed = fs::read(golden).unwrap();
    fs::write(
        place.path("golden.pool"),
        zstd::decode_all(&packed[..]).unwrap(),
    )
    .unwrap();
    place.ok("pool import -d {DIR} golden");
    place.ok("mount golden/clear {DIR}/mnt");
    let dir = place.path("mnt");
    let is_active = || {
        let pools = place.json("--json pool upgrade golden");
        let mut features = pools[0]["features"].as_array().unwrap().iter();
        features.any(|feature| feature["name"] == "stored-sums" && feature["active"] == true)
    };
    assert!(!is_active());
    let size = |name: &str| fs::metadata(dir.join(name)).unwrap().len();
    let large = stored(&dir.join("large"));
    assert!(large > 0 && large < size("large"), "{large}");
    let metadata = number(&place, "referenced", "golden/clear") - du(&dir);
    assert!(metadata < MIB, "{metadata}");

    // What is written now has sums beside what has none.
    let before = stored(&dir.join("sparse"));
    let file = File::options()
        .write(true)
        .open(dir.join("sparse"))
        .unwrap();
    file.write_all_at(&hard(128 << 10), 30 * MIB).unwrap();
    place.ok("pool sync");
    assert_eq!(stored(&dir.join("sparse")) - before, 128 << 10);
    assert_eq!(stored(&dir.join("large")), large);
    assert!(is_active());
    assert_clean(&place, "golden");
}
