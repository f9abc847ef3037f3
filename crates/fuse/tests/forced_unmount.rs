//! A forced unmount ends the session, whatever still has the mount, with and without the control file system of FUSE.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;

use common::alone;
use fuse::{Error, MountHolder};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::geteuid;

const CONTROL: &str = "/sys/fs/fuse/connections";
/// Says to a test, started again, whether it sees the control file system.
const CONTROLLED: &str = "FUSE_TEST_CONTROLLED";

/// Runs the test of this name in two mount namespaces of its own: with the control file system and without. Returns whether
/// this is one of them.
fn both_ways(test: &str) -> bool {
    if !geteuid().is_root() || !common::can_mount() {
        eprintln!("skipped: only root makes mount namespaces");
        return false;
    }
    if std::env::var_os(CONTROLLED).is_some() {
        return true;
    }
    for (prepare, controlled) in [
        ("mount -t fusectl none", "yes"),
        ("mount -t tmpfs none", "no"),
    ] {
        let status = Command::new("unshare")
            .args([
                "--mount",
                "sh",
                "-c",
                &format!("{prepare} {CONTROL} && exec \"$@\""),
            ])
            .arg("sh")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CONTROLLED, controlled)
            .status();
        assert!(status.unwrap().success(), "controlled: {controlled}");
    }
    false
}

/// Checks that the control file system is visible, as [`both_ways`] wants it.
fn check_control() {
    let is_visible = fs::read_dir(CONTROL).unwrap().next().is_some();
    let is_wanted = std::env::var_os(CONTROLLED).as_deref() == Some(OsStr::new("yes"));
    assert_eq!(is_visible, is_wanted);
}

