//! LUKS containers from the command line, by itself and with the daemon.

use std::os::unix::fs::FileExt;
use std::process::Command;

use crate::common::containers::*;
use crate::common::*;

#[test]
fn keys_are_added_changed_and_removed_without_a_daemon() {
    let place = Place::without_daemon();
    let luks = |code, line: &str, input| ends(&place, code, line, input).out;
    format(&place, CHEAP);
    std::fs::write(place.path("key"), [7; 100]).unwrap();

    let add = format!("add-key --new-keyfile {{DIR}}/key {CHEAP} {{DIR}}/image");
    assert_eq!(luks(0, &add, PASSPHRASE), "1\n");
    luks(WRONG_KEY, &add, "wrong passphrase\n");
    let change = format!("change-key --key-file {{DIR}}/key {CHEAP} {{DIR}}/image");
    assert_eq!(luks(0, &change, "another one\n"), "1\n");
    luks(0, "remove-key {DIR}/image", "another one\n");
    luks(WRONG_KEY, "remove-key {DIR}/image", "another one\n");
    luks(BUSY, "remove-key {DIR}/image", PASSPHRASE);
    luks(NOT_FOUND, "kill-slot {DIR}/image 5", "");
    luks(0, "set-priority {DIR}/image 0 prefer", "");
    has(&luks(0, "dump {DIR}/image", ""), "preferred");
    assert!(!place.socket().exists(), "no daemon was started");
}

/// A passphrase that is too long is refused, and not shortened to what fits.
#[test]
fn passphrases_that_are_too_long_are_refused() {
    let place = Place::without_daemon();
    image(&place);
    let format = format!("format -q {CHEAP} {{DIR}}/image");
    let long = "x".repeat(513) + "\n";
    let refused = ends(&place, NO_KEY, &format, &long);
    has(&refused.err, "longer than 512 bytes");
    ends(&place, 0, &format, &("x".repeat(512) + "\n"));
    let add = "add-key --new-keyfile {DIR}/image {DIR}/image";
    ends(&place, NO_KEY, add, &long);
}

#[test]
fn headers_are_copied_erased_and_put_back() {
    let place = Place::without_daemon();
    let luks = |code, line: &str, input| ends(&place, code, line, input);
    format(&place, CHEAP);
    let named = place.run(&["luks", "uuid", "--label", "my disk", &place.arg("image")]);
    assert_eq!(named.code, 0, "{named:?}");
    let save = "header-backup --header-backup-file {DIR}/backup {DIR}/image";
    luks(0, save, "");
    luks(EXISTS, save, "");
    // Nothing was asked.
    luks(USAGE, "erase {DIR}/image", "");
    luks(0, "erase -q {DIR}/image", "");
    let add = format!("add-key {CHEAP} {{DIR}}/image");
    // Without a key slot no passphrase is right.
    for line in [
        add.as_str(),
        "remove-key {DIR}/image",
        "open --test-passphrase {DIR}/image",
    ] {
        let refused = luks(NO_KEY, line, "");
        has(
            &refused.err,
            "can be used: it has none; if there is a backup of its header",
        );
    }
    // A restore that was cut off left the header of then; it stays.
    let left = place.path("backup.old-header");
    std::fs::write(&left, "an old header").unwrap();
    let restore = "header-restore -q --header-backup-file {DIR}/backup {DIR}/image";
    luks(0, restore, "");
    assert_eq!(std::fs::read(&left).unwrap(), b"an old header");
    assert!(!place.path("backup.old-header.1").exists());
    assert_eq!(luks(0, &add, "correct horse\nanother one\n").out, "1\n");
    has(&luks(0, "dump --json {DIR}/image", "").out, "\"my disk\"");

    // What was overwritten by mistake.
    overwrite(&place, &[0x42; 4096], 0);
    luks(0, "dump {DIR}/image", "");
    luks(DAMAGED, &add, PASSPHRASE);
    luks(0, "repair {DIR}/image", "");
    luks(0, "is-luks {DIR}/image", "");
    luks(NOT_FOUND, "is-luks --type luks1 {DIR}/image", "");
    luks(0, "is-luks {DIR}/backup", "");
    luks(NOT_FOUND, "is-luks {DIR}/nothing", "");
}

fn overwrite(place: &Place, bytes: &[u8], at: u64) {
    let file = std::fs::File::options()
        .write(true)
        .open(place.path("image"));
    file.unwrap().write_all_at(bytes, at).unwrap();
}

