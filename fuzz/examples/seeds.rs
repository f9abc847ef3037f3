//! Writes the corpus: real encodings, each a few hundred bytes.
//!
//! `RUSTFLAGS='--cfg fuzzing' cargo run --example seeds`, in `fuzz/`.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use cipher::{Padding, SeededRandom, Suite};
use keys::{Argon2Params, Backup, BackupKeyring, KeyGeneration, KeyMaterial, Keyring, WrappingKeyAccess};
use protocol::api::{DatasetAnchor, DaemonAnswer, Command, DeviceGroup, NewPoolDevices, Reply, Request, command};
use protocol::wire;
use secret::{Key, Secret};
use store::layout::{FORMAT_VERSION, LABEL_MAGIC, Label, SUPERBLOCK_MAGIC, encode_frame};

fn put(target: &str, name: &str, parts: &[&[u8]]) {
    let dir = Path::new("corpus").join(target);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join(name), parts.concat()).unwrap();
}

fn main() {
    for (kind, bytes) in pool::fuzzing::samples() {
        put(
            "pool_records",
            &format!("kind-{kind:02}"),
            &[&[kind], &bytes],
        );
    }
    for (i, (kind, bytes)) in pool::fuzzing::stream_samples().iter().enumerate() {
        put("pool_stream", &format!("stream-{i}"), &[&[*kind], bytes]);
    }
    for (i, (kind, bytes)) in dataset::fuzzing::value_samples().iter().enumerate() {
        put(
            "dataset_values",
            &format!("value-{i:02}"),
            &[&[*kind], bytes],
        );
    }
    for (i, bytes) in objects::fuzzing::samples().iter().enumerate() {
        put("store_objects", &format!("object-{i}"), &[bytes]);
    }
    let script: Vec<u8> = (0..32u8).map(|i| i.wrapping_mul(37)).collect();
    for (i, bytes) in dataset::fuzzing::page_samples().iter().enumerate() {
        put(
            "dataset_page",
            &format!("page-{i}"),
            &[&[32], &script, bytes],
        );
    }
    for (i, bytes) in dataset::fuzzing::record_samples().iter().enumerate() {
        put("dataset_record", &format!("record-{i}"), &[&[1], bytes]);
    }
    labels();
    keyrings();
    texts();
    frames();
    daemon_texts();
    ha_files();
    requests();
    ciphers();
    luks_headers();
    for (kind, bytes) in luks::fuzzing::integrity_samples() {
        put(
            "luks_integrity",
            &format!("kind-{kind}"),
            &[&[kind], &bytes],
        );
    }
    nbd_clients();
    for order in [0b1110_0100, 0, 0x55] {
        let mut server = nbd::fuzzing::server_sample();
        server[0] = order;
        put("nbd_server", &format!("order-{order}"), &[&server]);
    }
    iscsi_initiators();
    images();
}

fn ciphers() {
    for (i, (name, key, size)) in [
        ("aes-xts-plain64", 64, 2),
        ("aes-xts-benbi", 32, 32),
        ("aes-cbc-essiv:sha256", 16, 32),
        ("serpent-xts-plain64be", 64, 3),
        ("camellia-ctr-plain", 24, 5),
        ("twofish-cbc-null", 32, 1),
        ("aes-ecb", 24, 4),
    ]
    .into_iter()
    .enumerate()
    {
        let head = [b'\n', key, size, 37];
        let sectors = vec![i as u8; 3 * 16 * usize::from(size)];
        let file = format!("spec-{i}");
        put("cipher_spec", &file, &[name.as_bytes(), &head, &sectors]);
    }
    let text = b"# a comment\nenable fips-140\ndisable aws-lc/aes-xts\ndisable openssl\n";
    put("cipher_policy", "file", &[text]);
    put("cipher_policy", "target", &[b"portable/camellia-xts"]);
    put("cipher_policy", "hwcap", &[b"-aes,-pclmul,-avx512"]);
    for (mode, tweak, len) in [
        (0, 16, 40),
        (1, 5, 33),
        (2, 32, 16),
        (3, 32, 100),
        (4, 16, 48),
    ] {
        let bytes = vec![mode; usize::from(tweak) + len];
        put(
            "cipher_names",
            &format!("mode-{mode}"),
            &[&[mode, 32, tweak, 7], &bytes],
        );
    }
    stack_seeds();
    for what in 0..8 {
        let name = format!("message-{what}");
        put("cipher_sealed", &name, &[&[what, what % 2, 9], &[what; 70]]);
    }
    for (name, padding, len) in [("kw", Padding::None, 32), ("kwp", Padding::Zeros, 21)] {
        let wrapped = cipher::wrap_key(&[16; 16], padding, &vec![5; len]).unwrap();
        put("cipher_sealed", name, &[&[8, 0, 16], &wrapped]);
    }
    put("cipher_sealed", "stripes", &[&[9, 0, 32], &[5; 96]]);
}

