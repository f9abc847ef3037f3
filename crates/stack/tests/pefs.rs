//! Directories in the format of pefs, through the file system.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use cipher::{Digest, Random, SystemRandom};
use common::{caller, create, file_with, mkdir, names, read_name, refused};
use secret::Secret;
use serde_json::Value;
use stack::formats::pefs::{Algorithm, KeyId, PefsFormat, PefsKey, PefsMasterKey};
use stack::{Entry, Options, StackedDirectory};
use vfs::{Caller, Error, Fallocate, FileSystem, Ino, ROOT, RenameMode, SetAttr};

fn vectors() -> Value {
    serde_json::from_str(include_str!("pefs.json")).expect("JSON")
}

fn hex(value: &Value) -> Vec<u8> {
    let text = value.as_str().expect("a string");
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex"))
        .collect()
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    Digest::Sha256.hash(&[bytes]).to_vec()
}

/// The first bytes of what all the data of the vectors is cut from.
fn stream(label: &str, len: usize) -> Vec<u8> {
    let blocks = (0u32..).flat_map(|number| {
        let hash = Digest::Sha256.hash(&[label.as_bytes(), &number.to_le_bytes()]);
        hash.to_vec()
    });
    blocks.take(len).collect()
}

/// Gives every new file the same tweak.
struct Same(Vec<u8>);

impl Random for Same {
    fn fill(&self, out: &mut [u8]) -> cipher::Result<()> {
        out.copy_from_slice(&self.0);
        Ok(())
    }
}

fn format(random: Arc<dyn Random>, keys: Vec<(Vec<u8>, Algorithm)>) -> PefsFormat {
    let format = PefsFormat::new(random);
    for (master, algorithm) in keys {
        let master = Secret::from_slice(&master).expect("memory");
        let master = PefsMasterKey::new(master).expect("64 bytes");
        let key = PefsKey::new(&master, algorithm).expect("key");
        format.add_key(key).expect("another");
    }
    format
}

fn view(lower: &Path, format: PefsFormat) -> StackedDirectory<PefsFormat> {
    let lower = Entry::root(lower).expect("opened");
    StackedDirectory::new(lower, format, Options::default()).expect("a view")
}

/// With keys of these bytes.
fn view_with(lower: &Path, keys: &[u8]) -> StackedDirectory<PefsFormat> {
    let keys = keys
        .iter()
        .map(|byte| (vec![*byte; 64], Algorithm::default()));
    view(lower, format(Arc::new(SystemRandom), keys.collect()))
}

/// Writes and truncations as pefs does them: the same bytes in the view and in the lower file.
#[test]
fn writes_of_pefs() {
    let vectors = vectors();
    for vector in vectors["operations"].as_array().expect("a list") {
        let name = vector["key"].as_str().expect("a name");
        let key = hex(&vectors["keys"][name]["master"]);
        let algorithm = Algorithm::from_name(name).expect("an algorithm");
        let lower = tempfile::tempdir().expect("a directory");
        let random = Arc::new(Same(hex(&vector["tweak"])));
        let fs = view(lower.path(), format(random, vec![(key, algorithm)]));
        let ino = create(&fs, ROOT, "file").expect("created").ino;
        for (number, operation) in vector["ops"].as_array().expect("a list").iter().enumerate() {
            let argument = |at: usize| operation[at].as_u64().expect("a number");
            let label = format!(
                "{}/{number}",
                vector["stream_prefix"].as_str().expect("label")
            );
            let done = match operation[0].as_str().expect("a name") {
                "truncate" => {
                    let size = Some(argument(1));
                    let set = SetAttr {
                        size,
                        ..SetAttr::default()
                    };
                    fs.setattr(&Caller::default(), ino, &set).map(drop)
                }
                "zeros" => fs.write(ino, argument(1), &vec![0; argument(2) as usize], false),
                _ => {
                    let data = stream(&label, argument(2) as usize);
                    fs.write(ino, argument(1), &data, false)
                }
            };
            done.expect("done");
        }
        let plain = read_name(&fs, "file").expect("read");
        assert_eq!(sha256(&plain), hex(&vector["plain_sha256"]), "{vector}");
        let stored = fs::read_dir(lower.path()).expect("listed").next();
        let stored = fs::read(stored.expect("one").expect("entry").path()).expect("read");
        assert_eq!(sha256(&stored), hex(&vector["cipher_sha256"]), "{vector}");
    }
}

