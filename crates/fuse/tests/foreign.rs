//! Paths into FUSE file systems of other users: nothing is asked of them.

mod common;

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use common::alone;
use common::memfs::MemFs;
use fuse::{FuseMount, MountDirectory, Options};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::geteuid;

/// A FUSE file system of the user 1000 at a directory. It fails each request, and counts them.
struct Foreign<'a> {
    dir: &'a Path,
    asked: Arc<AtomicU64>,
}

impl Foreign<'_> {
    fn new(dir: &Path) -> Foreign<'_> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let device = rustix::fs::openat(CWD, "/dev/fuse", flags, Mode::empty()).unwrap();
        let options = format!(
            "fd={},rootmode=40000,user_id=1000,group_id=1000,allow_other",
            device.as_raw_fd()
        );
        let options = std::ffi::CString::new(options).unwrap();
        rustix::mount::mount("slow", dir, "fuse.slow", MountFlags::empty(), &*options).unwrap();
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        thread::spawn(move || answer(&device, &count));
        Foreign { dir, asked }
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        rustix::mount::unmount(self.dir, UnmountFlags::DETACH | UnmountFlags::FORCE).unwrap();
    }
}

/// Answers the first request, which begins the session, and fails all others.
fn answer(device: &OwnedFd, asked: &AtomicU64) {
    const INIT: u32 = 26;
    const EIO: i32 = -5;
    let mut request = vec![0; 1 << 20];
    while rustix::io::read(device, &mut *request).is_ok() {
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let mut reply = vec![0; 16];
        reply[8..16].copy_from_slice(&request[8..16]);
        match word(4) {
            INIT => {
                reply.resize(16 + 64, 0);
                reply[16..20].copy_from_slice(&7u32.to_ne_bytes());
                reply[20..24].copy_from_slice(&31u32.to_ne_bytes());
            }
            _ => {
                asked.fetch_add(1, Ordering::SeqCst);
                reply[4..8].copy_from_slice(&EIO.to_ne_bytes());
            }
        }
        let len = (reply.len() as u32).to_ne_bytes();
        reply[..4].copy_from_slice(&len);
        let _ = rustix::io::write(device, &reply);
    }
}

#[test]
fn a_place_below_one_is_refused_and_the_file_system_is_not_asked() {
    let _alone = alone();
    if !geteuid().is_root() || !common::can_mount() {
        return eprintln!("skipped: only root mounts for other users");
    }
    let dir = tempfile::tempdir().unwrap();
    let foreign = Foreign::new(dir.path());
    // It would be asked, and that would be counted.
    fs::metadata(dir.path().join("x")).unwrap_err();
    let before = foreign.asked();
    assert_ne!(before, 0);
    for place in [
        MountDirectory::new(dir.path(), ""),
        MountDirectory::new(dir.path(), "below"),
        MountDirectory::new(dir.path().join("a/b"), "c"),
    ] {
        let refused = |result: std::io::Result<()>| {
            let error = result.unwrap_err().to_string();
            assert!(
                error.contains("FUSE file system of the user 1000"),
                "{error}"
            );
        };
        refused(place.make());
        refused(place.make_guarded());
        refused(place.open().map(drop));
        refused(place.obstacles(&[]).map(drop));
        refused(place.remove());
        refused(place.remove_guarded());
        assert!(!place.is_dead());
        let mount = FuseMount::at(Arc::new(MemFs::new()), &place, &Options::default());
        mount.unwrap_err();
    }
    assert_eq!(foreign.asked(), before);
}

/// The user covers the way to a mount. Neither looking for the mount nor ending it asks anything of the cover.
#[test]
fn a_mount_below_one_is_ended_and_the_cover_is_not_asked() {
    let _alone = alone();
    if !geteuid().is_root() || !common::can_mount() {
        return eprintln!("skipped: only root mounts for other users");
    }
    let dir = tempfile::tempdir().unwrap();
    let above = dir.path().join("above");
    let path = above.join("m");
    fs::create_dir_all(&path).unwrap();
    let mount = FuseMount::new(Arc::new(MemFs::new()), &path, &Options::default()).unwrap();
    let foreign = Foreign::new(&above);
    let error = mount.unmount(false).unwrap_err();
    assert!(matches!(error, fuse::Error::Covered(_)), "{error}");
    mount.settle();
    mount.follow(&Options::default()).unwrap_err();
    mount.unmount(true).unwrap();
    assert!(!mount.is_mounted());
    assert_eq!(foreign.asked(), 0);
    drop(foreign);
    rustix::mount::unmount(&path, UnmountFlags::DETACH).unwrap();
}

/// The kernel gives the number of a mount to the next one as soon as it has let go of the first.
#[test]
fn one_that_got_the_number_of_an_own_mount_is_refused() {
    let _alone = alone();
    if !geteuid().is_root() || !common::can_mount() {
        return eprintln!("skipped: only root mounts for other users");
    }
    let own = common::mounted().unwrap();
    own.mount.unmount(false).unwrap();
    // The kernel gives the lowest free number.
    let dirs: Vec<_> = (0..32).map(|_| tempfile::tempdir().unwrap()).collect();
    let mut foreign = Vec::new();
    for dir in &dirs {
        foreign.push(Foreign::new(dir.path()));
        let flags = AtFlags::STATX_DONT_SYNC;
        let found = rustix::fs::statx(CWD, dir.path(), flags, StatxFlags::empty()).unwrap();
        if found.stx_dev_minor == own.mount.number() {
            let error = MountDirectory::new(dir.path(), "")
                .open()
                .unwrap_err()
                .to_string();
            assert!(error.contains("of the user 1000"), "{error}");
            return;
        }
    }
    eprintln!("skipped: another process has the number");
}
