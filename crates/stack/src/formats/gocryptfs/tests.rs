//! Trees that gocryptfs made, recorded and live, and trees that it accepts.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use cipher::{Random, SeededRandom, SystemRandom};
use secret::{Key, Secret};
use vfs::Error;

use super::names::DIR_IV_NAME;
use super::{
    CONFIG_MAX, CONFIG_NAME, Config, ConfigError, ContentCipher, Features, GocryptfsFormat,
    NameFeatures,
};
use crate::formats::DirectoryFormat;
use crate::formats::tree::{self, TreeItem, ViewTree};

const PASSPHRASE: &[u8] = b"test passphrase";

/// Name, and how gocryptfs is told to make it.
#[rustfmt::skip]
const VARIANTS: [(&str, &[&str], &str); 6] = [
    ("gcm", &[], include_str!("vectors/gcm.txt")),
    ("xchacha", &["-xchacha"], include_str!("vectors/xchacha.txt")),
    ("siv", &["-aessiv"], include_str!("vectors/siv.txt")),
    ("plain", &["-plaintextnames"], include_str!("vectors/plain.txt")),
    ("deterministic", &["-deterministic-names"], include_str!("vectors/deterministic.txt")),
    ("short", &["-longnamemax=100"], include_str!("vectors/short.txt")),
];

fn passphrase() -> Secret {
    Secret::from_slice(PASSPHRASE).expect("memory")
}

fn features(name: &str) -> Features {
    let defaults = Features::default();
    let names = NameFeatures::default();
    match name {
        "xchacha" => Features {
            content: ContentCipher::XChaCha20Poly1305,
            ..defaults
        },
        "siv" => Features {
            content: ContentCipher::AesSiv,
            ..defaults
        },
        "plain" => Features {
            names: None,
            ..defaults
        },
        "deterministic" => Features {
            names: Some(NameFeatures {
                dir_iv: false,
                ..names
            }),
            ..defaults
        },
        "short" => Features {
            names: Some(NameFeatures {
                long_max: 100,
                ..names
            }),
            ..defaults
        },
        _ => defaults,
    }
}

fn open(lower: &Path) -> GocryptfsFormat {
    let config = Config::decode(&fs::read(lower.join(CONFIG_NAME)).expect("read")).expect("config");
    let master = config.unlock(&passphrase()).expect("passphrase");
    GocryptfsFormat::new(&config, &master, Arc::new(SystemRandom)).expect("keys")
}

/// The contents of the recorded trees.
fn recorded() -> ViewTree {
    let long = [b"sub dir/".to_vec(), vec![b'n'; 120]].concat();
    let directory = vec![b'd'; 255];
    let inside = [&directory[..], "/ü".as_bytes()].concat();
    let file = |contents: &[u8]| TreeItem::File(contents.to_vec());
    ViewTree::from([
        (b"file".to_vec(), file(b"hello")),
        (b"empty".to_vec(), file(b"")),
        (b"sub dir".to_vec(), TreeItem::Directory),
        (
            b"sub dir/link".to_vec(),
            TreeItem::Link(b"../file".to_vec()),
        ),
        (long, file(b"long")),
        (directory, TreeItem::Directory),
        (inside, file(b"inside")),
    ])
}

/// More: several blocks, the edges of blocks, and a block of zeros.
fn larger() -> ViewTree {
    let mut tree = recorded();
    for len in [1, 4095, 4096, 4097, 8192, 70_001] {
        let mut contents = vec![0; len];
        SeededRandom::new(len as u64)
            .fill(&mut contents)
            .expect("random");
        tree.insert(
            format!("of {len} bytes").into_bytes(),
            TreeItem::File(contents),
        );
    }
    let zeros = [vec![0; 12_288], b"end".to_vec()].concat();
    tree.insert(b"zeros".to_vec(), TreeItem::File(zeros));
    tree
}

fn unpack(recorded: &str, to: &Path) {
    for line in recorded.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split(' ');
        let kind = fields.next().expect("kind");
        let path = to.join(fields.next().expect("path").replace("%20", " "));
        let value = fields.next().unwrap_or_default();
        match kind {
            "dir" => fs::create_dir(path).expect("directory"),
            "link" => std::os::unix::fs::symlink(value, path).expect("link"),
            _ => fs::write(path, hex(value)).expect("file"),
        }
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).expect("hexadecimal") as u8;
    let digits: Vec<u8> = text.as_bytes().iter().map(digit).collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

