//! Mounts whose contents the kernel is not to keep: nothing stays, and nothing is lost.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use fuse::{KernelCache, Options};

const SCRIPT: &str = include_str!("common/direct.py");

const BYPASSED: [KernelCache; 2] = [KernelCache::Metadata, KernelCache::Names];

fn options(kernel_cache: KernelCache) -> Options {
    Options {
        kernel_cache,
        ..Options::default()
    }
}

/// What the script says; none, with the reason printed, where it cannot run.
fn script(what: &str, path: &Path, other: &Path) -> Option<String> {
    let mut command = Command::new("python3");
    let command = command.args(["-c", SCRIPT, what]).arg(path).arg(other);
    let Ok(output) = command.output() else {
        eprintln!("skipped: there is no python3");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && said.starts_with("skipped:") {
        eprint!("{said}");
        return None;
    }
    assert!(output.status.success(), "{what}: {said}");
    Some(
        String::from_utf8(output.stdout)
            .unwrap()
            .trim_end()
            .to_owned(),
    )
}

#[test]
fn reads_and_writes_leave_no_page() {
    let _alone = common::alone();
    for (cache, kept) in [
        (KernelCache::All, "256 256"),
        (KernelCache::Metadata, "0 0"),
        (KernelCache::Names, "0 0"),
    ] {
        let mounted = mounted_or_skip!(&options(cache));
        let path = mounted.path("file");
        let Some(said) = script("kept", &path, Path::new("")) else {
            return;
        };
        assert_eq!(said, kept, "{cache:?}");
    }
}

#[test]
fn pages_of_mappings_are_dropped_after_the_last_close() {
    let _alone = common::alone();
    for cache in BYPASSED {
        let mounted = mounted_or_skip!(&options(cache));
        let said = script("closed", &mounted.path("file"), Path::new(""));
        let Some(said) = said else { return };
        assert_eq!(said, "dropped", "{cache:?}");
    }
}

#[test]
fn mappings_beside_writes_lose_nothing() {
    let _alone = common::alone();
    let mounted = mounted_or_skip!(&options(KernelCache::Metadata));
    let said = script("beside", &mounted.path("file"), Path::new(""));
    let Some(said) = said else { return };
    assert_eq!(said, "all there");
}

#[test]
fn programs_run_and_files_are_sent() {
    let _alone = common::alone();
    for cache in BYPASSED {
        let mounted = mounted_or_skip!(&options(cache));
        let program = mounted.path("program");
        fs::copy("/bin/cat", &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        for _ in 0..2 {
            let output = Command::new(&program).arg("/proc/self/comm").output();
            assert_eq!(output.unwrap().stdout, b"program\n", "{cache:?}");
        }
        if let Some(said) = script("sent", &mounted.path("from"), &mounted.path("to")) {
            assert_eq!(said, "sent");
        }
    }
}

/// A write waits for pages to be written back, and so for workers, which end.
#[test]
fn force_ends_mappings_beside_writes() {
    let _alone = common::alone();
    for _ in 0..10 {
        let mounted = mounted_or_skip!(&options(KernelCache::Metadata));
        let path = mounted.path("file");
        let mut command = Command::new("python3");
        let command = command.args(["-c", SCRIPT, "flooded"]).arg(&path).arg("");
        let Ok(mut child) = command.stderr(Stdio::null()).spawn() else {
            return eprintln!("skipped: there is no python3");
        };
        while mounted.count("WRITE") < 500 {
            if child.try_wait().unwrap().is_some() {
                return eprintln!("skipped: this kernel maps no such file");
            }
            std::thread::yield_now();
        }
        mounted.mount.unmount(true).unwrap();
        assert!(!child.wait().unwrap().success());
    }
}

/// Listings and targets of links are read each time, or once.
#[test]
fn names_alone_are_kept_if_that_is_asked_for() {
    for (cache, kept) in [(KernelCache::Metadata, true), (KernelCache::Names, false)] {
        let mounted = mounted_or_skip!(&options(cache));
        let link = mounted.path("link");
        std::os::unix::fs::symlink("target", &link).unwrap();
        let list = || fs::read_dir(mounted.dir.path()).unwrap().count();
        let asked = || {
            ["READDIR", "READDIRPLUS", "READLINK"]
                .map(|op| mounted.count(op))
                .iter()
                .sum::<u64>()
        };
        // The kernel begins to keep a listing with the second.
        for _ in 0..2 {
            assert_eq!(list(), 1);
            fs::read_link(&link).unwrap();
        }
        let before = asked();
        assert_eq!(list(), 1);
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("target"));
        assert_eq!(asked() == before, kept, "{cache:?}");
    }
}