#[test]
fn tokens_and_names() {
    let place = Place::without_daemon();
    let luks = |code, line: &str, input: &str| ends(&place, code, line, input).out;
    format(&place, CHEAP);
    let add = "token add --key-description my:disk {DIR}/image";
    assert_eq!(luks(0, add, ""), "0\n");
    let token = luks(0, "token export --token-id 0 {DIR}/image", "");
    has(&token, "luks2-keyring");
    let import = "token import --token-id 7 {DIR}/image";
    assert_eq!(luks(0, import, &token), "7\n");
    luks(USAGE, import, "nonsense");
    luks(0, "token remove --token-id 0 {DIR}/image", "");
    luks(NOT_FOUND, "token export --token-id 0 {DIR}/image", "");
    luks(
        0,
        "uuid --uuid 5AE2903E-22b6-43a2-b884-f5e9640ee47b {DIR}/image",
        "",
    );
    let shown = luks(0, "uuid {DIR}/image", "");
    assert_eq!(shown.trim(), "5ae2903e-22b6-43a2-b884-f5e9640ee47b");
    luks(USAGE, "uuid --uuid x {DIR}/image", "");
}

/// Returns whether cryptsetup opens the container with the file `key`.
fn judged(place: &Place) -> Option<bool> {
    let key = place.arg("key");
    let args = [
        "open",
        "--test-passphrase",
        "--batch-mode",
        "--key-file",
        &key,
    ];
    cryptsetup(place, &args).map(|done| done.code == 0)
}

#[test]
fn both_versions_are_what_cryptsetup_opens() {
    let place = Place::without_daemon();
    std::fs::write(place.path("key"), b"correct horse").unwrap();
    let cheap = "--pbkdf-force-iterations 1000 --pbkdf pbkdf2 --key-file {DIR}/key";
    format(&place, &format!("--type luks1 {cheap}"));
    assert_ne!(judged(&place), Some(false));
    for version in ["luks2", "luks1"] {
        let convert = format!("convert --type {version} {{DIR}}/image");
        ends(&place, 0, &convert, "");
        assert_ne!(judged(&place), Some(false), "{version}");
        ends(&place, USAGE, &convert, "");
    }
}

