//! Pools with features that version 1 got after the first golden pool open, and hold what they held:
//! `tests/golden_pools/features`. The script `make` there made them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::common::servers::tpm::Tpm;
use crate::common::*;

/// A golden pool.
struct Golden {
    name: &'static str,
    /// The files with its devices, and the features in use, between spaces.
    devices: &'static str,
    features: &'static str,
    /// The datasets of the pool, their mountpoints, and the files in each with their sizes.
    datasets: &'static [(&'static str, Files)],
}

type Files = &'static [(&'static str, usize)];

const LOGGED: Files = &[
    ("committed", 20000),
    ("first", 9000),
    ("in the log", 5000),
    ("in the log too", 700),
];

const fn golden(
    name: &'static str,
    devices: &'static str,
    features: &'static str,
    datasets: &'static [(&'static str, Files)],
) -> Golden {
    Golden {
        name,
        devices,
        features,
        datasets,
    }
}

#[rustfmt::skip]
const POOLS: [Golden; 23] = [
    golden("log", "a", "logs", &[("fs", LOGGED)]),
    golden("quick-log", "a", "logs quick-logs", &[("fs", LOGGED)]),
    golden("bound-log", "a", "logs quick-logs log-pointers stored-sums checked bound-logs", &[("fs", LOGGED)]),
    golden("seals", "a", "rotated clones stored-sums checked seal-history split-keys", &[
        ("fs", &[("first", 20_000), ("second", 20_000)]),
        ("clone", &[("first", 20_000), ("third", 20_000)]),
    ]),
    golden("sealed-facts", "a", "stored-sums checked seal-history split-keys sealed-facts", &[
        ("fs", &[("first", 20_000), ("second", 20_000)]),
    ]),
    golden("retention", "a", "clones stored-sums retention", &[("fs", &[("first", 20_000), ("second", 20_000)])]),
    golden("audit", "a", "stored-sums", &[("fs", &[("first", 20_000)])]),
    golden("mirror", "a b c", "redundant", &[("fs", &[("both", 100_000), ("one", 100_000)])]),
    golden("raidz", "a b c", "redundant parity", &[("fs", &[("large", 300_000), ("small", 3000)])]),
    golden("raidz3", "a b c d", "redundant parity raidz3", &[("fs", &[("large", 300_000), ("small", 3000)])]),
    golden("keys", "a", "rotated clones", &[
        ("fs", &[("first", 20000), ("second", 20000)]),
        ("clone", &[("first", 20000), ("third", 20000)]),
        ("rekeyed", &[("first", 20000), ("second", 20000)]),
    ]),
    golden("log-device", "a b", "logs redundant quick-logs log-devices", &[("fs", LOGGED)]),
    golden("dedup", "a", "dedup", &[("fs", &[("abc", 100_000), ("def", 40_000)])]),
    golden("received", "a", "rotated clones received", &[
        ("fs", &[("first", 20000), ("second", 20000)]),
        ("copy", &[("first", 20000), ("second", 20000)]),
    ]),
    golden("owners", "a", "owners", &[("fs", &[("anns", 40_000), ("roots", 20_000)])]),
    golden("file-flags", "a", "file-flags", &[("fs", &[("a", 20_000), ("d", 20_000), ("i", 20_000)])]),
    golden("tang", "a", "stored-sums", &[("fs", &[("first", 20_000)])]),
    // The other one is the TPM, with its seeds.
    golden("tpm", "a state", "stored-sums", &[("fs", &[("first", 20_000)])]),
    golden("shares", "a state", "stored-sums", &[("fs", &[("first", 20_000)])]),
    golden("stored-sums", "a", "stored-sums", &[("fs", &[("once", 150_000), ("twice", 20_000)])]),
    golden("logical-sums", "a", "stored-sums", &[("fs", &[("kept", 20_000)])]),
    golden("cache", "a", "", &[("fs", &[("first", 20_000)])]),
    golden("removed", "c", "redundant removed", &[
        ("fs", &[("first", 2_000_000), ("second", 200_000), ("third", 200_000)]),
    ]),
];

impl Golden {
    /// Unpacks the devices of the pool into a directory of the test.
    fn unpack(&self, place: &Place) -> PathBuf {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_pools/features");
        let to = place.path("devices");
        fs::create_dir(&to).unwrap();
        for device in self.devices.split(' ') {
            let name = format!("{}.{device}", self.name);
            let packed = fs::read(from.join(format!("{name}.zst"))).expect("a golden file");
            let bytes = zstd::decode_all(packed.as_slice()).expect("Zstandard");
            fs::write(to.join(name), bytes).unwrap();
        }
        to
    }

