//! Directories in the format of gocryptfs, through the file system, and gocryptfs' judgement of them.

mod common;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use cipher::{Random, SystemRandom};
use common::changes::{Numbers, change};
use common::{caller, create, file_with, mkdir, names, read, read_name, refused};
use secret::{Key, Secret};
use stack::formats::gocryptfs::{
    CONFIG_NAME, Config, ConfigError, ContentCipher, Features, GocryptfsFormat, NameFeatures,
};
use stack::{Entry, Options, StackedDirectory};
use vfs::{Caller, Error, FileSystem, Kind, NewNode, ROOT, RenameMode, Seek};

const PASSPHRASE: &[u8] = b"test passphrase";

fn passphrase() -> Secret {
    Secret::from_slice(PASSPHRASE).expect("memory")
}

/// Features that make files different.
fn variants() -> Vec<Features> {
    let with = |content| Features {
        content,
        ..Features::default()
    };
    let deterministic = NameFeatures {
        dir_iv: false,
        ..NameFeatures::default()
    };
    vec![
        Features::default(),
        with(ContentCipher::XChaCha20Poly1305),
        with(ContentCipher::AesSiv),
        Features {
            names: None,
            ..Features::default()
        },
        Features {
            names: Some(deterministic),
            ..Features::default()
        },
    ]
}

fn view(lower: &Path) -> StackedDirectory<GocryptfsFormat> {
    view_as(lower, Options::default())
}

fn view_as(lower: &Path, options: Options) -> StackedDirectory<GocryptfsFormat> {
    let config = fs::read(lower.join(CONFIG_NAME)).expect("read");
    let config = Config::decode(&config).expect("config");
    let master = config.unlock(&passphrase()).expect("passphrase");
    let format = GocryptfsFormat::new(&config, &master, Arc::new(SystemRandom)).expect("keys");
    let lower = Entry::root(lower).expect("opened");
    StackedDirectory::new(lower, format, options).expect("a view")
}

fn prepare(features: &Features, lower: &Path) {
    let random = SystemRandom;
    let master = Key::fill_with(|key| random.fill(key).map_err(ConfigError::from)).expect("key");
    let config = Config::create(features.clone(), &master, &passphrase(), 10, &random);
    let config = config.expect("config");
    let format = GocryptfsFormat::new(&config, &master, Arc::new(random)).expect("keys");
    for (name, contents) in format.new_directory().expect("IV").files {
        fs::write(lower.join(name), contents).expect("written");
    }
    fs::write(lower.join(CONFIG_NAME), config.encode()).expect("written");
}

