//! Making, finding, renaming and removing names.

mod common;

use common::{
    Lower, caller, create, file_with, mkdir, names, policies, policy, read_name, refused,
};
use vfs::{Error, FileSystem, Kind, NewNode, ROOT, RenameMode, SetAttr};

/// A name that the lower directory holds in no form.
fn long() -> String {
    "é".repeat(127) + "x"
}

#[test]
fn what_is_made_is_found_by_the_next_view() {
    for policy in policies() {
        let lower = Lower::new(&policy);
        let fs = lower.view();
        file_with(&fs, "a", b"contents of a");
        file_with(&fs, &long(), b"contents of the long one");
        let dir = mkdir(&fs, ROOT, "dir").expect("made").ino;
        create(&fs, dir, "inside").expect("created");
        fs.symlink(&caller(), ROOT, b"link", b"dir/inside")
            .expect("linked");
        fs.mknod(&caller(), ROOT, b"pipe", &NewNode::new(Kind::Fifo, 0o600))
            .expect("made");

        let fs = lower.view();
        assert_eq!(names(&fs, ROOT), ["a", "dir", "link", "pipe", &long()]);
        assert_eq!(read_name(&fs, "a").expect("read"), b"contents of a");
        assert_eq!(
            read_name(&fs, &long()).expect("read"),
            b"contents of the long one"
        );
        let dir = fs.lookup(ROOT, b"dir").expect("found");
        assert_eq!((dir.kind, dir.mode), (Kind::Directory, 0o755));
        assert_eq!(names(&fs, dir.ino), ["inside"]);
        let link = fs.lookup(ROOT, b"link").expect("found");
        assert_eq!((link.kind, link.size), (Kind::Symlink, 10));
        assert_eq!(fs.readlink(link.ino).expect("read"), b"dir/inside");
        assert_eq!(fs.lookup(ROOT, b"pipe").expect("found").kind, Kind::Fifo);
    }
}

#[test]
fn nothing_in_the_lower_directory_is_plain() {
    let lower = Lower::new(&policy());
    let fs = lower.view();
    let text = b"Plain text that must not be seen, and again: Plain text".repeat(200);
    file_with(&fs, "telling name", &text);
    mkdir(&fs, ROOT, "telling dir").expect("made");
    fs.symlink(&caller(), ROOT, b"telling link", b"telling target")
        .expect("linked");
    for path in lower.entries() {
        let name = path.file_name().expect("a name").as_encoded_bytes();
        assert!(!name.windows(4).any(|part| part == b"tell"), "{path:?}");
        if path.is_symlink() {
            let target = std::fs::read_link(&path).expect("read");
            assert!(!target.to_string_lossy().contains("tell"));
        } else if path.is_file() {
            let bytes = std::fs::read(&path).expect("read");
            assert_eq!(bytes.len(), text.len().next_multiple_of(4096));
            assert!(!bytes.windows(5).any(|part| part == b"Plain"));
        }
    }
}

#[test]
fn removing() {
    let lower = Lower::new(&policy());
    let fs = lower.view();
    file_with(&fs, &long(), b"x");
    let dir = mkdir(&fs, ROOT, "dir").expect("made").ino;
    create(&fs, dir, "inside").expect("created");
    refused(fs.rmdir(ROOT, b"dir"), Error::NotEmpty);
    refused(fs.unlink(ROOT, b"dir"), Error::IsDirectory);
    refused(fs.rmdir(ROOT, long().as_bytes()), Error::NotDirectory);
    refused(fs.unlink(ROOT, b"none"), Error::NotFound);
    fs.unlink(dir, b"inside").expect("removed");
    fs.rmdir(ROOT, b"dir").expect("removed");
    fs.unlink(ROOT, long().as_bytes()).expect("removed");
    // The file with the long name has gone too.
    assert!(lower.entries().is_empty(), "{:?}", lower.entries());
}

/// An inode that is open lives on without its name.
#[test]
fn removed_and_still_in_use() {
    let lower = Lower::new(&policy());
    let fs = lower.view();
    let ino = file_with(&fs, "a", b"still there");
    fs.unlink(ROOT, b"a").expect("removed");
    assert_eq!(common::read(&fs, ino).expect("read"), b"still there");
    fs.write(ino, 5, b"!", false).expect("written");
    assert_eq!(fs.getattr(ino).expect("known").nlink, 0);
    fs.forget(ino, 1);
    refused(fs.getattr(ino), Error::Stale);
}