    fn mount(&self, place: &Place) {
        for (dataset, _) in self.datasets {
            if place.ok(&format!("get -H -o value encryption golden/{dataset}")) != "off\n" {
                let key = place.arg("raw");
                place.ok(&format!("key load -L file://{key} golden/{dataset}"));
            }
            let dir = place.arg(&format!("mnt/{dataset}"));
            place.ok(&format!("mount golden/{dataset} {dir}"));
        }
    }

    /// Asserts that the pool has the files that it had, and no others.
    fn assert_all_there(&self, place: &Place) {
        for (dataset, files) in self.datasets {
            let dir = place.path("mnt").join(dataset);
            let entries = fs::read_dir(&dir).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            let expected: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, expected, "{} {dataset}", self.name);
            for (name, size) in *files {
                let found = fs::read(dir.join(name)).unwrap();
                assert!(found == contents(name, *size), "{} {name}", self.name);
            }
        }
    }

    fn unmount(&self, place: &Place) {
        for (dataset, _) in self.datasets {
            place.ok(&format!("unmount golden/{dataset}"));
        }
    }

    fn assert_features(&self, place: &Place) {
        let pools = place.json("--json pool upgrade golden");
        let features = pools[0]["features"].as_array().unwrap().iter();
        let active: Vec<&str> = features
            .filter(|feature| feature["active"] == true)
            .map(|feature| feature["name"].as_str().unwrap())
            // What an import repairs is a line of the history, which this program writes with a hash.
            .filter(|name| *name != "audit")
            .collect();
        assert_eq!(active.join(" "), self.features, "{}", self.name);
    }
}

/// The name of a file, line after line.
fn contents(name: &str, size: usize) -> Vec<u8> {
    let line = format!("{name}\n");
    line.bytes().cycle().take(size).collect()
}

fn assert_sound(place: &Place) {
    place.ok("pool scrub -w golden");
    place.says("pool status golden", "with 0 errors");
    place.says("inspect --check golden", "belongs to exactly one thing");
}

