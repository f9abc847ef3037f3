//! Mounting, unmounting, and everything that gets in between.

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};

use common::alone;
use common::memfs::MemFs;
use fuse::{Error, FuseMount, MountHolder, Options, SessionEnd};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::geteuid;
use vfs::{FileSystem, ROOT};

const SERVE: &str = "FUSE_TEST_SERVE";

/// Threads of this process.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

fn is_listed(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.contains(path.to_str().unwrap())
}

/// The other process that `a_killed_process` runs; not a test.
#[test]
fn serve_until_killed() {
    let Some(path) = std::env::var_os(SERVE) else {
        return;
    };
    let mount = FuseMount::new(Arc::new(MemFs::new()), path.as_ref(), &Options::default()).unwrap();
    eprintln!("ready");
    mount.wait();
}

/// Another process of this program that serves a file system at `path`.
fn serve_elsewhere(path: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "serve_until_killed", "--nocapture"])
        .env(SERVE, path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stderr.as_mut().unwrap());
    assert!(said.lines().any(|line| line.unwrap() == "ready"));
    child
}

/// A namespace that was made meanwhile keeps the file system, and a caller of unmount is told whose it is.
#[test]
fn another_namespace_keeps_it() {
    let _alone = alone();
    if !geteuid().is_root() {
        return eprintln!("skipped: only root makes mount namespaces");
    }
    let mounted = mounted_or_skip!();
    let mut child = Command::new("unshare")
        .args(["--mount", "sh", "-c", "echo ready; read _"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    let refused = mounted.mount.unmount(false).unwrap_err();
    let Error::InUseElsewhere {
        holder: Some(MountHolder::Process { process, name }),
        ..
    } = &refused
    else {
        panic!("{refused}");
    };
    assert_eq!((*process, &**name), (child.id(), "sh"));
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(mounted.mount.wait(), SessionEnd::Unmounted);
    mounted.mount.unmount(false).unwrap();
}

#[test]
fn unmounting_leaves_nothing_behind() {
    let _alone = alone();
    let mounted = mounted_or_skip!();
    let (path, fs) = (mounted.dir.path().to_owned(), mounted.fs.clone());
    fs::write(mounted.path("file"), b"x").unwrap();
    assert!(mounted.mount.is_mounted());
    mounted.mount.unmount(false).unwrap();
    assert!(!mounted.mount.is_mounted());
    assert!(!is_listed(&path));
    assert_eq!(fs.lookups(), 0, "all lookups are given back");
    assert_eq!(mounted.mount.wait(), SessionEnd::Unmounted);
    mounted.mount.unmount(false).unwrap();
    mounted.mount.unmount(true).unwrap();
    drop(mounted.mount);
    // The tests of this file run in one process, so others may be serving.
    assert_eq!(
        Arc::strong_count(&fs),
        2,
        "a thread still has the file system"
    );
}

#[test]
fn a_file_system_in_use_stays() {
    let _alone = alone();
    let mounted = mounted_or_skip!();
    let file = File::create(mounted.path("file")).unwrap();
    let error = mounted.mount.unmount(false).unwrap_err();
    assert!(
        matches!(&error, Error::Busy(path) if path == mounted.dir.path()),
        "{error}"
    );
    assert!(error.to_string().contains("in use"), "{error}");
    assert!(mounted.mount.is_mounted());
    file.write_all_at(b"works", 0).unwrap();
    drop(file);
    mounted.mount.unmount(false).unwrap();
}

#[test]
fn force_gives_errors_to_those_who_use_it() {
    let _alone = alone();
    for writeback_cache in [false, true] {
        let mounted = mounted_or_skip!(&Options {
            writeback_cache,
            ..Options::default()
        });
        fs::write(mounted.path("file"), b"before").unwrap();
        let file = File::options()
            .write(true)
            .open(mounted.path("file"))
            .unwrap();
        file.write_all_at(b"last words", 0).unwrap();
        let (send, ended) = mpsc::channel();
        mounted.mount.on_end(move |end| send.send(end).unwrap());
        mounted.mount.unmount(true).unwrap();
        assert_eq!(ended.recv().unwrap(), mounted.mount.wait());
        assert!(!is_listed(mounted.dir.path()));
        assert!(file.write_all_at(b"too late", 0).is_err() || file.sync_all().is_err());
        assert!(file.metadata().is_err() || file.sync_all().is_err());
        drop(file);
        // What was written before was written back.
        let fs = mounted.fs.clone();
        drop(mounted.mount);
        let again = FuseMount::new(fs, mounted.dir.path(), &Options::default()).unwrap();
        let all = fs::read(mounted.dir.path().join("file")).unwrap();
        assert_eq!(all, b"last words", "{writeback_cache}");
        again.unmount(false).unwrap();
    }
}

#[test]
fn force_writes_back_everything() {
    const FILES: u64 = 300;
    const EACH: usize = 20_000;
    let _alone = alone();
    let mounted = mounted_or_skip!(&Options {
        writeback_cache: true,
        ..Options::default()
    });
    let files: Vec<_> = (0..FILES)
        .map(|number| {
            let file = File::create(mounted.path(&number.to_string())).unwrap();
            file.write_all_at(&[number as u8; EACH], 0).unwrap();
            file
        })
        .collect();
    mounted.mount.unmount(true).unwrap();
    drop(files);
    for number in 0..FILES {
        let fs = &mounted.fs;
        let found = fs.lookup(ROOT, number.to_string().as_bytes()).unwrap();
        let pieces = fs.read(found.ino, 0, EACH as u32).unwrap().concat();
        assert!(pieces == [number as u8; EACH], "{number}");
    }
}

#[test]
fn force_works_while_the_file_system_hangs() {
    let _alone = alone();
    if !geteuid().is_root() {
        return eprintln!("skipped: not root");
    }
    let mounted = mounted_or_skip!();
    fs::write(mounted.path("file"), b"x").unwrap();
    let (go_on, gate) = mpsc::channel::<()>();
    let (at_read, reading) = mpsc::channel();
    let gate = parking_lot::Mutex::new(gate);
    mounted.fs.set_hook(move |what, _| {
        if what == "read" {
            let _ = at_read.send(());
            let _ = gate.lock().recv();
        }
    });
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| fs::read(mounted.path("file")));
        reading.recv().unwrap();
        let unmounting = scope.spawn(|| mounted.mount.unmount(true));
        // The reader is let go before the worker is.
        assert!(reader.join().unwrap().is_err());
        drop(go_on);
        unmounting.join().unwrap().unwrap();
    });
}

