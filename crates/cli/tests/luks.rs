//! LUKS containers from the command line, by itself and with the daemon.

mod common;

use std::path::Path;
use std::process::Command;

use common::*;

/// As quick as there is.
const CHEAP: [&str; 5] = [
    "--pbkdf-force-iterations",
    "4",
    "--pbkdf-memory",
    "32",
    "-q",
];

const PASSPHRASE: &[u8] = b"correct horse\n";

fn image(place: &Place) -> String {
    let file = std::fs::File::create(place.path("image")).unwrap();
    file.set_len(18 << 20).unwrap();
    place.arg("image")
}

fn format(place: &Place, more: &[&str]) -> String {
    let image = image(place);
    let cheap: Vec<&str> = match more.contains(&"--pbkdf-memory") {
        true => CHEAP
            .into_iter()
            .filter(|word| !["--pbkdf-memory", "32"].contains(word))
            .collect(),
        false => CHEAP.to_vec(),
    };
    let args = [&["luks", "format"], &cheap[..], more, &[&image]].concat();
    let done = place.run_with(&args, PASSPHRASE);
    assert_eq!(done.code, 0, "{done:?}");
    image
}

fn luks(place: &Place, args: &[&str], input: &[u8]) -> Done {
    place.run_with(&[&["luks"], args].concat(), input)
}

#[test]
fn keys_are_added_changed_and_removed_without_a_daemon() {
    let place = Place::without_daemon();
    let image = format(&place, &[]);
    std::fs::write(place.path("key"), [7; 100]).unwrap();
    let key = place.arg("key");
    let cost = &CHEAP[..4];

    let add = [&["add-key", "--new-keyfile", &key][..], cost, &[&image]].concat();
    assert_eq!(luks(&place, &add, PASSPHRASE).out, "1\n");
    assert_eq!(luks(&place, &add, b"wrong passphrase\n").code, WRONG_KEY);
    let change = [&["change-key", "--key-file", &key][..], cost, &[&image]].concat();
    assert_eq!(luks(&place, &change, b"another one\n").out, "1\n");
    let remove = ["remove-key", &image];
    assert_eq!(luks(&place, &remove, b"another one\n").code, 0);
    assert_eq!(luks(&place, &remove, b"another one\n").code, WRONG_KEY);
    let last = luks(&place, &remove, PASSPHRASE);
    assert_eq!(last.code, BUSY, "{last:?}");
    assert_eq!(
        luks(&place, &["kill-slot", &image, "5"], b"").code,
        NOT_FOUND
    );
    assert_eq!(
        luks(&place, &["set-priority", &image, "0", "prefer"], b"").code,
        0
    );
    assert!(
        luks(&place, &["dump", &image], b"")
            .out
            .contains("preferred")
    );
    assert!(!place.socket().exists(), "no daemon was started");
}

/// What is too long is refused, and not shortened to what fits.
#[test]
fn passphrases_that_are_too_long_are_refused() {
    let place = Place::without_daemon();
    let image = image(&place);
    let args = [&["luks", "format"], &CHEAP[..], &[&image]].concat();
    let long = "x".repeat(513) + "\n";
    let refused = place.run_with(&args, long.as_bytes());
    assert_eq!(refused.code, NO_KEY, "{refused:?}");
    has(&refused.err, "longer than 512 bytes");
    let longest = "x".repeat(512) + "\n";
    assert_eq!(place.run_with(&args, longest.as_bytes()).code, 0);
    let dump = ["add-key", "--new-keyfile", &image, &image];
    assert_eq!(luks(&place, &dump, long.as_bytes()).code, NO_KEY);
}

