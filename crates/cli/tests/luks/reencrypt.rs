//! `strongroom luks reencrypt`. What data becomes is tested in the crate `luks`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::Stdio;

use crate::common::containers::*;
use crate::common::*;

/// The data as it lies there, encrypted: zeros until something is written.
fn data(place: &Place) -> Vec<u8> {
    let mut bytes = vec![0; 2 << 20];
    let file = std::fs::File::open(place.path("image")).unwrap();
    file.read_exact_at(&mut bytes, 16 << 20).unwrap();
    bytes
}

#[test]
fn a_container_gets_a_new_key_and_cipher() {
    let place = Place::without_daemon();
    let luks = |code, line: &str, input| ends(&place, code, line, input);
    format(&place, CHEAP);
    let before = data(&place);
    luks(NOT_FOUND, "reencrypt --resume-only {DIR}/image", PASSPHRASE);
    luks(WRONG_KEY, "reencrypt {DIR}/image", "wrong passphrase\n");
    luks(
        USAGE,
        "reencrypt --cipher aes-xts-plain64 -s 192 {DIR}/image",
        PASSPHRASE,
    );
    luks(
        USAGE,
        "reencrypt --resume-only --cipher aes-xts-plain64 {DIR}/image",
        PASSPHRASE,
    );
    luks(USAGE, "reencrypt --device-size 1MB {DIR}/image", PASSPHRASE);
    luks(NOT_FOUND, "reencrypt --resume-only {DIR}/image", PASSPHRASE);
    assert!(
        data(&place) == before,
        "nothing is changed by what is refused"
    );
    let line = format!("reencrypt {CHEAP} --cipher serpent-xts-plain64 -s 256 {{DIR}}/image");
    let done = luks(0, &line, PASSPHRASE);
    assert_eq!(
        (&*done.out, &*done.err),
        ("", ""),
        "no terminal, no progress"
    );
    let after = data(&place);
    assert!(
        before
            .chunks(512)
            .zip(after.chunks(512))
            .all(|(a, b)| a != b)
    );
    let dump = luks(0, "dump {DIR}/image", "").out;
    has(&dump, "serpent-xts-plain64");
    lacks(&dump, "online-reencrypt");
    luks(0, "open --test-passphrase -S 1 {DIR}/image", PASSPHRASE);
    luks(
        NOT_FOUND,
        "open --test-passphrase -S 0 {DIR}/image",
        PASSPHRASE,
    );
    let line = format!("reencrypt {CHEAP} --progress-json --progress-frequency 0 {{DIR}}/image");
    let said = luks(0, &line, PASSPHRASE).out;
    let last: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(last["device_bytes"], last["device_size"], "{said}");
    format(
        &place,
        "--type luks1 --pbkdf pbkdf2 --pbkdf-force-iterations 1000",
    );
    has(
        &luks(TOO_NEW, "reencrypt {DIR}/image", PASSPHRASE).err,
        "luks convert --type luks2",
    );
}

#[test]
fn passphrases_are_asked_for_by_slot_or_one_is_kept() {
    let place = Place::without_daemon();
    let luks = |code, line: &str, input: &str| ends(&place, code, line, input);
    let two = |code, slot| {
        luks(
            code,
            &format!("open --test-passphrase -S {slot} {{DIR}}/image"),
            "two\n",
        )
    };
    format(&place, CHEAP);
    std::fs::write(place.path("key"), "two").unwrap();
    let add = format!("add-key {CHEAP} --new-keyfile {{DIR}}/key {{DIR}}/image");
    luks(0, &add, PASSPHRASE);
    let line = format!("reencrypt {CHEAP} {{DIR}}/image");
    luks(WRONG_KEY, &line, &format!("{PASSPHRASE}{PASSPHRASE}"));
    luks(0, &line, &format!("{PASSPHRASE}two\n"));
    luks(0, "open --test-passphrase -S 2 {DIR}/image", PASSPHRASE);
    two(0, 3);
    let with_file = format!("reencrypt {CHEAP} --key-file {{DIR}}/key {{DIR}}/image");
    has(&luks(USAGE, &with_file, "").err, "--key-slot");
    luks(0, &format!("{with_file} -S 3"), "");
    luks(WRONG_KEY, "open --test-passphrase {DIR}/image", PASSPHRASE);
    two(0, 0);
    luks(0, &with_file, "");
    two(0, 1);
}