#[test]
fn pools_with_each_feature_open_and_hold_what_they_held() {
    needs!(can_mount());
    for golden in POOLS {
        let mut place = Place::without_daemon();
        place.start_with("STRONGROOM_TPM", &place.arg("tpm.socket"));
        fs::write(place.path("raw"), "0123456789abcdef0123456789abcdef").unwrap();
        let devices = golden.unpack(&place);
        // The daemon was killed before it could export those with logs.
        let import = format!("pool import -f -N -d {} golden", devices.display());
        place.ok(&import);
        golden.assert_features(&place);
        golden.mount(&place);
        golden.assert_all_there(&place);
        if golden.name == "keys" {
            place.fails("destroy -f golden/fs@one", BUSY);
            place.says("holds golden/fs@two", "kept too");
        }
        if golden.name == "retention" {
            let said = place.fails("destroy -f golden/fs@one", BUSY);
            has(&said, "retained until 2050-01-01 00:00 UTC");
        }
        if golden.name == "audit" {
            let anchor = "3:85b62833bc16490c64adaa1e8fe6792aef8433870f7c68c2a620d80a49de2851";
            let verify = format!("audit verify golden {anchor}");
            place.says(&verify, "the anchor is proved");
            // The chain goes on.
            place.ok("set org.example:note=changed golden/fs");
            place.says(&verify, "the anchor is proved");
        }
        if golden.name == "tang" {
            place.says("key slots golden/fs", " tang ");
            let load = |thumbprint| {
                let server = "key load -n -L tang:http://127.0.0.1:1";
                place.fails(&format!("{server}#thp={thumbprint} golden/fs"), NO_KEY)
            };
            let other = "BgHn8ksdVZgDA5vYkZeAAm3IDDyFyVdN1KVvkbjP6JU";
            has(&load(other), "no key slot takes");
            // The slot is for this server, which is gone.
            let said = load("rWUJI-df2Me8kOdzq6LGFWo09KCDXcWRK7l5vY9B2qI");
            has(&said, "key server http://127.0.0.1:1");
        }
        if golden.name == "tpm" {
            place.says("key slots golden/fs", " tpm2 ");
            let load = "key load -n -o keysource=raw,tpm2:#pin=yes golden/fs";
            has(&place.fails_with(load, "0451\n", NO_KEY), "the TPM");
            let state = devices.join("tpm.state");
            if let Some(_tpm) = Tpm::with_state(&place, &state) {
                place.ok_with(load, "0451\n");
                place.fails_with(load, "0452\n", WRONG_KEY);
            }
        }
        if golden.name == "shares" {
            place.says("key slots golden/fs", " sss ");
            // The TPM may be missing, and the Tang server is.
            let tang = "tang:http://127.0.0.1:1#thp=oDRJjvNXtvoWgwHjOQLg8wJfxYpgW1hwVfAPMCbn84M";
            let parts = format!("raw,sss:2|file://{}|tpm2:|{tang}", place.arg("raw"));
            let load = format!("key load -n -o keysource={parts} golden/fs");
            let said = place.fails(&load, NO_KEY);
            has(&said, "1 of the 2 parts that it takes");
            has(&said, "key server http://127.0.0.1:1");
            if let Some(_tpm) = Tpm::with_state(&place, &devices.join("shares.state")) {
                place.ok(&load);
            }
        }
        if golden.name == "owners" {
            let counted = place.ok("userspace -n -p -H -o name,used,quota golden/fs");
            has(&counted, "1001\t40960\t1048576\n");
        }
        if golden.name == "file-flags" {
            let file = |name: &str| place.path("mnt/fs").join(name);
            let append = |name| fs::OpenOptions::new().append(true).open(file(name));
            assert!(fs::write(file("i"), "x").is_err() && fs::remove_file(file("a")).is_err());
            assert!(append("i").unwrap().write_all(b"x").is_err());
            assert!(append("a").unwrap().write_all(b"").is_ok());
        }
        if golden.name == "stored-sums" {
            for (name, copies) in [("once", 1), ("twice", 2)] {
                let file = fs::metadata(place.path("mnt/fs").join(name)).unwrap();
                assert_eq!(
                    file.blocks(),
                    file.len().div_ceil(4096) * 8 * copies,
                    "{name}"
                );
            }
        }
        if golden.name == "logical-sums" {
            let number = |of: &str| -> u64 {
                let said = place.ok(&format!("get -p -H -o value {of}"));
                said.trim().parse().expect("it was counted")
            };
            // The first commit adds a page: the history of seals.
            place.ok("pool sync golden");
            // What goes with a snapshot is what only it has, also from a list that has those of another one.
            for snapshot in ["golden/fs@3", "golden/fs@1"] {
                let before = number("logicalused golden/fs");
                let own = number(&format!("logicalused {snapshot}"));
                assert!(own > 0, "{snapshot}");
                place.ok(&format!("destroy -f {snapshot}"));
                assert_eq!(number("logicalused golden/fs"), before - own, "{snapshot}");
            }
            let left = number("logicalreferenced golden/fs");
            assert_eq!(number("logicalused golden/fs"), left);
        }
        if golden.name == "cache" {
            let status = place.ok("pool status golden");
            let mut lines = status.lines();
            let cache = lines.find(|line| line.contains("/cache.b ")).unwrap();
            assert!(cache.contains("OFFLINE"), "{status}");
        }
        assert_sound(&place);

        // It can be written, and what was written is there after another import.
        for (dataset, _) in golden.datasets {
            let file = place.path("mnt").join(dataset).join("new");
            fs::write(&file, contents("new", 50_000)).unwrap();
        }
        place.ok("snapshot -r golden@now");
        golden.unmount(&place);
        place.ok("pool export golden");
        place.ok(&import);
        golden.mount(&place);
        for (dataset, _) in golden.datasets {
            let file = place.path("mnt").join(dataset).join("new");
            assert!(fs::read(&file).unwrap() == contents("new", 50_000));
            fs::remove_file(&file).unwrap();
        }
        golden.assert_all_there(&place);
        assert_sound(&place);
    }
}

