//! `strongroom luks reencrypt` of a container that is open. What its data becomes is tested in the crate `luks`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::containers::*;
use crate::common::*;

/// Exports the mapping `x`, and returns the URI of its data.
fn export(place: &Place) -> String {
    place.ok("nbd export luks:x");
    let socket = place.path("nbd.sock");
    format!("nbd+unix:///x?socket={}", socket.display())
}

fn has_tools(tools: &[&str]) -> bool {
    let has = |tool: &&str| Command::new(tool).arg("--version").output().is_ok();
    let missing = tools.iter().find(|tool| !has(tool));
    if let Some(tool) = missing {
        eprintln!("skipped: there is no {tool}");
    }
    missing.is_none()
}

/// A container is re-encrypted while clients of an export of it write; then cryptsetup does the same.
#[test]
fn clients_write_while_a_container_is_reencrypted() {
    needs!(has_tools(&["qemu-io", "nbdcopy", "cryptsetup"]));
    let place = Place::new();
    format(&place, CHEAP);
    place.ok_with("luks open {DIR}/image x", PASSPHRASE);
    let uri = export(&place);
    let mut expected: Vec<u8> = (0..2 << 18).flat_map(|n: u32| n.to_le_bytes()).collect();
    std::fs::write(place.path("first"), &expected).unwrap();
    let copied = Command::new("nbdcopy")
        .arg(place.path("first"))
        .arg(&uri)
        .status();
    assert!(copied.unwrap().success());
    let mut writer = Command::new("qemu-io");
    writer.args(["-f", "raw"]);
    for n in 0..400_u32 {
        let (at, value) = (n * 7919 % 512 * 4096, n % 256);
        writer.arg("-c").arg(format!("write -P {value} {at} 4096"));
        expected[at as usize..][..4096].fill(value as u8);
    }
    let writer = writer.arg(&uri).stdout(Stdio::null()).spawn().unwrap();
    let line = format!("reencrypt {CHEAP} --hotzone-size 64K x");
    let done = ends(&place, 0, &line, PASSPHRASE);
    assert_eq!((&*done.out, &*done.err), ("", ""));
    assert!(writer.wait_with_output().unwrap().status.success());
    let found = || {
        let copied = Command::new("nbdcopy").arg(&uri).arg("-").output().unwrap();
        assert!(copied.status.success());
        copied.stdout
    };
    assert!(found() == expected);
    let dump = ends(&place, 0, "dump {DIR}/image", "").out;
    lacks(&dump, "online-reencrypt");
    let status = place.ok("luks status x");
    has(&status, "slot:    1");
    lacks(&status, "re-encrypted");
    place.ok("nbd unexport x");
    place.ok("luks close x");
    std::fs::write(place.path("key"), "correct horse").unwrap();
    // What cryptsetup decrypts and encrypts with another key.
    let mut judge = Command::new("cryptsetup");
    judge.args("reencrypt -q --force-offline-reencrypt --pbkdf pbkdf2".split(' '));
    judge.args("--pbkdf-force-iterations 1000 --key-file key image".split(' '));
    let judged = judge.current_dir(place.path("")).output().unwrap();
    assert!(judged.status.success(), "{judged:?}");
    place.ok_with("luks open {DIR}/image x", PASSPHRASE);
    assert_eq!(export(&place), uri);
    assert!(found() == expected);
}