#[test]
fn a_reencryption_that_was_prepared_opens_and_is_continued() {
    let place = Place::new();
    let luks = |code, line: &str, input| ends(&place, code, line, input);
    format(&place, CHEAP);
    let before = data(&place);
    luks(
        0,
        &format!("reencrypt {CHEAP} --init-only {{DIR}}/image"),
        PASSPHRASE,
    );
    assert!(data(&place) == before, "no data is written");
    luks(EXISTS, "reencrypt --init-only {DIR}/image", PASSPHRASE);
    luks(
        EXISTS,
        "reencrypt --cipher aes-xts-plain64 {DIR}/image",
        PASSPHRASE,
    );
    luks(0, "open {DIR}/image secret", PASSPHRASE);
    let status = luks(0, "status --json", "").out;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let at = &status[0]["reencryption"];
    assert_eq!(
        (&at["done"], &at["total"]),
        (&0.into(), &(2 << 20).into()),
        "{status}"
    );
    has(
        &luks(0, "status secret", "").out,
        "0 of 4096 sectors are re-encrypted",
    );
    luks(WRONG_KEY, "reencrypt {DIR}/image", "wrong passphrase\n");
    luks(0, "close secret", "");
    luks(WRONG_KEY, "reencrypt {DIR}/image", "wrong passphrase\n");
    luks(0, "reencrypt --resume-only {DIR}/image", PASSPHRASE);
    assert!(data(&place) != before);
    luks(0, "open {DIR}/image secret", PASSPHRASE);
    has(&luks(0, "status --json", "").out, "\"reencryption\": null");
    luks(0, "close secret", "");
}

/// Starts a re-encryption in small hot zones, and sends a signal when the first is behind it.
fn signalled(place: &Place, signal: rustix::process::Signal) -> std::process::Output {
    let line = format!(
        "luks reencrypt {CHEAP} --resilience journal --hotzone-size 4096 --progress-json \
         --progress-frequency 0 {{DIR}}/image"
    );
    let mut child = place
        .command()
        .args(place.words(&line))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(PASSPHRASE.as_bytes())
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        lines.next().expect("progress").unwrap();
    }
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, signal).unwrap();
    // It shall not wait for a reader.
    for line in lines {
        line.unwrap();
    }
    child.wait_with_output().unwrap()
}

#[test]
fn an_interruption_pauses_and_says_how_to_go_on() {
    let place = Place::without_daemon();
    format(&place, CHEAP);
    let ended = signalled(&place, rustix::process::Signal::INT);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(OTHER), "{said}");
    has(&said, "strongroom luks reencrypt --resume-only");
    let dump = ends(&place, 0, "dump {DIR}/image", "").out;
    has(&dump, "online-reencrypt-v2");
    lacks(&dump, "in-reencryption");
    ends(&place, 0, "reencrypt {DIR}/image", PASSPHRASE);
    lacks(
        &ends(&place, 0, "dump {DIR}/image", "").out,
        "online-reencrypt-v2",
    );
}

#[test]
fn a_command_that_is_killed_is_continued() {
    let place = Place::without_daemon();
    format(&place, CHEAP);
    let ended = signalled(&place, rustix::process::Signal::KILL);
    assert_eq!(ended.status.code(), None);
    has(
        &ends(&place, 0, "dump {DIR}/image", "").out,
        "online-reencrypt-v2",
    );
    ends(&place, 0, "reencrypt --resume-only {DIR}/image", PASSPHRASE);
    ends(&place, 0, "open --test-passphrase {DIR}/image", PASSPHRASE);
}

