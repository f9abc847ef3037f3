//! Helpers that the tests share.

#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod contents;
pub mod memfs;
pub mod nodes;

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use fuse::{Error, FuseMount, Options};
use memfs::MemFs;
use parking_lot::{Mutex, MutexGuard};

/// A mounted [`MemFs`].
pub struct Mounted {
    // Dropped in this order.
    pub mount: FuseMount,
    pub fs: Arc<MemFs>,
    pub dir: tempfile::TempDir,
}

impl Mounted {
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the number of requests for `op`.
    pub fn count(&self, op: &str) -> u64 {
        let counts = self.mount.requests();
        counts
            .iter()
            .find(|(name, _)| *name == op)
            .map_or(0, |(_, count)| *count)
    }
}

/// Mounts with the default options; none, with the reason printed, where that is not possible.
pub fn mounted() -> Option<Mounted> {
    mounted_with(&Options::default())
}

pub fn mounted_with(options: &Options) -> Option<Mounted> {
    if !can_mount() {
        return None;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let fs = Arc::new(MemFs::new());
    let mount = FuseMount::new(fs.clone(), dir.path(), options).expect("mounting");
    Some(Mounted { mount, fs, dir })
}

/// Returns whether file systems can be mounted here. Prints the reason if not.
pub fn can_mount() -> bool {
    static HINDRANCE: OnceLock<Option<String>> = OnceLock::new();
    let hindrance = HINDRANCE.get_or_init(hindrance);
    if let Some(hindrance) = hindrance {
        eprintln!("skipped: {hindrance}");
    }
    hindrance.is_none()
}

fn hindrance() -> Option<String> {
    if let Err(error) = File::options().read(true).write(true).open("/dev/fuse") {
        return Some(format!("/dev/fuse cannot be opened: {error}"));
    }
    if !rustix::process::geteuid().is_root() && !has_helper() {
        return Some("neither root nor fusermount3".to_owned());
    }
    let dir = tempfile::tempdir().expect("a directory");
    match FuseMount::new(Arc::new(MemFs::new()), dir.path(), &Options::default()) {
        Ok(_) => None,
        // For root too: in a container that may not mount, the helper is tried.
        Err(error @ (Error::Helper(_) | Error::NoHelper)) => {
            Some(format!("mounting is not allowed here: {error}"))
        }
        Err(error) => panic!("{error}"),
    }
}

/// Keeps tests of one process from running at the same time.
///
/// To start a program is to copy the process, with all its descriptors, until the copy has become
/// the program. Files that a test has closed meanwhile are then still open in the copy: its mount is
/// busy, or a program it has written cannot be run. So tests which start programs, and those which
/// that would disturb, hold this.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

pub fn has_helper() -> bool {
    std::process::Command::new("fusermount3")
        .arg("-V")
        .output()
        .is_ok()
}

/// Skips a test where mounting is not possible.
#[macro_export]
macro_rules! mounted_or_skip {
    () => {
        match common::mounted() {
            Some(mounted) => mounted,
            None => return,
        }
    };
    ($options:expr) => {
        match common::mounted_with($options) {
            Some(mounted) => mounted,
            None => return,
        }
    };
}