/// The verdict of gocryptfs on a directory; nothing, with a line that says so, if it is not installed.
fn is_sound(lower: &Path) -> Option<bool> {
    let passfile = tempfile::NamedTempFile::new().expect("a file");
    fs::write(passfile.path(), PASSPHRASE).expect("written");
    let checked = Command::new("gocryptfs")
        .args(["-q", "-fsck", "-passfile"])
        .arg(passfile.path())
        .arg(lower)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match checked {
        Ok(status) => Some(status.success()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: gocryptfs is not installed");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn changes_of_files_as_a_model_has_them() {
    for features in variants() {
        let lower = tempfile::tempdir().expect("a directory");
        prepare(&features, lower.path());
        let fs = view(lower.path());
        let ino = create(&fs, ROOT, "file").expect("created").ino;
        let (mut model, mut numbers) = (Vec::new(), Numbers(7));
        for _ in 0..60 {
            change(&fs, ino, &mut model, &mut numbers);
            assert!(read(&fs, ino).expect("read") == model, "{features:?}");
        }
        drop(fs);
        let fs = view(lower.path());
        assert!(
            read_name(&fs, "file").expect("read") == model,
            "{features:?}"
        );
        assert_ne!(is_sound(lower.path()), Some(false), "{features:?}");
    }
}

#[test]
fn names_links_and_moves() {
    for features in variants() {
        let lower = tempfile::tempdir().expect("a directory");
        prepare(&features, lower.path());
        let fs = view(lower.path());
        let (long, longer) = ("l".repeat(200), "m".repeat(255));
        let dir = mkdir(&fs, ROOT, &long).expect("made").ino;
        let ino = file_with(&fs, "one", b"contents");
        fs.symlink(&caller(), dir, b"link", b"../one")
            .expect("made");
        fs.link(ino, dir, longer.as_bytes()).expect("linked");
        fs.rename(ROOT, b"one", dir, b"two", RenameMode::Replace)
            .expect("moved");
        file_with(&fs, &longer, b"other");
        fs.rename(dir, b"two", ROOT, longer.as_bytes(), RenameMode::Replace)
            .expect("replaced");
        mkdir(&fs, ROOT, "sub").expect("made");
        fs.rename(ROOT, long.as_bytes(), ROOT, b"short", RenameMode::NoReplace)
            .expect("moved");
        refused(create(&fs, ROOT, &"n".repeat(256)), Error::NameTooLong);
        refused(fs.lookup(ROOT, CONFIG_NAME.as_bytes()), Error::NotFound);
        assert_ne!(is_sound(lower.path()), Some(false), "{features:?}");
        drop(fs);

        let fs = view(lower.path());
        assert_eq!(names(&fs, ROOT), [&longer, "short", "sub"], "{features:?}");
        assert_eq!(read_name(&fs, &longer).expect("read"), b"contents");
        let dir = fs.lookup(ROOT, b"short").expect("found").ino;
        assert_eq!(names(&fs, dir), ["link", &longer]);
        let link = fs.lookup(dir, b"link").expect("found").ino;
        assert_eq!(fs.readlink(link).expect("target"), b"../one");
        refused(fs.rmdir(ROOT, b"short"), Error::NotEmpty);
        fs.unlink(dir, b"link").expect("removed");
        fs.unlink(dir, longer.as_bytes()).expect("removed");
        fs.unlink(ROOT, longer.as_bytes()).expect("removed");
        fs.rmdir(ROOT, b"short").expect("removed");
        fs.rmdir(ROOT, b"sub").expect("removed");
        // The configuration, and the IV of the root.
        let own = 1 + usize::from(features.names.is_some_and(|names| names.dir_iv));
        let left = fs::read_dir(lower.path()).expect("listed").count();
        assert_eq!(left, own, "{features:?}");
    }
}

#[test]
fn a_changed_file_is_an_error() {
    let lower = tempfile::tempdir().expect("a directory");
    prepare(&Features::default(), lower.path());
    let fs = view(lower.path());
    let before = entries(lower.path());
    let ino = file_with(&fs, "file", &[7; 10_000]);
    let stored = entries(lower.path());
    let stored = stored
        .iter()
        .find(|path| !before.contains(path))
        .expect("new");
    let mut bytes = fs::read(stored).expect("read");
    // In the second block.
    bytes[18 + 4128 + 100] ^= 1;
    fs::write(stored, &bytes).expect("written");
    assert_eq!(fs.read(ino, 0, 4096).expect("read").concat(), [7; 4096]);
    refused(fs.read(ino, 4096, 1), Error::Io);
    assert_ne!(is_sound(lower.path()), Some(true));
}

fn entries(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).expect("listed");
    entries.map(|entry| entry.expect("entry").path()).collect()
}

#[test]
fn what_would_be_hidden_gets_no_name() {
    let features = Features {
        names: None,
        ..Features::default()
    };
    let lower = tempfile::tempdir().expect("a directory");
    prepare(&features, lower.path());
    let fs = view(lower.path());
    let dir = mkdir(&fs, ROOT, "dir").expect("made").ino;
    // It would not be listed, and would go with its directory.
    let hidden = ".strongroom-new-mine";
    refused(create(&fs, dir, hidden), Error::NotPermitted);
    refused(mkdir(&fs, dir, hidden), Error::NotPermitted);
    let ino = create(&fs, dir, "file").expect("created").ino;
    refused(fs.link(ino, dir, hidden.as_bytes()), Error::NotPermitted);
    let moved = fs.rename(dir, b"file", dir, hidden.as_bytes(), RenameMode::Replace);
    refused(moved, Error::NotPermitted);
    fs::write(lower.path().join("dir").join(hidden), "").expect("written");
    refused(fs.lookup(dir, hidden.as_bytes()), Error::NotFound);
    assert_eq!(names(&fs, dir), ["file"]);
}

#[test]
fn a_long_name_that_cannot_be_read_hides_its_entry_only() {
    let lower = tempfile::tempdir().expect("a directory");
    prepare(&Features::default(), lower.path());
    let fs = view(lower.path());
    file_with(&fs, "short", b"contents");
    let before = entries(lower.path());
    file_with(&fs, &"l".repeat(200), b"contents");
    let name = entries(lower.path()).into_iter().find(|path| {
        !before.contains(path) && path.extension().is_some_and(|suffix| suffix == "name")
    });
    let name = name.expect("a file with the name");
    fs::remove_file(&name).expect("removed");
    let _socket = std::os::unix::net::UnixListener::bind(&name).expect("bound");
    assert_eq!(names(&fs, ROOT), ["short"]);
}

fn set(fs: &dyn FileSystem, ino: vfs::Ino, name: &str, value: &[u8]) -> vfs::Result<()> {
    fs.setxattr(ino, name.as_bytes(), value, vfs::SetXattr::default())
}

/// Names and values of the extended attributes of a lower file.
fn stored(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut names = vec![0; 4096];
    let len = rustix::fs::listxattr(path, &mut names[..]).expect("listed");
    let names = names[..len].split(|byte| *byte == 0);
    let value = |name: &str| {
        let mut value = vec![0; 4096];
        let len = rustix::fs::getxattr(path, name, &mut value[..]).expect("there");
        value.truncate(len);
        value
    };
    names
        .filter(|name| !name.is_empty())
        .map(|name| str::from_utf8(name).expect("text"))
        .map(|name| (name.to_owned(), value(name)))
        .collect()
}

#[test]
fn system_attributes_that_linux_does_not_know_are_refused() {
    let lower = tempfile::tempdir().expect("a directory");
    prepare(&Features::default(), lower.path());
    let fs = view(lower.path());
    let ino = create(&fs, ROOT, "file").expect("created").ino;
    refused(set(&fs, ino, "system.nfs4_acl", b"v"), Error::NotSupported);
    assert_eq!(fs.listxattr(ino), Ok(Vec::new()));
}

#[test]
fn attributes_are_encrypted() {
    for features in variants() {
        let lower = tempfile::tempdir().expect("a directory");
        prepare(&features, lower.path());
        let fs = view(lower.path());
        let before = entries(lower.path());
        let ino = create(&fs, ROOT, "file").expect("created").ino;
        let path = entries(lower.path());
        let path = path.iter().find(|path| !before.contains(path));
        let path = path.expect("new");

        let long = format!("user.{}", "n".repeat(150));
        let all: [(&str, &[u8]); 4] = [
            ("user.mine", b"my value"),
            ("user.empty", b""),
            ("security.other", b"label"),
            (&long, &[9; 1000]),
        ];
        for (name, value) in all {
            set(&fs, ino, name, value).expect("set");
        }
        for (name, value) in stored(path) {
            assert!(name.starts_with("user.gocryptfs."), "{name}");
            assert!(!name.contains("mine") && !value.windows(5).any(|part| part == b"value"));
        }
        drop(fs);

        let fs = view(lower.path());
        let ino = fs.lookup(ROOT, b"file").expect("found").ino;
        for (name, value) in all {
            assert_eq!(fs.getxattr(ino, name.as_bytes()).expect("there"), value);
        }
        let mut names = fs.listxattr(ino).expect("listed");
        names.sort();
        let mut expected = all.map(|(name, _)| name.as_bytes().to_vec());
        expected.sort();
        assert_eq!(names, expected, "{features:?}");
        let new = vfs::SetXattr {
            create: true,
            ..Default::default()
        };
        refused(fs.setxattr(ino, b"user.mine", b"", new), Error::Exists);
        fs.removexattr(ino, b"user.mine").expect("removed");
        refused(fs.getxattr(ino, b"user.mine"), Error::NoAttribute);
        refused(fs.removexattr(ino, b"user.mine"), Error::NoAttribute);
        refused(
            set(&fs, ino, &format!("user.{}", "n".repeat(190)), b""),
            Error::Range,
        );
        assert_eq!(stored(path).len(), all.len() - 1);
    }
}

#[test]
fn changed_and_foreign_attributes() {
    let lower = tempfile::tempdir().expect("a directory");
    prepare(&Features::default(), lower.path());
    let fs = view(lower.path());
    let before = entries(lower.path());
    let ino = create(&fs, ROOT, "file").expect("created").ino;
    let path = entries(lower.path());
    let path = path.iter().find(|path| !before.contains(path));
    let path = path.expect("new");
    let put = |name: &str, value: &[u8]| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, name, value, flags).expect("set");
    };
    set(&fs, ino, "user.mine", b"my value").expect("set");
    let (name, mut value) = stored(path).remove(0);
    // As old versions of gocryptfs wrote it.
    let text = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, &value);
    put(&name, text.as_bytes());
    assert_eq!(fs.getxattr(ino, b"user.mine").expect("there"), b"my value");
    value[20] ^= 1;
    put(&name, &value);
    refused(fs.getxattr(ino, b"user.mine"), Error::Io);
    for cut in [1, 16, 31, 32] {
        put(&name, &value[..cut]);
        refused(fs.getxattr(ino, b"user.mine"), Error::Io);
    }
    // In clear, and names that do not decode.
    put("user.clear", b"value");
    put("user.gocryptfs.", b"value");
    put("user.gocryptfs.AAAA", b"value");
    put("user.gocryptfs.AAAAAAAAAAAAAAAAAAAAAA", b"value");
    assert_eq!(fs.listxattr(ino).expect("listed"), [b"user.mine"]);
    refused(fs.getxattr(ino, b"user.clear"), Error::NoAttribute);
    // gocryptfs shows none of these without -suid.
    refused(
        fs.getxattr(ino, b"security.capability"),
        Error::NotSupported,
    );
    refused(
        set(&fs, ino, "security.capability", b"v"),
        Error::NotSupported,
    );
}

