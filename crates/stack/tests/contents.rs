//! Contents against a model, and the order of changes.

mod common;

use common::changes::{Numbers, change, truncate};
use common::{Lower, file_with, policies, policy, read, refused};
use stack::Options;
use vfs::{Error, Fallocate, FileSystem, ROOT, Seek};

#[test]
fn random_changes_match_a_model() {
    for (seed, policy) in policies().iter().enumerate() {
        let lower = Lower::new(policy);
        let mut numbers = Numbers(0x9e37_79b9 + seed as u64);
        let mut fs = lower.view();
        let mut ino = file_with(&fs, "file", b"");
        let mut model = Vec::new();
        for step in 0..600 {
            change(&fs, ino, &mut model, &mut numbers);
            if step % 97 == 0 {
                fs = lower.view();
                ino = fs.lookup(ROOT, b"file").expect("found").ino;
            }
            let size = fs.getattr(ino).expect("known").size;
            assert_eq!(size, model.len() as u64, "{policy:?}, step {step}");
            let offset = numbers.below(6 * 4096);
            let len = numbers.below(2 * 4096);
            let got = fs.read(ino, offset, len as u32).expect("read").concat();
            let start = model.len().min(offset as usize);
            let end = model.len().min((offset + len) as usize);
            assert_eq!(got, model[start..end], "{policy:?}, step {step}");
            if step % 20 == 0 {
                assert_eq!(
                    read(&fs, ino).expect("read"),
                    model,
                    "{policy:?}, step {step}"
                );
            }
        }
    }
}

/// Changes by another view are seen, whatever this view has found out about a file.
#[test]
fn changes_of_another_view_are_seen() {
    let lower = Lower::new(&policy());
    let options = |brief| Options {
        shared: true,
        brief,
        ..Options::default()
    };
    for brief in [true, false] {
        let (a, b) = (lower.view_as(options(brief)), lower.view_as(options(brief)));
        let name = format!("file-{brief}");
        let ino = file_with(&a, &name, &[1; 5000]);
        let other = b.lookup(ROOT, name.as_bytes()).expect("found").ino;
        let model = |len: usize| [1; 9000][..len].to_vec();
        assert_eq!(read(&a, ino).expect("read"), model(5000));
        // At the end and within one unit; then by units; then cut, and the same length with other bytes.
        b.write(other, 5000, &[1; 1000], false).expect("written");
        assert_eq!(read(&a, ino).expect("read"), model(6000), "brief: {brief}");
        b.write(other, 6000, &[1; 3000], false).expect("written");
        assert_eq!(read(&a, ino).expect("read"), model(9000), "brief: {brief}");
        truncate(&b, other, 100).expect("cut");
        assert!(a.read(ino, 4096, 4096).expect("read").concat().is_empty());
        assert_eq!(a.getattr(ino).expect("known").size, 100);
        assert_eq!(read(&a, ino).expect("read"), model(100), "brief: {brief}");
        b.write(other, 0, &[2; 100], false).expect("written");
        assert_eq!(a.read(ino, 0, 100).expect("read").concat(), [2; 100]);
        // Within a unit the end is seen when the file is opened, or asked for its size.
        truncate(&b, other, 50).expect("cut");
        a.opened(ino, false).expect("opened");
        assert_eq!(a.read(ino, 0, 100).expect("read").concat(), [2; 50]);
    }
}

#[test]
fn holes_stay_holes() {
    let lower = Lower::new(&policy());
    let fs = lower.view();
    let ino = file_with(&fs, "sparse", b"");
    fs.write(ino, 10 << 20, b"end", false).expect("written");
    assert!(fs.getattr(ino).expect("known").blocks <= 32);
    assert_eq!(fs.seek(ino, 0, Seek::Data).expect("found"), 10 << 20);
    assert_eq!(fs.seek(ino, 0, Seek::Hole).expect("found"), 0);
    let end = (10 << 20) + 3;
    assert_eq!(fs.seek(ino, 10 << 20, Seek::Hole).expect("found"), end);
    refused(fs.seek(ino, end, Seek::Data), Error::NoSuchAddress);
    truncate(&fs, ino, 100 << 20).expect("extended");
    truncate(&fs, ino, (100 << 20) + 7).expect("extended");
    assert!(fs.getattr(ino).expect("known").blocks <= 32);
    assert_eq!(fs.read(ino, 50 << 20, 9).expect("read").concat(), [0; 9]);
    fs.write(ino, 0, &[1; 3 * 4096], false).expect("written");
    fs.fallocate(ino, 4096, 4096, Fallocate::Punch)
        .expect("punched");
    assert_eq!(fs.seek(ino, 0, Seek::Hole).expect("found"), 4096);
}

#[test]
fn equal_files_differ() {
    let lower = Lower::new(&policy());
    let fs = lower.view();
    file_with(&fs, "a", &[1; 4096]);
    file_with(&fs, "b", &[1; 4096]);
    let files: Vec<_> = lower
        .entries()
        .iter()
        .map(|path| std::fs::read(path).expect("read"))
        .collect();
    assert_ne!(files[0], files[1]);
}

