//! Directories on the way to a mount belong to a user who exchanges them all the time: no mount but
//! our own is ever remounted or unmounted.

mod common;

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use common::memfs::MemFs;
use fuse::{FuseMount, MountDirectory, Options};
use rustix::fs::{CWD, RenameFlags};
use rustix::mount::{MountFlags, UnmountFlags};

const ROUNDS: u32 = 300;

/// Returns the mounts below `dir`: the number of each mount and its options.
fn mounts_below(dir: &Path) -> Vec<(u64, String)> {
    let list = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let fields = list.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields
        .filter(|fields| Path::new(fields[4]).starts_with(dir))
        .map(|fields| (fields[0].parse().unwrap(), fields[5].to_owned()))
        .collect()
}

/// Two directories `a` and `b`, each with a directory `m`; on `b/m` is a mount of another program.
struct Attack {
    dir: tempfile::TempDir,
    victim: (u64, String),
}

impl Attack {
    fn new() -> Option<Attack> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: not root");
            return None;
        }
        if !common::can_mount() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        for below in ["a/m", "b/m"] {
            fs::create_dir_all(dir.path().join(below)).unwrap();
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        rustix::mount::mount("victim", dir.path().join("b/m"), "tmpfs", flags, None).unwrap();
        let victim = mounts_below(dir.path()).remove(0);
        Some(Attack { dir, victim })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn place(&self) -> MountDirectory {
        MountDirectory::new(self.dir.path(), "a/m")
    }

    /// Calls `round` many times, while another thread exchanges `a` and `b`.
    fn during(&self, mut round: impl FnMut(u32)) {
        let stop = AtomicBool::new(false);
        let exchanges = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let (a, b) = (self.path("a"), self.path("b"));
                    let exchange = RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(CWD, a, CWD, b, exchange).unwrap();
                    exchanges.fetch_add(1, Ordering::Relaxed);
                }
            });
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for number in 0..ROUNDS {
                    round(number);
                    let found = mounts_below(self.dir.path());
                    let is_there = found.contains(&self.victim);
                    assert!(is_there, "round {number}: {:?} in {found:?}", self.victim);
                }
            }));
            stop.store(true, Ordering::Relaxed);
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        assert!(exchanges.into_inner() > 0);
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        while let Some(path) = ["a/m", "b/m"]
            .map(|name| self.path(name))
            .into_iter()
            .find(|path| rustix::mount::unmount(path, UnmountFlags::DETACH).is_ok())
        {
            drop(path);
        }
    }
}

#[test]
fn only_our_own_mount_changes_and_goes() {
    let Some(attack) = Attack::new() else { return };
    let strict = Options {
        nosuid: true,
        read_only: true,
        ..Options::default()
    };
    let mut done = [0; 2];
    attack.during(|number| {
        let fs = Arc::new(MemFs::new());
        // Both directories may be on the way, and the place is there at every moment.
        let mount = FuseMount::at(fs, &attack.place(), &Options::default()).unwrap();
        for options in [&strict, &Options::default()] {
            done[0] += u32::from(mount.follow(options).is_ok());
        }
        done[1] += u32::from(mount.unmount(number % 2 == 0).is_ok());
        drop(mount);
        let left = mounts_below(attack.dir.path()).len();
        assert_eq!(left, 1, "round {number}: our own is gone");
    });
    println!(
        "of {ROUNDS} rounds: followed {}, unmounted {}",
        done[0], done[1]
    );
    assert!(done.iter().all(|count| *count > 0));
}

#[test]
fn only_a_dead_mount_is_cleared_away() {
    let Some(attack) = Attack::new() else { return };
    attack.during(|_| {
        let device = File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .unwrap();
        let data = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0",
            device.as_raw_fd()
        );
        let data = std::ffi::CString::new(data).unwrap();
        let flags = MountFlags::empty();
        rustix::mount::mount("dead", attack.path("a/m"), "fuse", flags, data.as_c_str()).unwrap();
        drop(device);
        let fs = Arc::new(MemFs::new());
        // It may have been mounted at the other place, on top of the victim.
        if let Ok(mount) = FuseMount::at(fs, &attack.place(), &Options::default()) {
            let _ = mount.unmount(true);
        }
    });
}
