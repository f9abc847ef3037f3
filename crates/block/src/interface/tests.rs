//! Tests of the sources of the workspace: no device forgets a method of the trait.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const TRAIT: &str = include_str!("device.rs");
const MACRO: &str = include_str!("delegate.rs");

/// The methods with a default: each does its work by methods that have none.
const WITH_DEFAULT: [&str; 4] = ["write_durably_at", "write_in_place", "order", "zero"];

/// The devices, outside tests, that pass nothing on with `delegate!`, and the reason.
const ALONE: [(&str, &str); 10] = [
    ("BorrowedStorage", "its requests go to the daemon"),
    ("CowDevice", "it keeps bytes in memory"),
    ("FaultDevice", "it keeps bytes in memory"),
    ("FileDevice", "it is a file or a disk of the system"),
    (
        "LentVolume",
        "its volume can go: each request checks that first",
    ),
    ("MemoryDevice", "it keeps bytes in memory"),
    ("ObjectDevice", "it keeps bytes in an object store"),
    ("OpenData", "it refuses all requests"),
    ("RemoteExport", "its requests go to a server"),
    ("Volume", "it keeps bytes in a dataset"),
];

/// The signatures of the methods of the trait.
fn signatures() -> impl Iterator<Item = &'static str> {
    let body = TRAIT.split_once("pub trait BlockDevice").unwrap().1;
    let body = body.split_once("\n}\n").unwrap().0;
    body.lines().filter(|line| line.starts_with("    fn "))
}

fn method(signature: &str) -> &str {
    let name = signature.trim_start().strip_prefix("fn ").unwrap();
    name.split_once('(').unwrap().0
}

#[test]
fn delegating_all_passes_on_each_method_of_the_trait() {
    let all = MACRO.split_once("; all) =>").unwrap().1;
    let all = all.split_once("$to; ").unwrap().1;
    let all = all.split_once(");").unwrap().0;
    let all: BTreeSet<&str> = all.split_whitespace().collect();
    let methods: BTreeSet<&str> = signatures().map(method).collect();
    assert!(methods.len() > 20, "{methods:?}");
    assert_eq!(all, methods);
}

#[test]
fn a_default_does_its_work_by_methods_without_one() {
    let with_default = signatures().filter(|line| !line.ends_with(';'));
    let with_default: Vec<&str> = with_default.map(method).collect();
    assert_eq!(with_default, WITH_DEFAULT);
}

#[test]
fn every_device_around_another_one_delegates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut devices = Vec::new();
    let crates = fs::read_dir(root.join("crates")).unwrap();
    for folder in crates {
        devices_in(&folder.unwrap().path().join("src"), &mut devices);
    }
    devices_in(&root.join("fuzz/src"), &mut devices);
    assert!(devices.len() > ALONE.len(), "{devices:?}");

    let alone = devices.iter().filter(|(_, delegates)| !delegates);
    let mut alone: Vec<&str> = alone.map(|(name, _)| name.as_str()).collect();
    alone.sort_unstable();
    assert_eq!(
        alone,
        ALONE.map(|(name, _reason)| name),
        "a device around another one uses delegate!; others are listed with a reason"
    );
}

/// Adds the names of the devices in the sources of a folder, and whether they use `delegate!`.
fn devices_in(folder: &Path, devices: &mut Vec<(String, bool)>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        let is_test = path
            .file_stem()
            .is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
        if is_test {
            continue;
        }
        if path.is_dir() {
            devices_in(&path, devices);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for (at, _) in text.match_indices("BlockDevice for ") {
                let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
                let indent = text[line..at].len() - text[line..at].trim_start().len();
                if text[line + indent..].starts_with("//") {
                    continue;
                }
                let end = format!("\n{}}}\n", &text[line..line + indent]);
                let (device, _) = text[at..].split_once(&end).unwrap();
                let name = device["BlockDevice for ".len()..].split(['<', ' ', '\n']);
                let name = name.into_iter().next().unwrap().to_owned();
                devices.push((name, device.contains("delegate!(")));
            }
        }
    }
}
