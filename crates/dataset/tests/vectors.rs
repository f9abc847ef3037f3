//! The published test vectors (`docs/vectors`) are what this program makes, and what a reader in Python makes of them.
//!
//! `STRONGROOM_VECTORS=write cargo test -p strongroom-dataset --test vectors` makes them again.

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use block::fault::FaultClock;
use cipher::{SeededRandom, Suite};
use common::*;
use dataset::{Compression, Dataset, RecordSealer, Settings};
use keys::{Argon2Params, DataKeys, KeyGeneration, KeyMaterial, Keyring, WrappingKeyAccess};
use pool::{
    ArrayKind, NewDataset, RecordIdentity, RecordPtr, SealInput, SealRecords, SendOf,
    StreamPosition,
};
use secret::{Key, Secret};
use serde_json::{Value, json};
use vfs::{FileSystem, ROOT};
use zerocopy::{FromBytes, IntoBytes};

/// The family of the first dataset of a test pool.
const FAMILY: u64 = 2;
const NOW: u64 = 1_700_000_000;

#[test]
fn the_vectors_are_those_of_this_program() {
    for (name, cases) in [
        ("keyrings", keyrings()),
        ("logs", logs()),
        ("records", records()),
        ("seals", seals()),
        ("streams", streams()),
    ] {
        let path = folder().join(format!("{name}.json"));
        let made = serde_json::to_string_pretty(&cases).unwrap() + "\n";
        if std::env::var_os("STRONGROOM_VECTORS").is_some() {
            std::fs::write(&path, &made).unwrap();
        }
        let published = std::fs::read_to_string(&path).unwrap();
        assert!(published == made, "{} is of another format", path.display());
    }
}

