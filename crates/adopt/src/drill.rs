//! A drill: files of a copy are opened, compared with those of the source, and one is restored.
//!
//! Both sides are snapshots of mounted datasets. Nothing is written to a file system: what is restored goes into memory,
//! because it may be secret.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cipher::{Random, SystemRandom};
use console::outcome::Result;
use console::session::other;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::copy::comparison::{failed_at, is_copy, is_equal};
use crate::copy::contents::is_same;
use crate::copy::node::FileNode;

/// The most differences that are named.
const NAMED_MAX: usize = 100;
/// The most bytes of a file that are restored into memory.
const RESTORED_MAX: u64 = if cfg!(test) { 4 } else { 256 << 20 };

/// A snapshot of a mounted dataset.
#[derive(Clone, Copy, Debug)]
pub struct MountedSnapshot<'a> {
    /// The directory of the mount.
    pub dir: &'a Path,
    /// The name of the snapshot, without its dataset.
    pub snapshot: &'a str,
}

/// The outcome of a drill.
#[derive(Clone, Debug, Default)]
pub struct DrillOutcome {
    /// The number of files, links and special files of the source.
    pub files: u64,
    /// The number of files whose contents were compared.
    pub compared: u64,
    /// The bytes of these.
    pub bytes: u64,
    /// The file that was restored, of large files the first 256 MiB.
    pub restored: Option<PathBuf>,
    /// The differences, a line for each; at most the first hundred.
    pub differences: Vec<String>,
    /// The number of differences.
    pub count: u64,
}

/// Compares all names of two snapshots, and the contents of `sample` files, or of all. Restores one of them.
///
/// # Errors
/// A directory cannot be read.
pub fn drill(
    source: MountedSnapshot<'_>,
    copy: MountedSnapshot<'_>,
    sample: Option<usize>,
) -> Result<DrillOutcome> {
    let mut drill = Drill::default();
    let (source, copy) = (open(source)?, open(copy)?);
    let mut paths = drill.compare_names(&source, &copy)?;
    if let Some(sample) = sample {
        choose(&mut paths, sample)?;
    }
    for path in &paths {
        drill.compare(&source, &copy, path)?;
    }
    Ok(drill.outcome)
}

fn open(of: MountedSnapshot<'_>) -> Result<FileNode> {
    let path = Path::new(OsStr::from_bytes(vfs::SNAPSHOT_DIR)).join(of.snapshot);
    let shown = of.dir.join(&path);
    let root = FileNode::root(of.dir).map_err(failed_at(of.dir))?;
    let found = root.child(&path).map_err(failed_at(&shown))?;
    found.ok_or_else(|| other(format!("there is no snapshot '{}'", shown.display())))
}

/// Keeps some paths, which are drawn at random.
fn choose(paths: &mut Vec<PathBuf>, sample: usize) -> Result<()> {
    for at in 0..sample.min(paths.len()) {
        let mut drawn = [0; 8];
        let random = SystemRandom.fill(&mut drawn);
        random.map_err(|error| other(error.to_string()))?;
        let left = (paths.len() - at) as u64;
        paths.swap(at, at + (u64::from_le_bytes(drawn) % left) as usize);
    }
    paths.truncate(sample);
    Ok(())
}

#[derive(Default)]
struct Drill {
    outcome: DrillOutcome,
}

impl Drill {
    /// Compares the names and kinds below two directories. Returns the paths of the files of the source that the copy has.
    fn compare_names(&mut self, source: &FileNode, copy: &FileNode) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let mut dirs = vec![PathBuf::new()];
        while let Some(dir) = dirs.pop() {
            let (Some(own), Some(other)) = (at(source, &dir)?, at(copy, &dir)?) else {
                continue;
            };
            let names = own.names().map_err(failed_at(&dir))?;
            let mut surplus = other.names().map_err(failed_at(&dir))?;
            surplus.retain(|name| names.binary_search(name).is_err());
            for name in surplus {
                self.differs(&dir.join(name), "is not in the source");
            }
            for name in names {
                let path = dir.join(&name);
                let Some(own) = own.child(&name).map_err(failed_at(&path))? else {
                    continue;
                };
                self.outcome.files += u64::from(!own.meta.is_dir());
                match other.child(&name).map_err(failed_at(&path))? {
                    None => self.differs(&path, "is missing in the copy"),
                    Some(other) if !is_copy(&own, &other) => {
                        self.differs(&path, "has another kind, size or time in the copy");
                    }
                    Some(_) if own.meta.is_dir() => dirs.push(path),
                    Some(_) => files.push(path),
                }
            }
        }
        Ok(files)
    }

    /// Compares the contents and attributes of a file with those of its copy. Restores the first one with contents.
    fn compare(&mut self, source: &FileNode, copy: &FileNode, path: &Path) -> Result<()> {
        let (Some(own), Some(other)) = (at(source, path)?, at(copy, path)?) else {
            return Ok(());
        };
        self.outcome.compared += 1;
        match is_equal(&own, &other) {
            Ok(true) => {}
            Ok(false) => {
                self.differs(path, "has other contents or attributes in the copy");
                return Ok(());
            }
            Err(error) => {
                self.differs(path, &format!("cannot be read: {error}"));
                return Ok(());
            }
        }
        if !own.meta.is_file() {
            return Ok(());
        }
        let len = own.meta.size();
        self.outcome.bytes += len;
        if self.outcome.restored.is_none() && len > 0 {
            match restore(&own, &other, len.min(RESTORED_MAX)) {
                Ok(true) => self.outcome.restored = Some(path.to_owned()),
                Ok(false) => self.differs(path, "was restored with other contents"),
                Err(error) => self.differs(path, &format!("cannot be restored: {error}")),
            }
        }
        Ok(())
    }

    fn differs(&mut self, path: &Path, why: &str) {
        self.outcome.count += 1;
        if self.outcome.differences.len() < NAMED_MAX {
            let line = format!("{}: {why}", path.display());
            let shown = line
                .chars()
                .filter(|c| !protocol::characters::is_hidden(*c));
            self.outcome.differences.push(shown.collect());
        }
    }
}