fn luks_headers() {
    use luks::{ContainerFormat, Header, KdfChoice, KdfKind, SlotChoice, Variant, ContainerVersion};
    let phrase = Secret::from_slice(b"correct horse").unwrap();
    for (version, kind) in [
        (ContainerVersion::V1, KdfKind::Pbkdf2),
        (ContainerVersion::V2, KdfKind::Argon2(Variant::Argon2id)),
    ] {
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(2 << 20));
        let kdf = KdfChoice {
            force_iterations: Some(1000),
            memory_kib: 8,
            lanes: Some(1),
            ..KdfChoice::new(kind)
        };
        let format = ContainerFormat {
            cipher: "aes-cbc-essiv:sha256".into(),
            key_len: 16,
            data_offset: Some(1 << 20),
            slot: SlotChoice {
                kdf,
                ..SlotChoice::new(version)
            },
            ..ContainerFormat::new(version, "5ae2903e-22b6-43a2-b884-f5e9640ee47b".into())
        };
        let random = SeededRandom::new(1);
        let (made, _) = luks::format(Arc::clone(&device), &format, &phrase, &random).unwrap();
        match made.header() {
            Header::V1(_) => {
                let mut bytes = [0; 592];
                device.read_at(0, &mut bytes).unwrap();
                put("luks_header", "luks1", &[&[0], &bytes]);
            }
            Header::V2(header) => {
                let json = serde_json::to_vec(header.json()).unwrap();
                put("luks_header", "luks2-json", &[&[1], &json]);
                let mut bytes = [0; 4096 + 1024];
                device.read_at(0, &mut bytes).unwrap();
                put("luks_header", "luks2-binary", &[&[0], &bytes]);
            }
        }
    }
}

fn daemon_texts() {
    let anchor = DatasetAnchor {
        dataset: "tank/home".into(),
        pool_guid: 1,
        txg: 2,
        guid: 3,
        sequence: 4,
        seal: "0a".repeat(32),
    };
    let line = daemon::anchor_line::write(&anchor);
    let head = line.split(" check=").next().unwrap();
    let remembered = r#"{"pools":{"tank":["/dev/sdb"]},"read_only":["tank"]}"#;
    let request = "GET /metrics?x HTTP/1.1\r\nHost: x\r\n\r\n";
    let jobs = r#"[{"name":"j","target":"ssh://a@h:22/b/c","owner":7,"every":3600,"keep":"daily:7"}]"#;
    let grants = "u7 l create,mount\ng7 d @ops\n@ops l key,@ops\nc l destroy\ne l hold";
    let mounts =
        "47 27 0:44 / /a\\040b ro,nosuid shared:1 - fuse.strongroom tank/a rw,user_id=0,group_id=0";
    for (name, kind, text) in [
        ("grants", 3, grants),
        ("jobs", 5, jobs),
        ("mounts", 4, mounts),
        ("request", 0, request),
        ("pools", 1, remembered),
        ("anchor", 2, &line),
        ("anchor-head", 2, head),
    ] {
        put("daemon_text", name, &[&[kind], text.as_bytes()]);
    }
}

