//! Options of `strongroom luks` that cryptsetup has too, with cryptsetup as the judge.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use crate::common::containers::*;
use crate::common::terminal::Terminal;
use crate::common::*;
use rustix::process::{Pid, Signal, kill_process};

/// Returns whether cryptsetup succeeds, with its output; `None` if there is none.
fn cryptsetup(place: &Place, words: &str) -> Option<(bool, String)> {
    needs!(is_installed("cryptsetup"), "there is no cryptsetup");
    let mut command = Command::new("cryptsetup");
    let done = command.args(place.words(words)).output().unwrap();
    let out = String::from_utf8_lossy(&done.stdout).into_owned();
    Some((done.status.success(), out))
}

/// A wrong passphrase at a terminal can be typed again, as often as is said.
#[test]
fn a_wrong_passphrase_is_typed_again() {
    let place = Place::new();
    format(&place, CHEAP);
    let image = place.arg("image");
    for words in [
        &["luks", "open", &image, "x"][..],
        &["luks", "open", "--test-passphrase", &image],
    ] {
        let mut terminal = Terminal::run(&place, words);
        terminal.wait_for("Enter passphrase");
        terminal.types("wrong horse\n");
        terminal.wait_for("try again");
        terminal.wait_for("Enter passphrase");
        terminal.types(PASSPHRASE);
        let (status, seen) = terminal.ends();
        assert!(status.success(), "{seen}");
    }
    // The new one is asked for in other words than the one of today.
    let line = format!("luks add-key {CHEAP} {image}");
    let add: Vec<&str> = line.split(' ').collect();
    let mut terminal = Terminal::run(&place, &add);
    terminal.wait_for(&format!("Enter passphrase for '{image}': "));
    terminal.types(PASSPHRASE);
    terminal.wait_for(&format!("Enter new passphrase for '{image}': "));
    terminal.types("another horse\n");
    terminal.wait_for("Re-enter passphrase: ");
    terminal.types("another horse\n");
    let (status, seen) = terminal.ends();
    assert!(status.success(), "{seen}");
    // A container that is open is not opened again, and nothing is asked.
    place.ok("luks close x");
    let mut terminal = Terminal::run(&place, &["luks", "open", "-T", "2", &image, "y"]);
    for _ in 0..2 {
        terminal.wait_for("Enter passphrase");
        terminal.types("wrong horse\n");
    }
    let (status, seen) = terminal.ends();
    assert_eq!(status.code(), Some(WRONG_KEY), "{seen}");
    lacks(&place.ok("luks status"), "y is open");
}

#[test]
fn a_passphrase_is_not_waited_for_without_end() {
    let place = Place::without_daemon();
    format(&place, CHEAP);
    let image = place.arg("image");
    let words = ["luks", "open", "--test-passphrase", "-t", "1", &image];
    let (status, seen) = Terminal::run(&place, &words).ends();
    assert_eq!(status.code(), Some(NO_KEY), "{seen}");
    has(&seen, "nothing was typed in time");
}

#[test]
fn key_material_has_its_own_cipher() {
    let place = Place::without_daemon();
    let slot = "--keyslot-cipher serpent-xts-plain64 --keyslot-key-size 512";
    format(&place, &format!("{CHEAP} {slot}"));
    has(
        &ends(&place, 0, "dump {DIR}/image", "").out,
        "serpent-xts-plain64",
    );
    std::fs::write(place.path("key"), "correct horse").unwrap();
    let open = "open --test-passphrase -S 1 --key-file {DIR}/key {DIR}/image";
    // The judge encrypts key material with the kernel, which may not have serpent.
    let slot = "--keyslot-cipher aes-cbc-essiv:sha256 --keyslot-key-size 256";
    let line = format!("add-key {CHEAP} {slot} {{DIR}}/image");
    ends(&place, 0, &line, "correct horse\nanother one\n");
    if let Some((_, dump)) = cryptsetup(&place, "luksDump {DIR}/image") {
        has(&dump, "serpent-xts-plain64");
        has(&dump, "aes-cbc-essiv:sha256");
        std::fs::write(place.path("key"), "another one").unwrap();
        assert!(cryptsetup(&place, open).is_some_and(|(ok, _)| ok));
    }
    let alone = "add-key --keyslot-cipher aes-xts-plain64 {DIR}/image";
    ends(&place, USAGE, alone, PASSPHRASE);
    format(&place, "--type luks1 --pbkdf-force-iterations 1000");
    ends(&place, USAGE, &line, "correct horse\nanother one\n");
}

