//! Users of a container at the same time: commands, mappings, and cryptsetup.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::common::containers::*;
use crate::common::*;

/// A place with a container in the file `image`.
fn with_container(place: Place) -> Place {
    format(&place, CHEAP);
    place
}

/// The output of `cryptsetup luksDump`, which must not take long; `None` if there is no cryptsetup.
fn dump(place: &Place) -> Option<String> {
    let mut command = Command::new("timeout");
    command.args(["60", "cryptsetup", "luksDump"]);
    let dumped = command.arg(place.path("image")).output().unwrap();
    if dumped.status.code() == Some(127) {
        eprintln!("skipped: there is no cryptsetup");
        return None;
    }
    assert!(dumped.status.success(), "{dumped:?}");
    Some(String::from_utf8(dumped.stdout).unwrap())
}

/// An open container is locked for others of this program only; its header can be read.
#[test]
fn cryptsetup_reads_a_header_that_is_open() {
    let place = with_container(Place::new());
    place.ok_with("luks open {DIR}/image x", PASSPHRASE);
    if let Some(dump) = dump(&place) {
        assert!(!dump.contains("1: luks2"), "{dump}");
    }
    let add = format!("luks add-key {CHEAP} {{DIR}}/image");
    place.ok_with(&add, "correct horse\nanother one\n");
    if let Some(dump) = dump(&place) {
        has(&dump, "1: luks2");
    }
    place.fails_with("luks open {DIR}/image y", PASSPHRASE, BUSY);
    place.fails("pool create -m none p {DIR}/image", BUSY);
    place.ok("luks close x");
    place.ok_with("luks open {DIR}/image y", PASSPHRASE);
}

/// Runs cryptsetup on the file `image`, which must not wait for long. None if there is no cryptsetup.
fn cryptsetup(place: &Place, line: &str) -> Option<std::process::Output> {
    let mut command = Command::new("timeout");
    let command = command.args(["60", "cryptsetup"]).args(line.split(' '));
    let done = command.arg(place.path("image")).stdin(Stdio::null());
    let done = done.output().unwrap();
    if done.status.code() == Some(127) {
        eprintln!("skipped: there is no cryptsetup");
        return None;
    }
    assert_ne!(done.status.code(), Some(124), "cryptsetup {line} waits");
    Some(done)
}

/// While a re-encryption is paused, cryptsetup reads the header. Root's does not continue below the mapping.
#[test]
fn cryptsetup_reads_a_header_in_reencryption_and_does_not_continue() {
    let place = with_container(Place::new());
    let begin = format!("luks reencrypt {CHEAP} --init-only {{DIR}}/image");
    std::fs::write(place.path("key"), PASSPHRASE.trim_end()).unwrap();
    let key = place.arg("key");
    let resume = format!("reencrypt -q --force-offline-reencrypt --resume-only --key-file {key}");
    // Once begun before it is opened, and once while it is open.
    for opens_first in [false, true] {
        if opens_first {
            place.ok_with("luks open {DIR}/image x", PASSPHRASE);
        }
        place.ok_with(&begin, PASSPHRASE);
        if !opens_first {
            place.ok_with("luks open {DIR}/image x", PASSPHRASE);
        }
        for line in ["isLuks", "luksDump"] {
            let done = needs!(cryptsetup(&place, line));
            assert!(done.status.success(), "{line}: {done:?}");
        }
        if is_root() {
            let done = cryptsetup(&place, &resume).unwrap();
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(!done.status.success(), "{done:?}");
            has(&said, "already running");
        }
        for slot in ["", "-S 1 "] {
            let test = format!("luks open --test-passphrase {slot}{{DIR}}/image");
            place.ok_with(&test, PASSPHRASE);
            place.fails_with(&test, "wrong\n", WRONG_KEY);
        }
        place.ok_with("luks reencrypt --resume-only {DIR}/image", PASSPHRASE);
        let dump = cryptsetup(&place, "luksDump").unwrap();
        assert!(dump.status.success(), "{dump:?}");
        assert!(!String::from_utf8_lossy(&dump.stdout).contains("online-reencrypt"));
        place.ok("luks close x");
    }
    // Where no mapping claims it, cryptsetup goes on.
    place.ok_with(&begin, PASSPHRASE);
    if is_root() {
        let done = cryptsetup(&place, &resume).unwrap();
        assert!(done.status.success(), "{done:?}");
    }
}

/// Runs `luks add-key` while this lock is held, which it waits for.
#[test]
fn a_command_waits_for_another_one() {
    for is_open in [false, true] {
        let place = with_container(match is_open {
            false => Place::without_daemon(),
            true => Place::new(),
        });
        if is_open {
            place.ok_with("luks open {DIR}/image x", PASSPHRASE);
        }
        let other = std::fs::File::open(place.path("image")).unwrap();
        other.lock().unwrap();
        let mut command = place.command();
        command.args(place.words(&format!("luks add-key {CHEAP} {{DIR}}/image")));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut waits = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = waits.stdin.take().unwrap();
        stdin.write_all(b"correct horse\nanother one\n").unwrap();
        drop(stdin);
        if !is_open {
            // The daemon waits without a word.
            let mut line = String::new();
            let mut stderr = BufReader::new(waits.stderr.take().unwrap());
            stderr.read_line(&mut line).unwrap();
            has(&line, "in use by process");
            has(&line, "waiting");
        }
        other.unlock().unwrap();
        let done = waits.wait_with_output().unwrap();
        assert_eq!(done.stdout, b"1\n", "{done:?}");
    }
}

#[test]
fn keys_are_added_at_the_same_time() {
    let place = with_container(Place::new());
    let mut expected = 0;
    for is_open in [false, true] {
        if is_open {
            place.ok_with("luks open {DIR}/image x", PASSPHRASE);
        }
        let add = || {
            let add = place.words(&format!("luks add-key {CHEAP} {{DIR}}/image"));
            let done = place.run_with(&add, b"correct horse\nanother one\n");
            assert_eq!(done.code, 0, "{done:?}");
            done.out.trim().parse::<u32>().unwrap()
        };
        let mut slots = std::thread::scope(|scope| {
            let adding: Vec<_> = (0..8).map(|_| scope.spawn(add)).collect();
            let slots = adding.into_iter().map(|thread| thread.join().unwrap());
            slots.collect::<Vec<_>>()
        });
        slots.sort_unstable();
        assert_eq!(slots, (expected + 1..=expected + 8).collect::<Vec<_>>());
        expected += 8;
    }
}
