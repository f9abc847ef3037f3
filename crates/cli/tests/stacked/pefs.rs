//! Key chains of directories of pefs, by command and mounted. The exit codes are those of pefs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::common::stacked_directory::refused;
use crate::common::{Place, can_mount, has, is_root, needs};

const PEFS_USAGE: i32 = 2;
const PEFS_NO_ENTRY: i32 = 5;
const PEFS_EXISTS: i32 = 6;
const PEFS_INVALID: i32 = 7;

/// A lower directory, and the first lines of three files as passphrases.
fn prepared() -> Place {
    let place = Place::without_daemon();
    fs::create_dir(place.path("lower")).expect("a directory");
    symlink("aes256-xts:10", place.path("lower/.pefs.conf")).expect("linked");
    for name in ["first", "second", "third"] {
        fs::write(place.path(name), format!("the {name}\nnot this line\n")).expect("written");
    }
    place
}

/// The identifiers that `showchains` prints for a passphrase.
fn chain(place: &Place, of: &str) -> Vec<String> {
    let shown = place.ok(&format!("pefs showchains -f -j {{DIR}}/{of} {{DIR}}/lower"));
    let mut lines = shown.lines();
    assert_eq!(lines.next(), Some("Key chain:"));
    let lines = lines.zip(1..).map(|(line, number): (&str, u32)| {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some(&*number.to_string()));
        let id = words.next().expect("an identifier").to_owned();
        assert_eq!(words.next(), Some("aes256-xts"));
        id
    });
    lines.collect()
}

#[test]
fn chains_are_made_shown_and_deleted() {
    let place = prepared();
    let made = place.ok("pefs addchain -f -v -Z -j {DIR}/first {DIR}/lower");
    has(&made, "Key chain set: ");
    has(&made, " -> 0000000000000000\n");
    let first = chain(&place, "first");
    assert_eq!(first.len(), 1);

    // The 2009 article has the command under this name.
    let made = place.ok("pefs setchain -f -v -j {DIR}/second -J {DIR}/first {DIR}/lower");
    let second = chain(&place, "second");
    assert_eq!(second[1..], first);
    assert_eq!(
        made,
        format!("Key chain set: {} -> {}\n", second[0], second[1])
    );
    place.ok("pefs addchain -f -j {DIR}/third -J {DIR}/second {DIR}/lower");
    assert_eq!(chain(&place, "third")[1..], second);

    let mode = fs::metadata(place.path("lower/.pefs.db")).expect("there");
    assert_eq!(mode.permissions().mode() & 0o7777, 0o600);
    assert!(!place.path("lower/.pefs.db.new").exists());

    let deleted = place.ok("pefs delchain -f -v -j {DIR}/third {DIR}/lower");
    has(&deleted, &format!(" -> {}\n", second[0]));
    let of_third = "pefs showchains -f -j {DIR}/third {DIR}/lower";
    refused(&place, of_third, PEFS_INVALID, "has no record");
    let deleted = place.ok("pefs delchain -f -F -v -j {DIR}/second {DIR}/lower");
    assert_eq!(deleted.lines().count(), 2);
    let of_first = "pefs showchains -f -j {DIR}/first {DIR}/lower";
    refused(&place, of_first, PEFS_INVALID, "has no record");
}

