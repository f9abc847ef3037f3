//! Who may use a container at the same time: commands, mappings, and cryptsetup.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use common::containers::*;
use common::*;

/// A place with a container in the file `image`.
fn with_container(place: Place) -> Place {
    format(&place, CHEAP);
    place
}

/// What `cryptsetup luksDump` prints, which must not take long; `None` if there is no cryptsetup.
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