#[test]
fn another_process_unmounts() {
    let _alone = alone();
    if !geteuid().is_root() {
        return eprintln!("skipped: not root");
    }
    let mounted = mounted_or_skip!();
    let (send, ended) = mpsc::channel();
    mounted.mount.on_end(move |end| send.send(end).unwrap());
    rustix::mount::unmount(mounted.dir.path(), UnmountFlags::empty()).unwrap();
    assert_eq!(ended.recv().unwrap(), SessionEnd::Unmounted);
    assert_eq!(mounted.mount.wait(), SessionEnd::Unmounted);
    assert!(!mounted.mount.is_mounted());
    let (send, called) = mpsc::channel();
    mounted.mount.on_end(move |end| send.send(end).unwrap());
    assert_eq!(
        called.recv().unwrap(),
        SessionEnd::Unmounted,
        "called at once"
    );
    mounted.mount.unmount(false).unwrap();
}

#[test]
fn another_process_unmounts_lazily() {
    let _alone = alone();
    if !geteuid().is_root() {
        return eprintln!("skipped: not root");
    }
    let mounted = mounted_or_skip!();
    let mut file = File::create_new(mounted.path("file")).unwrap();
    rustix::mount::unmount(mounted.dir.path(), UnmountFlags::DETACH).unwrap();
    assert!(mounted.mount.is_mounted(), "a file is still open");
    file.write_all_at(b"still works", 0).unwrap();
    drop(file);
    assert_eq!(mounted.mount.wait(), SessionEnd::Unmounted);
    let mounted = mounted_or_skip!();
    file = File::create_new(mounted.path("file")).unwrap();
    rustix::mount::unmount(mounted.dir.path(), UnmountFlags::DETACH).unwrap();
    mounted.mount.unmount(true).unwrap();
    assert!(file.metadata().is_err());
    drop(file);
}