#[test]
fn a_reader_that_knows_only_the_format_reads_them() {
    let library = ["-c", "import cryptography"];
    let found = Command::new("python3").args(library).output();
    if !found.is_ok_and(|done| done.status.success()) {
        return eprintln!("skipped: needs python3-cryptography");
    }
    let read = |files: &[PathBuf]| {
        let script = folder().join("read.py");
        let done = Command::new("python3")
            .arg("-B")
            .arg(script)
            .args(files)
            .output();
        let done = done.expect("python3");
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.success(), text)
    };
    let (is_right, text) = read(&[]);
    assert!(is_right, "{text}");

    // It looks at what it reads.
    let changed = tempfile::tempdir().unwrap();
    for (name, field) in [
        ("keyrings", "keyring"),
        ("logs", "entry"),
        ("records", "nonce"),
        ("records", "identity"),
        ("seals", "seal"),
        ("streams", "stream"),
        ("streams", "seal"),
    ] {
        let text = std::fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
        let mut cases: Value = serde_json::from_str(&text).unwrap();
        let value = cases[0][field].as_str().unwrap();
        let (head, tail) = value.split_at(value.len() / 2);
        let other = if tail.starts_with('0') { '1' } else { '0' };
        cases[0][field] = json!(format!("{head}{other}{}", &tail[1..]));
        let path = changed.path().join(format!("{name}.json"));
        std::fs::write(&path, cases.to_string()).unwrap();
        assert!(!read(&[path]).0, "another {field}");
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/vectors")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A keyring that this opens, with a generation of each suite.
fn keyring(material: &KeyMaterial, suites: &[Suite]) -> (Keyring, Vec<DataKeys>) {
    let random = SeededRandom::new(38);
    let params = Argon2Params::insecure_for_tests();
    let (wrapping, key) = WrappingKeyAccess::create(material, &params, NOW, &random).unwrap();
    let (mut generations, mut opened) = (Vec::new(), Vec::new());
    for (number, suite) in (1..).zip(suites) {
        let txg = u64::from(number);
        let made = KeyGeneration::create(&key, FAMILY, number, txg, *suite, NOW, &random);
        let (generation, keys) = made.unwrap();
        generations.push(generation);
        opened.push(keys);
    }
    let keyring = Keyring::new(FAMILY, wrapping, generations).unwrap();
    (keyring, opened)
}

fn keyrings() -> Value {
    let passphrase =
        |text: &str| KeyMaterial::Passphrase(Secret::from_slice(text.as_bytes()).unwrap());
    let composed = "Schl\u{fc}ssel und Riegel";
    #[rustfmt::skip]
    let cases = [
        ("passphrase", json!("correct horse"), passphrase("correct horse")),
        // The letters were typed otherwise.
        ("passphrase", json!(composed), passphrase("Schlu\u{308}ssel und Riegel")),
        ("key", json!(hex(&[7; 32])), KeyMaterial::Key(Key::from_bytes(&[7; 32]).unwrap())),
        ("key", json!(hex(&[9; 16])), KeyMaterial::Short(Secret::from_slice(&[9; 16]).unwrap())),
    ];
    let cases = cases.map(|(name, value, material)| {
        let (keyring, opened) = keyring(&material, &[Suite::Xaes256Gcm, Suite::Aes128Ccm]);
        let generations = opened.iter().map(|keys| {
            json!({
                "number": keys.generation,
                "suite": keys.suite.id(),
                "data": hex(keys.data.expose()),
                "dedup": hex(keys.dedup.expose()),
                "seal": hex(keys.seal.as_ref().unwrap().expose()),
            })
        });
        json!({
            name: value,
            "family": FAMILY,
            "generations": generations.collect::<Vec<_>>(),
            "keyring": hex(&keyring.encode()),
        })
    });
    json!(cases)
}

fn records() -> Value {
    let plain: Vec<u8> = (0..4096).map(|i| (i % 251) as u8).collect();
    let cases = Suite::ALL.map(|suite| {
        let keys = data_keys(suite);
        let data_key = hex(&keys[0].data.expose()[..suite.key_len()]);
        let engine = engine(u64::from(suite.id()), 0);
        let settings = Settings::default();
        let sealer = RecordSealer::new(&engine, FAMILY, Some(keys), &settings).unwrap();
        let sealed = sealer.seal(ArrayKind::Data, &plain).unwrap();
        let identity = RecordPtr {
            identity: sealed.identity,
            ..RecordPtr::EMPTY
        };
        let identity = identity.with_check(&sealed.bytes).identity;
        json!({
            "suite": suite.id(),
            "data_key": data_key,
            "family": FAMILY,
            "generation": 1,
            "kind": 1,
            "logical_size": plain.len(),
            "nonce": hex(sealed.identity.nonce()),
            "ciphertext_blake3": hex(blake3::hash(&sealed.bytes).as_bytes()),
            "identity": hex(identity.as_bytes()),
        })
    });
    json!(cases)
}

fn seals() -> Value {
    let keys = data_keys(Suite::Xaes256Gcm);
    let key = hex(keys[0].seal.as_ref().unwrap().expose());
    let settings = Settings::default();
    let sealer = RecordSealer::new(&engine(1, 0), FAMILY, Some(keys), &settings).unwrap();
    let roots = [3, 5].map(|byte| RecordIdentity::read_from_bytes(&[byte; 64]).unwrap());
    let empty = RecordPtr::EMPTY.identity;
    let facts = hex(&[0x2f; 136]);
    #[rustfmt::skip]
    let cases = [
        ([empty, empty], [0; 3], None, [0; 2], None),
        (roots, [0; 3], None, [0; 2], None),
        (roots, [0xc4a1, 12, 340], None, [0; 2], None),
        (roots, [0xc4a1, 12, 340], Some([[7; 16], [8; 16]]), [0; 2], None),
        ([empty, roots[1]], [0; 3], None, [1 << 30, 8192], Some(&facts)),
        (roots, [0xc4a1, 12, 340], Some([[7; 16], [0; 16]]), [1 << 30, 8192], Some(&facts)),
    ];
    let cases = cases.map(|(roots, log, log_states, volume, facts)| {
        let input = SealInput {
            guid: 50,
            sequence: 7,
            roots,
            log,
            log_states: log_states.unwrap_or_default(),
            volume,
            waiting: None,
            facts: facts.map(|facts| blake3::hash(facts.as_bytes()).into()),
        };
        let log_states: Vec<String> = log_states
            .iter()
            .flatten()
            .map(|state| hex(state))
            .collect();
        json!({
            "key": key,
            "guid": input.guid,
            "sequence": input.sequence,
            "roots": roots.map(|root| hex(root.as_bytes())),
            "log": log,
            "log_states": log_states,
            "volume": volume,
            "facts": facts,
            "seal": hex(&sealer.dataset_seal(&input)),
        })
    });
    json!(cases)
}

/// The entry of a log in which a file is made.
fn logs() -> Value {
    let suite = Suite::Xaes256Gcm;
    let device = fault_device(16 << 20, &FaultClock::new());
    let pool = create_pool(&device, Some(suite));
    let files = open_files(&pool, Some(suite), Settings::default(), 0);
    // The first one only prepares the log.
    create_file(&files, "an older file").unwrap();
    files.fsync(ROOT, false).unwrap();
    create_file(&files, "a file").unwrap();
    files.fsync(ROOT, false).unwrap();

    let image = device.to_bytes();
    let units = image.chunks(4096);
    let entries: Vec<&[u8]> = units.filter(|unit| unit.starts_with(b"SR-LOGE")).collect();
    let [entry] = entries[..] else {
        panic!("{} entries of one unit", entries.len());
    };
    json!([{
        "data_key": hex(data_keys(suite)[0].data.expose()),
        "seal_key": hex(data_keys(suite)[0].seal.as_ref().unwrap().expose()),
        "family": FAMILY,
        "dataset": pool.top().unwrap().guid,
        "names": ["a file"],
        "entry": BASE64_STANDARD.encode(entry),
    }])
}

fn streams() -> Value {
    let key = [7; 32];
    let material = KeyMaterial::Key(Key::from_bytes(&key).unwrap());
    let (keyring, opened) = keyring(&material, &[Suite::Xaes256Gcm]);
    let encoded = keyring.encode();
    let new = NewDataset {
        keyring: Some(Box::new({
            let encoded = encoded.clone();
            move |_| Ok(encoded)
        })),
        ..new_dataset(FAMILY, Some(Suite::Xaes256Gcm))
    };
    let device = fault_device(16 << 20, &FaultClock::new());
    let pool = create_pool_on(1, vec![device], 0, new);
    let top = pool.top().unwrap().id;
    let settings = Settings {
        compression: Compression::Lz4,
        record_size: 4096,
        ..Settings::default()
    };
    let engine = engine(7, 0);
    let files = Dataset::open(&engine, &pool, top, Some(opened), settings, &ROOT_USER).unwrap();
    let contents = "What is sealed here, anybody can read who has the key. ".repeat(100);
    let file = create_file(&files, "a file").unwrap();
    files.write(file, 0, contents.as_bytes(), false).unwrap();
    pool.commit().unwrap();
    snapshot(&pool, "tank@now");
    let snapshot = pool.find("tank@now").unwrap();
    let what = SendOf {
        to: snapshot.id,
        from: None,
        start: StreamPosition::START,
        keyring: encoded,
        keys_txg: snapshot.keys_txg(),
        props: BTreeMap::from([("compression".into(), "lz4".into())]),
        open: None,
        readers: 0,
    };
    let mut stream = Vec::new();
    pool.send(what).unwrap().write(&mut stream).unwrap();
    json!([{
        "key": hex(&key),
        "snapshot": "tank@now",
        "contents": contents,
        "seal": hex(&snapshot.seal),
        "stream": BASE64_STANDARD.encode(&stream),
    }])
}
