//! The whole life of keys: slots, inheritance, copies; and that no operation leaves a dataset behind that
//! nothing opens.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::common::*;

/// A pool `tank` whose datasets are mounted below `mnt`.
fn pool_with_mounts() -> Place {
    let place = Place::new();
    place.ok("pool create -s 64M -m {DIR}/mnt tank {DIR}/tank.pool");
    place
}

/// A key file, as a keysource.
fn key_file(place: &Place, name: &str) -> String {
    let file = place.arg(name);
    place.ok(&format!("keygen {file}"));
    format!("keysource=raw,file://{file}")
}

fn note(place: &Place, dataset: &str) -> PathBuf {
    place.path("mnt").join(dataset).join("note")
}

/// Unloads all keys, loads them again, and finds in each dataset what was written there.
fn everything_opens(place: &Place, datasets: &[&str]) {
    place.ok("unmount -a");
    place.ok("key unload -a");
    place.ok("pool export tank");
    place.ok("pool import -N -d {DIR}/tank.pool tank");
    place.ok("mount -a -l");
    for dataset in datasets {
        let found = fs::read_to_string(note(place, dataset));
        assert_eq!(found.unwrap(), last(dataset), "{dataset}");
    }
}

/// The part of a name that a move above does not change.
fn last(dataset: &str) -> &str {
    dataset.rsplit('/').next().unwrap()
}

fn write_notes(place: &Place, datasets: &[&str]) {
    for dataset in datasets {
        fs::write(note(place, dataset), last(dataset)).unwrap();
    }
}

#[test]
fn two_passphrases_open_one_dataset() {
    let place = Place::new();
    place.pool("tank");
    place.ok_with("create -u -o encryption=on tank/a", "the first one\n");
    assert_eq!(place.ok_with("key add tank/a", "the second one\n"), "1\n");
    let slots = place.ok("key slots -H tank/a");
    let lines: Vec<&str> = slots.lines().collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        has(line, "\tpassphrase\t128\t");
        has(line, "argon2id ");
    }
    place.ok("key unload tank/a");
    place.ok_with("key load -n tank/a", "the first one");
    place.ok_with("key load tank/a", "the second one");

    place.ok("key remove tank/a 0");
    place.fails("key remove tank/a 1", OTHER);
    place.ok("key unload tank/a");
    place.fails_with("key load tank/a", "the first one", WRONG_KEY);
    place.ok_with("key load tank/a", "the second one");

    // The same number again, with the other one first.
    assert_eq!(
        place.ok_with("key add -p 200 tank/a", "the third one\n"),
        "0\n"
    );
    place.ok_with("key change --slot 1 tank/a", "the fourth one\n");
    for (passphrase, code) in [
        ("the second one", WRONG_KEY),
        ("the third one", 0),
        ("the fourth one", 0),
    ] {
        let done = place.run_with(&words("key load -n tank/a"), passphrase.as_bytes());
        assert_eq!(done.code, code, "{passphrase}: {done:?}");
    }
}

#[test]
fn the_keysource_stays_one_that_opens() {
    let place = Place::new();
    place.pool("tank");
    let [main, other, third] = ["main", "other", "third"].map(|name| key_file(&place, name));
    place.ok(&format!("create -u -o encryption=on -o {main} tank/a"));
    place.ok(&format!("key add -o {other} tank/a"));
    // The property named the key of slot 0, which is another one now.
    place.ok(&format!("key change --slot 0 -o {third} tank/a"));
    let value = || format!("keysource={}", place.ok("get -H -o value keysource tank/a"));
    assert_eq!(value().trim_end(), third);
    // It goes on naming slot 0.
    place.ok(&format!("key change --slot 1 -o {main} tank/a"));
    assert_eq!(value().trim_end(), third);
    // Also if its key is away for a while.
    fs::rename(place.path("third"), place.path("away")).unwrap();
    place.ok(&format!("key change --slot 1 -o {other} tank/a"));
    assert_eq!(value().trim_end(), third);
    fs::rename(place.path("away"), place.path("third")).unwrap();
    place.ok(&format!("key change --slot 1 -o {main} tank/a"));
    place.refuses("key remove tank/a 0", USAGE, "opens no slot");
    place.fails(&format!("key remove -o {other} tank/a 0"), USAGE);
    place.ok(&format!("key remove -o {main} tank/a 0"));
    place.ok("key unload tank/a");
    place.ok("key load tank/a");
}

