//! A file system that may be damaged beside what was in it.

use vfs::{FileSystem, Ino, Kind};

use super::model::Picture;

/// The result of an attempt to read everything.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The number of files that were visited.
    pub visited: usize,
    /// The number of them that are as they were.
    pub whole: usize,
    /// The number that could not be read.
    pub failed: usize,
}

/// Reads everything below `ino` and compares it: it is as it was, or an error.
pub fn compare(fs: &dyn FileSystem, ino: Ino, path: &[u8], expected: &Picture, out: &mut Outcome) {
    out.visited += 1;
    match compare_one(fs, ino, path, expected, out) {
        Ok(()) => out.whole += 1,
        Err(_) => out.failed += 1,
    }
}

fn compare_one(
    fs: &dyn FileSystem,
    ino: Ino,
    path: &[u8],
    expected: &Picture,
    out: &mut Outcome,
) -> vfs::Result<()> {
    let name = String::from_utf8_lossy(path).into_owned();
    let seen = expected
        .get(path)
        .unwrap_or_else(|| panic!("{name} never existed"));
    let attr = fs.getattr(ino)?;
    assert_eq!((attr.kind, attr.mode), (seen.kind, seen.mode), "{name}");
    for key in fs.listxattr(ino)? {
        match fs.getxattr(ino, &key) {
            Ok(value) => assert_eq!(seen.xattrs.get(&key), Some(&value), "{name}"),
            Err(_) => out.failed += 1,
        }
    }
    match attr.kind {
        Kind::File => {
            assert_eq!(attr.size, seen.contents.len() as u64, "{name}");
            let mut at = 0;
            while at < seen.contents.len() {
                let pieces = fs.read(ino, at as u64, 1 << 20)?;
                for piece in &pieces {
                    assert_eq!(piece[..], seen.contents[at..at + piece.len()], "{name}");
                    at += piece.len();
                }
                assert!(!pieces.is_empty(), "{name} ends early");
            }
        }
        Kind::Symlink => assert_eq!(fs.readlink(ino)?, seen.contents, "{name}"),
        Kind::Directory => {
            let mut children = Vec::new();
            fs.readdir(ino, 0, false, &mut |entry| {
                if entry.name != b"." && entry.name != b".." {
                    children.push((entry.name.to_vec(), entry.ino));
                }
                true
            })?;
            for (child, ino) in children {
                compare(fs, ino, &[path, b"/", &child].concat(), expected, out);
            }
        }
        _ => {}
    }
    Ok(())
}