#[test]
fn headers_are_copied_erased_and_put_back() {
    let place = Place::without_daemon();
    let image = format(&place, &["--label", "my disk"]);
    let backup = place.arg("backup");
    let save = ["header-backup", "--header-backup-file", &backup, &image];
    assert_eq!(luks(&place, &save, b"").code, 0);
    assert_ne!(luks(&place, &save, b"").code, 0, "it is there already");
    let refused = luks(&place, &["erase", &image], b"");
    assert_eq!(refused.code, USAGE, "nobody was asked");
    assert_eq!(luks(&place, &["erase", "-q", &image], b"").code, 0);
    let add = [&["add-key"][..], &CHEAP[..4], &[&image]].concat();
    assert_eq!(luks(&place, &add, PASSPHRASE).code, WRONG_KEY);
    let restore = [
        "header-restore",
        "-q",
        "--header-backup-file",
        &backup,
        &image,
    ];
    // A restore that was cut off left the header of then; it stays.
    let left = place.path("backup.old-header");
    std::fs::write(&left, "an old header").unwrap();
    assert_eq!(luks(&place, &restore, b"").code, 0);
    assert_eq!(std::fs::read(&left).unwrap(), b"an old header");
    assert!(!place.path("backup.old-header.1").exists());
    assert_eq!(
        luks(&place, &add, b"correct horse\nanother one\n").out,
        "1\n"
    );
    assert!(
        luks(&place, &["dump", "--json", &image], b"")
            .out
            .contains("\"my disk\"")
    );

    // What was overwritten by mistake.
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&image)
        .unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0x42; 4096], 0).unwrap();
    assert_eq!(luks(&place, &["dump", &image], b"").code, 0);
    assert_eq!(luks(&place, &add, PASSPHRASE).code, DAMAGED);
    assert_eq!(luks(&place, &["repair", &image], b"").code, 0);
    assert_eq!(luks(&place, &["is-luks", &image], b"").code, 0);
    assert_eq!(
        luks(&place, &["is-luks", "--type", "luks1", &image], b"").code,
        NOT_FOUND
    );
    assert_eq!(luks(&place, &["is-luks", &backup], b"").code, 0);
    assert_eq!(
        luks(&place, &["is-luks", &place.arg("nothing")], b"").code,
        NOT_FOUND
    );
}

#[test]
fn tokens_and_names() {
    let place = Place::without_daemon();
    let image = format(&place, &[]);
    let add = ["token", "add", "--key-description", "my:disk", &image];
    assert_eq!(luks(&place, &add, b"").out, "0\n");
    let export = luks(&place, &["token", "export", "--token-id", "0", &image], b"").out;
    has(&export, "luks2-keyring");
    let import = ["token", "import", "--token-id", "7", &image];
    assert_eq!(luks(&place, &import, export.as_bytes()).out, "7\n");
    assert_eq!(luks(&place, &import, b"nonsense").code, USAGE);
    assert_eq!(
        luks(&place, &["token", "remove", "--token-id", "0", &image], b"").code,
        0
    );
    let gone = luks(&place, &["token", "export", "--token-id", "0", &image], b"");
    assert_eq!(gone.code, NOT_FOUND);
    let uuid = "5AE2903E-22b6-43a2-b884-f5e9640ee47b";
    assert_eq!(luks(&place, &["uuid", "--uuid", uuid, &image], b"").code, 0);
    let shown = luks(&place, &["uuid", &image], b"").out;
    assert_eq!(shown.trim(), uuid.to_ascii_lowercase());
    assert_eq!(
        luks(&place, &["uuid", "--uuid", "x", &image], b"").code,
        USAGE
    );
}

/// Whether cryptsetup opens it.
fn judged(image: &str, key: &Path) -> Option<bool> {
    let args = ["open", "--test-passphrase", "--batch-mode", "--key-file"];
    let done = Command::new("cryptsetup")
        .args(args)
        .arg(key)
        .arg(image)
        .output();
    match done {
        Ok(output) => Some(output.status.success()),
        Err(_) => {
            eprintln!("skipped: there is no cryptsetup");
            None
        }
    }
}

#[test]
fn both_versions_are_what_cryptsetup_opens() {
    let place = Place::without_daemon();
    std::fs::write(place.path("key"), b"correct horse").unwrap();
    let image = image(&place);
    let key = place.path("key");
    let cheap = [
        "-q",
        "--pbkdf-force-iterations",
        "1000",
        "--pbkdf",
        "pbkdf2",
        "--key-file",
    ];
    let args = [
        &["format", "--type", "luks1"],
        &cheap[..],
        &[key.to_str().unwrap(), &image],
    ]
    .concat();
    assert_eq!(luks(&place, &args, b"").code, 0);
    assert_ne!(judged(&image, &key), Some(false));
    for version in ["luks2", "luks1"] {
        assert_eq!(
            luks(&place, &["convert", "--type", version, &image], b"").code,
            0
        );
        assert_ne!(judged(&image, &key), Some(false), "{version}");
        assert_eq!(
            luks(&place, &["convert", "--type", version, &image], b"").code,
            USAGE
        );
    }
}

