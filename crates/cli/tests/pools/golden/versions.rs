//! Pools that earlier versions wrote open with this one: `tests/golden_pools/*.pool.zst`, one for each
//! version of the format. `tests/golden_pools/make` made them and says what is in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::*;

/// The mountpoint of each dataset, by its name below the pool, and the source of its key.
const DATASETS: [(&str, &str, Key); 12] = [
    ("clear", "clear", Key::None),
    ("raw", "raw", Key::Raw),
    ("raw/inherits", "inherits", Key::None),
    ("raw/aes-128-gcm", "aes-128-gcm", Key::Raw),
    ("raw/aes-192-gcm", "aes-192-gcm", Key::Raw),
    ("raw/aes-256-gcm", "aes-256-gcm", Key::Raw),
    ("raw/aes-128-ccm", "aes-128-ccm", Key::Raw),
    ("raw/aes-192-ccm", "aes-192-ccm", Key::Raw),
    ("raw/aes-256-ccm", "aes-256-ccm", Key::Raw),
    ("hex", "hex", Key::Hex),
    ("passphrase", "passphrase", Key::Passphrase),
    ("pieces", "pieces", Key::None),
];

const SNAPSHOTS: [&str; 5] = [
    "raw@first",
    "raw@second",
    "clear@first",
    "hex@first",
    "passphrase@first",
];

enum Key {
    /// None of its own.
    None,
    Raw,
    Hex,
    Passphrase,
}

fn tests_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_pools")
}

/// The names of the golden pools.
fn golden_pools() -> Vec<String> {
    let entries = fs::read_dir(tests_dir()).expect("the directory");
    let names = entries.filter_map(|entry| entry.expect("an entry").file_name().into_string().ok());
    names
        .filter_map(|name| Some(name.strip_suffix(".pool.zst")?.to_owned()))
        .collect()
}

fn unpacked(name: &str) -> Vec<u8> {
    let packed = fs::read(tests_dir().join(name)).expect("a golden file");
    zstd::decode_all(packed.as_slice()).expect("Zstandard")
}

fn load_keys(place: &Place) {
    fs::write(place.path("raw"), "0123456789abcdef0123456789abcdef").unwrap();
    fs::write(place.path("hex"), format!("{:064x}", 4660)).unwrap();
    for (dataset, _, key) in &DATASETS {
        let file = |name| {
            place.ok(&format!(
                "key load -L file://{} golden/{dataset}",
                place.arg(name)
            ))
        };
        match key {
            Key::None => continue,
            Key::Raw => file("raw"),
            Key::Hex => file("hex"),
            Key::Passphrase => {
                let load = format!("key load golden/{dataset}");
                place.fails_with(&load, "incorrect horse\n", WRONG_KEY);
                place.ok_with(&load, "correct horse battery\n")
            }
        };
    }
}

/// Mounts what is not mounted: after a crash the daemon has mounted some by itself.
fn mount(place: &Place) {
    for (dataset, dir, _) in &DATASETS {
        if place.ok(&format!("get -H -o value mounted golden/{dataset}")) == "yes\n" {
            continue;
        }
        let dir = place.arg(&format!("mnt/{dir}"));
        place.ok(&format!("mount golden/{dataset} {dir}"));
    }
}

fn unmount(place: &Place) {
    for (dataset, ..) in DATASETS.iter().rev() {
        place.ok(&format!("unmount golden/{dataset}"));
    }
}

/// The output of `describe` for a tree.
fn describe(dir: &Path, name: &str) -> String {
    let mut command = Command::new(tests_dir().join("describe"));
    let output = command.arg(dir).arg(name).output().expect("a shell");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{name}: {text}");
    text
}

/// Asserts that all contents of the pool are there, as they were.
fn assert_all_there(place: &Place, expected: &str) {
    let heads = DATASETS.iter().map(|(_, dir, _)| {
        let path = place.path("mnt").join(dir);
        describe(&path, dir)
    });
    let snapshots = SNAPSHOTS.iter().map(|at| {
        let (dir, snapshot) = at.split_once('@').expect("a snapshot");
        let path = place.path("mnt").join(dir).join(".snapshot").join(snapshot);
        describe(&path, at)
    });
    let found: String = heads.chain(snapshots).collect();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let (found, expected) = (sorted(&found), sorted(expected));
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

fn assert_sound(place: &Place) {
    place.ok("pool scrub -w golden");
    place.says("pool status golden", "with 0 errors");
    place.says("inspect --check golden", "belongs to exactly one thing");
}

#[test]
fn pools_of_earlier_versions_open_and_can_be_written() {
    needs!(can_mount());
    let pools = golden_pools();
    assert!(!pools.is_empty());
    for name in pools {
        let expected = unpacked(&format!("{name}.tree.zst"));
        let expected = String::from_utf8(expected).expect("UTF-8");
        let mut place = Place::new();
        let file = place.path("golden.pool");
        fs::write(&file, unpacked(&format!("{name}.pool.zst"))).unwrap();

        // As it was exported, without a change to its devices; then to be written.
        let import = format!("pool import -N -d {}", file.display());
        place.ok(&format!("{import} -o readonly=on golden"));
        load_keys(&place);
        mount(&place);
        assert_all_there(&place, &expected);
        unmount(&place);
        place.ok("pool export golden");
        assert!(fs::read(&file).unwrap() == unpacked(&format!("{name}.pool.zst")));

        place.ok(&format!("{import} golden"));
        load_keys(&place);
        mount(&place);
        assert_all_there(&place, &expected);
        place.prints("get -H -o value com.example:note golden/clear", "kept\n");
        assert_sound(&place);

        // It takes new files and snapshots, and keeps them over a crash.
        for (_, dir, _) in &DATASETS {
            let file = place.path("mnt").join(dir).join("new");
            fs::write(&file, [7; 300_000]).unwrap();
            fs::File::open(&file).unwrap().sync_all().unwrap();
        }
        place.ok("snapshot -r golden@now");
        place.kill();
        place.start();
        load_keys(&place);
        mount(&place);
        for (_, dir, _) in &DATASETS {
            let path = place.path("mnt").join(dir);
            assert_eq!(fs::read(path.join("new")).unwrap(), [7; 300_000]);
            fs::remove_file(path.join("new")).unwrap();
        }
        unmount(&place);
        place.ok("destroy -f golden/raw@first");
        assert_sound(&place);
        place.ok("pool export golden");
    }
}
