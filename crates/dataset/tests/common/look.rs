//! Looking at a file system, in all the ways there are.

use std::collections::BTreeMap;

use vfs::{Error, FileSystem, Ino, Kind, ROOT, Result, Seek};

use super::model::{Picture, Seen};

/// Looks at everything in a file system, and checks that different ways of looking agree.
pub fn look(fs: &dyn FileSystem) -> Result<Picture> {
    look_from(fs, ROOT)
}

/// Does the same as [`look`], at what is below a directory.
pub fn look_from(fs: &dyn FileSystem, dir: Ino) -> Result<Picture> {
    let mut picture = Picture::new();
    look_below(fs, dir, b"", &mut picture)?;
    Ok(picture)
}

pub fn read_all(fs: &dyn FileSystem, ino: Ino, offset: u64, len: u64) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut at = offset;
    while (all.len() as u64) < len {
        let want = (len - all.len() as u64).min(1 << 20) as u32;
        let before = all.len();
        for piece in fs.read(ino, at, want)? {
            all.extend_from_slice(&piece);
        }
        if all.len() == before {
            break;
        }
        at += (all.len() - before) as u64;
    }
    Ok(all)
}

fn look_below(fs: &dyn FileSystem, ino: Ino, path: &[u8], picture: &mut Picture) -> Result<()> {
    let attr = fs.getattr(ino)?;
    let contents = match attr.kind {
        Kind::File => {
            let contents = read_all(fs, ino, 0, attr.size + 1)?;
            assert_eq!(
                contents.len() as u64,
                attr.size,
                "{}",
                String::from_utf8_lossy(path)
            );
            check_holes(fs, ino, &contents)?;
            contents
        }
        Kind::Symlink => fs.readlink(ino)?,
        _ => Vec::new(),
    };
    let mut xattrs = BTreeMap::new();
    for name in fs.listxattr(ino)? {
        let value = fs.getxattr(ino, &name)?;
        xattrs.insert(name, value);
    }
    let seen = Seen {
        kind: attr.kind,
        mode: attr.mode,
        nlink: attr.nlink,
        contents,
        xattrs,
    };
    picture.insert(path.to_vec(), seen);
    if attr.kind == Kind::Directory {
        let children = list(fs, ino)?;
        assert_eq!(attr.size, children.len() as u64 + 2);
        for (name, child) in children {
            let found = fs.lookup(ino, &name)?;
            assert_eq!(found.ino, child);
            look_below(fs, child, &[path, b"/", &name].concat(), picture)?;
            fs.forget(child, 1);
        }
    }
    Ok(())
}

/// The names in a directory, a few at a time.
pub fn list(fs: &dyn FileSystem, ino: Ino) -> Result<BTreeMap<Vec<u8>, Ino>> {
    let mut all = BTreeMap::new();
    let mut cookie = 0;
    loop {
        let mut some = 0;
        fs.readdir(ino, cookie, false, &mut |entry| {
            if some == 3 {
                return false;
            }
            some += 1;
            cookie = entry.cookie;
            if entry.name != b"." && entry.name != b".." {
                let twice = all.insert(entry.name.to_vec(), entry.ino);
                assert!(twice.is_none(), "listed twice");
            }
            true
        })?;
        if some == 0 {
            return Ok(all);
        }
    }
}

/// Checks that holes of `seek` read as zeros, and that data and holes cover the file.
fn check_holes(fs: &dyn FileSystem, ino: Ino, contents: &[u8]) -> Result<()> {
    let size = contents.len() as u64;
    let mut at = 0;
    while at < size {
        let data = match fs.seek(ino, at, Seek::Data) {
            Ok(data) => data,
            Err(Error::NoSuchAddress) => size,
            Err(error) => return Err(error),
        };
        assert!(
            contents[at as usize..data as usize].iter().all(|b| *b == 0),
            "data in a hole"
        );
        if data == size {
            break;
        }
        let hole = fs.seek(ino, data, Seek::Hole)?;
        assert!(hole > data);
        at = hole;
    }
    Ok(())
}

/// The inode at a path, without a lookup left behind.
pub fn resolve(fs: &dyn FileSystem, path: &[u8]) -> Result<Ino> {
    resolve_from(fs, ROOT, path)
}

/// The inode at a path below a directory.
pub fn resolve_from(fs: &dyn FileSystem, from: Ino, path: &[u8]) -> Result<Ino> {
    let mut ino = from;
    for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
        ino = fs.lookup(ino, name)?.ino;
        fs.forget(ino, 1);
    }
    Ok(ino)
}
