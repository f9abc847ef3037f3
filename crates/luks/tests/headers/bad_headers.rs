//! LUKS2 headers that are whole, as far as their checksums say, and wrong: each is refused, and says why.
//! The list is that of cryptsetup's tests.

use std::io::IoSlice;
use std::sync::Arc;

use crate::common::{bytes, container, reopen};
use block::{BlockDevice, MemoryDevice};
use cipher::Digest;
use luks::{Container, ContainerVersion, Error, luks2};
use serde_json::{Value, json};

const COPY: usize = 0x4000;

/// The JSON of a good header.
fn good() -> Value {
    let (made, _) = container(ContainerVersion::V2);
    match made.header() {
        luks::Header::V2(header) => Value::Object(header.json().clone()),
        luks::Header::V1(_) => panic!("LUKS1"),
    }
}

/// A device with a good container, but for the JSON areas of both copies.
fn with_area(area: &[u8]) -> Vec<u8> {
    let (made, _) = container(ContainerVersion::V2);
    let mut image = bytes(&made);
    for copy in [0, COPY] {
        let json = &mut image[copy + 4096..copy + COPY];
        json.fill(0);
        json[..area.len()].copy_from_slice(area);
        seal(&mut image[copy..copy + COPY]);
    }
    image
}

fn with_json(json: &Value) -> Vec<u8> {
    with_area(&serde_json::to_vec(json).unwrap())
}

/// Makes the checksum of a copy right.
fn seal(copy: &mut [u8]) {
    copy[448..512].fill(0);
    let sum = Digest::Sha256.hash(&[copy]);
    copy[448..480].copy_from_slice(&sum);
}

fn refused(image: Vec<u8>) -> String {
    match reopen(image) {
        Err(error @ Error::Damaged { .. }) => error.to_string(),
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("it was taken"),
    }
}

#[test]
fn the_good_header_is_good() {
    reopen(with_json(&good())).unwrap();
    // Spaces are allowed.
    reopen(with_area(&serde_json::to_vec_pretty(&good()).unwrap())).unwrap();
}

