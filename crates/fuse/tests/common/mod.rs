//! What the tests share.

#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod contents;
pub mod memfs;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuse::{Mount, Options};
use memfs::MemFs;

/// A mounted [`MemFs`].
pub struct Mounted {
    // Dropped in this order.
    pub mount: Mount,
    pub fs: Arc<MemFs>,
    pub dir: tempfile::TempDir,
}

impl Mounted {
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// How often the kernel has asked for `op`.
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
    let mount = Mount::new(fs.clone(), dir.path(), options).expect("mounting");
    Some(Mounted { mount, fs, dir })
}

/// Whether file systems can be mounted here; says why not.
pub fn can_mount() -> bool {
    let device = Path::new("/dev/fuse");
    if !device.exists() {
        eprintln!("skipped: there is no /dev/fuse");
        return false;
    }
    if !rustix::process::geteuid().is_root() && !has_helper() {
        eprintln!("skipped: neither root nor fusermount3");
        return false;
    }
    let dir = tempfile::tempdir().expect("a directory");
    match Mount::new(Arc::new(MemFs::new()), dir.path(), &Options::default()) {
        Ok(_) => true,
        Err(error) => {
            eprintln!("skipped: mounting is not possible here: {error}");
            false
        }
    }
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