/// Key files are read by the command and not by the daemon: also a pipe, and one that never ends.
#[test]
fn the_caller_reads_key_files() {
    let place = Place::new();
    let image = image(&place);
    // Longer than what can be typed.
    let key = [7; 100_000];
    std::fs::write(place.path("key"), key).unwrap();
    let key_file = place.arg("key");
    let args = [
        &["luks", "format"],
        &CHEAP[..],
        &["--key-file", key_file.as_str(), &image],
    ]
    .concat();
    assert_eq!(place.run_with(&args, b"").code, 0);
    let close = ["close", "secret"];
    let opened = |from: &str, input: &[u8]| {
        let open = ["open", "--key-file", from, &image, "secret"];
        let code = luks(&place, &open, input).code;
        if code == 0 {
            assert_eq!(luks(&place, &close, b"").code, 0);
        }
        code
    };
    assert_eq!(opened(&place.arg("key"), b""), 0);
    assert_eq!(opened("-", &key), 0);
    assert_eq!(opened("-", &key[1..]), WRONG_KEY);
    assert_eq!(opened("-", b""), NO_KEY);
    assert_eq!(opened("/dev/stdin", &key), 0);
    assert_eq!(opened("/dev/zero", b""), NO_KEY, "it is too long");
    assert_eq!(opened(&place.arg("nothing"), b""), NO_KEY);
    let fifo = place.path("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let write = std::thread::spawn({
        let fifo = fifo.clone();
        move || std::fs::write(fifo, key).unwrap()
    });
    assert_eq!(opened(fifo.to_str().unwrap(), b""), 0);
    write.join().unwrap();

    let swap = [
        "open",
        "--type",
        "plain",
        "--key-file",
        "/dev/urandom",
        &image,
        "secret",
    ];
    assert_eq!(luks(&place, &swap, b"").code, 0);
    assert_eq!(luks(&place, &close, b"").code, 0);
}

#[test]
fn a_container_is_opened_once_and_served_as_it_is_told() {
    let place = Place::new();
    let image = format(&place, &[]);
    let open = ["open", &image, "secret"];
    assert_eq!(luks(&place, &open, b"wrong passphrase\n").code, WRONG_KEY);
    assert_eq!(luks(&place, &["status", "secret"], b"").code, NOT_FOUND);
    assert_eq!(luks(&place, &open, PASSPHRASE).code, 0);
    assert_eq!(luks(&place, &open, PASSPHRASE).code, EXISTS);
    assert_eq!(
        luks(&place, &["open", &image, "other"], PASSPHRASE).code,
        BUSY
    );
    assert_eq!(
        luks(&place, &["dump", &image], b"").code,
        0,
        "looking is free"
    );

    let status = luks(&place, &["status", "secret"], b"").out;
    for line in [
        "type:    LUKS2",
        "cipher:  aes-xts-plain64",
        "flags:   no_read_workqueue no_write",
    ] {
        assert!(status.contains(line), "{status}");
    }
    let refresh = ["refresh", "--read-workqueue", "--allow-discards", "secret"];
    assert_eq!(luks(&place, &refresh, b"").code, 0);
    let status = luks(&place, &["status", "--json"], b"").out;
    has(&status, "\"read_workqueue\": true");
    has(&status, "\"write_workqueue\": false");
    assert_eq!(
        luks(&place, &["resize", "--device-size", "1M", "secret"], b"").code,
        0
    );
    assert!(
        luks(&place, &["status"], b"")
            .out
            .contains("size:    2048 sectors")
    );
    assert_eq!(
        luks(&place, &["resize", "--device-size", "1G", "secret"], b"").code,
        11
    );
    assert_eq!(luks(&place, &["close", "secret"], b"").code, 0);
    assert_eq!(luks(&place, &["close", "secret"], b"").code, NOT_FOUND);
}

/// Who can open a container changes while it is open, also by another name of its file; what would make it
/// another container waits.
#[test]
fn keys_are_changed_while_it_is_open() {
    let place = Place::new();
    let image = format(&place, &[]);
    let alias = place.arg("alias");
    std::os::unix::fs::symlink(&image, place.path("alias")).unwrap();
    let status = |code: i32, args: &[&str], input: &[u8]| {
        let done = luks(&place, args, input);
        assert_eq!(done.code, code, "{args:?}: {done:?}");
        done
    };
    status(0, &["open", &image, "secret"], PASSPHRASE);
    let cost = &CHEAP[..4];
    let add = [&["add-key"][..], cost, &[&alias]].concat();
    status(0, &add, b"correct horse\nanother one\n");
    let change = [&["change-key"][..], cost, &[&image]].concat();
    status(0, &change, b"another one\na third one\n");
    status(0, &["set-priority", &image, "1", "prefer"], b"");
    let token = ["token", "add", "--key-description", "my:disk", &image];
    status(0, &token, b"");
    status(0, &["token", "export", "--token-id", "0", &image], b"");
    let uuid = "0123abcd-0000-4000-8000-0123456789ab";
    status(0, &["uuid", "--uuid", uuid, &image], b"");
    let shown = status(0, &["status", "secret"], b"").out;
    assert!(shown.contains(uuid), "{shown}");
    let backup = place.arg("backup");
    let save = ["header-backup", "--header-backup-file", &backup, &image];
    status(0, &save, b"");
    status(0, &["kill-slot", &image, "0"], b"");
    status(WRONG_KEY, &["remove-key", &image], PASSPHRASE);

    let restore = ["header-restore", "-q", "--header-backup-file", &backup];
    let format = [&["format"][..], &CHEAP].concat();
    for command in [
        &["erase", "-q"][..],
        &restore,
        &["convert", "--type", "luks1"],
        &["repair"],
        &format,
    ] {
        let refused = status(BUSY, &[command, &[&alias]].concat(), PASSPHRASE);
        has(&refused.err, "luks close secret");
    }
    status(0, &["close", "secret"], b"");
    status(WRONG_KEY, &["open", &image, "secret"], PASSPHRASE);
    status(0, &["open", &image, "secret"], b"a third one\n");
}