/// A shell with a mount namespace of its own. It runs a line, and tells how that ended.
struct Namespace {
    shell: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Namespace {
    fn new(options: &[&str]) -> Namespace {
        let mut shell = Command::new("unshare")
            .args(options)
            .args([
                "sh",
                "-c",
                "while read line; do eval \"$line\" && echo yes || echo no; done",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(shell.stdout.take().unwrap());
        Namespace { shell, said }
    }

    fn runs(&mut self, line: &str) -> bool {
        writeln!(self.shell.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.said.read_line(&mut answer).unwrap();
        answer == "yes\n"
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Root's own namespaces, and those of a user, who is root in them.
#[test]
fn what_another_namespace_holds_is_ended() {
    let _alone = alone();
    if !both_ways("what_another_namespace_holds_is_ended") {
        return;
    }
    for options in [["-m"], ["-Urm"]] {
        let mounted = mounted_or_skip!();
        check_control();
        fs::write(mounted.path("file"), b"secret").unwrap();
        let mut namespace = Namespace::new(&options);
        let file = mounted.path("file");
        let (file, dir) = (file.display(), mounted.dir.path().display());
        assert!(namespace.runs(&format!("exec 3<{file}")), "{options:?}");
        let is_held = |error: &Error| matches!(error, Error::InUseElsewhere { holder: Some(MountHolder::Process { process, .. }), .. } if *process == namespace.shell.id());
        let refused = mounted.mount.unmount(false).unwrap_err();
        assert!(is_held(&refused), "{refused}");
        assert!(refused.to_string().contains("(sh)"), "{refused}");
        let cut = mounted.mount.unmount(true).unwrap();
        assert!(cut.as_ref().is_some_and(is_held), "{cut:?}");
        assert!(!mounted.mount.is_mounted());
        assert!(!namespace.runs(&format!("ls {dir}")), "{options:?}");
        assert!(!namespace.runs(&format!("cat {file}")), "{options:?}");
        drop(namespace);
        // No thread has it any more.
        let fs = mounted.fs.clone();
        drop(mounted.mount);
        assert_eq!(std::sync::Arc::strong_count(&fs), 2);
    }
}

#[test]
fn what_was_unmounted_lazily_is_ended() {
    let _alone = alone();
    if !both_ways("what_was_unmounted_lazily_is_ended") {
        return;
    }
    let mounted = mounted_or_skip!();
    check_control();
    let file = fs::File::create(mounted.path("file")).unwrap();
    rustix::mount::unmount(mounted.dir.path(), UnmountFlags::DETACH).unwrap();
    let error = mounted.mount.unmount(false).unwrap_err();
    assert!(
        matches!(error, Error::InUseElsewhere { holder: None, .. }),
        "{error}"
    );
    mounted.mount.unmount(true).unwrap();
    assert!(file.metadata().is_err());
}

#[test]
fn what_is_covered_is_ended() {
    let _alone = alone();
    if !both_ways("what_is_covered_is_ended") {
        return;
    }
    let mounted = mounted_or_skip!();
    check_control();
    let file = fs::File::create(mounted.path("file")).unwrap();
    let path = mounted.dir.path();
    rustix::mount::mount("none", path, "tmpfs", MountFlags::empty(), None).unwrap();
    let error = mounted.mount.unmount(false).unwrap_err();
    assert!(matches!(error, Error::Covered(_)), "{error}");
    mounted.mount.unmount(true).unwrap();
    assert!(file.metadata().is_err());
    rustix::mount::unmount(path, UnmountFlags::empty()).unwrap();
    // No call reached it to take it away. It has no server, and the next mount clears it away.
    let error = rustix::fs::statfs(path).unwrap_err();
    let is_dead = matches!(error, Errno::NOTCONN | Errno::CONNABORTED);
    assert!(is_dead, "{error}");
    let again = fuse::FuseMount::new(mounted.fs.clone(), path, &fuse::Options::default()).unwrap();
    again.unmount(false).unwrap();
    assert!(fs::read_dir(path).unwrap().next().is_none());
}

#[test]
fn what_is_bound_elsewhere_is_named_and_taken_away() {
    let _alone = alone();
    if !both_ways("what_is_bound_elsewhere_is_named_and_taken_away") {
        return;
    }
    let mounted = mounted_or_skip!();
    check_control();
    let other = tempfile::tempdir().unwrap();
    rustix::mount::mount_bind(mounted.dir.path(), other.path()).unwrap();
    let error = mounted.mount.unmount(false).unwrap_err();
    let is_there = |error: &Error, path: &Path| matches!(error, Error::InUseElsewhere { holder: Some(MountHolder::Here(at)), .. } if at == path);
    assert!(is_there(&error, other.path()), "{error}");
    mounted.mount.unmount(true).unwrap();
    assert!(fs::read_dir(other.path()).unwrap().next().is_none());
    let code = fs::remove_dir(mounted.dir.path()).map_err(|error| error.raw_os_error());
    assert_ne!(code, Err(Some(Errno::BUSY.raw_os_error())));
}

/// A file system in memory that got the device number of a mount that the kernel has let go of.
struct Successor {
    dirs: Vec<tempfile::TempDir>,
}

impl Successor {
    /// Mounts until one has the number: the kernel gives the lowest free one. None if another process was faster.
    fn new(number: u32) -> Option<Successor> {
        const MOST: usize = 32;
        let mut successor = Successor { dirs: Vec::new() };
        while successor.dirs.len() < MOST {
            let dir = tempfile::tempdir().unwrap();
            rustix::mount::mount("none", dir.path(), "tmpfs", MountFlags::empty(), None).unwrap();
            let device = rustix::fs::stat(dir.path()).unwrap().st_dev;
            successor.dirs.push(dir);
            if device == rustix::fs::makedev(0, number) {
                fs::write(successor.dirs.last()?.path().join("theirs"), b"data").unwrap();
                return Some(successor);
            }
        }
        None
    }

    fn is_there(&self) -> bool {
        let last = self.dirs.last().unwrap();
        fs::read(last.path().join("theirs")).is_ok_and(|data| data == b"data")
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        for dir in &self.dirs {
            let _ = rustix::mount::unmount(dir.path(), UnmountFlags::DETACH);
        }
    }
}

/// The session is not over as long as a thread hangs in the file system. The kernel has let go of the mount, and its
/// number belongs to the next one.
#[test]
fn a_mount_that_got_the_number_of_an_ended_one_stays() {
    let _alone = alone();
    if !geteuid().is_root() {
        return eprintln!("skipped: only root mounts a file system in memory");
    }
    let mounted = mounted_or_skip!();
    let (begun, begins) = mpsc::channel();
    let (goes_on, waits) = mpsc::channel::<()>();
    let (begun, waits) = (Mutex::new(begun), Mutex::new(waits));
    let file = fs::File::create(mounted.path("file")).unwrap();
    mounted.fs.set_hook(move |what, _| {
        if what == "fsync" {
            let _ = begun.lock().unwrap().send(());
            let _ = waits.lock().unwrap().recv();
        }
    });
    let caller = thread::spawn(move || file.sync_all());
    begins.recv().unwrap();
    let is_hanging = || matches!(mounted.mount.unmount(true), Err(Error::Hanging(_)));
    assert!(is_hanging());
    caller.join().unwrap().unwrap_err();
    assert!(mounted.mount.is_mounted());
    let Some(successor) = Successor::new(mounted.mount.number()) else {
        return eprintln!("skipped: another process has the number");
    };
    assert!(is_hanging());
    assert!(successor.is_there());
    drop(goes_on);
    mounted.mount.wait();
    mounted.mount.unmount(true).unwrap();
    assert!(successor.is_there());
}