fn ha_files() {
    let stmf = "# a\ntarget_portal_groups=( g )\ng_portals=( 192.0.2.1 [::1]:5 )\ntargets=(\n t # b\n)\nt_tpg='g'\n\
        host_groups=(h)\nh_members=( iqn.x:a )\nviews=( v )\nv_hg=\"h\"\nv_lu_prefix=tank/a\n";
    let toml = "targets = [\"t\"]\nt_chap = [\"a=file:///k\"]\nlogical_units = [\n\"tank/a:1\"]\nviews = ['v']\n\
        v_read_only = true\n";
    put("ha_file", "stmf", &[&[1], stmf.as_bytes()]);
    put("ha_file", "toml", &[&[0], toml.as_bytes()]);
}

fn labels() {
    let label = Label {
        magic: LABEL_MAGIC,
        version: FORMAT_VERSION.into(),
        segment_size: (1 << 20).into(),
        pool_guid: 1.into(),
        device_guid: 2.into(),
        group: 0.into(),
        member: 0.into(),
        width: 1.into(),
        policy: 0.into(),
        segments: 1.into(),
        key_blocks: 4.into(),
        header_size: (38 * 4096).into(),
        device_size: (340 * 4096).into(),
        created: 1.into(),
        column: 0.into(),
        columns: 0.into(),
        parity: 0.into(),
        change: 0.into(),
        other_guid: 0.into(),
        since: 0.into(),
        new_name: [0; 256],
    };
    let frame = encode_frame(SUPERBLOCK_MAGIC, 1, 7, b"payload");
    for how in [0, 0x10] {
        put(
            "store_labels",
            &format!("label-{how:02x}"),
            &[&[how], &label.encode()[..size_of::<Label>()], &frame[..48]],
        );
    }
}

fn keyrings() {
    let random = SeededRandom::new(1);
    let params = Argon2Params::insecure_for_tests();
    let phrase = Secret::from_slice(b"correct horse").unwrap();
    let materials = [
        KeyMaterial::Key(Key::from_bytes(&[1; 32]).unwrap()),
        KeyMaterial::Passphrase(phrase),
    ];
    for (i, material) in materials.iter().enumerate() {
        let (wrapping, key) = WrappingKeyAccess::create(material, &params, 0, &random).unwrap();
        let suite = Suite::Xaes256Gcm;
        let (generation, _) = KeyGeneration::create(&key, 3, 1, 1, suite, 0, &random).unwrap();
        let own = Keyring::new(3, wrapping, vec![generation.clone()]).unwrap();
        let bytes = own.encode();
        put(
            "keyring",
            &format!("own-{i}"),
            &[&bytes[..bytes.len() - 32]],
        );
        let backup = Backup {
            created: 1,
            keyrings: vec![BackupKeyring {
                guid: 3,
                name: "tank/home".into(),
                keysource: "passphrase,prompt".into(),
                bytes: bytes.clone(),
            }],
        };
        let backup = backup.encode().unwrap();
        put(
            "key_backup",
            &format!("own-{i}"),
            &[&backup[..backup.len() - 32]],
        );
        let id = *key.id();
        let inherited = Keyring::new(3, WrappingKeyAccess::Inherited { id }, vec![generation]).unwrap();
        let bytes = inherited.encode();
        put(
            "keyring",
            &format!("inherited-{i}"),
            &[&bytes[..bytes.len() - 32]],
        );
    }
}