/// The file at a path below a directory.
fn at(root: &FileNode, path: &Path) -> Result<Option<FileNode>> {
    let path = match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    };
    root.child(path).map_err(failed_at(path))
}

/// Restores the first `len` bytes of a file into memory, and compares them with the source.
fn restore(source: &FileNode, copy: &FileNode, len: u64) -> io::Result<bool> {
    let mut restored = File::from(memfd_create("drill", MemfdFlags::CLOEXEC)?);
    io::copy(&mut copy.open()?.take(len), &mut restored)?;
    if restored.metadata()?.len() != len {
        return Ok(false);
    }
    let same = is_same(&source.open()?, &restored, len, &mut |_| Ok(()));
    same.map_err(|trouble| io::Error::other(trouble.why))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Two directories that look like mounts with a snapshot, with equal files.
    fn sides() -> (tempfile::TempDir, [PathBuf; 2]) {
        let dir = tempfile::tempdir().unwrap();
        let sides = ["a", "b"].map(|name| dir.path().join(name));
        for side in &sides {
            let top = top(side);
            fs::create_dir_all(top.join("deep")).unwrap();
            for number in 0..20 {
                fs::write(top.join(format!("deep/{number}")), format!("text {number}")).unwrap();
            }
            std::os::unix::fs::symlink("deep/1", top.join("link")).unwrap();
            age(&top);
        }
        (dir, sides)
    }

    fn top(side: &Path) -> PathBuf {
        let dir = OsStr::from_bytes(vfs::SNAPSHOT_DIR);
        side.join(dir).join("1")
    }

    /// Gives all files of a side the same time.
    fn age(top: &Path) {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        for file in fs::read_dir(top.join("deep")).unwrap() {
            let file = File::options().write(true).open(file.unwrap().path());
            file.unwrap().set_modified(time).unwrap();
        }
    }

    fn run(sides: &[PathBuf; 2], sample: Option<usize>) -> DrillOutcome {
        let [source, copy] = sides
            .each_ref()
            .map(|dir| MountedSnapshot { dir, snapshot: "1" });
        drill(source, copy, sample).unwrap()
    }

    #[test]
    fn equal_snapshots_have_no_differences_and_a_file_is_restored() {
        let (_dir, sides) = sides();
        let all = run(&sides, None);
        assert_eq!((all.files, all.compared, all.count), (21, 21, 0));
        assert!(all.restored.is_some() && all.bytes > 100);
        let some = run(&sides, Some(5));
        assert_eq!((some.files, some.compared, some.count), (21, 5, 0));
    }

    #[test]
    fn each_difference_is_named() {
        let (_dir, sides) = sides();
        let copy = top(&sides[1]);
        // The same length and time.
        fs::write(copy.join("deep/3"), "text X").unwrap();
        fs::remove_file(copy.join("deep/4")).unwrap();
        fs::write(copy.join("deep/5"), "another length").unwrap();
        fs::remove_file(copy.join("link")).unwrap();
        std::os::unix::fs::symlink("deep/2", copy.join("link")).unwrap();
        fs::write(copy.join("more"), "").unwrap();
        age(&copy);
        let found = run(&sides, None);
        assert_eq!(found.count, 5);
        for named in [
            "deep/3: has other contents or attributes in the copy",
            "deep/4: is missing in the copy",
            "deep/5: has another kind, size or time in the copy",
            "link: has another kind, size or time in the copy",
            "more: is not in the source",
        ] {
            assert!(
                found.differences.iter().any(|line| line == named),
                "{found:?}"
            );
        }
        // Names are compared whatever the sample is.
        assert!(run(&sides, Some(0)).count >= 4);
    }
}
