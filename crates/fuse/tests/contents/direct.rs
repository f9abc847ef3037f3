//! Mounts whose contents the kernel is not to keep: nothing stays, and nothing is lost.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use fuse::{KernelCache, Options};
use parking_lot::Mutex;

use crate::common;
use crate::mounted_or_skip;

const SCRIPT: &str = include_str!("../common/direct.py");

const BYPASSED: [KernelCache; 2] = [KernelCache::Metadata, KernelCache::Names];

fn options(kernel_cache: KernelCache) -> Options {
    Options {
        kernel_cache,
        ..Options::default()
    }
}

/// Returns the output of the script. Where it cannot run, prints the reason and returns none.
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

/// A write waits for many pages to be written back, one after the other. Workers that end meanwhile would leave the rest
/// to nobody, and the kernel would wait for ever.
#[test]
fn force_ends_a_write_beside_a_mapping() {
    let _alone = common::alone();
    let mounted = mounted_or_skip!(&options(KernelCache::Metadata));
    let (asks, asked) = mpsc::channel();
    let (go_on, gate) = mpsc::channel::<()>();
    let gate = Mutex::new((0, gate));
    mounted.fs.set_hook(move |what, _| {
        if what != "write" {
            return;
        }
        let mut gate = gate.lock();
        if gate.0 < 2 {
            gate.0 += 1;
            asks.send(()).unwrap();
            gate.1.recv().unwrap();
        }
    });
    let mut command = Command::new("python3");
    let command = command.args(["-c", SCRIPT, "dirtied"]);
    let command = command.arg(mounted.path("file")).arg("");
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = pipes.spawn() else {
        return eprintln!("skipped: there is no python3");
    };
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    if lines.next().is_none() {
        return eprintln!("skipped: this kernel maps no such file");
    }
    let mut line = child.stdin.take().unwrap();
    asked.recv().unwrap();
    line.write_all(b"\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "stored");
    go_on.send(()).unwrap();
    // The first page comes back, and waits.
    asked.recv().unwrap();
    std::thread::scope(|scope| {
        let unmount = scope.spawn(|| mounted.mount.unmount(true));
        // It does not wait for ever for what is written back, and goes on.
        let dir = mounted.dir.path().to_str().unwrap();
        while fs::read_to_string("/proc/self/mountinfo")
            .unwrap()
            .contains(dir)
        {
            std::thread::yield_now();
        }
        go_on.send(()).unwrap();
        unmount.join().unwrap().unwrap();
    });
    drop(line);
    child.wait().unwrap();
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
