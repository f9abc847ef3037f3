//! Tests against recordings of pefs' own code, compiled for user space: keys, names, contents, links, chains, a tree.

mod chains;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use cipher::{Digest, SystemRandom};
use secret::Secret;
use serde_json::Value;
use vfs::{Error, Kind};

use super::names::FileTweak;
use super::*;
use crate::formats::tree::{self, TreeItem};
use crate::formats::{DirectoryFormat, LongNames};
use crate::lower::Entry;

pub(super) fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../../tests/pefs.json")).expect("JSON")
}

fn list<'a>(vectors: &'a Value, name: &str) -> &'a [Value] {
    vectors[name].as_array().expect(name)
}

fn hex(value: &Value) -> Vec<u8> {
    unhex(value.as_str().expect("a string"))
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex"))
        .collect()
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    Digest::Sha256.hash(&[bytes]).to_vec()
}

fn secret(bytes: &[u8]) -> Secret {
    Secret::from_slice(bytes).expect("memory")
}

pub(super) fn master(bytes: &[u8]) -> PefsMasterKey {
    PefsMasterKey::new(secret(bytes)).expect("64 bytes")
}

fn tweak(vector: &Value) -> FileTweak {
    hex(&vector["tweak"]).try_into().expect("8 bytes")
}

/// The key of a vector, alone.
fn key(vectors: &Value, vector: &Value) -> PefsKey {
    let name = vector["key"].as_str().expect("a name");
    let master = self::master(&hex(&vectors["keys"][name]["master"]));
    let algorithm = Algorithm::from_name(name).expect("an algorithm");
    PefsKey::new(&master, algorithm).expect("key")
}

/// A format with this key only, and a node with this tweak.
fn format_and_node(key: PefsKey, tweak: &FileTweak) -> (PefsFormat, PefsNode) {
    let lower = key.names.seal(tweak, b"name").expect("a name");
    let format = PefsFormat::new(Arc::new(SystemRandom));
    format.add_key(key).expect("the first");
    let dir = tempfile::tempdir().expect("directory");
    let entry = Entry::root(dir.path()).expect("entry");
    let root = format.root(&entry).expect("root");
    let node = format.node(&root, &lower, Kind::File, &entry);
    (format, node.expect("a node"))
}

#[test]
fn master_keys_and_ids() {
    let vectors = vectors();
    for vector in list(&vectors, "kdf") {
        let iterations = vector["iterations"].as_u64().expect("number") as u32;
        let passphrase = secret(&hex(&vector["passphrase_hex"]));
        let files = list(vector, "keyfiles")
            .iter()
            .map(|file| secret(&hex(file)));
        let files: Vec<Secret> = files.collect();
        let master = PefsMasterKey::from_parts(&files, Some((&passphrase, iterations)));
        let master = master.expect("master key");
        let expected = self::master(&hex(&vector["master"]));
        assert_eq!(master.id(), expected.id());
        assert_eq!(
            master.id().to_string(),
            vector["keyid"].as_str().expect("id")
        );
    }
    let nothing = PefsMasterKey::from_parts(&[], Some((&secret(b""), 1000)));
    assert!(matches!(nothing, Err(KeyError::NoInput)));
}

#[test]
fn names_of_files() {
    let vectors = vectors();
    for vector in list(&vectors, "names") {
        let key = key(&vectors, vector);
        let (plain, stored) = (hex(&vector["name_hex"]), vector["encrypted"].as_str());
        let stored = stored.expect("name").as_bytes();
        assert_eq!(
            key.names.seal(&tweak(vector), &plain).expect("seal"),
            stored
        );
        assert_eq!(key.names.open(stored), Some((tweak(vector), plain)));
    }
    let refused = [
        list(&vectors, "names_rejected"),
        list(&vectors, "names_lenient"),
    ];
    for vector in refused.concat() {
        let name = vector["name"].as_str().expect("name");
        assert_eq!(
            key(&vectors, &vector).names.open(name.as_bytes()),
            None,
            "{vector}"
        );
    }
    let any = key(&vectors, &list(&vectors, "names")[0]);
    assert_eq!(
        any.names.seal(&[1; 8], &[b'n'; 169]),
        Err(Error::NameTooLong)
    );
}

/// The first bytes of what all the data is cut from.
fn stream(label: &str, len: usize) -> Vec<u8> {
    let blocks = (0u32..).flat_map(|number| {
        let hash = Digest::Sha256.hash(&[label.as_bytes(), &number.to_le_bytes()]);
        hash.to_vec()
    });
    blocks.take(len).collect()
}