#[test]
fn names_links_and_moves() {
    let lower = tempfile::tempdir().expect("a directory");
    let fs = view_with(lower.path(), &[1]);
    let dir = mkdir(&fs, ROOT, "dir").expect("made").ino;
    let ino = file_with(&fs, "one", b"contents");
    fs.symlink(&caller(), dir, b"link", b"../one")
        .expect("made");
    fs.link(ino, dir, b"hard").expect("linked");
    fs.rename(ROOT, b"one", dir, b"two", RenameMode::Replace)
        .expect("moved");
    let other = file_with(&fs, "other", b"longer contents");
    fs.rename(dir, b"two", ROOT, b"other", RenameMode::Replace)
        .expect("replaced");
    assert_ne!(other, ino);
    refused(create(&fs, ROOT, &"n".repeat(169)), Error::NameTooLong);
    drop(fs);

    let fs = view_with(lower.path(), &[1]);
    assert_eq!(names(&fs, ROOT), ["dir", "other"]);
    assert_eq!(read_name(&fs, "other").expect("read"), b"contents");
    let dir = fs.lookup(ROOT, b"dir").expect("found").ino;
    assert_eq!(names(&fs, dir), ["hard", "link"]);
    let link = fs.lookup(dir, b"link").expect("found").ino;
    assert_eq!(fs.readlink(link).expect("target"), b"../one");
    for name in [&b"hard"[..], b"link"] {
        fs.unlink(dir, name).expect("removed");
    }
    fs.rmdir(ROOT, b"dir").expect("removed");
    fs.unlink(ROOT, b"other").expect("removed");
    assert_eq!(fs::read_dir(lower.path()).expect("listed").count(), 0);
}

#[test]
fn several_keys_and_none() {
    let lower = tempfile::tempdir().expect("a directory");
    let first = view_with(lower.path(), &[1]);
    mkdir(&first, ROOT, "of one").expect("made");
    file_with(&first, "one", b"first");
    let second = view_with(lower.path(), &[2]);
    file_with(&second, "two", b"second");
    fs::write(lower.path().join("plain"), b"clear").expect("written");
    drop((first, second));

    let both = view_with(lower.path(), &[2, 1]);
    assert_eq!(names(&both, ROOT), ["of one", "one", "plain", "two"]);
    assert_eq!(read_name(&both, "one").expect("read"), b"first");
    assert_eq!(read_name(&both, "two").expect("read"), b"second");
    assert_eq!(read_name(&both, "plain").expect("read"), b"clear");
    // A directory has its key for what is made in it; what has another does not enter.
    let dir = both.lookup(ROOT, b"of one").expect("found").ino;
    create(&both, dir, "inside").expect("made");
    let moved = both.rename(ROOT, b"two", dir, b"two", RenameMode::Replace);
    refused(moved, Error::CrossDevice);
    drop(both);

    let first = view_with(lower.path(), &[1]);
    let dir = first.lookup(ROOT, b"of one").expect("found").ino;
    assert_eq!(names(&first, dir), ["inside"]);
    drop(first);

    // Without a key: as it is stored, and no change.
    let none = view_with(lower.path(), &[]);
    let stored = names(&none, ROOT);
    assert_eq!(stored.len(), 4);
    assert_eq!(
        stored.iter().filter(|name| name.starts_with('.')).count(),
        3
    );
    assert_eq!(read_name(&none, "plain").expect("read"), b"clear");
    refused(create(&none, ROOT, "new"), Error::ReadOnly);
}

fn add(view: &StackedDirectory<PefsFormat>, byte: u8) -> KeyId {
    let master = PefsMasterKey::new(Secret::from_slice(&[byte; 64]).expect("memory"));
    let key = PefsKey::new(&master.expect("64 bytes"), Algorithm::default()).expect("key");
    let id = key.id();
    view.format().add_key(key).expect("another");
    id
}

fn bytes_of(view: &StackedDirectory<PefsFormat>, ino: Ino) -> Vec<u8> {
    common::read(view, ino).expect("read")
}

/// The stored names that the root has.
fn stored(lower: &Path) -> Vec<Vec<u8>> {
    let listed = fs::read_dir(lower).expect("listed");
    let names = listed.map(|entry| entry.expect("entry").file_name().into_encoded_bytes());
    names.collect()
}