/// All eight slots of LUKS1 are in use.
#[test]
fn a_slot_is_changed_in_place() {
    let place = Place::without_daemon();
    let cost = "--pbkdf-force-iterations 1000";
    format(&place, &format!("--type luks1 {cost}"));
    for _ in 1..8 {
        let line = format!("add-key {cost} {{DIR}}/image");
        ends(&place, 0, &line, "correct horse\nanother one\n");
    }
    let change = format!("change-key {cost} {{DIR}}/image");
    let input = "correct horse\nbattery staple\n";
    has(&ends(&place, NO_SPACE, &change, input).err, "--in-place");
    let changed = ends(&place, 0, &format!("{change} --in-place"), input);
    assert_eq!(changed.out, "0\n");
    let test = "open --test-passphrase {DIR}/image";
    ends(&place, 0, test, "battery staple\n");
    ends(&place, 0, test, "another one\n");
    ends(&place, WRONG_KEY, test, PASSPHRASE);
    std::fs::write(place.path("key"), "battery staple").unwrap();
    let judge = "open --test-passphrase --key-file {DIR}/key {DIR}/image";
    assert!(cryptsetup(&place, judge).is_none_or(|(ok, _)| ok));
}

/// The container opens, but sectors that were not written yet cannot be read.
#[test]
fn an_interrupted_wipe_says_that_the_container_is_not_whole() {
    let place = Place::without_daemon();
    let image = std::fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(place.path("image"))
        .unwrap();
    image.set_len(4 << 30).unwrap();
    let line = format!("luks format -q {CHEAP} --integrity hmac-sha256 {{DIR}}/image");
    let mut command = place.command();
    command.args(place.words(&line)).stdin(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(PASSPHRASE.as_bytes()).unwrap();
    drop(input);
    // From the moment on when there is a header, signals are held back.
    let mut magic = [0; 4];
    while magic != *b"LUKS" {
        assert!(child.try_wait().unwrap().is_none(), "it ended too soon");
        image.read_exact_at(&mut magic, 0).unwrap();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(OTHER), "{said}");
    has(&said, "not all of it was written; make it again");
}

/// Sectors with tags, without the journal: for once, and by the header, which cryptsetup reads.
#[test]
fn the_journal_is_left_out() {
    let place = Place::new();
    format(&place, &format!("{CHEAP} --integrity hmac-sha256"));
    let open = "luks open --integrity-no-journal {DIR}/image x";
    place.ok_with(open, PASSPHRASE);
    place.says("luks status x", "no_journal");
    place.ok("luks close x");
    place.ok_with(&open.replace("{DIR}", "--persistent {DIR}"), PASSPHRASE);
    place.ok("luks close x");
    if let Some((_, dump)) = cryptsetup(&place, "luksDump {DIR}/image") {
        has(&dump, "no-journal");
    }
    place.ok_with("luks open {DIR}/image x", PASSPHRASE);
    place.says("luks status x", "no_journal");
    place.ok("luks close x");
    let recovery = "luks open --readonly --integrity-recovery-mode {DIR}/image x";
    place.ok_with(recovery, PASSPHRASE);
    place.says("luks status x", "recovery");
    let writable = "open --integrity-recovery-mode {DIR}/image y";
    has(&ends(&place, USAGE, writable, "").err, "--readonly");
}

/// A container with its header in another file, as in the article, with 256 bits of key.
fn encrypted_ram(place: &Place) {
    std::fs::File::create(place.path("ram0"))
        .and_then(|file| file.set_len(8 << 20))
        .unwrap();
    let line = format!(
        "format -q {CHEAP} --key-size 256 --sector-size 512 {{DIR}}/ram0 --header {{DIR}}/crypthdr.img"
    );
    ends(place, 0, &line, "correct horse\n");
}

/// The lines of the article, and the words of `dmsetup table` in the answer.
#[test]
fn performance_options_choose_among_the_modes_of_dm_crypt() {
    let place = Place::new();
    encrypted_ram(&place);
    let line = format!(
        "0 16384 crypt aes-xts-plain64 {} 0 {} 0",
        "0".repeat(64),
        place.arg("ram0")
    );
    let shows = |options: &str| {
        let shown = place.ok("luks status --table encrypted-ram0");
        assert_eq!(shown, format!("{line}{options}\n"));
    };
    let open = |options: &str| {
        let open =
            format!("open --header {{DIR}}/crypthdr.img {options} {{DIR}}/ram0 encrypted-ram0");
        ends(&place, 0, &open, "correct horse\n");
    };
    let refresh = |options: &str| ends(&place, 0, &format!("refresh {options} encrypted-ram0"), "");
    open("--perf-same_cpu_crypt");
    shows(" 1 same_cpu_crypt");
    place.ok("luks close encrypted-ram0");
    open("--perf-submit_from_crypt_cpus");
    shows(" 1 submit_from_crypt_cpus");
    refresh("--perf-no_read_workqueue --perf-no_write_workqueue");
    shows(" 2 no_read_workqueue no_write_workqueue");
    refresh("--read-workqueue --write-workqueue --sort-writes");
    shows("");
    refresh("--perf-same_cpu_crypt --perf-submit_from_crypt_cpus");
    shows(" 2 same_cpu_crypt submit_from_crypt_cpus");
    refresh("--perf-no_read_workqueue --allow-discards");
    shows(" 4 allow_discards same_cpu_crypt submit_from_crypt_cpus no_read_workqueue");
    refresh("--read-workqueue --no-allow-discards");
    shows(" 1 submit_from_crypt_cpus");
    place.ok("luks close encrypted-ram0");
    // In the header, as cryptsetup has it.
    open("--perf-same_cpu_crypt --perf-no_write_workqueue --persistent");
    place.ok("luks close encrypted-ram0");
    open("");
    shows(" 2 same_cpu_crypt no_write_workqueue");
    if let Some((_, dump)) = cryptsetup(&place, "luksDump {DIR}/crypthdr.img") {
        has(&dump, "same-cpu-crypt");
        has(&dump, "no-write-workqueue");
    }
    place.says("luks status --table", "encrypted-ram0: 0 16384 crypt");
}

/// The daemon tells no key. Who can type a passphrase sees it, at a terminal.
#[test]
fn a_key_is_shown_on_a_terminal_only() {
    let place = Place::new();
    encrypted_ram(&place);
    let open = "open --header {DIR}/crypthdr.img {DIR}/ram0 encrypted-ram0";
    ends(&place, 0, open, "correct horse\n");
    let refused = ends(
        &place,
        USAGE,
        "status --table encrypted-ram0 --showkeys",
        PASSPHRASE,
    );
    has(&refused.err, "on a terminal only");
    let words = ["luks", "status", "--table", "encrypted-ram0", "--showkeys"];
    let show = |typed: &str| {
        let mut terminal = Terminal::run(&place, &[&words[..], &["-T", "1"]].concat());
        terminal.wait_for("Enter passphrase");
        terminal.types(typed);
        terminal.ends()
    };
    let (status, seen) = show("wrong horse\n");
    assert_eq!(status.code(), Some(WRONG_KEY), "{seen}");
    lacks(&seen, "crypt aes-xts-plain64");
    let (status, seen) = show("correct horse\n");
    assert!(status.success(), "{seen}");
    let (_, rest) = seen.split_once("crypt aes-xts-plain64 ").unwrap();
    let key = rest.split(' ').next().unwrap();
    assert!(key.len() == 64 && key.bytes().any(|digit| digit != b'0'));
    std::fs::write(place.path("key"), "correct horse").unwrap();
    let dump = "luksDump -q --dump-volume-key --key-file {DIR}/key {DIR}/crypthdr.img";
    if let Some((_, dump)) = cryptsetup(&place, dump) {
        let (_, dumped) = dump.split_once("MK dump:").unwrap();
        let digits: String = { dumped.chars() }
            .filter(|c| c.is_ascii_hexdigit())
            .collect();
        assert_eq!(&digits[..64], key);
    }
    ends(&place, USAGE, "status --showkeys", "");
    has(
        &ends(&place, USAGE, "status --json --table", "").err,
        "not JSON",
    );
}
