//! Mounting without being root, through `fusermount3`.
//!
//! Where the tests run as root, they run themselves again as `nobody`.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, mpsc};

use common::memfs::MemFs;
use fuse::{Error, FuseMount, Options, SessionEnd};
use rustix::process::geteuid;

const NOBODY: u32 = 65534;
const PLACE: &str = "FUSE_TEST_PLACE";

/// Runs `test` in a process of `nobody`, with a directory of its own; true if this is that process.
fn as_nobody(test: &str) -> bool {
    if std::env::var_os(PLACE).is_some() {
        return true;
    }
    if !geteuid().is_root() {
        eprintln!("skipped: takes root, to become someone else");
        return false;
    }
    if !common::has_helper() || !common::can_mount() {
        eprintln!("skipped: there is no fusermount3");
        return false;
    }
    if fs::metadata("/dev/fuse").unwrap().mode() & 0o006 != 0o006 {
        eprintln!("skipped: ordinary users may not open /dev/fuse here");
        return false;
    }
    let place = tempfile::tempdir().unwrap();
    chown(place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    // The program may be where `nobody` cannot go. Another process copies it: what another test starts
    // meanwhile would inherit it open for writing, and what is can't be run.
    let program = place.path().join("test");
    let install = Command::new("install")
        .args(["-m", "755"])
        .arg(std::env::current_exe().unwrap())
        .arg(&program)
        .status();
    assert!(install.unwrap().success());
    let status = Command::new(&program)
        .args(["--exact", test, "--nocapture"])
        .env(PLACE, place.path())
        .env("TMPDIR", place.path())
        .current_dir(place.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .status()
        .unwrap();
    assert!(status.success());
    false
}

#[test]
fn nobody_mounts_and_unmounts() {
    if !as_nobody("nobody_mounts_and_unmounts") {
        return;
    }
    let options = Options {
        fs_name: "tank/with,comma".to_owned(),
        ..Options::default()
    };
    let mounted = common::mounted_with(&options).expect("it worked before");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let path = mounted.dir.path().to_str().unwrap();
    let line = mounts.lines().find(|line| line.contains(path)).unwrap();
    assert!(line.starts_with("tank/with,comma "), "{line}");
    assert!(line.contains(" fuse.strongroom rw,nosuid,nodev,"), "{line}");
    fs::write(mounted.path("file"), b"mine").unwrap();
    assert_eq!(fs::metadata(mounted.path("file")).unwrap().uid(), NOBODY);
    let file = File::open(mounted.path("file")).unwrap();
    let error = mounted.mount.unmount(false).unwrap_err();
    assert!(matches!(error, Error::Busy(_)), "{error}");
    drop(file);
    mounted.mount.unmount(false).unwrap();
    assert_eq!(mounted.mount.wait(), SessionEnd::Unmounted);
}

#[test]
fn nobody_unmounts_by_force() {
    if !as_nobody("nobody_unmounts_by_force") {
        return;
    }
    for writeback_cache in [false, true] {
        let options = Options {
            writeback_cache,
            ..Options::default()
        };
        let mounted = common::mounted_with(&options).expect("it worked before");
        fs::write(mounted.path("file"), b"before").unwrap();
        let file = File::options()
            .write(true)
            .open(mounted.path("file"))
            .unwrap();
        file.write_all_at(b"last words", 0).unwrap();
        let (send, ended) = mpsc::channel();
        mounted.mount.on_end(move |end| send.send(end).unwrap());
        mounted.mount.unmount(true).unwrap();
        assert_eq!(ended.recv().unwrap(), SessionEnd::Aborted);
        assert!(file.write_all_at(b"too late", 0).is_err() || file.sync_all().is_err());
        drop(file);
        let again = FuseMount::new(mounted.fs.clone(), mounted.dir.path(), &options).unwrap();
        let all = fs::read(mounted.path("file")).unwrap();
        assert_eq!(all, b"last words", "{writeback_cache}");
        drop(again);
    }
}

#[test]
fn nobody_clears_away_a_dead_mount() {
    if !as_nobody("nobody_clears_away_a_dead_mount") {
        return;
    }
    const SERVE: &str = "FUSE_TEST_SERVE";
    if let Some(path) = std::env::var_os(SERVE) {
        let fs = Arc::new(MemFs::new());
        let mount = FuseMount::new(fs, path.as_ref(), &Options::default()).unwrap();
        // Nothing is unmounted on this way out.
        std::mem::forget(mount);
        std::process::exit(0);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let command = command.args(["--exact", "nobody_clears_away_a_dead_mount", "--nocapture"]);
    assert!(command.env(SERVE, dir.path()).status().unwrap().success());
    assert!(fs::read_dir(dir.path()).is_err());
    let fs = Arc::new(MemFs::new());
    let mount = FuseMount::new(fs, dir.path(), &Options::default()).unwrap();
    fs::write(dir.path().join("file"), b"x").unwrap();
    mount.unmount(false).unwrap();
}

#[test]
fn nobody_is_refused_with_a_reason() {
    if !as_nobody("nobody_is_refused_with_a_reason") {
        return;
    }
    let fs = || Arc::new(MemFs::new());
    // Not a directory of the user's.
    let error = FuseMount::new(fs(), "/usr".as_ref(), &Options::default()).unwrap_err();
    assert!(matches!(error, Error::Helper(_)), "{error}");
    assert!(error.to_string().contains("/usr"), "{error}");
    // Not without `user_allow_other`.
    let options = Options {
        allow_other: true,
        ..Options::default()
    };
    let dir = tempfile::tempdir().unwrap();
    let conf = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    if !conf.lines().any(|line| line.trim() == "user_allow_other") {
        let error = FuseMount::new(fs(), dir.path(), &options).unwrap_err();
        assert!(error.to_string().contains("user_allow_other"), "{error}");
    }
}

#[test]
fn without_the_helper_it_says_what_to_install() {
    if !as_nobody("without_the_helper_it_says_what_to_install") {
        return;
    }
    const BARE: &str = "FUSE_TEST_BARE";
    if std::env::var_os(BARE).is_some() {
        let dir = tempfile::tempdir().unwrap();
        let fs = Arc::new(MemFs::new());
        let error = FuseMount::new(fs, dir.path(), &Options::default()).unwrap_err();
        assert!(matches!(error, Error::NoHelper), "{error}");
        assert!(error.to_string().contains("fuse3"), "{error}");
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let command = command.args(["--exact", "without_the_helper_it_says_what_to_install"]);
    assert!(
        command
            .env(BARE, "1")
            .env("PATH", "/nowhere")
            .status()
            .unwrap()
            .success()
    );
}