#[test]
fn files_while_keys_come_and_go() {
    let lower = tempfile::tempdir().expect("a directory");
    file_with(&view_with(lower.path(), &[1]), "file", b"some text");
    let name = &stored(lower.path())[0];
    let ciphertext = fs::read(lower.path().join(OsStr::from_bytes(name))).expect("read");

    // Without a key: as it is stored, and nothing can be changed.
    let view = view_with(lower.path(), &[]);
    let raw = view.lookup(ROOT, name).expect("by its stored name");
    assert_eq!(bytes_of(&view, raw.ino), ciphertext);
    assert_eq!(view.write(raw.ino, 0, b"x", false), Err(Error::ReadOnly));
    assert_eq!(view.unlink(ROOT, name), Err(Error::ReadOnly));
    assert_eq!(view.generation(&raw), 0);

    // With its key it is something else, of the same number.
    let first = add(&view, 1);
    refused(view.lookup(ROOT, name), Error::NotFound);
    let open = view.lookup(ROOT, b"file").expect("by its name");
    assert_eq!((open.ino, view.generation(&open)), (raw.ino, 1));
    assert_eq!(bytes_of(&view, open.ino), b"some text");
    // What has the key stays as it is when another one comes.
    add(&view, 2);
    view.lookup(ROOT, b"file").expect("again");
    assert_eq!(view.generation(&open), 1);
    assert_eq!(view.with_contents(|node| node.is_under(first)), [open.ino]);

    // The key goes, from what is open too. The stored bytes do not mix with clear text.
    view.format().remove_key(first).expect("it is there");
    refused(view.read(open.ino, 0, 9), Error::NoKey);
    assert_eq!(view.write(open.ino, 0, b"clear", false), Err(Error::NoKey));
    let raw = view.lookup(ROOT, name).expect("by its stored name");
    assert_eq!(view.generation(&raw), 2);
    assert_eq!(bytes_of(&view, raw.ino), ciphertext);
    assert_eq!(
        view.write(raw.ino, 0, b"clear", false),
        Err(Error::ReadOnly)
    );
    let empty = SetAttr {
        size: Some(0),
        ..SetAttr::default()
    };
    refused(view.setattr(&caller(), raw.ino, &empty), Error::ReadOnly);
    let punch = view.fallocate(raw.ino, 0, 9, Fallocate::Punch);
    assert_eq!(punch, Err(Error::ReadOnly));

    add(&view, 1);
    let open = view.lookup(ROOT, b"file").expect("by its name");
    assert_eq!(view.generation(&open), 3);
    assert_eq!(bytes_of(&view, open.ino), b"some text");
}

#[test]
fn a_directory_gets_another_key() {
    let lower = tempfile::tempdir().expect("a directory");
    fs::create_dir(lower.path().join("plain")).expect("made");
    let view = view_with(lower.path(), &[1, 2]);
    let ids: Vec<KeyId> = view.format().keys().iter().map(|key| key.id()).collect();
    let dir = mkdir(&view, ROOT, "dir").expect("made").ino;
    create(&view, dir, "old").expect("made");
    let mut before = stored(lower.path());
    before.retain(|name| name != b"plain");
    let set = |name: &[u8], id: KeyId| {
        let format = view.format();
        view.remake_directory(ROOT, name, |node| format.under_key(node, id, name))
    };
    assert_eq!(set(b"dir", ids[0]), Err(Error::Invalid));
    assert_eq!(set(b"dir", KeyId([9; 8])), Err(Error::NotFound));
    assert_eq!(set(b"none", ids[1]), Err(Error::NotFound));
    file_with(&view, "file", b"");
    assert_eq!(set(b"file", ids[1]), Err(Error::NotDirectory));
    assert_eq!(set(b"plain", ids[1]), Err(Error::Invalid));

    set(b"dir", ids[1]).expect("set");
    assert!(!stored(lower.path()).contains(&before[0]));
    // To a program that has it open it is the same directory.
    let found = view.lookup(ROOT, b"dir").expect("by its name");
    assert_eq!((found.ino, view.generation(&found)), (dir, 0));
    create(&view, dir, "new").expect("made");
    let key_of = |name: &[u8]| {
        let attr = view.lookup(dir, name).expect("found");
        let key = view.with_node(attr.ino, |node| node.key().map(|key| key.id()));
        key.expect("known").expect("a key")
    };
    assert_eq!((key_of(b"old"), key_of(b"new")), (ids[0], ids[1]));
}

/// A stored name of 169 bytes would have 268. Nothing is left of one.
#[test]
fn long_names_are_refused() {
    let lower = tempfile::tempdir().expect("a directory");
    let fs = view_with(lower.path(), &[1]);
    let dir = mkdir(&fs, ROOT, "dir").expect("made").ino;
    let file = file_with(&fs, "file", b"text");
    let longest = "n".repeat(168);
    create(&fs, dir, &longest).expect("made");
    fs.unlink(dir, longest.as_bytes()).expect("removed");
    for len in [169, 200, 255] {
        let name = "n".repeat(len);
        let bytes = name.as_bytes();
        for parent in [ROOT, dir] {
            refused(create(&fs, parent, &name), Error::NameTooLong);
            refused(mkdir(&fs, parent, &name), Error::NameTooLong);
            let made = fs.symlink(&caller(), parent, bytes, b"target");
            refused(made, Error::NameTooLong);
            refused(fs.link(file, parent, bytes), Error::NameTooLong);
            for mode in [RenameMode::Replace, RenameMode::NoReplace] {
                let moved = fs.rename(ROOT, b"file", parent, bytes, mode);
                refused(moved, Error::NameTooLong);
            }
        }
    }
    assert_eq!(names(&fs, ROOT), ["dir", "file"]);
    assert!(names(&fs, dir).is_empty());
    assert_eq!(fs::read_dir(lower.path()).expect("listed").count(), 2);
}
