//! The directories where datasets of all pools are mounted or are to be mounted, so that a dataset closes the directory of
//! one of any pool that lies in its mount.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use dataset::SnapshotDirFs;
use parking_lot::Mutex;

/// From so many directories on, those that are not wanted any more are forgotten each time their number has doubled.
const MANY: usize = 1024;

/// Says whether a dataset still mounts at a directory.
pub(crate) type MountCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// The directories of all pools.
#[derive(Default)]
pub(crate) struct MountedDirs(Mutex<DirTable>);

#[derive(Default)]
struct DirTable {
    /// The mounts, by directory; the last one covers the others.
    mounts: BTreeMap<PathBuf, Vec<(u64, Weak<SnapshotDirFs>)>>,
    /// The directories of datasets that were not mounted when they were last looked at.
    unmounted: BTreeMap<PathBuf, MountCheck>,
    last: u64,
}

/// The entry of a mount, until this is dropped.
pub(crate) struct MountedDir {
    all: Arc<MountedDirs>,
    dir: PathBuf,
    number: u64,
}

impl Drop for MountedDir {
    fn drop(&mut self) {
        let mut table = self.all.0.lock();
        if let Some(at) = table.mounts.get_mut(&self.dir) {
            at.retain(|(number, _)| *number != self.number);
            if at.is_empty() {
                table.mounts.remove(&self.dir);
            }
        }
    }
}

impl MountedDirs {
    /// Enters a mount, and closes the directories in it where datasets are to be mounted. A snapshot has no `files` in
    /// which anything can be made.
    pub(crate) fn add(
        self: &Arc<Self>,
        dir: PathBuf,
        files: Option<&Arc<SnapshotDirFs>>,
    ) -> MountedDir {
        let mut table = self.0.lock();
        table.last += 1;
        let number = table.last;
        let weak = files.map(Arc::downgrade).unwrap_or_default();
        table
            .mounts
            .entry(dir.clone())
            .or_default()
            .push((number, weak));
        let inside = table.inside(&dir);
        // Directories are looked up on devices.
        drop(table);
        for (path, is_wanted) in inside {
            self.close(path, is_wanted);
        }
        MountedDir {
            all: Arc::clone(self),
            dir,
            number,
        }
    }

    /// Closes the directory of a dataset that is not mounted, now and in later mounts, as long as it is wanted.
    pub(crate) fn close(&self, dir: PathBuf, is_wanted: MountCheck) {
        if !is_wanted() {
            self.0.lock().unmounted.remove(&dir);
            return;
        }
        let above = self.above(&dir);
        let closed = Arc::clone(&is_wanted);
        let count = {
            let mut table = self.0.lock();
            table.unmounted.insert(dir, is_wanted);
            table.unmounted.len()
        };
        if count >= MANY && count.is_power_of_two() {
            self.forget_unwanted();
        }
        if let Some((mounted, path)) = above
            && let Err(error) = mounted.close_dir(&path, Box::new(move || closed()))
        {
            tracing::debug!(%error, path = %path.display(), "the directory is not closed");
        }
    }

    /// Users can give their datasets one directory after the other.
    fn forget_unwanted(&self) {
        let all = self.0.lock().inside(Path::new("/"));
        let unwanted = all.into_iter().filter(|(_, is_wanted)| !is_wanted());
        let unwanted: Vec<PathBuf> = unwanted.map(|(path, _)| path).collect();
        let mut table = self.0.lock();
        for path in unwanted {
            table.unmounted.remove(&path);
        }
    }

    /// The mount in which a directory lies, and its path there. `None` if it lies in none, or in a snapshot.
    pub(crate) fn above(&self, dir: &Path) -> Option<(Arc<SnapshotDirFs>, PathBuf)> {
        let table = self.0.lock();
        for above in dir.ancestors().skip(1) {
            if let Some((_, files)) = table.mounts.get(above).and_then(|at| at.last()) {
                let path = dir.strip_prefix(above).ok()?;
                return Some((files.upgrade()?, path.to_owned()));
            }
        }
        None
    }

    /// The directories in this one where datasets are to be mounted.
    pub(crate) fn unmounted_in(&self, dir: &Path) -> Vec<PathBuf> {
        let inside = self.0.lock().inside(dir);
        inside
            .into_iter()
            .filter_map(|(path, is_wanted)| is_wanted().then_some(path))
            .collect()
    }
}

impl DirTable {
    fn inside(&self, dir: &Path) -> Vec<(PathBuf, MountCheck)> {
        let after = (Bound::Excluded(dir), Bound::Unbounded);
        self.unmounted
            .range::<Path, _>(after)
            .take_while(|(path, _)| path.starts_with(dir))
            .map(|(path, is_wanted)| (path.clone(), Arc::clone(is_wanted)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_found_by_their_path() {
        let dirs = Arc::new(MountedDirs::default());
        for path in ["/a/x", "/a-b", "/a/y/z", "/b"] {
            dirs.close(path.into(), Arc::new(|| true));
        }
        dirs.close("/a/gone".into(), Arc::new(|| false));
        let found = dirs.unmounted_in(Path::new("/a"));
        assert_eq!(found, [PathBuf::from("/a/x"), PathBuf::from("/a/y/z")]);
        // What is not wanted any more takes no memory.
        let is_wanted = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let until = Arc::clone(&is_wanted);
        let until: MountCheck = Arc::new(move || until.load(std::sync::atomic::Ordering::SeqCst));
        (0..MANY / 2).for_each(|n| dirs.close(format!("/c/{n}").into(), Arc::clone(&until)));
        is_wanted.store(false, std::sync::atomic::Ordering::SeqCst);
        (0..MANY).for_each(|n| dirs.close(format!("/d/{n}").into(), Arc::new(|| true)));
        assert_eq!(dirs.0.lock().unmounted.len(), 4 + MANY);
        // A snapshot hides the mount that it lies in, and the last mount the others.
        let first = dirs.add("/a".into(), None);
        let second = dirs.add("/a".into(), None);
        drop(first);
        assert_eq!(dirs.0.lock().mounts[Path::new("/a")].len(), 1);
        drop(second);
        assert!(dirs.0.lock().mounts.is_empty());
        assert!(dirs.above(Path::new("/a/x")).is_none());
    }
}