#[test]
fn lost_keyrings_come_back_from_a_copy() {
    needs!(can_mount());
    let place = pool_with_mounts();
    let key = key_file(&place, "key");
    let all = ["a", "a/b", "a/own"];
    place.ok(&format!("create -o encryption=on -o {key} tank/a"));
    place.ok("create tank/a/b");
    place.ok(&format!("create -o encryption=on -o {key} tank/a/own"));
    write_notes(&place, &all);
    place.ok("key backup tank/a {DIR}/a.keys");
    place.ok("key backup tank/a/own {DIR}/own.keys");
    let mode = fs::metadata(place.path("a.keys")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let restore = format!("key restore -f tank/a {}", place.arg("a.keys"));
    place.refuses(&restore, BUSY, "is in use");

    place.ok("unmount -a");
    place.ok("pool export tank");
    assert!(damage_keyrings(&place.path("tank.pool")) >= 6);
    place.ok("pool import -N -d {DIR}/tank.pool tank");
    place.fails("key load tank/a", DAMAGED);
    place.fails("key backup tank/a {DIR}/no.keys", DAMAGED);
    assert!(!place.path("no.keys").exists());
    // Of another dataset, and cut short.
    place.fails("key restore -f tank/a {DIR}/own.keys", USAGE);
    let copy = fs::read(place.path("a.keys")).unwrap();
    fs::write(place.path("cut.keys"), &copy[..copy.len() - 1]).unwrap();
    place.fails("key restore -f tank/a {DIR}/cut.keys", DAMAGED);
    place.fails("key restore -f tank/a {DIR}/nowhere", NOT_FOUND);

    place.ok(&restore);
    place.ok("key restore -f tank/a/own {DIR}/own.keys");
    place.ok("mount -a -l");
    everything_opens(&place, &all);
}

/// A backup of one keyring whose data keys nothing unwraps, with every checksum right.
fn forged(backup: &[u8]) -> Vec<u8> {
    let text = |at: usize| usize::from(u16::from_le_bytes([backup[at], backup[at + 1]]));
    let start = 24 + 16 + text(24 + 12) + text(24 + 14);
    let mut forged = backup[..backup.len() - 32].to_vec();
    let end = forged.len();
    // The end of the last generation, before the keyring's own checksum.
    forged[end - 40] ^= 1;
    let sum = blake3::hash(&forged[start..end - 32]);
    forged[end - 32..].copy_from_slice(sum.as_bytes());
    let sum = blake3::hash(&forged);
    forged.extend_from_slice(sum.as_bytes());
    forged
}

/// A keyring that can be read goes only for one that opens the dataset.
#[test]
fn copies_are_opened_before_they_replace_anything() {
    needs!(can_mount());
    let place = pool_with_mounts();
    let (key, other) = (key_file(&place, "key"), key_file(&place, "other"));
    place.ok(&format!("create -o encryption=on -o {key} tank/a"));
    write_notes(&place, &["a"]);
    place.ok("key backup tank/a {DIR}/a.keys");
    let backup = fs::read(place.path("a.keys")).unwrap();
    fs::write(place.path("forged.keys"), forged(&backup)).unwrap();
    place.ok(&format!("key change -o {other} tank/a"));
    place.ok("unmount -a");
    let restore =
        |options: &str, file: &str| format!("key restore -f {options} tank/a {}", place.arg(file));
    place.fails(&restore("", "forged.keys"), DAMAGED);
    place.fails(&restore(&format!("-o {other}"), "a.keys"), WRONG_KEY);
    fs::rename(place.path("key"), place.path("moved")).unwrap();
    place.fails(&restore("", "a.keys"), NO_KEY);
    everything_opens(&place, &["a"]);

    place.ok("unmount -a");
    let moved = format!("-o keysource=raw,file://{}", place.arg("moved"));
    place.ok(&restore(&moved, "a.keys"));
    fs::rename(place.path("moved"), place.path("key")).unwrap();
    everything_opens(&place, &["a"]);
}

/// Moves and changes by which others lost the keys of datasets (OpenZFS issues 9267, 12000, 12123, 12614).
#[test]
fn no_move_or_change_leaves_keys_that_nothing_opens() {
    needs!(can_mount());
    let place = pool_with_mounts();
    let [first, second] = ["first", "second"].map(|name| key_file(&place, name));
    place.ok(&format!("create -o encryption=on -o {first} tank/a"));
    place.ok(&format!("create -o encryption=on -o {second} tank/b"));
    for name in ["tank/a/x", "tank/a/x/y", "tank/b/z"] {
        place.ok(&format!("create {name}"));
    }
    place.ok("create -o encryption=off tank/clear");
    write_notes(&place, &["a", "a/x", "a/x/y", "b", "b/z"]);

    // Away from the key that it has from above: nowhere, and not to another key either.
    for to in ["tank/x", "tank/b/x", "tank/clear/x"] {
        place.refuses(&format!("rename tank/a/x {to}"), USAGE, "key change");
    }
    // Within it, and with a key of its own anywhere.
    place.ok("rename tank/a/x/y tank/a/y");
    place.ok("rename tank/a/y tank/a/x/y");
    place.ok(&format!("key change -o {second} tank/a/x"));
    place.ok("rename tank/a/x tank/b/x");
    everything_opens(&place, &["a", "b", "b/x", "b/z"]);
    let root = |name: &str| {
        place
            .ok(&format!("key status -H {name}"))
            .replace('\t', " ")
    };
    assert!(root("tank/b/x/y").contains(" tank/b/x "));

    // Inherited from where it is now, with all below it; both keys have to be there.
    place.ok("unmount -a");
    place.ok("key unload tank/b");
    place.fails("key change -i tank/b/x", NO_KEY);
    place.ok("key load tank/b");
    place.ok("key unload tank/b/x");
    place.fails("key change -i tank/b/x", NO_KEY);
    place.ok("key load tank/b/x");
    place.ok("key change -i tank/b/x");
    assert!(root("tank/b/x/y").contains(" tank/b "));
    // Its own key opens it no more, and a change of the one above reaches it.
    place.ok(&format!("key change -o {first} tank/b"));
    place.fails("rename tank/b/x tank/a/x", USAGE);
    place.ok("mount -a -l");
    everything_opens(&place, &["a", "b", "b/x", "b/z"]);

    // What others have their key from is not destroyed without them.
    place.fails("destroy -f tank/b", BUSY);
    place.ok("destroy -f -r tank/b");
    everything_opens(&place, &["a"]);
}

/// The transaction groups of a dataset's generations, the oldest first.
fn generations(place: &Place, dataset: &str) -> Vec<u64> {
    let shown = place.ok("inspect -dddd tank");
    let of = format!("Dataset {dataset} [");
    let lines = shown.lines().skip_while(|line| !line.starts_with(&of));
    let lines = lines
        .skip(1)
        .take_while(|line| !line.starts_with("Dataset "));
    let entries = lines.filter_map(|line| {
        let (txg, len) = line
            .trim()
            .strip_prefix("txg ")?
            .split_once(" : wkeylen = ")?;
        has(len, "128, wrapped by xaes-256-gcm, generation ");
        Some(txg.parse().unwrap())
    });
    entries.collect()
}

#[test]
fn new_data_keys_are_for_what_is_written_from_then_on() {
    needs!(can_mount());
    let place = pool_with_mounts();
    let key = key_file(&place, "key");
    place.ok(&format!("create -o encryption=on -o {key} tank/a"));
    place.ok("create -o encryption=off tank/clear");
    let file = |name: &str| place.path("mnt/a").join(name);
    fs::write(file("old"), "x".repeat(100_000)).unwrap();
    fs::write(file("both"), "y".repeat(300_000)).unwrap();
    place.ok("snapshot tank/a@before");
    place.ok("key backup tank/a {DIR}/before.keys");

    place.fails("key rotate tank/clear", OTHER);
    place.fails("key rotate tank/a@before", OTHER);
    place.fails("key rotate tank/none", NOT_FOUND);
    place.ok("key rotate tank/a");
    place.ok("key -K tank/a");
    let txgs = generations(&place, "tank/a");
    assert_eq!(txgs.len(), 3);
    assert!(txgs.is_sorted_by(|a, b| a < b), "{txgs:?}");
    fs::write(file("new"), "z".repeat(100_000)).unwrap();
    let part = fs::File::options().write(true).open(file("both")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&part, b"changed", 150_000).unwrap();
    drop(part);
    place.ok("snapshot tank/a@after");

    let look = || {
        assert_eq!(fs::read(file("old")).unwrap(), [b'x'; 100_000]);
        assert_eq!(fs::read(file("new")).unwrap(), [b'z'; 100_000]);
        let both = fs::read(file("both")).unwrap();
        assert_eq!(&both[149_999..150_008], b"ychangedy");
        let then = fs::read(file(".snapshot/before/both")).unwrap();
        assert_eq!(then, [b'y'; 300_000]);
        let then = fs::read(file(".snapshot/after/new")).unwrap();
        assert_eq!(then, [b'z'; 100_000]);
    };
    look();
    // What records name: the first, and the newest. In between nothing was written.
    let shown = place.ok("--json inspect -dddd tank");
    for (number, is_used) in [(1, true), (2, false), (3, true)] {
        let found = shown.contains(&format!("\"generation\": {number},"));
        assert!(found >= is_used, "{number}");
    }
    place.ok("unmount -a");
    place.ok("key unload -a");
    place.fails("key rotate tank/a", NO_KEY);
    // The copy lacks keys that are needed, however it is asked for.
    let restore = format!("key restore -f tank/a {}", place.arg("before.keys"));
    place.refuses(&restore, OTHER, "does not have generation 2");
    place.ok("key load tank/a");
    // Not mounted, and under another key too.
    place.ok("key rotate tank/a");
    let other = key_file(&place, "other");
    place.ok(&format!("key change -o {other} tank/a"));
    assert_eq!(generations(&place, "tank/a").len(), 4);
    assert_eq!(generations(&place, "tank/a")[..3], txgs);
    place.ok("pool export tank");
    place.ok("pool import -N -d {DIR}/tank.pool tank");
    place.ok("mount -a -l");
    look();
    place.ok("key backup tank/a {DIR}/after.keys");
    place.ok("rollback -r tank/a@before");
    assert_eq!(fs::read(file("both")).unwrap(), [b'y'; 300_000]);
    let history = place.ok("pool history -i tank");
    assert_eq!(
        history.matches("encryption key create").count(),
        3,
        "{history}"
    );

    // Even if the keyring is lost, and only records tell what is needed.
    place.ok("unmount -a");
    place.ok("pool export tank");
    damage_keyrings(&place.path("tank.pool"));
    place.ok("pool import -N -d {DIR}/tank.pool tank");
    place.refuses(&restore, OTHER, "does not have generation 4");
    place.ok(&restore.replace("before", "after"));
    place.ok("mount -a -l");
    assert_eq!(fs::read(file("both")).unwrap(), [b'y'; 300_000]);
}

/// Waits until a property of a dataset is one of these values.
fn wait_for(place: &Place, property: &str, values: &[&str]) -> String {
    loop {
        let value = place.ok(&format!("get -H -o value {property} tank/a"));
        if values.iter().any(|wanted| value.trim_end() == *wanted) {
            return value.trim_end().into();
        }
        // Nothing else has to happen for it to go on.
        place.ok("pool sync");
    }
}

fn states(place: &Place) -> Vec<String> {
    let shown = place.ok("key generations -H tank/a");
    let cells = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        format!("{} {} {}", cells[0], cells[3], cells[6])
    };
    shown.lines().map(cells).collect()
}