/// A sector that was changed is an error of its own where it is read.
#[test]
fn a_container_with_integrity() {
    let place = Place::new();
    let image = format(&place, &["--integrity", "hmac-sha256"]);
    let shown = luks(&place, &["dump", &image], b"").out;
    has(&shown, "integrity: hmac(sha256)");
    let ok = |args: &[&str]| {
        let done = luks(&place, args, PASSPHRASE);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        done
    };
    ok(&["open", &image, "secret"]);
    let status = ok(&["status", "secret"]).out;
    has(&status, "with hmac(sha256)");
    ok(&["refresh", "--write-workqueue", "secret"]);
    let resize = ["resize", "--device-size", "4K", "secret"];
    assert_eq!(luks(&place, &resize, b"").code, USAGE);
    ok(&["close", "secret"]);

    // The header is whole, and what keeps the tags is not.
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&image)
        .unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"x", 16 << 20).unwrap();
    let refused = luks(&place, &["open", &image, "secret"], PASSPHRASE);
    assert_eq!(refused.code, DAMAGED, "{refused:?}");
    has(&refused.err, "superblock");
    let unknown = [&["format"], &CHEAP[..], &["--integrity", "crc32", &image]].concat();
    assert_eq!(luks(&place, &unknown, PASSPHRASE).code, USAGE);
}

/// A volume is named where a file or a disk could be, whether it is open or not.
#[test]
fn a_container_on_a_volume() {
    let place = Place::new();
    let pool = place.arg("tank.pool");
    place.ok(&format!("pool create -s 128M -m none tank {pool}"));
    place.ok("create -V 24M tank/disk");
    let on = "volume:tank/disk";
    let status = |code: i32, args: &[&str], input: &[u8]| {
        let done = luks(&place, args, input);
        assert_eq!(done.code, code, "{args:?}: {done:?}");
        done
    };
    status(NOT_FOUND, &["dump", on], b"");
    let format = [&["format"][..], &CHEAP, &["--label", "on it", on]].concat();
    status(0, &format, PASSPHRASE);
    status(0, &["is-luks", on], b"");
    assert!(status(0, &["dump", on], b"").out.contains("on it"));
    let add = [&["add-key"][..], &CHEAP[..4], &[on]].concat();
    status(0, &add, b"correct horse\nanother one\n");
    status(0, &["open", on, "secret"], b"another one\n");
    status(0, &["kill-slot", on, "0"], b"");
    assert!(status(0, &["dump", on], b"").out.contains("on it"));
    let refused = status(BUSY, &["erase", "-q", on], b"");
    has(&refused.err, "luks close secret");
    let backup = place.arg("backup");
    let save = ["header-backup", "--header-backup-file", &backup, on];
    status(0, &save, b"");
    let stop = place.run(&["daemon", "stop"]);
    assert_eq!(stop.code, BUSY, "{stop:?}");
    has(&stop.err, "the mapping 'secret'");
    status(0, &["close", "secret"], b"");

    // Used by something else, it is looked at and not changed.
    place.ok("nbd export volume:tank/disk");
    status(0, &["dump", on], b"");
    status(BUSY, &["kill-slot", "-q", on, "1"], b"");
    place.ok("nbd unexport tank/disk");
    status(0, &["erase", "-q", on], b"");
    status(WRONG_KEY, &["open", on, "secret"], b"another one\n");
    let restore = ["header-restore", "-q", "--header-backup-file", &backup, on];
    status(0, &restore, b"");
    status(0, &["open", on, "secret"], b"another one\n");
    status(NOT_FOUND, &["dump", "volume:tank/none"], b"");
}