#[test]
fn what_cannot_be_done_changes_nothing() {
    let place = prepared();
    place.ok("pefs addchain -f -Z -j {DIR}/first {DIR}/lower");
    place.ok("pefs addchain -f -j {DIR}/second -J {DIR}/first {DIR}/lower");
    let before = fs::read(place.path("lower/.pefs.db")).expect("read");
    #[rustfmt::skip]
    let rows = [
        ("addchain -f -Z -j {DIR}/first {DIR}/lower", PEFS_EXISTS, "has a record"),
        ("addchain -f -j {DIR}/third -J {DIR}/third {DIR}/lower", PEFS_INVALID, "circle"),
        ("delchain -f -j {DIR}/third {DIR}/lower", PEFS_INVALID, "no record"),
        ("addchain -f -Z -j {DIR}/first {DIR}/none", PEFS_NO_ENTRY, "none"),
        ("addchain -Z -j {DIR}/first {DIR}/lower", PEFS_NO_ENTRY, "with -f"),
        ("addchain -f -Z -p {DIR}/lower", PEFS_USAGE, ""),
        ("addchain -f -Z -a aes -j {DIR}/third {DIR}/lower", PEFS_USAGE, "showalgs"),
        ("randomchain -f -n 9 -N 8 {DIR}/lower", PEFS_USAGE, "-n is at most -N"),
    ];
    for (line, code, why) in rows {
        // The link would override what is typed.
        if line.contains("-a") {
            fs::remove_file(place.path("lower/.pefs.conf")).expect("removed");
        }
        refused(&place, &format!("pefs {line}"), code, why);
        assert_eq!(
            fs::read(place.path("lower/.pefs.db")).expect("read"),
            before,
            "{line}"
        );
    }
    let mut damaged = before;
    // The first record lies at the end of the page, before three bytes that fill the word.
    let of_first = damaged.len() - 10;
    damaged[of_first] ^= 1;
    fs::write(place.path("lower/.pefs.db"), &damaged).expect("written");
    symlink("aes256-xts:10", place.path("lower/.pefs.conf")).expect("linked");
    let shown = ["first", "second"].map(|name| {
        let line = format!("pefs showchains -f -j {{DIR}}/{name} {{DIR}}/lower");
        place.run(&place.words(&line)).code
    });
    assert!(shown.contains(&PEFS_INVALID), "{shown:?}");
    fs::write(place.path("lower/.pefs.db"), "no database").expect("written");
    let line = "pefs addchain -f -Z -j {DIR}/third {DIR}/lower";
    refused(&place, line, PEFS_INVALID, ".pefs.db");
    let after = fs::read(place.path("lower/.pefs.db")).expect("read");
    assert_eq!(after, b"no database");
}

#[test]
fn records_that_hide_the_number_of_keys() {
    let place = prepared();
    place.ok("pefs addchain -f -Z -j {DIR}/first {DIR}/lower");
    let added = place.ok("pefs randomchain -f -v -n 10 -N 10 {DIR}/lower");
    assert_eq!(added, "Records added: 5\n");
    assert_eq!(chain(&place, "first").len(), 1);
    let shown = place.ok("pefs showalgs");
    assert_eq!(shown.lines().count(), 7);
    let list = |line: &str| -> Vec<serde_json::Value> {
        serde_json::from_str(&place.ok(&format!("--json pefs {line}"))).expect(line)
    };
    assert_eq!(list("showalgs").len(), 6);
    let keys = list("showchains -f -j {DIR}/first {DIR}/lower");
    assert_eq!(keys[0]["algorithm"], "aes256-xts");
}

/// A second passphrase opens what was written with the first.
#[test]
fn a_mount_uses_the_keys_of_its_chain() {
    needs!(can_mount());
    let place = prepared();
    fs::create_dir(place.path("view")).expect("a directory");
    place.ok("pefs addchain -f -Z -j {DIR}/first {DIR}/lower");
    place.ok("stack mount --passfile {DIR}/first {DIR}/lower {DIR}/view");
    fs::write(place.path("view/file"), "text").expect("written");
    // By the mount, without -f.
    place.ok("pefs addchain -j {DIR}/second -J {DIR}/first {DIR}/view");
    // Without -f it may be in use: a program that another test starts has this one's files for a moment.
    place.ok("stack unmount -f {DIR}/view");
    place.ok("stack mount --passfile {DIR}/second {DIR}/lower {DIR}/view");
    assert_eq!(fs::read(place.path("view/file")).expect("read"), b"text");
    place.ok("stack unmount -f {DIR}/view");
}

#[test]
fn chains_change_below_a_mount_over_itself() {
    needs!(can_mount());
    let place = prepared();
    let lower = place.path("lower");
    place.ok("pefs addchain -f -Z -j {DIR}/first {DIR}/lower");
    place.ok("stack mount --passfile {DIR}/first {DIR}/lower {DIR}/lower");
    fs::write(lower.join("file"), "text").expect("written");
    // A file of this name would be encrypted, and the chains would be lost.
    let error = fs::rename(lower.join("file"), lower.join(".pefs.db")).expect_err("refused");
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    let change = "pefs addchain -j {DIR}/second -J {DIR}/first {DIR}/lower";
    let done = place.run(&place.words(change));
    let is_root = is_root();
    assert_eq!(done.code == 0, is_root, "{done:?}");
    let opener = match is_root {
        true => "second",
        // Only root reaches what the mount covers.
        false => {
            has(&done.err, "unmount it first");
            "first"
        }
    };
    place.ok("stack unmount -f {DIR}/lower");
    assert!(lower.join(".pefs.db").exists());
    place.ok(&format!(
        "stack mount --passfile {{DIR}}/{opener} {{DIR}}/lower {{DIR}}/lower"
    ));
    assert_eq!(fs::read(lower.join("file")).expect("read"), b"text");
    place.ok("stack unmount -f {DIR}/lower");
}