#[test]
fn what_is_stored_is_reencrypted_in_the_background() {
    needs!(can_mount());
    let mut place = pool_with_mounts();
    let key = key_file(&place, "key");
    place.ok(&format!(
        "create -o encryption=on -o compression=off -o {key} tank/a"
    ));
    let file = |name: &str| place.path("mnt/a").join(name);
    let content: Vec<u8> = (0..20_000_000u32).map(|n| (n / 5) as u8).collect();
    fs::write(file("large"), &content).unwrap();
    fs::write(file("small"), "small").unwrap();
    place.ok("snapshot tank/a@old");
    place.ok("key rotate tank/a");
    fs::write(file("small"), "changed").unwrap();
    place.ok("pool sync");
    assert_eq!(states(&place), ["1 in use @old", "2 newest -"]);
    place.fails("key rotate --pause tank/a", OTHER);

    place.ok("key rotate --reencrypt tank/a");
    // It may be done already, but for what the snapshot has.
    let pause = place.run(&["key", "rotate", "--pause", "tank/a"]);
    match (
        pause.code,
        &*place.ok("get -H -o value reencryption tank/a"),
    ) {
        (0, "paused\n") => drop(place.ok("key rotate --resume tank/a")),
        (0 | OTHER, "pinned by @old\n") => {}
        (code, state) => panic!("{code}: {state}"),
    }
    // It is not forgotten, whatever happens to the daemon.
    let mnt = place.path("mnt/a");
    place.kill();
    place.start();
    place.ok("mount -a -l");
    let file = |name: &str| mnt.join(name);
    wait_for(&place, "reencryption", &["pinned by @old"]);
    assert_eq!(states(&place), ["1 pinned @old", "3 newest -"]);
    assert_eq!(fs::read(file("large")).unwrap(), content);
    assert_eq!(fs::read_to_string(file("small")).unwrap(), "changed");
    assert_eq!(fs::read(file(".snapshot/old/large")).unwrap(), content);

    // With the snapshot goes the last that the old keys are needed for.
    place.ok("destroy -f tank/a@old");
    wait_for(&place, "reencryption", &["-"]);
    assert_eq!(states(&place), ["3 newest -"]);
    place.ok("inspect --check tank");
    let history = place.ok("pool history -i tank");
    for line in [
        "keys destroyed: generation 2",
        "keys destroyed: generation 1",
    ] {
        assert!(history.contains(line), "{line}: {history}");
    }
    place.ok("unmount -a");
    place.ok("key unload -a");
    place.ok("mount -a -l");
    assert_eq!(fs::read(file("large")).unwrap(), content);
}