#[test]
fn something_mounted_on_top() {
    let _alone = alone();
    if !geteuid().is_root() {
        return eprintln!("skipped: not root");
    }
    let mounted = mounted_or_skip!();
    let path = mounted.dir.path();
    rustix::mount::mount("none", path, "tmpfs", MountFlags::empty(), None).unwrap();
    let error = mounted.mount.unmount(false).unwrap_err();
    assert!(matches!(error, Error::Covered(_)), "{error}");
    let error = mounted.mount.follow(&Options::default()).unwrap_err();
    assert!(matches!(error, Error::OptionsCovered(_)), "{error}");
    rustix::mount::unmount(path, UnmountFlags::empty()).unwrap();
    mounted.mount.follow(&Options::default()).unwrap();
    mounted.mount.unmount(false).unwrap();
}

#[test]
fn a_killed_process_leaves_a_mount_that_is_cleared_away() {
    let _alone = alone();
    if !common::can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let mut child = serve_elsewhere(dir.path());
        fs::write(dir.path().join("file"), b"x").unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let error = fs::read_dir(dir.path()).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConnected);
    }
    let fs = Arc::new(MemFs::new());
    let mount = FuseMount::new(fs, dir.path(), &Options::default()).unwrap();
    fs::write(dir.path().join("file"), b"new").unwrap();
    assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"new");
    mount.unmount(false).unwrap();
    assert!(!is_listed(dir.path()), "the dead mounts are gone too");
}

#[test]
fn dropping_unmounts_even_if_it_is_in_use() {
    let _alone = alone();
    let mounted = mounted_or_skip!();
    let path = mounted.dir.path().to_owned();
    let mut file = File::create(mounted.path("file")).unwrap();
    drop(mounted.mount);
    assert!(!is_listed(&path));
    assert!(file.read(&mut [0]).is_err());
}

#[test]
fn mounting_again_and_again() {
    let _alone = alone();
    let mounted = mounted_or_skip!();
    let (fs, path) = (mounted.fs.clone(), mounted.dir.path().to_owned());
    fs::write(mounted.path("file"), b"kept").unwrap();
    drop(mounted.mount);
    for _ in 0..50 {
        let mount = FuseMount::new(fs.clone(), &path, &Options::default()).unwrap();
        assert_eq!(fs::read(path.join("file")).unwrap(), b"kept");
        mount.unmount(false).unwrap();
    }
    assert_eq!(Arc::strong_count(&fs), 2);
}

#[test]
fn places_that_are_no_mountpoints() {
    let _alone = alone();
    let fs = || Arc::new(MemFs::new());
    let mount = |path: &Path| FuseMount::new(fs(), path, &Options::default()).unwrap_err();
    let dir = tempfile::tempdir().unwrap();
    let missing = mount(&dir.path().join("missing"));
    assert!(matches!(missing, Error::NoMountpoint(_)), "{missing}");
    let file = dir.path().join("file");
    fs::write(&file, b"x").unwrap();
    let error = mount(&file);
    assert!(matches!(error, Error::NotDirectory(_)), "{error}");
    let error = mount(&file.join("below"));
    assert!(matches!(error, Error::NotDirectory(_)), "{error}");
}

#[test]
fn what_was_in_the_directory_is_hidden_meanwhile() {
    let _alone = alone();
    if !common::can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"below").unwrap();
    // As an ordinary user, `fusermount3` would allow this too.
    let mount = FuseMount::new(Arc::new(MemFs::new()), dir.path(), &Options::default()).unwrap();
    assert!(!file.exists());
    mount.unmount(false).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"below");
}

#[test]
fn threads_end_with_the_mount() {
    let _alone = alone();
    // In a process of its own: here other tests have threads too.
    const ALONE: &str = "FUSE_TEST_ALONE";
    if !common::can_mount() {
        return;
    }
    if std::env::var_os(ALONE).is_none() {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "threads_end_with_the_mount", "--test-threads=2"])
            .env(ALONE, "1")
            .status();
        return assert!(status.unwrap().success());
    }
    // The kernel still lists a thread for a moment after it can be joined.
    let wait_for = |count| (0..1_000_000).any(|_| threads() == count);
    // This one, and that of `main`; whether mounting is possible has been tried by mounting.
    assert!(wait_for(2), "{} threads", threads());
    let mounted = mounted_or_skip!();
    assert!(threads() > 2, "{} threads", threads());
    mounted.mount.unmount(false).unwrap();
    assert!(wait_for(2), "{} threads", threads());
}