fn texts() {
    put(
        "clevis_token",
        "tang",
        &[br#"{"jwe":{"protected":"eyJhbGciOiJFQ0RILUVTIiwiZW5jIjoiQTI1NkdDTSIsImNsZXZpcyI6eyJwaW4iOiJ0YW5nIn19","encrypted_key":"","iv":"AAAA","ciphertext":"AAAA","tag":"AAAAAAAAAAAAAAAAAAAAAA"}}"#],
    );
    put(
        "clevis_token",
        "parts",
        &[br#"{"alg":"dir","enc":"A256GCM","clevis":{"pin":"sss","sss":{"t":1,"p":"__________________________________________8","jwe":["eyJhbGciOiJFQ0RILUVTIiwiZW5jIjoiQTI1NkdDTSIsImNsZXZpcyI6eyJwaW4iOiJ0YW5nIn19..AAAA.AAAA.AAAAAAAAAAAAAAAAAAAAAA"]}}}"#],
    );
    put("clevis_token", "keys-no-object", &[br#"{"payload":"NA"}"#]);
    put(
        "clevis_token",
        "keys",
        &[br#"{"thp":"BgHn8ksdVZgDA5vYkZeAAm3IDDyFyVdN1KVvkbjP6JU","payload":"eyJrZXlzIjpbeyJrdHkiOiJFQyIsImNydiI6IlAtMjU2IiwieCI6IkFBIiwieSI6IkFBIiwia2V5X29wcyI6WyJ2ZXJpZnkiXX1dfQ","protected":"eyJhbGciOiJFUzI1NiJ9","signature":"AAAA"}"#],
    );
    put(
        "clevis_token",
        "fido2",
        &[br#"{"type":"systemd-fido2","keyslots":["1"],"fido2-credential":"AAAA","fido2-salt":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","fido2-rp":"io.systemd.cryptsetup","fido2-clientPin-required":true,"fido2-up-required":true,"fido2-uv-required":false}"#],
    );
    put(
        "clevis_token",
        "tpm-signed",
        &[br#"{"type":"systemd-tpm2","keyslots":["1"],"tpm2-blob":"AJ4AIG1ptWJGJya/meShx9zRs9hAcz3QWCmqD5+VinpHNhRaABBlb9okW1f47/Fd5XwmF7bWs3Zr869wrE4rhEThbm4Ug9yYjgSGBq0Kffm0LazXQ6dP5FdKMPukdpsYx7TUXVHRBeQJyFPO3sqR3H64M0KBrDu0HzfjvCfAufexEQjhVr3sJxfj58ofuryO+49w/B+i4oimju4UXw0EgwBOAAgACwAAABIAIJMYBNlkODNvjD6LZHta6hWksyq29f+e+z4BkltWJh39ABAAINDX3YMKwX04BXQ0d7WqVTm/BuElVBajcLJNyXh7H3rf","tpm2-pcrs":[],"tpm2-pcr-bank":"sha256","tpm2-primary-alg":"ecc","tpm2-policy-hash":"931804d96438336f8c3e8b647b5aea15a4b32ab6f5ff9efb3e01925b56261dfd","tpm2-pin":false,"tpm2_pubkey_pcrs":[11],"tpm2_pubkey":"LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KTUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQ0FROEFNSUlCQ2dLQ0FRRUFoZm1ucjVjZGgvUmJEdlI2YW5oUAprVXcxMmdKM1FJVzRXa0lqZ2tKd1ZtcFZlSmE2U3dvZVhZemhmZmhrNHhBbnlmWlpEMHlhK201U3dQRWVhUm5aCkUxSWpyYzJuMlpSVi9GWVJkOXNMN3ZYK0FGOWcwV2sxRDdLSFc5dHZyOEVWcUlCSHE3cUtYRGF0eHpYeDZiUGoKQnJPaDc5U0p3dFU1L2lZWkd1TmRGN2xIU2NpNzBQWEJWY0laa2hxMUVyd3NNM0ZCVmxhWkZCYlZCVXh3Y011dwo4NWZYQ05CVDNTWGMvN1RuaE1aZHlrcVZRTDZVdGw0Q205Q3hyNE8rN1BvUEFxNlI1UzhiU0pCd2JZYWZVVEFJCmUwbi9lVnJQV2ZnM0JEaFc3Y2dNMmlmWWJmMVA0dHB1M1VTNnRSa1dDNnpWOHNSc0FSUGp0RWhjVHoraEUyckQKL3dJREFRQUIKLS0tLS1FTkQgUFVCTElDIEtFWS0tLS0tCg=="}"#],
    );
    put(
        "clevis_token",
        "signatures",
        &[br#"{"sha256":[{"pcrs":[11],"pkfp":"64dde56cf2e94ba231dc49d15cb2a415eef2069197d75bc6b749f0ceb9aec1ec","pol":"4ff71af61068af0691ff4fb19a58dc695265f97b286d517fea5b79d4c2894e03","sig":"XVIqLxS/NSxjE9O8ma1uKA419lxM8D5+DrrwvwhAxhj89/BWOXTW6GeB5qc87vAOHWnlG5508ZSFtmoBOMsHHSzT4vlovo99Q2mlMU2dLPXCldPVQcLZZjb9RKq77ZMg4Iu8X3XHGGcJOsipwivVe54VqQlsly0ka1VLJan4qtE8Czgh7IqinL0beRDKZ8ALowfbwc9nLeWHuDhBuOFjVPBlMdT72JPKbzDdTZiV1KyhXeEjwuXRHv/JO4K62gyrcJA9naQN+gQ4VEq4RsNMImV+cz+cYdf5S9JFidH5tB/LFK9LdWWVXoDmb1Eu7X6HTPDGlS+qDKBvkMcBA3hF7A=="}]}"#],
    );
    // A session that begins, and an object that is public.
    let nonce = [
        &[0x80, 1, 0, 0, 0, 32, 0, 0, 0, 0, 3, 0, 0, 0, 0, 16][..],
        &[7; 16],
    ]
    .concat();
    put("tpm_answer", "session", &[&nonce]);
    let unsealed = [
        0x80, 2, 0, 0, 0, 23, 0, 0, 0, 0, 0, 0, 0, 4, 0, 2, 7, 7, 0, 0, 1, 0, 0,
    ];
    put("tpm_answer", "unsealed", &[&unsealed]);
    // The digest of a policy, and the ticket for a signature.
    let head = [0x80, 1, 0, 0, 0, 44, 0, 0, 0, 0, 0, 32];
    put("tpm_answer", "policy", &[&head, &[7; 32]]);
    let head = [
        0x80, 1, 0, 0, 0, 50, 0, 0, 0, 0, 0x80, 0x22, 0x40, 0, 0, 1, 0, 32,
    ];
    put("tpm_answer", "ticket", &[&head, &[7; 32]]);
    // PCR 7 with SHA-256, and what locks a TPM.
    let head = [0x80, 1, 0, 0, 0, 66, 0, 0, 0, 0];
    let selected = [
        0, 0, 0, 1, 0, 0, 0, 1, 0, 0x0b, 3, 0x80, 0, 0, 0, 0, 0, 1, 0, 32,
    ];
    put("tpm_answer", "pcrs", &[&head, &selected, &[7; 32], &[0; 4]]);
    let head = [0x80, 1, 0, 0, 0, 43, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 3];
    let property = |number: u8, value: u8| [0, 0, 2, number, 0, 0, 0, value];
    put(
        "tpm_answer",
        "lockout",
        &[
            &head,
            &property(0x0e, 1),
            &property(0x0f, 32),
            &property(0x10, 200),
        ],
    );
    put("key_text", "raw", &[&[0], &[7; 32]]);
    put("key_text", "hex", &[&[1], &[b'a'; 64], b"\n"]);
    put("key_text", "passphrase", &[&[2], b"correct horse\n"]);
    put("key_text", "prompt", &[&[3], b"passphrase,prompt"]);
    put(
        "key_text",
        "tpm",
        &[&[3], b"raw,tpm2:/dev/tpmrm0#pcrs=7+11&bank=sha384&pin=yes"],
    );
    put(
        "key_text",
        "parts",
        &[&[3], b"raw,sss:2|tpm2:|file:///k|exec:///p?a"],
    );
    put("key_text", "file", &[&[3], b"hex,file:///etc/a%20key"]);
}

fn frames() {
    let request = |command| Request {
        version: 1,
        command,
        hash_memory: None,
    };
    let create = Command::PoolCreate(command::PoolCreate {
        pool: "tank".into(),
        devices: Box::new(NewPoolDevices {
            groups: vec![DeviceGroup {
                devices: vec!["/dev/a".into()],
                parity: 0,
            }],
            ..NewPoolDevices::default()
        }),
        size: Some(1),
        force: false,
        props: vec![("compression".into(), "lz4".into())],
        no_mount: true,
        dry_run: false,
        altroot: None,
        temporary_name: None,
    });
    let secret = Secret::from_slice(b"correct horse").unwrap();
    for (name, command) in [("create", create), ("mounts", Command::Mounts)] {
        let mut bytes = Vec::new();
        wire::send(&mut bytes, &request(command)).unwrap();
        put("daemon_wire", &format!("{name}.json"), &[&bytes[5..]]);
        wire::send_secret(&mut bytes, &secret).unwrap();
        put("daemon_wire", name, &[&bytes]);
    }
    let mut bytes = Vec::new();
    wire::send(&mut bytes, &DaemonAnswer::Done(Reply::Nothing)).unwrap();
    wire::send_cancel(&mut bytes).unwrap();
    put("daemon_wire", "answer", &[&bytes]);
}

/// Requests by opcode: how many zero bytes come first, and what follows.
fn requests() {
    let name: &[u8] = b"name\0";
    let all: [(u32, usize, &[u8]); 20] = [
        (1, 0, b"dir\0"),
        (3, 16, b""),
        (4, 88, b""),
        (6, 0, b"name\0to/there\0"),
        (8, 16, name),
        (9, 8, name),
        (10, 0, b"hard\0"),
        (12, 8, b"hard\0new\0"),
        (13, 8, name),
        (15, 40, b""),
        (16, 40, b"hello"),
        (17, 0, b""),
        (20, 16, b""),
        (21, 16, b"user.x\0abc"),
        (22, 8, b"user.note\0"),
        (23, 8, b""),
        (35, 16, name),
        (43, 32, b""),
        (44, 40, b""),
        (46, 24, b""),
    ];
    let frame = |opcode, body: &[u8]| {
        let bytes = fuse::fuzzing::message(opcode, 1, body);
        [&(bytes.len() as u16).to_le_bytes()[..], &bytes].concat()
    };
    for (opcode, zeros, rest) in all {
        let mut body = vec![0; zeros];
        // Sizes are the third number of a read, and the first of an attribute.
        if matches!(opcode, 15 | 16 | 44) {
            body[16] = if opcode == 16 { 5 } else { 0 };
            body[17] = if opcode == 16 { 0 } else { 0x10 };
        } else if opcode == 21 {
            body[0] = 3;
        }
        body.extend_from_slice(rest);
        put(
            "fuse_request",
            &format!("op-{opcode:02}"),
            &[&[1], &frame(opcode, &body)],
        );
    }
    let several = [frame(9, b"\0\0\0\0\0\0\0\0name\0"), frame(11, b"name\0")].concat();
    put("fuse_request", "several", &[&[1], &several]);
}

fn images() {
    // Nothing changed; then one byte of each kind of object.
    put("pool_image", "unchanged", &[&[0, 0]]);
    for object in 0..40u8 {
        let script = [object % 2, 0, 0, object, object, object / 2, 2, 1, 2];
        put("pool_image", &format!("object-{object:02}"), &[&script]);
    }
    put("pool_image", "pointer", &[&[0, 0, 2, 20, 21, 1, 0xf5]]);
    for object in 0..12u8 {
        let script = [0, object, object * 7, 0, 2, 1, 2];
        put("dataset_image", &format!("page-{object:02}"), &[&script]);
    }
}

/// An initiator that logs in, and one that reads and writes.
fn iscsi_initiators() {
    let pdu = |opcode: u8, flags: u8, number: u32, expected: u32, cdb: &[u8], data: &[u8]| {
        let mut bytes = vec![opcode, flags, 0, 0];
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend([0; 8]);
        for word in [number, expected, number, 0] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(cdb);
        bytes.resize(48, 0);
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let text =
        b"InitiatorName=iqn.x:y\0TargetName=iqn.2026-01.org.example:disk\0HeaderDigest=None\0";
    let login = pdu(0x43, 0x87, 1, 0, &[], text);
    let mut commands = pdu(1, 0x80, 1, 0, &[0], &[]);
    let (read, write) = (
        [0x28, 0, 0, 0, 0, 3, 0, 0, 1, 0],
        [0x2a, 0, 0, 0, 0, 3, 0, 0, 1, 0],
    );
    commands.extend(pdu(1, 0xa0, 2, 512, &write, &[7; 512]));
    commands.extend(pdu(1, 0xc0, 3, 512, &read, &[]));
    commands.extend(pdu(1, 0xa0, 4, 512, &write, &[]));
    commands.extend(pdu(5, 0x80, 4, 0, &[], &[7; 512]));
    commands.extend(pdu(1, 0xc0, 5, 255, &[0x12, 1, 0x83, 0, 255, 0], &[]));
    commands.extend(pdu(
        1,
        0xa0,
        6,
        8,
        &[0x42, 0, 0, 0, 0, 0, 0, 0, 8, 0],
        &[0; 8],
    ));
    commands.extend(pdu(2, 0x85, 7, 0, &[], &[]));
    for (number, action) in (8..).zip([6, 1, 2, 4, 3]) {
        let cdb = [0x5f, action, 1, 0, 0, 0, 0, 0, 24, 0];
        let mut list = [0; 24];
        (list[7], list[15]) = (u8::from(action != 6), 1);
        commands.extend(pdu(1, 0xa0, number, 24, &cdb, &list));
    }
    commands.extend(pdu(6, 0x80, 13, 0, &[], &[]));
    put("iscsi_connection", "login", &[&login, &commands]);
    let who = "InitiatorName=iqn.x:y\0TargetName=iqn.2026-01.org.example:closed\0AuthMethod=CHAP\0";
    let right = "76".repeat(16);
    let proof = format!("CHAP_N=user\0CHAP_R=0x{right}\0CHAP_I=1\0CHAP_C=0bBQUFBQ==\0");
    let stages = [(0, who), (0, "CHAP_A=7,5\0"), (0x81, &*proof), (0x87, "")];
    let prove = stages.map(|(flags, text)| pdu(0x43, flags, 1, 0, &[], text.as_bytes()));
    put("iscsi_connection", "chap", &[&prove.concat(), &commands]);
    for agreed in [0, 1, 2, 16, 32u8] {
        let name = format!("agreed-{agreed}");
        put("iscsi_commands", &name, &[&[agreed], &commands]);
    }
    let text = "1 1 0\n0000000000000001 00023d000001 0 iqn.x:0\0";
    let orders = [
        [1, 0, 0, 0, 2, 1, 0, 0],
        [1, 4, 5, 2, 1, 0, 0, 0],
        [1, 2, 5, 2, 0, 0, 0, 0],
        [1, 3, 0, 2, 0, 0, 0, 0],
    ];
    put(
        "iscsi_reservations",
        "orders",
        &[text.as_bytes(), &orders.concat()],
    );
}

/// A client that asks for everything, and one request of each kind.
fn nbd_clients() {
    let request = |kind: u8, flags: u8, len: u16| {
        let mut bytes = vec![0x25, 0x60, 0x95, 0x13, 0, flags, 0, kind];
        bytes.extend([kind; 8]);
        bytes.extend(4096u64.to_be_bytes());
        bytes.extend(u32::from(len).to_be_bytes());
        if kind == 1 {
            bytes.resize(bytes.len() + usize::from(len), 7);
        }
        bytes
    };
    let kinds = [
        (0, 0),
        (1, 1),
        (3, 0),
        (4, 1),
        (5, 0),
        (6, 16),
        (6, 2),
        (7, 8),
    ];
    let requests: Vec<u8> = kinds
        .iter()
        .flat_map(|(kind, flags)| request(*kind, *flags, 512))
        .collect();
    for agreed in 0..8u8 {
        let name = format!("agreed-{agreed}");
        put("nbd_requests", &name, &[&[agreed], &requests]);
    }
    let option = |number: u32, data: &[u8]| {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend(number.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    };
    let hello = 3u32.to_be_bytes();
    let context = b"\0\0\0\x01a\0\0\0\x01\0\0\0\x0fbase:allocation";
    let mut all = hello.to_vec();
    for (number, data) in [
        (3, &b""[..]),
        (8, b""),
        (5, b""),
        (9, b"\0\0\0\x01a\0\0\0\0"),
        (10, context),
        (6, b"\0\0\0\x01b\0\x02\0\x01\0\x02"),
        (7, b"\0\0\0\x01a\0\0"),
    ] {
        all.extend(option(number, data));
    }
    put("nbd_negotiation", "all", &[&all, &requests]);
    put(
        "nbd_negotiation",
        "old",
        &[&hello, &option(1, b"a"), &requests],
    );
    put("nbd_negotiation", "abort", &[&hello, &option(2, b"")]);
}

/// A configuration, names and blocks for `stack_gocryptfs`, whose first byte says what follows.
fn stack_seeds() {
    let config = br#"{"EncryptedKey":"AAAA","ScryptObject":{"Salt":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","N":1024,"R":8,"P":1,"KeyLen":32},"Version":2,"FeatureFlags":["HKDF","GCMIV128","DirIV","EMENames","LongNames","Raw64"]}"#;
    put("stack_gocryptfs", "config", &[&[0], config]);
    put(
        "stack_gocryptfs",
        "name",
        &[&[1], b"_TeB-elTKSJPmfPwu8GImg"],
    );
    put(
        "stack_gocryptfs",
        "long",
        &[&[1], b"gocryptfs.longname.", &[b'A'; 43]],
    );
    put("stack_gocryptfs", "target", &[&[2], &[b'A'; 56]]);
    put("stack_gocryptfs", "block", &[&[3], &[7; 60]]);
    put(
        "stack_pefs",
        "name",
        &[&[0], b".OyHmY8og87Bz80B7R4ibelfAlmP3HRsP"],
    );
    fscrypt_tool_seeds();
    put("stack_pefs", "target", &[&[1], b"_aD6nYkpZa2b"]);
    put("stack_pefs", "config", &[&[2], b"camellia256-xts:3000"]);
    put("stack_pefs", "database", &[&[3], &pefs_database()]);
}

/// What the tool fscrypt writes, for `stack_fscrypt_tool`, whose first byte says what follows.
fn fscrypt_tool_seeds() {
    let wrapped = |len: u8| {
        let sealed = vec![7; len.into()];
        let iv = [&[0x0a, 16][..], &[5; 16], &[0x12, len]].concat();
        [&iv[..], &sealed, &[0x1a, 32], &[9; 32]].concat()
    };
    let descriptor: &[u8] = b"0123456789abcdef";
    let field = |number: u8, bytes: &[u8]| {
        let len = bytes.len();
        let len = match len < 128 {
            true => vec![len as u8],
            false => vec![len as u8 | 0x80, (len >> 7) as u8],
        };
        [&[number << 3 | 2][..], &len, bytes].concat()
    };
    let slot = [field(1, descriptor), field(2, &wrapped(64))].concat();
    let options = field(2, &[8, 32, 16, 1, 24, 4, 32, 2]);
    let name = field(1, &[descriptor, descriptor].concat());
    let policy = [name, options, field(3, &slot)].concat();
    put("stack_fscrypt_tool", "policy", &[&[0], &policy]);
    let costs = field(4, &[16, 1, 24, 64, 32, 1, 40, 1]);
    let head = [&field(1, descriptor)[..], &[16, 2], &field(3, b"name")].concat();
    let tail = [field(5, &[3; 16]), field(7, &wrapped(32))].concat();
    put(
        "stack_fscrypt_tool",
        "protector",
        &[&[1], &head, &costs, &tail],
    );
    put(
        "stack_fscrypt_tool",
        "link",
        &[&[2], b"UUID=12-34\nPATH=/\n"],
    );
    let config = br#"{"hash_costs":{"time":"1","memory":"64","parallelism":"1"},"options":{"padding":"16"}}"#;
    put("stack_fscrypt_tool", "config", &[&[3], config]);
}

/// A btree with one leaf, and one record in it.
fn pefs_database() -> Vec<u8> {
    let mut file = vec![0; 1024];
    let mut put = |at: usize, number: u32| file[at..at + 4].copy_from_slice(&number.to_le_bytes());
    for (at, number) in [(0, 0x05_3162), (4, 3), (8, 512), (20, 0x20)] {
        put(at, number);
    }
    // The leaf: its number and kind, where its offsets and its items end, an offset; an item.
    let offset = 512 - 144;
    for (at, number) in [(512, 1), (524, 2), (528, 22 | offset << 16), (532, offset)] {
        put(at, number);
    }
    let item = 512 + offset as usize;
    put(item, 8);
    put(item + 4, 124);
    file[item + 9..item + 17].fill(b'K');
    file[item + 17..item + 141].fill(b'V');
    file
}