/// Key files are read by the command and not by the daemon: also a pipe, and one that never ends.
#[test]
fn the_caller_reads_key_files() {
    let place = Place::new();
    // Longer than what can be typed.
    let key = [7; 100_000];
    std::fs::write(place.path("key"), key).unwrap();
    format(&place, &format!("{CHEAP} --key-file {{DIR}}/key"));
    let close = || ends(&place, 0, "close secret", "");
    let opened = |from: &str, input: &[u8]| {
        let open = format!("luks open --key-file {from} {{DIR}}/image secret");
        let code = place.run_with(&place.words(&open), input).code;
        if code == 0 {
            close();
        }
        code
    };
    assert_eq!(opened("{DIR}/key", b""), 0);
    assert_eq!(opened("-", &key), 0);
    assert_eq!(opened("-", &key[1..]), WRONG_KEY);
    assert_eq!(opened("-", b""), NO_KEY);
    assert_eq!(opened("/dev/stdin", &key), 0);
    assert_eq!(opened("/dev/zero", b""), NO_KEY, "it is too long");
    assert_eq!(opened("{DIR}/nothing", b""), NO_KEY);
    let fifo = place.path("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let write = std::thread::spawn(move || std::fs::write(fifo, key).unwrap());
    assert_eq!(opened("{DIR}/fifo", b""), 0);
    write.join().unwrap();

    let swap = "open --type plain --key-file /dev/urandom {DIR}/image secret";
    ends(&place, 0, swap, "");
    close();
}

#[test]
fn a_container_is_opened_once_and_served_as_it_is_told() {
    let place = Place::new();
    let luks = |code, line, input| ends(&place, code, line, input).out;
    format(&place, CHEAP);
    let open = "open {DIR}/image secret";
    luks(WRONG_KEY, open, "wrong passphrase\n");
    luks(NOT_FOUND, "status secret", "");
    luks(0, open, PASSPHRASE);
    luks(EXISTS, open, PASSPHRASE);
    luks(BUSY, "open {DIR}/image other", PASSPHRASE);
    // Looking is free.
    luks(0, "dump {DIR}/image", "");

    let status = luks(0, "status secret", "");
    has(&status, "type:    LUKS2");
    has(&status, "cipher:  aes-xts-plain64");
    has(&status, "flags:   no_read_workqueue no_write");
    luks(0, "refresh --read-workqueue --allow-discards secret", "");
    let status = luks(0, "status --json", "");
    has(&status, "\"read_workqueue\": true");
    has(&status, "\"write_workqueue\": false");

    has(&status, "\"provider\": \"aws-lc\"");
    let refused = ends(&place, 2, "refresh --provider ring secret", "").err;
    has(&refused, "choose aws-lc");
    let refused = ends(&place, 2, "refresh --provider xtsproxy secret", "").err;
    has(&refused, "there is no provider 'xtsproxy': ring, aws-lc");
    luks(
        0,
        "refresh --provider portable --no-read-workqueue secret",
        "",
    );
    let status = luks(0, "status secret", "");
    has(&status, "provider: portable");
    has(&status, "no_read_workqueue");
    luks(0, "resize --device-size 1M secret", "");
    has(&luks(0, "status", ""), "size:    2048 sectors");
    luks(11, "resize --device-size 1G secret", "");
    luks(0, "close secret", "");
    luks(NOT_FOUND, "close secret", "");

    ends(
        &place,
        2,
        "open --provider ring {DIR}/image secret",
        PASSPHRASE,
    );
    luks(NOT_FOUND, "status secret", "");
    let plain =
        "open --type plain --provider portable --cipher capi:xts(aes)-plain64 {DIR}/image secret";
    luks(0, plain, PASSPHRASE);
    has(&luks(0, "status secret", ""), "provider: portable");
    luks(0, "close secret", "");
    let driver = "open --type plain --cipher capi:xts-aes-xtsproxy-plain64 {DIR}/image secret";
    has(&ends(&place, 10, driver, PASSPHRASE).err, "--provider");
}

/// Keys of a container can be changed while it is open, also by another name of its file. Commands that would make it
/// another container are refused meanwhile.
#[test]
fn keys_are_changed_while_it_is_open() {
    let place = Place::new();
    let luks = |code, line: &str, input| ends(&place, code, line, input);
    format(&place, CHEAP);
    std::os::unix::fs::symlink(place.path("image"), place.path("alias")).unwrap();
    luks(0, "open {DIR}/image secret", PASSPHRASE);
    let add = format!("add-key {CHEAP} {{DIR}}/alias");
    luks(0, &add, "correct horse\nanother one\n");
    let change = format!("change-key {CHEAP} {{DIR}}/image");
    luks(0, &change, "another one\na third one\n");
    luks(0, "set-priority {DIR}/image 1 prefer", "");
    luks(0, "token add --key-description my:disk {DIR}/image", "");
    luks(0, "token export --token-id 0 {DIR}/image", "");
    let uuid = "0123abcd-0000-4000-8000-0123456789ab";
    luks(0, &format!("uuid --uuid {uuid} {{DIR}}/image"), "");
    has(&luks(0, "status secret", "").out, uuid);
    luks(
        0,
        "header-backup --header-backup-file {DIR}/backup {DIR}/image",
        "",
    );
    luks(0, "kill-slot {DIR}/image 0", "");
    luks(WRONG_KEY, "remove-key {DIR}/image", PASSPHRASE);

    for command in [
        "erase -q",
        "header-restore -q --header-backup-file {DIR}/backup",
        "convert --type luks1",
        "repair",
        &format!("format -q {CHEAP}"),
    ] {
        let refused = luks(BUSY, &format!("{command} {{DIR}}/alias"), PASSPHRASE);
        has(&refused.err, "luks close secret");
    }
    luks(0, "close secret", "");
    luks(WRONG_KEY, "open {DIR}/image secret", PASSPHRASE);
    luks(0, "open {DIR}/image secret", "a third one\n");
}

/// A sector that was changed is an error of its own where it is read.
#[test]
fn a_container_with_integrity() {
    let place = Place::new();
    let luks = |code, line: &str| ends(&place, code, line, PASSPHRASE);
    format(&place, &format!("{CHEAP} --integrity hmac-sha256"));
    has(&luks(0, "dump {DIR}/image").out, "integrity: hmac(sha256)");
    luks(0, "open {DIR}/image secret");
    has(&luks(0, "status secret").out, "with hmac(sha256)");
    luks(0, "refresh --write-workqueue secret");
    luks(USAGE, "resize --device-size 4K secret");
    luks(0, "close secret");

    // The header is whole, and what keeps the tags is not.
    overwrite(&place, b"x", 16 << 20);
    has(&luks(DAMAGED, "open {DIR}/image secret").err, "superblock");
    let unknown = format!("format -q {CHEAP} --integrity crc32 {{DIR}}/image");
    luks(USAGE, &unknown);
}

/// A volume is named where a file or a disk could be, whether it is open or not.
#[test]
fn a_container_on_a_volume() {
    let place = Place::new();
    let luks = |code, line: &str, input| ends(&place, code, line, input);
    place.ok("pool create -s 128M -m none tank {DIR}/tank.pool");
    place.ok("create -V 24M tank/disk");
    let dump = "dump volume:tank/disk";
    luks(NOT_FOUND, dump, "");
    let format = format!("format -q {CHEAP} --label on-it volume:tank/disk");
    luks(0, &format, PASSPHRASE);
    luks(0, "is-luks volume:tank/disk", "");
    has(&luks(0, dump, "").out, "on-it");
    let add = format!("add-key {CHEAP} volume:tank/disk");
    luks(0, &add, "correct horse\nanother one\n");
    let open = "open volume:tank/disk secret";
    luks(0, open, "another one\n");
    luks(0, "kill-slot volume:tank/disk 0", "");
    has(&luks(0, dump, "").out, "on-it");
    let refused = luks(BUSY, "erase -q volume:tank/disk", "");
    has(&refused.err, "luks close secret");
    luks(
        0,
        "header-backup --header-backup-file {DIR}/backup volume:tank/disk",
        "",
    );
    place.refuses("daemon stop", BUSY, "the mapping 'secret'");
    luks(0, "close secret", "");

    // Used by something else, it is looked at and not changed.
    place.ok("nbd export volume:tank/disk");
    luks(0, dump, "");
    luks(BUSY, "kill-slot -q volume:tank/disk 1", "");
    place.ok("nbd unexport tank/disk");
    luks(0, "erase -q volume:tank/disk", "");
    luks(NO_KEY, open, "another one\n");
    let restore = "header-restore -q --header-backup-file {DIR}/backup volume:tank/disk";
    luks(0, restore, "");
    luks(0, open, "another one\n");
    luks(NOT_FOUND, "dump volume:tank/none", "");
}

/// A mapping is exported by its name, stays as long as it is, and comes back when it is opened again.
#[test]
fn a_mapping_is_exported() {
    let mut place = Place::new();
    format(&place, CHEAP);
    place.fails("nbd export luks:secret", NOT_FOUND);
    ends(&place, 0, "open {DIR}/image secret", PASSPHRASE);
    place.ok("nbd export luks:secret");
    place.says("nbd list", "luks:secret");
    let refused = ends(&place, BUSY, "close secret", "");
    let said =
        "the mapping 'secret' is in use, by the export 'secret' (strongroom nbd unexport secret)";
    has(&refused.err, said);
    has(&ends(&place, 0, "status secret", "").out, "is in use");

    // The key is gone with the daemon.
    assert!(place.terminate());
    place.start();
    assert_eq!(ends(&place, 0, "status", "").out, "");
    ends(&place, 0, "open {DIR}/image secret", PASSPHRASE);
    ends(&place, BUSY, "close secret", "");
    place.ok("nbd unexport secret");
    ends(&place, 0, "close secret", "");

    ends(&place, 0, "open --readonly {DIR}/image secret", PASSPHRASE);
    place.fails("nbd export luks:secret", USAGE);
    place.ok("nbd export --read-only luks:secret");
}

#[test]
fn a_header_may_be_elsewhere_and_mappings_without_one() {
    let place = Place::new();
    let luks = |code, line| ends(&place, code, line, PASSPHRASE).out;
    format(&place, &format!("{CHEAP} --header {{DIR}}/header"));
    luks(NOT_FOUND, "is-luks {DIR}/image");
    luks(NOT_FOUND, "open {DIR}/image x");
    luks(0, "open --header {DIR}/header {DIR}/image x");
    has(&luks(0, "status x"), "size:    36864 sectors");
    luks(0, "close x");
    luks(USAGE, "open {DIR}/header x");

    luks(0, "open --type plain --skip 8 --size 16 {DIR}/image p");
    let status = luks(0, "status p");
    has(&status, "type:    PLAIN");
    has(&status, "size:    16 sectors");
}

/// A header file that is there and too short grows, as with cryptsetup.
#[test]
fn a_header_file_becomes_as_long_as_a_header() {
    let place = Place::without_daemon();
    let header = std::fs::File::create(place.path("header")).unwrap();
    header.set_len(2 << 20).unwrap();
    format(&place, &format!("{CHEAP} --header {{DIR}}/header"));
    assert_eq!(header.metadata().unwrap().len(), 16 << 20);
    ends(&place, 0, "is-luks {DIR}/header", "");
    ends(&place, NOT_FOUND, "is-luks {DIR}/image", "");
}

/// A foreign slot may ask for more memory than the daemon gives. Root can give that memory once.
#[test]
fn a_costly_slot_needs_a_flag() {
    let mut place = Place::without_daemon();
    place.start_with("STRONGROOM_HASH_MEMORY", "1");
    format(&place, "--pbkdf-force-iterations 4 --pbkdf-memory 2048");
    let luks = |line: &str| place.run_with(&place.words(line), PASSPHRASE.as_bytes());
    let refused = luks("luks open {DIR}/image x");
    assert!(refused.code != 0, "{refused:?}");
    has(&refused.err, "2 MiB of memory in 4 passes");
    has(&refused.err, "--hash-memory 2");
    assert!(luks("luks open --hash-memory 1 {DIR}/image x").code != 0);
    ends(&place, 0, "open --hash-memory 2 {DIR}/image x", PASSPHRASE);
    ends(&place, 0, "close x", "");
    // For that command only.
    assert!(luks("luks open {DIR}/image x").code != 0);
}

/// `open` uses the options in the header, and those of the command line, as with cryptsetup.
#[test]
fn options_are_kept_in_the_header() {
    let place = Place::new();
    let luks = |code, line: &str| ends(&place, code, line, PASSPHRASE).out;
    let discards = |open: &str, on: bool| {
        luks(0, open);
        let status = luks(0, "status --json x");
        has(&status, &format!("\"allow_discards\": {on}"));
        luks(0, "close x");
    };
    format(&place, CHEAP);
    discards("open {DIR}/image x", false);
    let keep = "open --persistent --allow-discards --no-write-workqueue {DIR}/image x";
    discards(keep, true);
    let flags = "Flags:       \tallow-discards no-write-workqueue";
    has(&luks(0, "dump {DIR}/image"), flags);
    if let Some(dump) = cryptsetup(&place, &["luksDump"]) {
        has(&dump.out, flags);
    }
    discards("open {DIR}/image x", true);
    discards("open --no-allow-discards {DIR}/image x", false);
    discards("open {DIR}/image x", true);
    discards("open --persistent {DIR}/image x", false);
    has(&luks(0, "dump {DIR}/image"), "(no flags)");
    luks(USAGE, "open --persistent --readonly {DIR}/image x");
    luks(USAGE, "open --persistent --type plain {DIR}/image x");

    format(&place, "--type luks1 --pbkdf-force-iterations 1000");
    has(
        &ends(&place, USAGE, keep, PASSPHRASE).err,
        "LUKS1 has no flags",
    );
    discards("open {DIR}/image x", false);
}

/// Runs cryptsetup with the file `image` behind its arguments, if it is there.
fn cryptsetup(place: &Place, args: &[&str]) -> Option<Done> {
    let ran = Command::new("cryptsetup")
        .args(args)
        .arg(place.path("image"))
        .output();
    match ran {
        Ok(output) => Some(Done {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into(),
            err: String::from_utf8_lossy(&output.stderr).into(),
        }),
        Err(_) => {
            eprintln!("skipped: there is no cryptsetup");
            None
        }
    }
}

#[test]
fn a_passphrase_is_tested_without_a_daemon() {
    let place = Place::without_daemon();
    let luks = |code, line, input| ends(&place, code, line, input);
    format(&place, CHEAP);
    let test = "open --test-passphrase {DIR}/image";
    luks(0, test, PASSPHRASE);
    luks(WRONG_KEY, test, "wrong passphrase\n");
    luks(
        0,
        "open --test-passphrase -S 0 {DIR}/image name",
        PASSPHRASE,
    );
    luks(
        NOT_FOUND,
        "open --test-passphrase -S 1 {DIR}/image",
        PASSPHRASE,
    );
    luks(
        USAGE,
        "open --test-passphrase --type plain {DIR}/image",
        PASSPHRASE,
    );
    luks(USAGE, "open {DIR}/image", PASSPHRASE);
    assert!(!place.socket().exists(), "no daemon was started");
}

/// The same bytes of a key file as cryptsetup takes; an empty one is a key.
#[test]
fn a_part_of_a_key_file_is_the_key() {
    let place = Place::without_daemon();
    let luks = |code, line: &str| ends(&place, code, line, PASSPHRASE).out;
    std::fs::write(place.path("key"), b"12345correct horse678").unwrap();
    std::fs::write(place.path("empty"), b"").unwrap();
    let part = "--key-file {DIR}/key --keyfile-offset 5 --keyfile-size 13";
    format(&place, &format!("{CHEAP} {part}"));
    luks(0, &format!("open --test-passphrase {part} {{DIR}}/image"));
    luks(
        WRONG_KEY,
        "open --test-passphrase --key-file {DIR}/key {DIR}/image",
    );
    let judge = |args: &[&str]| {
        let key = place.arg(args[0]);
        let args = [
            &["open", "--test-passphrase", "--key-file", &key],
            &args[1..],
        ]
        .concat();
        cryptsetup(&place, &args).is_none_or(|done| done.code == 0)
    };
    assert!(judge(&[
        "key",
        "--keyfile-offset",
        "5",
        "--keyfile-size",
        "13"
    ]));

    let add = format!("add-key {CHEAP} {part} --new-keyfile {{DIR}}/key");
    luks(0, &format!("{add} --new-keyfile-offset 18 {{DIR}}/image"));
    assert!(judge(&["key", "--keyfile-offset", "18"]));
    luks(0, &format!("{add} --new-keyfile-size 5 {{DIR}}/image"));
    assert!(judge(&["key", "--keyfile-size", "5"]));
    luks(
        0,
        &format!("add-key {CHEAP} {part} --new-keyfile {{DIR}}/empty {{DIR}}/image"),
    );
    luks(
        0,
        "open --test-passphrase --key-file {DIR}/empty {DIR}/image",
    );
    assert!(judge(&["empty"]));

    for (option, why) in [
        (
            "--keyfile-offset 22",
            "it has 21 bytes, and byte 22 is asked for",
        ),
        (
            "--keyfile-size 22",
            "22 bytes are asked for, and there are 21",
        ),
    ] {
        let test = format!("open --test-passphrase --key-file {{DIR}}/key {option} {{DIR}}/image");
        has(&ends(&place, NO_KEY, &test, "").err, why);
    }
    luks(USAGE, "open --test-passphrase --keyfile-size 5 {DIR}/image");
}

/// A slot with a key of its own: as cryptsetup has it, and gone without a trace.
#[test]
fn a_slot_may_hold_another_key() {
    let place = Place::without_daemon();
    let luks = |code, line: &str, input| ends(&place, code, line, input).out;
    format(&place, CHEAP);
    std::fs::write(place.path("key"), b"another one").unwrap();
    let add =
        format!("add-key {CHEAP} --unbound --key-size 256 --new-keyfile {{DIR}}/key {{DIR}}/image");
    assert_eq!(luks(0, &add, ""), "1\n");
    has(&luks(0, "dump {DIR}/image", ""), "1: luks2 (unbound)");
    let test = "open --test-passphrase --key-file {DIR}/key {DIR}/image";
    luks(WRONG_KEY, test, "");
    luks(0, &format!("{test} -S 1"), "");
    luks(
        WRONG_KEY,
        "open --test-passphrase -S 1 {DIR}/image",
        PASSPHRASE,
    );
    let key = place.arg("key");
    let judge = [
        "open",
        "--test-passphrase",
        "--unbound",
        "-S",
        "1",
        "--key-file",
        &key,
    ];
    assert!(cryptsetup(&place, &judge).is_none_or(|done| done.code == 0));
    luks(0, "kill-slot {DIR}/image 1", "");
    assert!(!luks(0, "dump {DIR}/image", "").contains("1: pbkdf2"));
    luks(0, "open --test-passphrase {DIR}/image", PASSPHRASE);

    format(&place, "--type luks1 --pbkdf-force-iterations 1000");
    luks(USAGE, &add, "");
}