#[test]
fn renaming() {
    for to in ["b", &long()] {
        let lower = Lower::new(&policy());
        let fs = lower.view();
        file_with(&fs, "a", b"of a");
        file_with(&fs, to, b"of b");
        let (a, b) = (b"a", to.as_bytes());
        let dir = mkdir(&fs, ROOT, "dir").expect("made").ino;
        refused(
            fs.rename(ROOT, a, ROOT, b, RenameMode::NoReplace),
            Error::Exists,
        );
        refused(
            fs.rename(ROOT, b"no", ROOT, b, RenameMode::Replace),
            Error::NotFound,
        );
        refused(
            fs.rename(ROOT, a, ROOT, b"no", RenameMode::Exchange),
            Error::NotFound,
        );
        refused(
            fs.rename(ROOT, a, ROOT, b"dir", RenameMode::Replace),
            Error::IsDirectory,
        );
        refused(
            fs.rename(ROOT, b"dir", ROOT, a, RenameMode::Replace),
            Error::NotDirectory,
        );
        fs.rename(ROOT, a, ROOT, b, RenameMode::Exchange)
            .expect("exchanged");
        assert_eq!(read_name(&fs, "a").expect("read"), b"of b");
        assert_eq!(read_name(&fs, to).expect("read"), b"of a");
        fs.rename(ROOT, b, dir, b, RenameMode::NoReplace)
            .expect("moved");
        assert_eq!(names(&fs, dir), [to]);
        fs.rename(ROOT, a, dir, b, RenameMode::Replace)
            .expect("replaced");
        let view = lower.view();
        assert_eq!(names(&view, ROOT), ["dir"]);
        let dir = view.lookup(ROOT, b"dir").expect("found").ino;
        let ino = view.lookup(dir, b).expect("found").ino;
        assert_eq!(common::read(&view, ino).expect("read"), b"of b");
    }
}

#[test]
fn hard_links() {
    let lower = Lower::new(&policy());
    let fs = lower.view();
    let ino = file_with(&fs, "a", b"one file");
    let linked = fs.link(ino, ROOT, b"b").expect("linked");
    assert_eq!((linked.ino, linked.nlink), (ino, 2));
    refused(fs.link(ino, ROOT, b"b"), Error::Exists);
    // Of two names of one file, a rename keeps both.
    fs.rename(ROOT, b"a", ROOT, b"b", RenameMode::Replace)
        .expect("nothing to do");
    assert_eq!(names(&fs, ROOT), ["a", "b"]);
    fs.unlink(ROOT, b"a").expect("removed");
    assert_eq!(read_name(&fs, "b").expect("read"), b"one file");
}

#[test]
fn a_file_without_a_name_gets_one() {
    let lower = Lower::new(&policy());
    let fs = lower.view();
    let new = NewNode::new(Kind::File, 0o600);
    let ino = fs.tmpfile(&caller(), ROOT, &new).expect("made").ino;
    fs.write(ino, 0, b"text", false).expect("written");
    assert!(lower.entries().is_empty());
    fs.link(ino, ROOT, b"named").expect("linked");
    assert_eq!(read_name(&lower.view(), "named").expect("read"), b"text");
}

#[test]
fn limits() {
    let lower = Lower::new(&policy());
    let fs = lower.view();
    create(&fs, ROOT, &"x".repeat(255)).expect("created");
    refused(create(&fs, ROOT, &"x".repeat(256)), Error::NameTooLong);
    refused(create(&fs, ROOT, &"x".repeat(255)), Error::Exists);
    let target = vec![b't'; 3029];
    let link = fs
        .symlink(&caller(), ROOT, b"link", &target)
        .expect("linked");
    assert_eq!(fs.readlink(link.ino).expect("read"), target);
    let target = vec![b't'; 3030];
    refused(
        fs.symlink(&caller(), ROOT, b"l", &target),
        Error::NameTooLong,
    );
}

/// A file that its owner may neither read nor write is found, sized and removed all the same.
#[test]
fn permissions_of_the_view_are_those_of_the_lower_file() {
    let lower = Lower::new(&policy());
    let fs = lower.view();
    let ino = file_with(&fs, "a", &[1; 5000]);
    let none = SetAttr {
        mode: Some(0),
        ..SetAttr::default()
    };
    assert_eq!(fs.setattr(&caller(), ino, &none).expect("changed").mode, 0);
    fs.write(ino, 5000, b"more", false).expect("written");
    let attr = lower.view().lookup(ROOT, b"a").expect("found");
    assert_eq!((attr.mode, attr.size), (0, 5004));
}

#[test]
fn attributes_of_the_format_are_not_those_of_the_view() {
    let lower = Lower::new(&policy());
    let fs = lower.view();
    let ino = file_with(&fs, "a", b"x");
    let how = vfs::SetXattr::default();
    fs.setxattr(ino, b"user.mine", b"value", how).expect("set");
    assert_eq!(fs.listxattr(ino).expect("listed"), [b"user.mine"]);
    assert_eq!(fs.getxattr(ino, b"user.mine").expect("there"), b"value");
    for own in [common::SPACE.context(), common::SPACE.size()] {
        refused(fs.getxattr(ino, own.as_bytes()), Error::NoAttribute);
        refused(
            fs.setxattr(ino, own.as_bytes(), b"", how),
            Error::NotPermitted,
        );
        refused(fs.removexattr(ino, own.as_bytes()), Error::NotPermitted);
    }
    fs.removexattr(ino, b"user.mine").expect("removed");
    refused(fs.getxattr(ino, b"user.mine"), Error::NoAttribute);
}