#[test]
fn keys_are_as_long_as_the_suite_takes() {
    let place = Place::new();
    let image = place.pool("tank");
    for (name, options) in [
        ("k16", "--keylen 128"),
        ("other16", "--keylen 128"),
        ("k24", "--keylen 192"),
        ("k32", ""),
        ("hex16", "--keylen 128 --format hex"),
    ] {
        place.ok(&format!("keygen {options} {}", place.arg(name)));
    }
    let short = format!("keygen --keylen 64 {}", place.arg("none"));
    assert_eq!(place.run(&words(&short)).code, USAGE);
    let of = |name: &str| format!("keysource=raw,file://{}", place.arg(name));
    let create = |suite: &str, key: &str, name: &str| {
        format!("create -u -o encryption={suite} -o {} {name}", of(key))
    };
    place.ok(&create("aes-128-ccm", "k16", "tank/a"));
    place.ok(&create("aes-192-gcm", "k24", "tank/b"));
    place.ok(&create("aes-128-gcm", "k32", "tank/c"));
    for (suite, key, why) in [
        (
            "aes-256-gcm",
            "k16",
            "the key of 'tank/x': it has 128 bits; a key for aes-256-gcm has 256",
        ),
        (
            "on",
            "k24",
            "it has 192 bits; a key for xaes-256-gcm has 256; encryption=aes-192-gcm or encryption=aes-192-ccm takes \
             this one",
        ),
        ("aes-128-ccm", "k24", "a key for aes-128-ccm has 128 or 256"),
        (
            "aes-128-ccm",
            "hex16",
            "holds 33 bytes; a raw key has 16, 24 or 32",
        ),
    ] {
        has(&place.fails(&create(suite, key, "tank/x"), NO_KEY), why);
    }
    place.fails("get name tank/x", NOT_FOUND);

    // Every way back, and from one length to another.
    let reload = |line: &str| {
        place.ok("key unload tank/a");
        place.ok(&format!("key load {line} tank/a"));
    };
    reload("");
    place.ok(&format!(
        "key change -o keysource=hex,file://{} tank/a",
        place.arg("hex16")
    ));
    reload("");
    let digits = fs::read_to_string(place.path("hex16")).unwrap();
    place.ok("key unload tank/a");
    place.ok_with("key load -L prompt tank/a", &digits);
    place.ok(&format!("key change -o {} tank/a", of("k32")));
    reload("");
    place.fails(&format!("key change -o {} tank/a", of("k24")), NO_KEY);
    place.fails(&format!("key add -o {} tank/a", of("k24")), NO_KEY);
    place.ok(&format!("key change -o {} tank/a", of("k16")));
    place.ok(&format!("key add -o {} tank/a", of("k32")));
    place.ok("key unload tank/a");
    let load = |key: &str| format!("key load -n -L file://{} tank/a", place.arg(key));
    place.ok(&load("k16"));
    place.ok(&load("k32"));
    place.fails(&load("other16"), WRONG_KEY);
    place.fails(&load("k24"), WRONG_KEY);
    fs::write(
        place.path("cut"),
        &fs::read(place.path("k16")).unwrap()[..15],
    )
    .unwrap();
    place.refuses(&load("cut"), NO_KEY, "holds 15 bytes");
    // A received dataset has the key of the sender's key root, and a suite of its own.
    place.ok("key load tank/a");
    place.ok("create -u -o encryption=aes-256-gcm tank/a/c");
    place.ok("snapshot tank/a/c@s");
    let stream = place.command().args(words("send -w tank/a/c@s")).output();
    let received = place.run_with(&words("receive -u tank/r"), &stream.unwrap().stdout);
    assert_eq!(received.code, 0, "{}", received.err);
    place.ok(&format!("key load -L file://{} tank/r", place.arg("k16")));
    place.ok("key unload -a");
    place.ok("pool export tank");
    assert!(damage_keyrings(&image) > 0);
    place.ok(&format!("pool import -N -d {} tank", place.arg("")));
    place.fails(&load("k16"), DAMAGED);
}