fn stored_size(path: &std::path::Path) -> Option<u64> {
    let mut value = [0; 8];
    let name = common::SPACE.size();
    rustix::fs::getxattr(path, name, &mut value[..]).ok()?;
    Some(u64::from_le_bytes(value))
}

fn store_size(path: &std::path::Path, size: u64) {
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(path, common::SPACE.size(), &size.to_le_bytes(), flags).expect("set");
}

/// A cut between the data and the size of a growing file: the old size, with the old bytes; and what
/// was written is not seen again when the file grows.
#[test]
fn cut_while_growing() {
    let lower = Lower::new(&policy());
    let fs = lower.view();
    let ino = file_with(&fs, "file", &[1; 5000]);
    fs.write(ino, 5000, &[2; 20_000], false).expect("written");
    assert_eq!(stored_size(&lower.single()), Some(25_000));
    store_size(&lower.single(), 5000);
    let fs = lower.view();
    let ino = fs.lookup(ROOT, b"file").expect("found").ino;
    assert_eq!(read(&fs, ino).expect("read"), [1; 5000]);
    truncate(&fs, ino, 25_000).expect("extended");
    let grown = read(&fs, ino).expect("read");
    assert_eq!(grown[..5000], [1; 5000]);
    assert!(grown[5000..].iter().all(|byte| *byte == 0));
}

/// The same for the first bytes of a file, whose size is not there yet.
#[test]
fn cut_before_the_first_size() {
    let lower = Lower::new(&policy());
    let fs = lower.view();
    file_with(&fs, "file", &[1; 5000]);
    rustix::fs::removexattr(lower.single(), common::SPACE.size()).expect("removed");
    let fs = lower.view();
    let ino = fs.lookup(ROOT, b"file").expect("found").ino;
    assert_eq!(read(&fs, ino).expect("read"), b"");
    fs.write(ino, 6000, b"x", false).expect("written");
    let grown = read(&fs, ino).expect("read");
    assert!(grown[..6000].iter().all(|byte| *byte == 0));
}

/// A cut between the size and the data of a shrinking file, and then a write past the end.
#[test]
fn cut_while_shrinking() {
    for next in [5000, 6000, 9000] {
        let lower = Lower::new(&policy());
        let fs = lower.view();
        file_with(&fs, "file", &[1; 20_000]);
        store_size(&lower.single(), 4999);
        let fs = lower.view();
        let ino = fs.lookup(ROOT, b"file").expect("found").ino;
        assert_eq!(read(&fs, ino).expect("read"), [1; 4999]);
        fs.write(ino, next, b"x", false).expect("written");
        let grown = read(&fs, ino).expect("read");
        assert_eq!(grown.len() as u64, next + 1);
        assert!(
            grown[4999..next as usize].iter().all(|byte| *byte == 0),
            "{next}"
        );
    }
}

/// Changes of a lower file by a server are errors.
#[test]
fn a_damaged_lower_file_is_an_error() {
    let lower = Lower::new(&policy());
    file_with(&lower.view(), "file", &[1; 20_000]);
    let path = lower.single();
    let read_anew = || {
        let fs = lower.view();
        let ino = fs.lookup(ROOT, b"file")?.ino;
        read(&fs, ino)
    };
    // Cut: as a power cut leaves a file whose size is there and whose data is not.
    let file = std::fs::File::options()
        .write(true)
        .open(&path)
        .expect("opened");
    file.set_len(8192).expect("cut");
    assert_eq!(read_anew().expect("read"), [1; 8192]);
    store_size(&path, u64::MAX);
    assert_eq!(read_anew().expect("read"), [1; 8192]);
    rustix::fs::setxattr(
        &path,
        common::SPACE.size(),
        b"short",
        rustix::fs::XattrFlags::empty(),
    )
    .expect("set");
    refused(read_anew(), Error::Io);
    store_size(&path, 10);
    assert_eq!(read_anew().expect("read"), [1; 10]);
    // A context of another policy, one that cannot be, and none.
    let context = common::SPACE.context();
    let mut bytes = [0; 40];
    rustix::fs::getxattr(&path, context, &mut bytes[..]).expect("there");
    let set = |bytes: &[u8]| {
        rustix::fs::setxattr(&path, context, bytes, rustix::fs::XattrFlags::empty()).expect("set");
    };
    bytes[3] ^= 1;
    set(&bytes);
    refused(read_anew(), Error::NotPermitted);
    set(&bytes[..39]);
    refused(read_anew(), Error::Io);
    rustix::fs::removexattr(&path, context).expect("removed");
    refused(read_anew(), Error::Io);
    // A name that does not decode is hidden.
    std::fs::rename(&path, lower.path().join("plain.txt")).expect("renamed");
    assert_eq!(common::names(&lower.view(), ROOT), Vec::<String>::new());
}