/// A volume holds the pool that was made on it, and its snapshot holds an older state.
#[test]
fn a_volume_opens_and_holds_what_it_held() {
    needs!(can_mount());
    let golden = Golden {
        name: "volume",
        devices: "a",
        features: "logs quick-logs log-pointers volumes",
        datasets: &[("fs", &[("first", 20_000), ("second", 20_000)])],
    };
    let place = Place::new();
    fs::write(place.path("raw"), "0123456789abcdef0123456789abcdef").unwrap();
    let devices = golden.unpack(&place);
    place.ok(&format!(
        "pool import -f -N -d {} golden",
        devices.display()
    ));
    golden.assert_features(&place);
    let key = place.arg("raw");
    place.ok(&format!("key load -L file://{key} golden/vol"));
    assert_eq!(
        place.ok("get -p -H -o value volsize,volblocksize golden/vol"),
        "10485760\n16384\n"
    );
    let mount = |place: &Place| {
        let dir = place.arg("mnt/fs");
        place.ok("pool import -f -N -d volume:golden/vol inner");
        place.ok(&format!("mount inner/fs {dir}"));
    };
    mount(&place);
    golden.assert_all_there(&place);
    fs::write(place.path("mnt/fs/new"), contents("new", 50_000)).unwrap();
    place.ok("unmount inner/fs");
    place.ok("pool export inner");
    place.ok("rollback golden/vol@one");
    mount(&place);
    let dir = place.path("mnt/fs");
    assert!(fs::read(dir.join("first")).unwrap() == contents("first", 20_000));
    assert!(!dir.join("second").exists());
    place.ok("unmount inner/fs");
    place.ok("pool export inner");
    assert_sound(&place);
}

/// The pool holds what was written after its checkpoint, and before it what it was.
#[test]
fn a_checkpoint_opens_and_can_be_gone_back_to() {
    needs!(can_mount());
    let now = Golden {
        name: "checkpoint",
        devices: "a",
        features: "checkpoint",
        datasets: &[("fs", &[("second", 40_000), ("third", 20_000)])],
    };
    let then = Golden {
        // From what was written before it went back.
        features: "stored-sums checked seal-history sealed-facts",
        datasets: &[("fs", &[("first", 20_000), ("second", 20_000)])],
        ..now
    };
    let place = Place::new();
    fs::write(place.path("raw"), "0123456789abcdef0123456789abcdef").unwrap();
    let devices = now.unpack(&place);
    let import = format!("pool import -f -N -d {}", devices.display());
    place.ok(&format!("{import} golden"));
    now.assert_features(&place);
    now.mount(&place);
    now.assert_all_there(&place);
    fs::write(place.path("mnt/fs/new"), contents("new", 50_000)).unwrap();
    assert_sound(&place);
    now.unmount(&place);
    place.ok("pool export golden");
    for options in [
        "-o readonly=on --rewind-to-checkpoint",
        "--rewind-to-checkpoint",
    ] {
        place.ok(&format!("{import} {options} golden"));
        then.mount(&place);
        then.assert_all_there(&place);
        lacks(&place.ok("list -t snapshot -H -o name"), "later");
        then.unmount(&place);
        place.ok("pool export golden");
    }
    place.ok(&format!("{import} golden"));
    then.assert_features(&place);
    assert_sound(&place);
}

/// Two of these were cut short. Afterwards the labels name one pool only.
#[test]
fn pools_with_labels_that_change_open_and_hold_what_they_held() {
    needs!(can_mount());
    for (name, pools) in [
        ("split", &["golden", "half"][..]),
        ("splitting", &["golden"]),
        ("reguid", &["golden"]),
    ] {
        let golden = Golden {
            name,
            devices: "a b",
            features: "",
            datasets: &[("fs", &[("first", 20_000)])],
        };
        let place = Place::new();
        let devices = golden.unpack(&place);
        let listed = place.ok(&format!("pool import -d {}", devices.display()));
        let names = listed
            .lines()
            .filter_map(|line| line.trim().strip_prefix("pool: "));
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        assert_eq!(names, pools, "{name}");
        for pool in pools {
            let import = format!("pool import -f -N -d {} {pool}", devices.display());
            place.ok(&import);
            let members = place.ok(&format!("pool list -v {pool}"));
            let members = members.lines().filter(|line| line.contains("/devices/"));
            assert_eq!(members.count(), 2 / pools.len(), "{name} {pool}");
            let dir = place.arg("mnt/fs");
            place.ok(&format!("mount {pool}/fs {dir}"));
            golden.assert_all_there(&place);
            place.ok(&format!("unmount {pool}/fs"));
            place.ok(&format!("pool scrub -w {pool}"));
            place.says(&format!("pool status {pool}"), "with 0 errors");
            has(
                &place.ok(&format!("inspect --check {pool}")),
                "belongs to exactly one thing",
            );
            place.ok(&format!("pool export {pool}"));
        }
    }
}