#[test]
fn contents_of_files() {
    let vectors = vectors();
    for vector in list(&vectors, "contents") {
        let (format, node) = format_and_node(key(&vectors, vector), &tweak(vector));
        let offset = vector["sector_byte_offset"].as_u64().unwrap_or_default();
        let size = vector["size"].as_u64().expect("size") as usize;
        let plain = stream(vector["plain_stream"].as_str().expect("label"), size);
        assert_eq!(sha256(&plain), hex(&vector["plain_sha256"]));
        let mut data = plain.clone();
        let sealed = format.seal(&node, &[], offset / 4096, &mut data);
        assert_eq!(
            (sealed, sha256(&data)),
            (Ok(()), hex(&vector["cipher_sha256"])),
            "{vector}"
        );
        assert_eq!(format.open(&node, &[], offset / 4096, &mut data), Ok(()));
        assert_eq!(data, plain, "{vector}");
    }
}

#[test]
fn targets_of_links() {
    let vectors = vectors();
    for vector in list(&vectors, "symlinks") {
        let (format, node) = format_and_node(key(&vectors, vector), &tweak(vector));
        let (target, stored) = (hex(&vector["target_hex"]), vector["stored"].as_str());
        let stored = stored.expect("target").as_bytes();
        assert_eq!(format.seal_target(&node, &target).expect("seal"), stored);
        assert_eq!(format.open_target(&node, stored), Ok(target));
        assert_eq!(
            format.seal_target(&node, &[b'x'; 767]),
            Err(Error::NameTooLong)
        );
        assert_eq!(format.open_target(&node, b"*"), Err(Error::Io));
    }
}

pub(super) const DATABASE: &[u8] = include_bytes!("../../../../tests/pefs_database");

pub(super) fn chain_key(vectors: &Value, name: &str) -> PefsMasterKey {
    master(&hex(&vectors["chain"]["keys"][name]["master"]))
}

#[test]
fn databases_and_chains() {
    let vectors = vectors();
    let database = Database::new(DATABASE).expect("database");
    let count = database.records().expect("records").len();
    assert_eq!(
        count as u64,
        vectors["chain"]["db_entries"].as_u64().expect("number")
    );
    for record in list(&vectors["chain"], "records") {
        let value = database.get(&hex(&record["db_key"])).expect("records");
        assert_eq!(value, Some(&hex(&record["db_value"])[..]));
    }
    let (keys, has_record) = chain::open(
        Some(&database),
        chain_key(&vectors, "A"),
        Algorithm::default(),
    )
    .expect("chain");
    let found: Vec<String> = keys
        .iter()
        .map(|key| format!("{} {}", key.id(), key.algorithm()))
        .collect();
    assert_eq!(
        found,
        [
            "3a33e555bc9608c4 aes128-xts",
            "964e220e2779e82e camellia256-xts",
            "fa9682dfbac8878c aes256-xts"
        ]
    );
    assert!(has_record);
    // A key without a record is alone.
    let stranger = master(&[9; 64]);
    let (keys, has_record) =
        chain::open(Some(&database), stranger, Algorithm::ALL[5]).expect("chain");
    assert_eq!(
        (keys.len(), keys[0].algorithm(), has_record),
        (1, Algorithm::ALL[5], false)
    );
}

#[test]
fn damaged_databases_and_records() {
    let vectors = vectors();
    let file = DATABASE;
    let whole = Database::new(file).expect("database");
    let record = whole.get(&hex(&vectors["chain"]["records"][0]["db_key"]));
    let record = record.expect("records").expect("record");
    let at = file.windows(record.len()).position(|bytes| bytes == record);
    for offset in [0, 91, 92, 123] {
        let mut changed = file.to_vec();
        changed[at.expect("in the file") + offset] ^= 1;
        let database = Database::new(&changed).expect("database");
        let opened = chain::open(
            Some(&database),
            chain_key(&vectors, "A"),
            Algorithm::default(),
        );
        assert!(matches!(opened, Err(KeyError::Record)), "{offset}");
    }
    for len in [0, 3, 511, 512, 1023, file.len() - 1] {
        let opened = Database::new(&file[..len]).and_then(|database| database.records());
        assert!(matches!(opened, Err(KeyError::Database(_))), "{len}");
    }
    // Each byte of the pages' headers: no panic, and no endless circle.
    for page in file.chunks(512).enumerate().map(|(number, _)| 512 * number) {
        for at in page..page + 40 {
            for value in [0, 1, 2, 0xff] {
                let mut changed = file.to_vec();
                changed[at] = value;
                let _ = Database::new(&changed).and_then(|database| database.records().map(drop));
            }
        }
    }
}