#[test]
fn recorded_trees_open() {
    for (name, _, lines) in VARIANTS {
        let lower = tempfile::tempdir().expect("directory");
        unpack(lines, lower.path());
        let config = fs::read(lower.path().join(CONFIG_NAME)).expect("read");
        let config = Config::decode(&config).expect("config");
        assert_eq!(*config.features(), features(name), "{name}");
        assert_eq!(
            tree::read(&open(lower.path()), lower.path()),
            recorded(),
            "{name}"
        );
    }
}

/// Makes a lower directory.
fn create(name: &str, lower: &Path) -> GocryptfsFormat {
    let random = SystemRandom;
    let master = Key::fill_with(|key| random.fill(key).map_err(ConfigError::from)).expect("key");
    let config = Config::create(features(name), &master, &passphrase(), 10, &random);
    fs::write(lower.join(CONFIG_NAME), config.expect("config").encode()).expect("write");
    let format = open(lower);
    for (name, contents) in format.new_directory().expect("IV").files {
        fs::write(lower.join(name), contents).expect("write");
    }
    format
}

#[test]
fn trees_come_back() {
    for (name, ..) in VARIANTS {
        let lower = tempfile::tempdir().expect("directory");
        let format = create(name, lower.path());
        tree::write(&format, lower.path(), &larger());
        assert_eq!(tree::read(&format, lower.path()), larger(), "{name}");
    }
}

