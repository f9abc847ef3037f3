//! Pages that a mapping and `write` change at the same time: what xfstests' generic/344 and 346 look for.
//!
//! Their program `holetest` is built from a tar of xfstests beside the project. `STRONGROOM_XFSTESTS` names
//! another one. `STRONGROOM_ROUNDS=50` has each test do so many rounds.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::*;

const SOURCE: &str = "xfstests/src/holetest.c";

/// The program, built in this directory; none, with the reason printed, where that is not possible.
fn build(dir: &Path) -> Option<PathBuf> {
    let beside =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/judges/xfstests.tar.xz");
    let tar = std::env::var_os("STRONGROOM_XFSTESTS").map_or(beside, Into::into);
    needs!(
        tar.is_file(),
        "no xfstests; name their tar in STRONGROOM_XFSTESTS"
    );
    let unpacked = Command::new("tar")
        .arg("-xJf")
        .arg(&tar)
        .arg("-C")
        .arg(dir)
        .arg(SOURCE)
        .status();
    if !unpacked.is_ok_and(|status| status.success()) {
        eprintln!("skipped: tar or xz is missing, or {tar:?} has no {SOURCE}");
        return None;
    }
    let program = dir.join("holetest");
    let built = Command::new("cc")
        .args(["-O2", "-pthread", "-o"])
        .arg(&program)
        .arg(dir.join(SOURCE))
        .status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no C compiler that builds {SOURCE}");
        return None;
    }
    Some(program)
}

/// A run ends by itself, since the program does the same work each time.
fn run(program: &Path, args: &[&str], file: &Path, size: &str) {
    let output = Command::new(program)
        .args(args)
        .arg(file)
        .arg(size)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{args:?} {size}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn mapped_pages_and_writes_many_times() {
    many_times("");
}

/// Writes bypass the kernel's cache, and mappings do not.
#[test]
fn mapped_pages_that_the_kernel_is_not_to_keep() {
    many_times("-o primarycache=metadata");
}

fn many_times(options: &str) {
    needs!(can_mount());
    let place = Place::new();
    let program = needs!(build(place.root()));
    let (pool, dir) = (place.path("tank.pool"), place.path("home"));
    place.ok(&format!(
        "pool create -s 512M -m none tank {}",
        pool.display()
    ));
    place.ok_with(
        &format!(
            "create -o encryption=on -o mountpoint={} {options} tank/home",
            dir.display()
        ),
        "correct horse battery staple",
    );
    let file = dir.join("testfile");
    for _ in 0..number("STRONGROOM_ROUNDS", 10) {
        // 344 with a write, and 346.
        run(&program, &["-f", "-r", "-w"], &file, "16");
        run(&program, &["-f", "-w"], &file, "1");
    }
    run(&program, &["-f", "-r"], &file, "16");
    run(&program, &["-f", "-w"], &file, "16");
}
