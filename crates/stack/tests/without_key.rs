//! A lower directory without its key: what Linux allows.

mod common;

use common::{Lower, caller, create, file_with, mkdir, names, policy, read, refused};
use vfs::{Error, FileSystem, Kind, NewNode, ROOT, RenameMode, SetAttr};

fn prepared() -> Lower {
    let lower = Lower::new(&policy());
    let fs = lower.view();
    file_with(&fs, "short", b"contents");
    file_with(&fs, &"x".repeat(200), b"contents of a long name");
    mkdir(&fs, ROOT, "dir").expect("made");
    fs.symlink(&caller(), ROOT, b"link", b"target")
        .expect("linked");
    lower
}

#[test]
fn names_are_listed_and_found() {
    let lower = prepared();
    let fs = lower.locked();
    let names = names(&fs, ROOT);
    assert_eq!(names.len(), 4);
    // 189 bytes at most, in base64url.
    assert_eq!(names.iter().map(String::len).max(), Some(252));
    let mut kinds = Vec::new();
    for name in &names {
        let found = fs.lookup(ROOT, name.as_bytes()).expect("found");
        kinds.push(found.kind);
        match found.kind {
            Kind::File => refused(read(&fs, found.ino), Error::NoKey),
            Kind::Symlink => assert_ne!(fs.readlink(found.ino).expect("read"), b"target"),
            _ => assert_eq!(common::names(&fs, found.ino).len(), 0),
        }
    }
    kinds.sort_by_key(|kind| kind.bits());
    assert_eq!(
        kinds,
        [Kind::Directory, Kind::File, Kind::File, Kind::Symlink]
    );
    refused(fs.lookup(ROOT, b"short"), Error::NotFound);
    refused(
        lower.view().lookup(ROOT, names[0].as_bytes()),
        Error::NotFound,
    );
}

#[test]
fn nothing_is_made_or_changed() {
    let lower = prepared();
    let fs = lower.locked();
    let names = names(&fs, ROOT);
    refused(create(&fs, ROOT, "new"), Error::NoKey);
    refused(mkdir(&fs, ROOT, "new"), Error::NoKey);
    refused(fs.symlink(&caller(), ROOT, b"new", b"x"), Error::NoKey);
    let new = NewNode::new(Kind::File, 0o600);
    refused(fs.tmpfile(&caller(), ROOT, &new), Error::NoKey);
    for name in &names {
        let found = fs.lookup(ROOT, name.as_bytes()).expect("found");
        let renamed = fs.rename(ROOT, name.as_bytes(), ROOT, b"new", RenameMode::Replace);
        assert!(
            matches!(renamed, Err(Error::NoKey | Error::NotFound)),
            "{renamed:?}"
        );
        if found.kind == Kind::File {
            refused(fs.link(found.ino, ROOT, b"new"), Error::NoKey);
            refused(fs.write(found.ino, 0, b"x", false), Error::NoKey);
            for size in [0, 1, 10_000] {
                let set = SetAttr {
                    size: Some(size),
                    ..SetAttr::default()
                };
                refused(fs.setattr(&caller(), found.ino, &set), Error::NoKey);
            }
        }
    }
    assert_eq!(
        common::read_name(&lower.view(), "short").expect("read"),
        b"contents"
    );
}

#[test]
fn modes_change_and_names_go() {
    let lower = prepared();
    let fs = lower.locked();
    for name in names(&fs, ROOT) {
        let found = fs.lookup(ROOT, name.as_bytes()).expect("found");
        match found.kind {
            Kind::Directory => fs.rmdir(ROOT, name.as_bytes()).expect("removed"),
            kind => {
                if kind == Kind::File {
                    let set = SetAttr {
                        mode: Some(0o600),
                        ..SetAttr::default()
                    };
                    fs.setattr(&caller(), found.ino, &set).expect("changed");
                }
                fs.unlink(ROOT, name.as_bytes()).expect("removed");
            }
        }
    }
    assert!(lower.entries().is_empty(), "{:?}", lower.entries());
}