#[test]
fn a_configuration_that_was_changed_meanwhile_stays() {
    let lower = tempfile::tempdir().expect("a directory");
    prepare(&Features::default(), lower.path());
    let read = || fs::read(lower.path().join(CONFIG_NAME)).expect("read");
    let (before, root) = (read(), Entry::root(lower.path()).expect("opened"));
    let replace = |old: &[u8], new: &[u8]| stack::replace(&root, CONFIG_NAME, old, new);
    refused(replace(b"another", b"new"), Error::Busy);
    assert_eq!(read(), before);
    replace(&before, b"new").expect("replaced");
    assert_eq!(read(), b"new");
    refused(replace(&before, b"newer"), Error::Busy);
    // The configuration and the IV.
    assert_eq!(entries(lower.path()).len(), 2);
}

/// A file system of `size` bytes in memory, until this is dropped; nothing if it cannot be mounted.
struct Small(tempfile::TempDir);

impl Small {
    fn new(size: usize) -> Option<Small> {
        let dir = tempfile::tempdir().expect("a directory");
        let options = std::ffi::CString::new(format!("size={size}")).expect("text");
        let flags = rustix::mount::MountFlags::empty();
        match rustix::mount::mount("none", dir.path(), "tmpfs", flags, &*options) {
            Ok(()) => Some(Small(dir)),
            Err(error) => {
                eprintln!("skipped: no file system in memory: {error}");
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_lower_directory_leaves_what_was_written() {
    for features in variants() {
        let Some(small) = Small::new(256 << 10) else {
            return;
        };
        let lower = small.0.path();
        prepare(&features, lower);
        let fs = view(lower);
        let old: Vec<u8> = (0..10_100u32).map(|byte| byte as u8).collect();
        let ino = file_with(&fs, "file", &old);
        refused(fs.write(ino, 10_000, &[1; 1 << 20], false), Error::NoSpace);
        // Whole blocks of before that are written anew come first: all that was there can be read.
        let left = read(&fs, ino).expect("read");
        assert_eq!(left.len(), old.len(), "{features:?}");
        assert!(left[..10_000] == old[..10_000], "{features:?}");
        let empty = create(&fs, ROOT, "empty").expect("created").ino;
        refused(fs.write(empty, 0, &[1; 1 << 20], false), Error::NoSpace);
        assert_eq!(read(&fs, empty).expect("read"), b"");
        fs.write(ino, 10_100, b"more", false).expect("room again");
        assert_eq!(&read(&fs, ino).expect("read")[10_100..], b"more");
        assert_ne!(is_sound(lower), Some(false), "{features:?}");
    }
}

/// A program that copies only data must come to the end, and miss nothing. The blocks of the lower file begin at
/// other places than those of the format.
#[test]
fn data_and_holes_alternate() {
    const MIB: u64 = 1 << 20;
    let lower = tempfile::tempdir().expect("a directory");
    prepare(&Features::default(), lower.path());
    let fs = view(lower.path());
    let ino = file_with(&fs, "sparse", b"");
    for start in (0..20).step_by(5) {
        fs.write(ino, start * MIB, &[7; MIB as usize], false)
            .expect("written");
    }
    fs.write(ino, 30 * MIB + 5000, b"end", false)
        .expect("written");
    let size = fs.getattr(ino).expect("known").size;
    let (mut at, mut data) = (0, Vec::new());
    while let Ok(start) = fs.seek(ino, at, Seek::Data) {
        let end = fs.seek(ino, start, Seek::Hole).expect("a hole");
        assert!(start >= at && end > start, "{at} {start} {end}");
        data.push(start..end);
        at = end;
    }
    assert!(data.len() == 5, "{data:?}");
    for block in (0..size).step_by(4096) {
        if !data.iter().any(|range| range.contains(&block)) {
            let read = fs.read(ino, block, 4096).expect("read").concat();
            assert!(read.iter().all(|byte| *byte == 0), "{block}");
        }
    }
}

/// Writes are refused where other machines may write, if the page cache cannot be passed or others are not kept out:
/// ramfs has no `O_DIRECT`.
#[test]
fn what_cannot_be_shared_is_not_written() {
    let place = tempfile::tempdir().expect("a directory");
    let run = |words: &[&str]| {
        let status = Command::new(words[0])
            .args(&words[1..])
            .arg(place.path())
            .status();
        status.is_ok_and(|status| status.success())
    };
    if !rustix::process::geteuid().is_root() || !run(&["mount", "-t", "ramfs", "ramfs"]) {
        eprintln!("skipped: ramfs cannot be mounted here");
        return;
    }
    prepare(&Features::default(), place.path());
    let write = |alone: bool, text: &[u8]| {
        let options = Options {
            shared: true,
            remote: true,
            alone,
            ..Options::default()
        };
        let fs = view_as(place.path(), options);
        let ino = match fs.lookup(ROOT, b"file") {
            Ok(attr) => attr.ino,
            Err(_) => {
                let new = NewNode::new(Kind::File, 0o600);
                fs.create(&Caller::default(), ROOT, b"file", &new)
                    .expect("made")
                    .ino
            }
        };
        let written = fs.write(ino, 1, text, false);
        let read = fs.read(ino, 0, 100).expect("read").concat();
        (written, read)
    };
    let refused = Err(Error::NotSupported);
    assert_eq!(write(false, b"lost"), (refused, Vec::new()));
    assert_eq!(write(true, b"text"), (Ok(()), b"\0text".to_vec()));
    assert_eq!(write(false, b"lost"), (refused, b"\0text".to_vec()));
    assert!(run(&["umount"]));
}
