//! `strongroom luks suspend` and `resume`.

use std::io::{Read, Seek, SeekFrom};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use crate::common::containers::*;
use crate::common::*;
use block::{DeviceAccess, FileDevice};
use luks::Container;

/// A container that is open as `x`.
fn with_open_container() -> Place {
    let place = Place::new();
    format(&place, CHEAP);
    place.ok_with("luks open {DIR}/image x", PASSPHRASE);
    place
}

/// The key of the data in the file `image`.
fn volume_key(place: &Place) -> Vec<u8> {
    let device = FileDevice::open(&place.path("image"), DeviceAccess::ReadOnly).unwrap();
    let container = Container::look(Arc::new(device)).unwrap();
    let passphrase = secret::Secret::from_slice(PASSPHRASE.trim_end().as_bytes()).unwrap();
    let unlocked = container.unlock(&passphrase, None).unwrap();
    unlocked.key.expose().to_vec()
}

/// The number of times that bytes are in the memory of the daemon; `None` if that cannot be read.
fn count_in_memory(place: &Place, wanted: &[u8]) -> Option<usize> {
    let pid = place.pid();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let mut memory = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut found = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (range, _) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let [from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).unwrap());
        let mut bytes = Vec::new();
        memory.seek(SeekFrom::Start(from)).ok()?;
        // Some pages cannot be read.
        let _ = memory.by_ref().take(to - from).read_to_end(&mut bytes);
        // Keys are aligned.
        let places = (0..bytes.len().saturating_sub(wanted.len())).step_by(8);
        found += places.filter(|at| bytes[*at..].starts_with(wanted)).count();
    }
    Some(found)
}

/// Starts a client of the export of the mapping that reads a sector, and waits for it.
fn client(place: &Place) -> Child {
    let uri = format!("nbd+unix:///x?socket={}", place.path("nbd.sock").display());
    let mut client = Command::new("qemu-io");
    client.args(["-f", "raw", "-c", "read -P 7 4096 4096", &uri]);
    let client = client.stdout(Stdio::piped()).stderr(Stdio::piped());
    client.spawn().unwrap()
}

/// Writes what `client` looks for.
fn write(place: &Place) {
    let uri = format!("nbd+unix:///x?socket={}", place.path("nbd.sock").display());
    let mut writer = Command::new("qemu-io");
    writer.args(["-f", "raw", "-c", "write -P 7 4096 4096", &uri]);
    assert!(writer.output().unwrap().status.success());
}

fn has_client(place: &Place) -> bool {
    place.ok("nbd list").contains('1') && {
        let json = place.json("--json nbd list");
        json[0]["connections"] == 1
    }
}

#[test]
fn clients_wait_until_the_key_is_there_again() {
    needs!(is_installed("qemu-io"), "there is no qemu-io");
    let place = with_open_container();
    place.ok("nbd export luks:x");
    write(&place);
    place.ok("luks suspend x");
    place.says("luks status x", "x is suspended");
    let mut client = client(&place);
    while !has_client(&place) {
        assert!(client.try_wait().unwrap().is_none(), "it did not wait");
    }
    place.fails_with("luks resume x", "wrong\n", WRONG_KEY);
    place.says("luks status x", "x is suspended");
    assert!(client.try_wait().unwrap().is_none(), "it did not wait");
    place.ok_with("luks resume x", PASSPHRASE);
    let done = client.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && !out.contains("error"), "{done:?}");
    place.says("luks status x", "x is open");
    place.fails_with("luks resume x", PASSPHRASE, USAGE);
}

/// An attacker who gets the memory of the daemon while a mapping is suspended does not find its key.
#[test]
fn the_key_is_not_in_memory() {
    let place = with_open_container();
    let key = volume_key(&place);
    let count = || count_in_memory(&place, &key[..32]);
    match count() {
        None | Some(0) => {
            eprintln!("skipped: the key is not found in the memory of the daemon as it is");
            return;
        }
        Some(_) => {}
    }
    place.ok("luks suspend x");
    assert_eq!(count(), Some(0));
    assert_eq!(count_in_memory(&place, &key[32..]), Some(0));
    place.ok_with("luks resume x", PASSPHRASE);
    assert!(count() > Some(0));
}

#[test]
fn what_a_suspended_mapping_allows() {
    let place = with_open_container();
    place.fails("luks suspend y", NOT_FOUND);
    place.fails_with("luks resume x", PASSPHRASE, USAGE);
    place.ok("luks suspend x");
    place.fails("luks suspend x", USAGE);
    let json = place.json("--json luks status x");
    assert_eq!(json[0]["suspended"], true);
    place.refuses("nbd export luks:x", BUSY, "luks resume x");
    place.fails("luks resize x", BUSY);
    let line = format!("luks reencrypt {CHEAP} x");
    has(&place.fails_with(&line, PASSPHRASE, USAGE), "luks resume");
    place.ok("luks refresh --allow-discards x");
    let add = format!("luks add-key {CHEAP} {{DIR}}/image");
    place.ok_with(&add, "correct horse\nanother one\n");
    std::fs::write(place.path("key"), "another one").unwrap();
    place.ok("luks resume -S 1 --key-file {DIR}/key x");
    place.says("luks status x", "slot:    1");
    place.ok("luks suspend x");
    place.ok("luks close x");
    place.ok_with("luks open {DIR}/image x", PASSPHRASE);
    place.ok("luks close x");
    let plain = "luks open --type plain {DIR}/image p";
    place.ok_with(plain, PASSPHRASE);
    place.fails("luks suspend p", USAGE);
}

/// A container in re-encryption has two keys, and is not suspended.
#[test]
fn a_container_in_reencryption_is_not_suspended() {
    let place = with_open_container();
    let line = format!("luks reencrypt {CHEAP} --init-only x");
    place.ok_with(&line, PASSPHRASE);
    place.refuses("luks suspend x", USAGE, "re-encryption");
    place.ok_with("luks reencrypt --resume-only x", PASSPHRASE);
    place.ok("luks suspend x");
    place.ok_with("luks resume x", PASSPHRASE);
}

/// A user who does not know the key can end the clients, or the daemon.
#[test]
fn a_client_that_waits_is_ended_by_force() {
    needs!(is_installed("qemu-io"), "there is no qemu-io");
    let mut place = with_open_container();
    for ends_daemon in [false, true] {
        place.ok("nbd export luks:x");
        write(&place);
        place.ok("luks suspend x");
        let mut client = client(&place);
        while !has_client(&place) {
            assert!(client.try_wait().unwrap().is_none(), "it did not wait");
        }
        place.refuses("luks close x", BUSY, "nbd unexport x");
        place.refuses("daemon stop", BUSY, "luks resume x");
        match ends_daemon {
            false => {
                place.ok("nbd unexport --force x");
                place.ok("luks close x");
            }
            true => assert!(place.terminate(), "{}", place.log()),
        }
        let done = client.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&done.stdout);
        assert!(!out.contains("read 4096/4096"), "{done:?}");
        if !ends_daemon {
            place.ok_with("luks open {DIR}/image x", PASSPHRASE);
        }
    }
}