/// Ctrl-C pauses it. It is continued with another passphrase entry, and after the container was closed.
#[test]
fn the_work_pauses_and_goes_on() {
    let place = Place::new();
    format(&place, CHEAP);
    place.ok_with("luks open {DIR}/image x", PASSPHRASE);
    let luks = |code, line: &str, input| ends(&place, code, line, input);
    luks(NOT_FOUND, "reencrypt --resume-only x", PASSPHRASE);
    luks(WRONG_KEY, "reencrypt {DIR}/image", "wrong passphrase\n");
    let sectors = luks(USAGE, "reencrypt --sector-size 512 x", PASSPHRASE).err;
    has(&sectors, "close it first");
    luks(USAGE, "reencrypt --device-size 1M x", PASSPHRASE);
    let line = format!(
        "luks reencrypt {CHEAP} --hotzone-size 4K --progress-json --progress-frequency 0 {{DIR}}/image"
    );
    let mut command = place.command();
    command.args(place.words(&line));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut runs = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = runs.stdin.take().unwrap();
    stdin.write_all(PASSPHRASE.as_bytes()).unwrap();
    drop(stdin);
    let mut lines = BufReader::new(runs.stdout.take().unwrap()).lines();
    has(
        &lines.next().unwrap().unwrap(),
        "\"device_size\":\"2097152\"",
    );
    let pid = rustix::process::Pid::from_child(&runs);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    lines.for_each(drop);
    let done = runs.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    has(&String::from_utf8_lossy(&done.stderr), "--resume-only");
    place.says("luks status x", "paused");
    let json = place.json("--json luks status x");
    let row = &json[0]["reencryption"];
    assert_eq!(
        (&row["running"], &row["total"]),
        (&false.into(), &(2 << 20).into())
    );
    // Others do not go on with it, also after a command that changed nothing.
    luks(WRONG_KEY, "reencrypt --resume-only x", "wrong passphrase\n");
    luks(EXISTS, "reencrypt --init-only x", PASSPHRASE);
    let other = std::fs::File::open(place.path("image")).unwrap();
    let uuid = uuid(&place);
    assert!(is_claimed(&place.path("image"), &uuid));
    place.ok("luks close x");
    place.ok_with("luks open {DIR}/image x", PASSPHRASE);
    place.says("luks status x", "paused");
    luks(0, "reencrypt --resume-only x", PASSPHRASE);
    lacks(&place.ok("luks status x"), "re-encrypted");
    other.try_lock().unwrap();
    other.unlock().unwrap();
    luks(0, &format!("reencrypt {CHEAP} --init-only x"), PASSPHRASE);
    place.says("luks status x", "0 of 4096 sectors");
    place.ok("luks close x");
}

fn uuid(place: &Place) -> String {
    place.ok("luks uuid {DIR}/image").trim().to_owned()
}

/// Returns whether the re-encryption is claimed: no other program may continue it. Root has the lock that cryptsetup
/// takes. A user who cannot reach that has the file.
fn is_claimed(image: &Path, uuid: &str) -> bool {
    let lock = match is_root() {
        true => format!("/run/cryptsetup/LN_LUKS2-reencryption-{uuid}").into(),
        false => image.to_owned(),
    };
    std::fs::File::open(lock).is_ok_and(|file| file.try_lock().is_err())
}

/// A program that can lock the file finds an incomplete re-encryption in it only with a claim on it while the mapping is
/// open. This includes the moment after the command has changed the header and before the daemon goes on, and a command that stops there.
#[test]
fn no_other_program_finds_a_container_in_reencryption_that_is_open() {
    let place = Place::new();
    format(&place, CHEAP);
    place.ok_with("luks open {DIR}/image x", PASSPHRASE);
    let (is_over, tried) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let other = {
        let (is_over, tried) = (Arc::clone(&is_over), Arc::clone(&tried));
        let (path, uuid) = (place.path("image"), uuid(&place));
        std::thread::spawn(move || {
            let file = std::fs::File::open(&path).unwrap();
            let mark = b"online-reencrypt";
            loop {
                // It waits in the queue of the kernel, ahead of those that try.
                file.lock().unwrap();
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                let header = &std::fs::read(&path).unwrap()[..1 << 15];
                let is_marked = header.windows(mark.len()).any(|at| at == mark);
                assert!(!is_marked || is_claimed(&path, &uuid), "the lock is free");
                tried.fetch_add(1, Ordering::SeqCst);
                file.unlock().unwrap();
                std::thread::yield_now();
            }
        })
    };
    while tried.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    let line = format!("reencrypt {CHEAP} --init-only x");
    ends(&place, 0, &line, PASSPHRASE);
    place.says("luks status x", "paused");
    is_over.store(true, Ordering::SeqCst);
    place.ok("luks close x");
    other.join().unwrap();
}