/// The field, its wrong value (null: the field is missing), and a part of the error.
const WRONG: &str = r#"
    /config                    | null | config
    /keyslots                  | null | keyslots
    /segments                  | null | segments
    /digests                   | null | digests
    /tokens                    | null | tokens
    /tokens                    | [] | tokens
    /config/json_size          | "16384" | cannot be 20480
    /config/json_size          | "28672" | inside of the header
    /config/json_size          | 12288 | json_size
    /config/keyslots_size      | "1" | key material
    /config/keyslots_size      | "268435456" | key material
    /config/keyslots_size      | "1048576" | inside of the header
    /config/requirements       | {"mandatory": [1]} | mandatory
    /config/flags              | [7] | flags
    /keyslots/0/type           | null | type
    /keyslots/0/type           | "" | type
    /keyslots/0/area           | null | area
    /keyslots/0/area/offset    | null | offset
    /keyslots/0/area/offset    | "" | offset
    /keyslots/0/area/offset    | "-32768" | offset
    /keyslots/0/area/offset    | 32768 | offset
    /keyslots/0/area/offset    | "16384" | overlaps
    /keyslots/0/area/offset    | "1044480" | does not end
    /keyslots/0/area/offset    | "18446744073709551615" | does not end
    /keyslots/0/area/size      | "0" | empty
    /keyslots/0/area/size      | "18446744073709551615" | does not end
    /keyslots/0/area/size      | "18446744073709551616" | size
    /keyslots/00               | {} | 00
    /keyslots/x                | {} | x
    /keyslots/32               | {} | 32
    /digests/0/keyslots        | ["1"] | not there
    /digests/0/keyslots        | [0] | texts
    /digests/0/keyslots        | null | keyslots
    /digests/0/keyslots        | [] | key slot 0 belongs to no digest
    /digests/1                 | {"type": "other", "keyslots": ["0"], "segments": []} | key slot 0 belongs to 2 digests
    /digests/0/segments        | ["1"] | not there
    /digests/0/segments        | [] | no digest
    /digests/0/digest          | "AAAA" | 3 bytes
    /digests/0/salt            | "" | salt
    /digests/0/type            | null | type
    /segments/0                | null | not there
    /segments/0/type           | null | type
    /segments/0/type           | 1 | type
    /segments/0/offset         | null | offset
    /segments/0/offset         | "1048577" | whole sectors
    /segments/0/offset         | "512" | inside of the header
    /segments/0/offset         | "1x" | offset
    /segments/0/size           | null | size
    /segments/0/size           | "automatic" | size
    /segments/0/size           | "0" | whole sectors
    /segments/0/size           | "511" | whole sectors
    /segments/0/size           | "18446744073709551616" | size
    /segments/0/size           | "18446744073709551104" | no end
    /segments/0/iv_tweak       | null | iv_tweak
    /segments/0/iv_tweak       | "dynamic" | iv_tweak
    /segments/0/encryption     | null | encryption
    /segments/0/encryption     | "" | encryption
    /segments/0/sector_size    | null | sector_size
    /segments/0/sector_size    | 4097 | 4097
    /segments/0/sector_size    | 0 | 0 bytes
    /segments/0/sector_size    | 1024000 | 1024000
    /segments/0/sector_size    | "512" | sector_size
    /segments/0/flags          | {} | flags
    /segments/0/flags          | [1] | flags
    /segments/0/flags          | ["backup-final"] | no segment
    /segments/0/integrity      | {"type": "none"} | journal_encryption
    /segments/2                | {"type": "linear", "offset": "2097152", "size": "512"} | no segment 1
    /segments/1                | {"type": "linear", "offset": "1048576", "size": "512"} | not the last
    /segments/1                | {"type": "linear", "offset": "2097152", "size": "512"} | not the last
    /tokens/0                  | {"type": "t", "keyslots": ["8"]} | not there
    /tokens/0                  | {"keyslots": []} | type
    /tokens/0                  | {"type": "t"} | keyslots
    /tokens/t                  | {"type": "t", "keyslots": []} | t
"#;

#[test]
fn each_is_refused() {
    for line in WRONG.trim().lines() {
        let mut parts = line.split(" | ").map(str::trim);
        let [place, value, reason] = [(); 3].map(|()| parts.next().unwrap());
        let mut json = good();
        put(&mut json, place, serde_json::from_str(value).unwrap());
        let said = refused(with_json(&json));
        assert!(said.contains(reason), "{line}: {said}");
    }
}

fn put(json: &mut Value, place: &str, value: Value) {
    let (parent, name) = place.rsplit_once('/').unwrap();
    let parent = json.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match value {
        Value::Null => drop(parent.remove(name)),
        value => drop(parent.insert(name.into(), value)),
    }
}

#[test]
fn two_slots_cannot_share_an_area() {
    let mut json = good();
    let slot = json["keyslots"]["0"].clone();
    json["keyslots"]["1"] = slot;
    assert!(refused(with_json(&json)).contains("overlaps"));
    json["keyslots"]["1"]["area"]["offset"] = "36864".into();
    assert!(refused(with_json(&json)).contains("overlaps"));
}

#[test]
fn what_is_not_json_is_refused() {
    let text = serde_json::to_vec(&good()).unwrap();
    let area_len = COPY - 4096;
    let mut full = text.clone();
    full.resize(area_len, b' ');
    let deep = [b"{\"tokens\":".to_vec(), vec![b'['; 6000]].concat();
    let cases: [(&str, Vec<u8>); 8] = [
        ("nothing", Vec::new()),
        ("a list", b"[]".to_vec()),
        ("a number", b"7".to_vec()),
        ("space before it", [b" ", text.as_slice()].concat()),
        ("something behind it", [text.as_slice(), b"\0\0x"].concat()),
        ("no zero behind it", full),
        ("half of it", text[..text.len() / 2].to_vec()),
        ("too deep", deep),
    ];
    for (what, area) in cases {
        let said = refused(with_area(&area));
        assert!(said.contains("JSON"), "{what}: {said}");
    }
}