#[test]
fn the_header_may_be_elsewhere() {
    let place = Place::without_daemon();
    let luks = |code, line: &str| ends(&place, code, line, PASSPHRASE);
    format(&place, &format!("{CHEAP} --header {{DIR}}/header"));
    luks(USAGE, "reencrypt {DIR}/header");
    luks(
        0,
        &format!("reencrypt {CHEAP} --init-only --header {{DIR}}/header {{DIR}}/image"),
    );
    let small = std::fs::File::create(place.path("small")).unwrap();
    small.set_len(0).unwrap();
    luks(11, "reencrypt --header {DIR}/header {DIR}/small");
    has(
        &luks(0, "dump --header {DIR}/header {DIR}/image").out,
        "online-reencrypt-v2",
    );
    luks(0, "reencrypt --header {DIR}/header {DIR}/image");
    assert!(data(&place) != vec![0; 2 << 20]);
    luks(
        0,
        "open --test-passphrase --header {DIR}/header {DIR}/image",
    );
}

/// Bytes that say where they are, and free space behind them.
fn plain(place: &Place) -> Vec<u8> {
    let words = (0..(2_u64 << 20) / 8).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    std::fs::write(place.path("image"), &bytes).unwrap();
    let file = std::fs::File::options()
        .write(true)
        .open(place.path("image"));
    file.unwrap().set_len(6 << 20).unwrap();
    bytes
}

