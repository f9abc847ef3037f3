//! A key slot that is odd cannot be used, and the others can. cryptsetup is the judge where it is there.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::common::{RANDOM, bytes, cheap_slot, container, opens, reopen, secret};
use block::MemoryDevice;
use cipher::Digest;
use luks::{Container, ContainerVersion, Error, Header};
use serde_json::{Value, json};

const COPY: usize = 0x4000;

/// A container that opens with "first" and "second", by the slots 0 and 1.
fn two_slots() -> Container {
    let (mut made, key) = container(ContainerVersion::V2);
    let slot = cheap_slot(ContainerVersion::V2);
    made.add_key(&key, &secret("second"), &slot, None, &RANDOM)
        .unwrap();
    made
}

/// The container with this edit of its JSON and its binary header, and right checksums.
fn edited(made: &Container, json: &Value, label: &[u8]) -> Vec<u8> {
    let mut image = bytes(made);
    let text = serde_json::to_vec(json).unwrap();
    for at in [0, COPY] {
        let copy = &mut image[at..at + COPY];
        copy[4096..].fill(0);
        copy[4096..][..text.len()].copy_from_slice(&text);
        copy[24..][..label.len()].copy_from_slice(label);
        copy[448..512].fill(0);
        let sum = Digest::Sha256.hash(&[copy]);
        copy[448..][..sum.len()].copy_from_slice(&sum);
    }
    image
}

fn json_of(made: &Container) -> Value {
    match made.header() {
        Header::V2(header) => Value::Object(header.json().clone()),
        Header::V1(_) => panic!("LUKS1"),
    }
}

/// Returns those of the two passphrases that open an image with cryptsetup; `None` without cryptsetup.
fn judged(image: &[u8]) -> Option<Vec<&'static str>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::write(&path, image).unwrap();
    let opens = |name: &str, path: &Path| {
        let key = dir.path().join("key");
        std::fs::write(&key, name).unwrap();
        let output = Command::new("cryptsetup")
            .args(["--batch-mode", "open", "--test-passphrase", "--key-file"])
            .args([&key, path])
            .output();
        output.ok().map(|output| output.status.success())
    };
    let mut found = Vec::new();
    for name in ["first", "second"] {
        if opens(name, &path)? {
            found.push(name);
        }
    }
    Some(found)
}

/// The fault of slot 1, the words about it, and whether cryptsetup opens the container at all. Where it does not, it
/// reads more of such a slot than it needs to.
const ODD: [(&str, &str, &str, bool); 22] = [
    ("/kdf/type", "\"scrypt\"", "scrypt", true),
    ("/kdf/type", "\"pbkdf2\"", "hash", false),
    ("/kdf/salt", "\"AAAA\"", "salt", true),
    ("/kdf/salt", "null", "salt", false),
    ("/kdf/memory", "null", "memory", false),
    ("/kdf/time", "\"4\"", "time", false),
    ("/kdf", "null", "kdf", false),
    ("/kdf", "[]", "kdf", false),
    ("/af", "null", "af", false),
    ("/af/type", "\"luks9\"", "splits", false),
    ("/af/hash", "5", "hash", false),
    ("/area/type", "\"other\"", "other", false),
    ("/area/encryption", "null", "encryption", false),
    ("/area/key_size", "1000", "1000 bytes", true),
    ("/key_size", "null", "key_size", false),
    ("/key_size", "-1", "key_size", false),
    ("/key_size", "0", "0 bytes", true),
    ("/key_size", "300", "300 bytes", true),
    ("/key_size", "4294967296", "key_size", false),
    ("/key_size", "64", "too small", true),
    ("/priority", "3", "priority", true),
    ("/priority", "\"x\"", "priority", true),
];