#[test]
fn binary_headers_that_lie_are_refused() {
    let fields: [(usize, &[u8]); 8] = [
        (6, &[0, 3]),
        (8, &0u64.to_be_bytes()),
        (8, &0x8000u64.to_be_bytes()),
        (8, &u64::MAX.to_be_bytes()),
        (8, &0x5000u64.to_be_bytes()),
        (256, &512u64.to_be_bytes()),
        (72, b"sha25\0"),
        (72, &[0xff; 32]),
    ];
    for (at, value) in fields {
        let mut image = with_json(&good());
        for copy in [0, COPY] {
            image[copy + at..][..value.len()].copy_from_slice(value);
            seal(&mut image[copy..copy + COPY]);
        }
        refused(image);
    }
}

#[test]
fn what_is_required_and_not_known_is_refused_to_open_and_to_change() {
    for requirement in [
        "online-reencrypt-v2",
        "offline-reencrypt",
        "opal",
        "inline-hw-tags",
        "later",
    ] {
        let mut json = good();
        json["config"]["requirements"] = json!({"mandatory": [requirement]});
        let image = with_json(&json);
        let mut read = reopen(image.clone()).unwrap();
        assert!(read.dump().contains(requirement));
        let errors = [
            read.unlock(&crate::common::secret("first"), None).err(),
            read.segment().err(),
            read.remove_slot(0, true, &crate::common::RANDOM).err(),
            read.rename(None, Some("x"), None, &crate::common::RANDOM)
                .err(),
            read.convert(ContainerVersion::V1, &crate::common::RANDOM)
                .err(),
        ];
        for error in errors {
            let error = error.unwrap();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            assert!(error.to_string().contains(requirement));
        }
        assert_eq!(bytes(&read), image);
    }
}

/// A header that claims that data or key material is not encrypted would make the program that opens it write
/// plaintext.
#[test]
fn no_encryption_is_no_encryption() {
    for place in ["/segments/0/encryption", "/keyslots/0/area/encryption"] {
        for cipher in [
            "cipher_null-ecb",
            "null",
            "aes-xts-random",
            "capi:ecb(cipher_null)",
        ] {
            let mut json = good();
            *json.pointer_mut(place).unwrap() = cipher.into();
            let read = reopen(with_json(&json)).unwrap();
            let unlocked = read.unlock(&crate::common::secret("first"), None);
            if place.starts_with("/keyslots") {
                assert!(matches!(unlocked, Err(Error::Unsupported { .. })));
            }
        }
    }
}

#[test]
fn costs_that_nobody_pays_are_refused_when_they_come_due() {
    for (name, value) in [
        ("memory", u32::MAX),
        ("time", u32::MAX),
        ("cpus", 1 << 20),
        ("memory", 0),
    ] {
        let mut json = good();
        json["keyslots"]["0"]["kdf"][name] = value.into();
        let read = reopen(with_json(&json)).unwrap();
        let error = read
            .unlock(&crate::common::secret("first"), None)
            .unwrap_err();
        assert!(error.to_string().contains("Argon2"), "{error}");
    }
}

#[test]
fn larger_headers_are_read_and_found_by_their_second_copy() {
    for copy_len in luks2::COPY_SIZES {
        let areas = 64 << 10;
        let len = 2 * copy_len + areas;
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(len as usize + 4096));
        let format = luks::ContainerFormat {
            copy_len,
            areas_len: Some(areas),
            data_offset: Some(len),
            ..crate::common::small(ContainerVersion::V2)
        };
        luks::format(
            Arc::clone(&device),
            &format,
            &crate::common::secret("first"),
            &crate::common::RANDOM,
        )
        .unwrap();
        device.write_at(100, &[IoSlice::new(&[1; 50])]).unwrap();
        let read = Container::open(device, &crate::common::RANDOM).unwrap();
        assert_eq!(crate::common::opens(&read, &["first"]), ["first"]);
    }
}