/// Runs gocryptfs with the passphrase; false, with a line that says so, if there is none or no FUSE.
fn gocryptfs(arguments: &[&str], paths: &[&Path]) -> bool {
    let dir = tempfile::tempdir().expect("directory");
    let passfile = dir.path().join("passphrase");
    fs::write(&passfile, PASSPHRASE).expect("write");
    let run = Command::new("gocryptfs")
        .args(["-q", "-passfile"])
        .arg(&passfile)
        .args(arguments)
        .args(paths)
        // What serves a mount keeps them.
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match run {
        Ok(status) => {
            assert!(status.success(), "gocryptfs {arguments:?}: {status}");
            true
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: gocryptfs is not installed");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// A mount of gocryptfs's.
struct GocryptfsMount(tempfile::TempDir);

impl GocryptfsMount {
    fn new(lower: &Path) -> Option<GocryptfsMount> {
        if fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .is_err()
        {
            eprintln!("skipped: there is no /dev/fuse");
            return None;
        }
        let at = tempfile::tempdir().expect("directory");
        gocryptfs(&["-nosyslog"], &[lower, at.path()]).then_some(GocryptfsMount(at))
    }
}

impl Drop for GocryptfsMount {
    fn drop(&mut self) {
        let unmount = |how| {
            let status = Command::new("fusermount3")
                .arg(how)
                .arg(self.0.path())
                .status();
            status.is_ok_and(|status| status.success())
        };
        // Another program may be looking at each mount of the machine.
        assert!(unmount("-u") || unmount("-uz"));
    }
}

/// A directory as it is, without a format.
fn plain_tree(path: &Path, prefix: &str, tree: &mut ViewTree) {
    for entry in fs::read_dir(path).expect("list") {
        let entry = entry.expect("entry");
        let name = format!("{prefix}{}", entry.file_name().to_str().expect("UTF-8"));
        let kind = entry.file_type().expect("kind");
        let item = if kind.is_dir() {
            plain_tree(&entry.path(), &format!("{name}/"), tree);
            TreeItem::Directory
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path()).expect("target");
            TreeItem::Link(target.to_str().expect("UTF-8").into())
        } else {
            TreeItem::File(fs::read(entry.path()).expect("read"))
        };
        tree.insert(name.into_bytes(), item);
    }
}

#[test]
fn gocryptfs_reads_what_is_written_here() {
    for (name, ..) in VARIANTS {
        let lower = tempfile::tempdir().expect("directory");
        let format = create(name, lower.path());
        tree::write(&format, lower.path(), &larger());
        if !gocryptfs(&["-fsck"], &[lower.path()]) {
            return;
        }
        let Some(mounted) = GocryptfsMount::new(lower.path()) else {
            return;
        };
        let mut seen = ViewTree::new();
        plain_tree(mounted.0.path(), "", &mut seen);
        assert_eq!(seen, larger(), "{name}");
    }
}

#[test]
fn what_gocryptfs_writes_is_read_here() {
    for (name, arguments, _) in VARIANTS {
        let lower = tempfile::tempdir().expect("directory");
        let arguments = [&["-init", "-scryptn", "10"], arguments].concat();
        if !gocryptfs(&arguments, &[lower.path()]) {
            return;
        }
        let Some(mounted) = GocryptfsMount::new(lower.path()) else {
            return;
        };
        for (path, item) in larger() {
            let path = mounted.0.path().join(str::from_utf8(&path).expect("UTF-8"));
            match item {
                TreeItem::Directory => fs::create_dir_all(path).expect("directory"),
                TreeItem::File(contents) => {
                    let parent = path.parent().expect("a directory");
                    fs::create_dir_all(parent).expect("directory");
                    fs::write(path, contents).expect("file");
                }
                TreeItem::Link(target) => {
                    let target = str::from_utf8(&target).expect("UTF-8");
                    std::os::unix::fs::symlink(target, path).expect("link");
                }
            }
        }
        // Bytes never written between written ones: a hole.
        let hole = fs::File::create(mounted.0.path().join("hole")).expect("file");
        hole.set_len(50_000).expect("size");
        drop((hole, mounted));
        let mut expected = larger();
        expected.insert(b"hole".to_vec(), TreeItem::File(vec![0; 50_000]));
        assert_eq!(
            tree::read(&open(lower.path()), lower.path()),
            expected,
            "{name}"
        );
    }
}

fn in_memory(name: &str) -> GocryptfsFormat {
    let random = SeededRandom::new(1);
    let master = Key::from_bytes(&[7; 32]).expect("key");
    let config = Config::create(features(name), &master, &passphrase(), 10, &random);
    GocryptfsFormat::new(&config.expect("config"), &master, Arc::new(random)).expect("keys")
}

#[test]
fn changed_blocks_do_not_open() {
    for (name, ..) in VARIANTS {
        let format = in_memory(name);
        let node = format.new_directory().expect("node").node;
        let header = format.new_header(&node).expect("header");
        let unit = format.layout().lower_unit();
        let mut sealed = vec![3; 2 * unit - 100];
        format.seal(&node, &header, 5, &mut sealed).expect("seal");
        let open = |header: &[u8], first, mut units: Vec<u8>| {
            format.open(&node, header, first, &mut units)
        };
        assert_eq!(open(&header, 5, sealed.clone()), Ok(()), "{name}");
        // In another place, in another file, cut, and each part of a block changed.
        assert_eq!(open(&header, 6, sealed.clone()), Err(Error::Io), "{name}");
        let other = format.new_header(&node).expect("header");
        assert_eq!(open(&other, 5, sealed.clone()), Err(Error::Io), "{name}");
        for len in [1, 15, 32, 33, unit - 1] {
            assert_eq!(
                open(&header, 5, sealed[..len].to_vec()),
                Err(Error::Io),
                "{name}"
            );
        }
        for at in [0, 17, 40, 100, unit - 1, unit, 2 * unit - 101] {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(open(&header, 5, changed), Err(Error::Io), "{name}, {at}");
        }
        let mut lost = sealed.clone();
        lost[..format.layout().before].fill(0);
        assert_eq!(open(&header, 5, lost), Err(Error::Io), "{name}");
    }
}

#[test]
fn broken_names_do_not_decode() {
    let format = in_memory("gcm");
    let node = format.new_directory().expect("node").node;
    let none = |_: &[u8]| Err(Error::NotFound);
    let found = format.lower_name(&node, b"name").expect("a name");
    let crate::formats::Sought::At(name) = found else {
        panic!("{found:?}");
    };
    let opened = format.plain_name(&node, &name.name, &none);
    assert_eq!(opened, Ok(Some(b"name".to_vec())));
    let mut changed = name.name.clone();
    changed[3] = if changed[3] == b'A' { b'B' } else { b'A' };
    let padded = [&name.name[..], b"=="].concat();
    for broken in [
        &changed,
        &padded,
        &b"".to_vec(),
        &b"AAAA".to_vec(),
        &vec![b'A'; 400],
    ] {
        assert_eq!(format.plain_name(&node, broken, &none), Err(Error::Io));
    }
    assert_eq!(
        format.plain_name(&node, DIR_IV_NAME.as_bytes(), &none),
        Ok(None)
    );
    // The file with the long name is one of another entry.
    let swapped = |_: &[u8]| Ok(name.name.clone());
    let long = [b"gocryptfs.longname.".to_vec(), vec![b'A'; 43]].concat();
    assert_eq!(format.plain_name(&node, &long, &swapped), Err(Error::Io));
    for (plain, error) in [
        (vec![b'x'; 256], Error::NameTooLong),
        (b"a/b".to_vec(), Error::NotFound),
    ] {
        assert_eq!(format.lower_name(&node, &plain).map(drop), Err(error));
    }
}

#[test]
fn configurations_are_checked() {
    let random = SeededRandom::new(1);
    let master = Key::from_bytes(&[7; 32]).expect("key");
    let mut config =
        Config::create(Features::default(), &master, &passphrase(), 10, &random).expect("config");
    let wrong = Secret::from_slice(b"wrong").expect("memory");
    assert!(matches!(
        config.unlock(&wrong),
        Err(ConfigError::WrongPassphrase)
    ));
    config
        .change_passphrase(&passphrase(), &wrong, &random)
        .expect("change");
    assert!(matches!(
        config.unlock(&passphrase()),
        Err(ConfigError::WrongPassphrase)
    ));
    assert_eq!(config.unlock(&wrong).expect("unlock"), master);
    assert_eq!(Config::decode(&config.encode()).expect("decode"), config);

    let text = String::from_utf8(config.encode()).expect("UTF-8");
    for (from, to) in [
        ("\"Version\": 2", "\"Version\": 3"),
        ("\"N\": 1024", "\"N\": 512"),
        ("\"N\": 1024", "\"N\": 1025"),
        ("\"N\": 1024", "\"N\": 1099511627776"),
        ("\"R\": 8", "\"R\": 1"),
        ("\"P\": 1", "\"P\": 4000000000"),
        ("\"HKDF\"", "\"FIDO2\""),
        ("\"HKDF\"", "\"PlaintextNames\""),
        ("\"GCMIV128\"", "\"XChaCha20Poly1305\", \"AESSIV\""),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let decoded = Config::decode(changed.as_bytes());
        assert!(
            matches!(decoded, Err(ConfigError::Unsupported(_))),
            "{to}: {decoded:?}"
        );
    }
    for (from, to, says) in [
        ("\"Version\": 2", "\"Version\": 1", "version 1"),
        ("\"EMENames\",", "", "EMENames"),
        ("\"GCMIV128\",", "", "GCMIV128"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let Err(ConfigError::TooOld(said)) = Config::decode(changed.as_bytes()) else {
            panic!("{from}");
        };
        assert!(said.contains(says), "{said}");
    }
    // Other versions have other members.
    let other = Config::decode(b"{\"Version\": 1}");
    assert!(matches!(other, Err(ConfigError::TooOld(_))), "{other:?}");
    let long = Config::decode(&vec![b' '; CONFIG_MAX + 1]).expect_err("long");
    assert!(long.to_string().contains("too long"), "{long}");
    for damaged in [
        "",
        "{}",
        &text[..text.len() - 5],
        &text.replacen("Salt\": \"", "Salt\": \"*", 1),
    ] {
        let decoded = Config::decode(damaged.as_bytes());
        assert!(matches!(decoded, Err(ConfigError::Damaged(_))), "{damaged}");
    }
    let cut = text.replacen("\"EncryptedKey\": \"", "\"EncryptedKey\": \"AAAA", 1);
    let cut = Config::decode(cut.as_bytes()).expect("its shape is right");
    assert!(matches!(cut.unlock(&wrong), Err(ConfigError::Damaged(_))));
}