#[test]
fn an_odd_slot_leaves_the_others() {
    let made = two_slots();
    let slot2 = cheap_slot(ContainerVersion::V2);
    for (place, value, reason, is_judged) in ODD {
        let what = format!("{place} = {value}");
        let mut json = json_of(&made);
        let (parent, name) = place.rsplit_once('/').unwrap();
        let parent = json.pointer_mut(&format!("/keyslots/1{parent}")).unwrap();
        let parent = parent.as_object_mut().unwrap();
        match serde_json::from_str(value).unwrap() {
            Value::Null => drop(parent.remove(name)),
            value => drop(parent.insert(name.into(), value)),
        }
        let image = edited(&made, &json, b"");
        let mut read = reopen(image.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(opens(&read, &["first", "second"]), ["first"], "{what}");
        let refused = read.unlock(&secret("second"), None).unwrap_err();
        assert!(
            matches!(refused, Error::WrongPassphrase { .. }),
            "{refused}"
        );
        assert!(refused.to_string().contains(reason), "{what}: {refused}");
        let refused = read.unlock(&secret("second"), Some(1)).unwrap_err();
        assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
        assert!(read.dump().contains("Unusable:"), "{what}");
        if let (Some(judged), true) = (judged(&image), is_judged) {
            assert_eq!(judged, ["first"], "{what}");
        }
        // Nothing is written over it, and it can be taken away.
        let key = read.unlock(&secret("first"), None).unwrap().key;
        let id = read
            .add_key(&key, &secret("third"), &slot2, None, &RANDOM)
            .unwrap();
        assert_eq!(id, 2, "{what}");
        read.remove_slot(1, false, &RANDOM).unwrap();
        let read = reopen(bytes(&read)).unwrap();
        assert_eq!(
            opens(&read, &["first", "third"]),
            ["first", "third"],
            "{what}"
        );
    }
}

#[test]
fn what_is_left_of_another_function_does_not_matter() {
    let made = two_slots();
    let mut json = json_of(&made);
    json["keyslots"]["1"]["kdf"]["hash"] = "sha256".into();
    json["keyslots"]["0"]["kdf"]["iterations"] = 5.into();
    let image = edited(&made, &json, b"");
    let read = reopen(image.clone()).unwrap();
    assert_eq!(opens(&read, &["first", "second"]), ["first", "second"]);
    if let Some(judged) = judged(&image) {
        assert_eq!(judged, ["first", "second"]);
    }
}

/// A slot that belongs to no digest, or to two, is a header that cryptsetup refuses, and so is it here.
#[test]
fn a_slot_belongs_to_one_digest() {
    let made = two_slots();
    let mut in_none = json_of(&made);
    in_none["digests"]["0"]["keyslots"] = json!(["0"]);
    let mut in_two = json_of(&made);
    in_two["digests"]["1"] = in_two["digests"]["0"].clone();
    in_two["digests"]["1"]["keyslots"] = json!(["1"]);
    in_two["digests"]["1"]["segments"] = json!([]);
    for json in [in_none, in_two] {
        let image = edited(&made, &json, b"");
        let refused = reopen(image.clone()).err().unwrap();
        assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
        assert!(
            refused.to_string().contains("key slot 1 belongs to"),
            "{refused}"
        );
        if let Some(judged) = judged(&image) {
            assert!(judged.is_empty(), "{judged:?}");
        }
    }
}

#[test]
fn a_label_need_not_be_text() {
    let made = two_slots();
    let label = b"caf\xe9";
    let image = edited(&made, &json_of(&made), label);
    if let Some(judged) = judged(&image) {
        assert_eq!(judged, ["first", "second"]);
    }
    let mut read = reopen(image).unwrap();
    assert!(
        read.dump().contains("Label:         \tcaf\u{fffd}"),
        "{}",
        read.dump()
    );
    // What is changed beside it leaves its bytes.
    read.remove_slot(1, false, &RANDOM).unwrap();
    for at in [0, COPY] {
        assert_eq!(&bytes(&read)[at + 24..][..5], b"caf\xe9\0");
    }
    read.rename(None, Some("bar"), None, &RANDOM).unwrap();
    assert_eq!(&bytes(&read)[24..][..5], b"bar\0\0");
}

/// A container in re-encryption, as cryptsetup begins one: two keys, and a slot that says how far it is.
#[test]
fn what_is_erased_in_reencryption_can_be_read() {
    let made = two_slots();
    let mut json = json_of(&made);
    let crypt = json["segments"]["0"].clone();
    let area = json["keyslots"]["1"]["area"].clone();
    let end: u64 = ["offset", "size"]
        .iter()
        .map(|key| area[key].as_str().unwrap().parse::<u64>().unwrap())
        .sum();
    json["config"]["requirements"] = json!({"mandatory": ["online-reencrypt-v2"]});
    json["keyslots"]["2"] = json!({
        "type": "reencrypt", "key_size": 1, "mode": "reencrypt", "direction": "forward", "priority": 0,
        "area": {"type": "checksum", "offset": end.to_string(), "size": "4096",
                 "hash": "sha256", "sector_size": 512},
    });
    for (id, flag) in [("1", "backup-previous"), ("2", "backup-final")] {
        json["segments"][id] = crypt.clone();
        json["segments"][id]["flags"] = json!([flag]);
    }
    json["segments"]["0"]["flags"] = json!(["in-reencryption"]);
    let mut digest = json["digests"]["0"].clone();
    json["digests"]["0"]["keyslots"] = json!(["0"]);
    json["digests"]["0"]["segments"] = json!(["0", "1"]);
    digest["keyslots"] = json!(["1"]);
    digest["segments"] = json!(["2"]);
    json["digests"]["1"] = digest.clone();
    digest["keyslots"] = json!(["2"]);
    digest["segments"] = json!([]);
    json["digests"]["2"] = digest;
    let device = Arc::new(MemoryDevice::from_bytes(edited(&made, &json, b"")));
    let mut read = Container::open(device, &RANDOM).unwrap();
    read.erase(&RANDOM).unwrap();
    let erased = reopen(bytes(&read)).unwrap();
    assert!(erased.slots().is_empty());
    assert!(
        erased.dump().contains("  2: reencrypt"),
        "{}",
        erased.dump()
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::write(&path, bytes(&read)).unwrap();
    match Command::new("cryptsetup")
        .arg("luksDump")
        .arg(&path)
        .output()
    {
        Err(_) => eprintln!("skipped: there is no cryptsetup"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
        }
    }
}