/// `key load -L` finds the slot and the format: the escrow key of a dataset with a passphrase is a raw key.
#[test]
fn an_escrow_key_opens_its_slot_whatever_the_format() {
    let place = Place::new();
    place.ok("pool create -s 64M -m none tank {DIR}/tank.pool");
    place.ok_with(
        "create -u -o encryption=on tank/a",
        "correct horse\ncorrect horse\n",
    );
    let digits = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";
    fs::write(place.path("raw"), [7; 32]).unwrap();
    fs::write(place.path("hex"), digits).unwrap();
    fs::write(place.path("words"), "another passphrase\n").unwrap();
    for (slot, (name, format)) in [("raw", "raw"), ("hex", "hex"), ("words", "passphrase")]
        .into_iter()
        .enumerate()
    {
        let path = place.arg(name);
        place.ok(&format!(
            "key add -o keysource={format},file://{path} tank/a"
        ));
        place.ok("key unload tank/a");
        let done = place.run(&words(&format!("key load -L file://{path} tank/a")));
        assert_eq!(done.code, 0, "{done:?}");
        let said = format!("slot {} of 'tank/a' opens", slot + 1);
        has(&done.err, &said);
        has(&done.err, &format!("format '{format}'"));
    }
    fs::write(place.path("other"), [8; 32]).unwrap();
    let other = place.arg("other");
    place.fails(&format!("key load -n -L file://{other} tank/a"), WRONG_KEY);
    place.fails("key load -n -L file:///nowhere/key tank/a", NO_KEY);
}

/// A single file has the keyrings of a whole pool, also of one whose root dataset is not encrypted.
#[test]
fn a_whole_pool_is_backed_up() {
    let place = Place::new();
    place.ok("pool create -s 64M -m none tank {DIR}/tank.pool");
    place.fails("key backup tank {DIR}/none.keys", OTHER);
    let passphrase = "correct horse\ncorrect horse\n";
    place.ok_with("create -u -o encryption=on tank/a", passphrase);
    place.ok("create -u tank/a/below");
    place.ok_with("create -u -o encryption=on tank/b", passphrase);
    place.ok("key backup tank {DIR}/tank.keys");
    for name in ["tank/a", "tank/b"] {
        place.ok_with(&format!("key change {name}"), "another one\nanother one\n");
        place.ok_with(
            &format!("key restore -f {name} {{DIR}}/tank.keys"),
            "correct horse\n",
        );
        place.ok_with(&format!("key load {name}"), "correct horse\n");
    }
}