#[test]
fn configurations() {
    let decode = |target: &str| Config::decode(target.as_bytes()).ok();
    let config = |algorithm, iterations| {
        Some(Config {
            algorithm,
            iterations,
        })
    };
    assert_eq!(decode(":3000"), config(None, Some(3000)));
    assert_eq!(
        decode("camellia192:"),
        config(Some(Algorithm::ALL[4]), None)
    );
    assert_eq!(
        decode("aes256-xts:0"),
        config(Some(Algorithm::ALL[2]), Some(0))
    );
    assert_eq!(decode(""), config(None, None));
    for wrong in [
        "aes:1",
        "aes128:x",
        "aes128:1:",
        ":4000000000",
        "aes128-xts-xts:1",
    ] {
        assert_eq!(decode(wrong), None, "{wrong}");
    }
}

/// Makes the recorded lower directory.
fn unpack(to: &Path) {
    let path = |text: &str| to.join(OsStr::from_bytes(&unhex(text)));
    let lines = include_str!("../../../../tests/pefs_tree.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let at = path(fields[1]);
        match fields[0] {
            "dir" => fs::create_dir(at).expect("directory"),
            "file" => fs::write(at, unhex(fields[2])).expect("file"),
            "hard" => fs::hard_link(path(fields[2]), at).expect("link"),
            _ => {
                std::os::unix::fs::symlink(OsStr::from_bytes(&unhex(fields[2])), at).expect("link")
            }
        }
    }
}

#[test]
fn a_tree_with_every_set_of_keys() {
    let vectors = vectors();
    let lower = tempfile::tempdir().expect("directory");
    unpack(lower.path());
    for (view, names) in [
        ("no_keys", ""),
        ("A_only (addkey -C)", "A"),
        ("A,B,C", "ABC"),
    ] {
        let format = PefsFormat::new(Arc::new(SystemRandom));
        for name in names.chars().map(String::from) {
            let algorithm = vectors["chain"]["keys"][&name]["algorithm"].as_str();
            let algorithm = Algorithm::from_name(algorithm.expect("name")).expect("algorithm");
            let key = PefsKey::new(&chain_key(&vectors, &name), algorithm).expect("key");
            format.add_key(key).expect("another");
        }
        let tree = tree::read(&format, lower.path());
        let seen: std::collections::BTreeSet<_> = tree.keys().cloned().collect();
        let expected = list(&vectors["tree"]["views"], view)
            .iter()
            .map(hex)
            .collect();
        assert_eq!(seen, expected, "{view}");
        if names != "ABC" {
            continue;
        }
        for entry in list(&vectors["tree"], "entries") {
            match &tree[&hex(&entry["path_hex"])] {
                TreeItem::Directory => assert_eq!(entry["type"], "dir"),
                TreeItem::Link(target) => assert_eq!(*target, hex(&entry["target_hex"])),
                TreeItem::File(contents) => assert_eq!(sha256(contents), hex(&entry["sha256"])),
            }
        }
    }
}

#[test]
fn keys_come_and_go() {
    let vectors = vectors();
    let make = || key(&vectors, &list(&vectors, "names")[0]);
    let (format, node) = format_and_node(make(), &[5; 8]);
    assert_eq!(format.add_key(make()), Err(Error::Exists));
    let id = format.keys()[0].id();
    format.remove_key(id).expect("it is there");
    assert_eq!(format.remove_key(id), Err(Error::NotFound));
    // What is open has lost its key too.
    assert_eq!(format.check_key(&node), Err(Error::NoKey));
    assert_eq!(format.open(&node, &[], 0, &mut [0; 20]), Err(Error::NoKey));
    let none: &LongNames<'_> = &|_| Err(Error::NotFound);
    assert_eq!(format.plain_name(&node, b"plain", none), Ok(None));
    let root = format
        .root(&Entry::root(Path::new("/")).expect("entry"))
        .expect("root");
    assert_eq!(
        format.new_node(&root, Kind::File).map(drop),
        Err(Error::ReadOnly)
    );
    assert_eq!(
        format.plain_name(&root, b"plain", none),
        Ok(Some(b"plain".to_vec()))
    );

    // Another key: what it has does not enter the directory of the first, nor does what has none.
    format.add_key(make()).expect("again");
    let made = format.new_node(&root, Kind::Directory).expect("node").node;
    assert_eq!(format.new_name(&node, b"x", &made), Err(Error::CrossDevice));
    assert_eq!(format.new_name(&made, b"x", &root), Err(Error::CrossDevice));
    assert!(format.new_name(&root, b"x", &made).is_ok());
}