fn beginning(place: &Place) -> Vec<u8> {
    let mut bytes = vec![0; 2 << 20];
    let file = std::fs::File::open(place.path("image")).unwrap();
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn a_device_is_encrypted_in_place_and_decrypted_with_an_exported_header() {
    let place = Place::without_daemon();
    let luks = |code, line: &str, input: &str| ends(&place, code, line, input);
    let bytes = plain(&place);
    let said = luks(USAGE, "reencrypt --encrypt {DIR}/image", PASSPHRASE);
    has(&said.err, "--reduce-device-size");
    let refused = "reencrypt --encrypt --resilience journal --reduce-device-size 2M {DIR}/image";
    has(&luks(USAGE, refused, PASSPHRASE).err, "datashift");
    assert!(
        beginning(&place) == bytes,
        "nothing is changed by what is refused"
    );
    let encrypt = format!("reencrypt {CHEAP} --encrypt --reduce-device-size 2M {{DIR}}/image");
    luks(0, &encrypt, PASSPHRASE);
    has(
        &luks(EXISTS, &encrypt, PASSPHRASE).err,
        "LUKS container already",
    );
    lacks(&luks(0, "dump {DIR}/image", "").out, "online-reencrypt");
    luks(0, "open --test-passphrase {DIR}/image", PASSPHRASE);
    has(
        &luks(USAGE, "reencrypt --decrypt {DIR}/image", PASSPHRASE).err,
        "--header",
    );
    let decrypt = format!("reencrypt {CHEAP} --decrypt --header {{DIR}}/header {{DIR}}/image");
    luks(WRONG_KEY, &decrypt, "wrong passphrase\n");
    assert!(
        !place.path("header").exists(),
        "a wrong passphrase exports nothing"
    );
    luks(0, &format!("{decrypt} --init-only"), PASSPHRASE);
    has(&luks(EXISTS, &decrypt, PASSPHRASE).err, "--resume-only");
    has(
        &luks(0, "dump --header {DIR}/header {DIR}/image", "").out,
        "online-reencrypt-v3",
    );
    let resume = "reencrypt --resume-only --header {DIR}/header {DIR}/image";
    luks(0, resume, PASSPHRASE);
    assert!(beginning(&place) == bytes, "decrypted");
}

#[test]
fn a_device_is_encrypted_beside_its_header_and_opens_meanwhile() {
    let place = Place::new();
    let luks = |code, line: &str, input: &str| ends(&place, code, line, input);
    let bytes = plain(&place);
    let line =
        format!("reencrypt {CHEAP} --encrypt --init-only --header {{DIR}}/header {{DIR}}/image");
    luks(0, &line, PASSPHRASE);
    has(&luks(EXISTS, &line, PASSPHRASE).err, "--resume-only");
    assert!(beginning(&place) == bytes, "no data is written");
    luks(
        0,
        "open --header {DIR}/header {DIR}/image secret",
        PASSPHRASE,
    );
    has(
        &luks(0, "status secret", "").out,
        "no encryption in re-encryption to aes-xts-plain64",
    );
    luks(0, "close secret", "");
    let resume = "reencrypt --resume-only --header {DIR}/header {DIR}/image";
    luks(0, resume, PASSPHRASE);
    assert!(beginning(&place) != bytes);
    let decrypt = format!("reencrypt {CHEAP} --decrypt --header {{DIR}}/header {{DIR}}/image");
    luks(0, &decrypt, PASSPHRASE);
    assert!(beginning(&place) == bytes, "decrypted");
}

/// cryptsetup removes the key of decrypted data before the header says that nothing is left to do. Killed there, it cannot
/// end its work; a header of before would be taken for one of encrypted data.
#[test]
fn a_decryption_that_cryptsetup_left_at_its_end_is_ended_without_a_passphrase() {
    let place = Place::without_daemon();
    let plain: Vec<u8> = (0..2 << 20).map(|n: u32| (n / 512) as u8).collect();
    std::fs::write(place.path("plain.img"), &plain).unwrap();
    let beside = "--header {DIR}/header {DIR}/plain.img";
    let begin = format!("reencrypt {CHEAP} --encrypt {beside}");
    ends(&place, 0, &begin, PASSPHRASE);
    std::fs::copy(place.path("header"), place.path("backup")).unwrap();
    let decrypt = format!("reencrypt {CHEAP} --decrypt --init-only {beside}");
    ends(&place, 0, &decrypt, PASSPHRASE);
    // As cryptsetup leaves it: the data is plain, and the slot of the key is gone.
    std::fs::write(place.path("plain.img"), &plain).unwrap();
    edit_header(&place, |json| {
        json["keyslots"].as_object_mut().unwrap().remove("0");
        let digests = json["digests"].as_object_mut().unwrap();
        for digest in digests.values_mut() {
            digest["keyslots"]
                .as_array_mut()
                .unwrap()
                .retain(|slot| slot != "0");
            digest["segments"]
                .as_array_mut()
                .unwrap()
                .retain(|of| of != "0");
        }
        json["segments"]["0"] = serde_json::json!({
            "type": "linear", "offset": "0", "size": "dynamic",
        });
    });
    for line in [
        format!("open --test-passphrase {beside}"),
        format!("dump --json {beside}"),
    ] {
        let done = place.run_with(&place.words(&format!("luks {line}")), PASSPHRASE.as_bytes());
        assert!(!done.err.contains("header-restore"), "{done:?}");
    }
    let restore =
        "header-restore -q --header-backup-file {DIR}/backup --header {DIR}/header {DIR}/plain.img";
    ends(&place, USAGE, restore, "");
    ends(&place, 0, &format!("reencrypt --resume-only {beside}"), "");
    assert!(std::fs::read(place.path("plain.img")).unwrap() == plain);
    let again = ends(
        &place,
        TOO_NEW,
        &format!("reencrypt --resume-only {beside}"),
        "",
    );
    has(&again.err, "it was decrypted");
}

/// Edits the JSON of both copies of the file `header`.
fn edit_header(place: &Place, edit: impl Fn(&mut serde_json::Value)) {
    const COPY: usize = 0x4000;
    let path = place.path("header");
    let mut bytes = std::fs::read(&path).unwrap();
    for copy in [0, COPY] {
        let area = &mut bytes[copy..copy + COPY];
        let end = 4096 + area[4096..].iter().position(|byte| *byte == 0).unwrap();
        let mut json = serde_json::from_slice(&area[4096..end]).unwrap();
        edit(&mut json);
        let text = json.to_string();
        area[4096..].fill(0);
        area[4096..][..text.len()].copy_from_slice(text.as_bytes());
        area[448..512].fill(0);
        let sum = cipher::Digest::Sha256.hash(&[area]);
        area[448..][..sum.len()].copy_from_slice(&sum);
    }
    std::fs::write(path, bytes).unwrap();
}
