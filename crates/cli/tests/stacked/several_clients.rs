//! The script that tries stacked directories of several clients, bounded, on two binds of one directory.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{PROGRAM, Place, can_mount, is_installed, is_root, needs};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/several-clients");

/// A bind of a directory, until this is dropped.
struct Bind<'a>(&'a Path);

impl Bind<'_> {
    fn new<'a>(from: &Path, at: &'a Path) -> Bind<'a> {
        fs::create_dir(at).expect("a directory");
        let done = Command::new("mount")
            .arg("--bind")
            .args([from, at])
            .status();
        assert!(done.expect("mount").success());
        Bind(at)
    }
}

impl Drop for Bind<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn clients_with_pages_of_4_and_64_kib_see_each_others_bytes() {
    let is_root = is_root();
    needs!(
        can_mount() && is_root && is_installed("python3") && is_installed("fallocate"),
        "needs root, python3 and fallocate"
    );
    let place = Place::without_daemon();
    let server = place.path("server");
    fs::create_dir(&server).expect("a directory");
    let [one, two] = ["one", "two"].map(|name| place.path(name));
    let binds = [Bind::new(&server, &one), Bind::new(&server, &two)];
    let done = Command::new(SCRIPT)
        .args(["--rounds", "1"])
        .args([&one, &two])
        .env("PROGRAM", PROGRAM)
        .env("TMPDIR", place.root())
        .output()
        .expect("the script");
    let said = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}{errors}");
    let rows: Vec<&str> = said.lines().skip(2).collect();
    assert_eq!(rows.len(), 7, "{said}");
    for row in rows {
        assert!(row.ends_with("| ok | ok | ok |"), "{row}");
    }
    // Nothing is left.
    drop(binds);
    assert!(fs::read_dir(&server).expect("listed").next().is_none());
}