/// A mapping is exported by its name, stays as long as it is, and comes back when it is opened again.
#[test]
fn a_mapping_is_exported() {
    let mut place = Place::new();
    let image = format(&place, &[]);
    assert_eq!(place.run(&["nbd", "export", "luks:secret"]).code, NOT_FOUND);
    assert_eq!(
        luks(&place, &["open", &image, "secret"], PASSPHRASE).code,
        0
    );
    assert_eq!(place.run(&["nbd", "export", "luks:secret"]).code, 0);
    let listed = place.run(&["nbd", "list"]).out;
    has(&listed, "luks:secret");
    let refused = luks(&place, &["close", "secret"], b"");
    assert_eq!(refused.code, BUSY, "{refused:?}");
    assert!(
        refused.err.contains("nbd unexport secret"),
        "{}",
        refused.err
    );

    // The key is gone with the daemon.
    assert!(place.terminate());
    place.start();
    assert_eq!(luks(&place, &["status"], b"").out, "");
    assert_eq!(
        luks(&place, &["open", &image, "secret"], PASSPHRASE).code,
        0
    );
    assert_eq!(luks(&place, &["close", "secret"], b"").code, BUSY);
    assert_eq!(place.run(&["nbd", "unexport", "secret"]).code, 0);
    assert_eq!(luks(&place, &["close", "secret"], b"").code, 0);

    let read_only = ["open", "--readonly", &image, "secret"];
    assert_eq!(luks(&place, &read_only, PASSPHRASE).code, 0);
    assert_eq!(place.run(&["nbd", "export", "luks:secret"]).code, USAGE);
    assert_eq!(
        place
            .run(&["nbd", "export", "--read-only", "luks:secret"])
            .code,
        0
    );
}

#[test]
fn a_header_may_be_elsewhere_and_mappings_without_one() {
    let place = Place::new();
    let header = place.arg("header");
    let image = format(&place, &["--header", &header]);
    assert_eq!(luks(&place, &["is-luks", &image], b"").code, NOT_FOUND);
    let without = luks(&place, &["open", &image, "x"], PASSPHRASE);
    assert_eq!(without.code, NOT_FOUND, "{without:?}");
    let open = ["open", "--header", &header, &image, "x"];
    assert_eq!(luks(&place, &open, PASSPHRASE).code, 0);
    assert!(
        luks(&place, &["status", "x"], b"")
            .out
            .contains("size:    36864 sectors")
    );
    assert_eq!(luks(&place, &["close", "x"], b"").code, 0);
    let alone = luks(&place, &["open", &header, "x"], PASSPHRASE);
    assert_eq!(alone.code, USAGE, "{alone:?}");

    let plain = [
        "open", "--type", "plain", "--skip", "8", "--size", "16", &image, "p",
    ];
    assert_eq!(luks(&place, &plain, PASSPHRASE).code, 0);
    let status = luks(&place, &["status", "p"], b"").out;
    has(&status, "type:    PLAIN");
    has(&status, "size:    16 sectors");
}

/// A header file that is there and too short grows, as with cryptsetup.
#[test]
fn a_header_file_becomes_as_long_as_a_header() {
    let place = Place::without_daemon();
    let header = std::fs::File::create(place.path("header")).unwrap();
    header.set_len(2 << 20).unwrap();
    let image = format(&place, &["--header", &place.arg("header")]);
    assert_eq!(header.metadata().unwrap().len(), 16 << 20);
    let key = ["is-luks", &place.arg("header")];
    assert_eq!(luks(&place, &key, b"").code, 0);
    assert_eq!(luks(&place, &["is-luks", &image], b"").code, NOT_FOUND);
}

/// A foreign slot may ask for more memory than the daemon gives. Root can give that memory once.
#[test]
fn a_costly_slot_needs_a_flag() {
    let mut place = Place::without_daemon();
    place.start_with("STRONGROOM_HASH_MEMORY", "1");
    let image = format(&place, &["--pbkdf-memory", "2048"]);
    let open = ["open", &image, "x"];
    let refused = luks(&place, &open, PASSPHRASE);
    assert!(refused.code != 0, "{refused:?}");
    has(&refused.err, "2 MiB of memory in 4 passes");
    has(&refused.err, "--hash-memory 2");
    let too_little = ["open", "--hash-memory", "1", &image, "x"];
    assert!(luks(&place, &too_little, PASSPHRASE).code != 0);
    let open = ["open", "--hash-memory", "2", &image, "x"];
    let done = luks(&place, &open, PASSPHRASE);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(luks(&place, &["close", "x"], b"").code, 0);
    // For that command only.
    assert!(luks(&place, &["open", &image, "x"], PASSPHRASE).code != 0);
}
