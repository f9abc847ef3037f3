//! Keys from where they come: standard input, files, terminals; and what is said when they are wrong.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::common::terminal::Terminal;
use crate::common::*;

const PASSPHRASE: &str = "correct horse battery staple";

/// A pool `tank` with a dataset `tank/home` that has the passphrase.
fn with_passphrase() -> Place {
    let place = Place::new();
    place.pool("tank");
    place.ok_with(
        "create -u -o encryption=on -o keysource=passphrase,prompt tank/home",
        &format!("{PASSPHRASE}\n"),
    );
    place
}

fn key_state(place: &Place, name: &str) -> String {
    place.ok(&format!("get -H -o value keystatus {name}"))
}

#[test]
fn passphrase_comes_from_a_script() {
    let place = with_passphrase();
    assert_eq!(key_state(&place, "tank/home"), "available\n");
    place.ok("key unload tank/home");
    assert_eq!(key_state(&place, "tank/home"), "unavailable\n");
    place.fails("key unload tank/home", NO_KEY);

    // Without the newline too, and without loading it.
    place.ok_with("key load -n tank/home", PASSPHRASE);
    assert_eq!(key_state(&place, "tank/home"), "unavailable\n");
    place.ok_with("key load tank/home", &format!("{PASSPHRASE}\n"));
    assert_eq!(key_state(&place, "tank/home"), "available\n");
    place.fails_with("key load tank/home", PASSPHRASE, EXISTS);

    // One line for each key.
    place.ok_with(
        "create -u -o encryption=on -o keysource=passphrase,prompt tank/mail",
        "another passphrase\nanother passphrase\n",
    );
    place.ok("key unload -a");
    place.ok_with(
        "key load -a",
        &format!("{PASSPHRASE}\nanother passphrase\n"),
    );
    assert_eq!(key_state(&place, "tank/mail"), "available\n");
}

#[test]
fn bad_new_passphrases_make_nothing() {
    let place = Place::new();
    place.pool("tank");
    let create = "create -u -o encryption=on tank/home";
    place.refuses(create, NO_KEY, "was not given");
    let said = place.fails_with(create, "short\n", NO_KEY);
    has(&said, "too short");
    let said = place.fails_with(create, &"x".repeat(5000), NO_KEY);
    has(&said, "longer than 512 bytes");
    let said = place.fails_with(create, "one passphrase\nother passphrase\n", USAGE);
    has(&said, "not the same both times");
    place.fails("list tank/home", NOT_FOUND);
}

#[test]
fn keys_come_from_files() {
    let place = Place::new();
    place.pool("tank");
    for format in ["raw", "hex"] {
        let file = place.arg(format);
        let name = format!("tank/{format}");
        place.ok(&format!("keygen --format {format} {file}"));
        place.ok(&format!(
            "create -u -o encryption=on -o keysource={format},file://{file} {name}"
        ));
        place.ok(&format!("create -u {name}/below"));
        place.ok(&format!("key unload {name}"));
        assert_eq!(key_state(&place, &format!("{name}/below")), "unavailable\n");
        place.fails(&format!("create -u {name}/other"), NO_KEY);
        place.ok(&format!("key load {name}"));
        assert_eq!(key_state(&place, &format!("{name}/below")), "available\n");

        // From a copy elsewhere.
        let copy = place.arg("copy");
        fs::rename(&file, &copy).unwrap();
        place.ok(&format!("key unload {name}"));
        place.refuses(&format!("key load {name}"), NO_KEY, "does not exist");
        place.ok(&format!("key load -L file://{copy} {name}"));
        place.fails(&format!("keygen {copy}"), EXISTS);
    }
}

#[test]
fn wrong_missing_and_damaged_are_told_apart() {
    let place = with_passphrase();
    let [raw, hex, other, short] = ["raw", "hex", "other", "short"].map(|name| place.arg(name));
    place.ok(&format!("keygen {raw}"));
    place.ok(&format!("keygen {other}"));
    place.ok(&format!("keygen --format hex {hex}"));
    fs::write(&short, [7; 31]).unwrap();
    for (format, file) in [("raw", &raw), ("hex", &hex)] {
        place.ok(&format!(
            "create -u -o encryption=on -o keysource={format},file://{file} tank/{format}"
        ));
    }
    place.ok("key unload -a");

    let mut said = Vec::new();
    said.push(place.fails_with("key load tank/home", "wrong horse battery", WRONG_KEY));
    // No length is told apart: the bounds are for new passphrases.
    for wrong in ["short\n", "\n"] {
        let refused = place.fails_with("key load tank/home", wrong, WRONG_KEY);
        has(&refused, "the key or passphrase is wrong");
    }
    let load = |name: &str, file: &str, code| {
        place.fails(&format!("key load -L file://{file} tank/{name}"), code)
    };
    assert!(load("raw", &other, WRONG_KEY).contains("is wrong"));
    said.push(load("raw", &place.arg("nowhere"), NO_KEY));
    said.push(load("raw", &short, NO_KEY));
    said.push(load("raw", place.root().to_str().unwrap(), NO_KEY));
    let mut digits = fs::read(&hex).unwrap();
    digits[5] = b'x';
    fs::write(place.path("digit"), &digits).unwrap();
    said.push(load("hex", &place.arg("digit"), NO_KEY));
    digits[5] = if digits[6] == b'0' { b'1' } else { b'0' };
    let text = fs::read_to_string(&hex).unwrap();
    let turned: String = text.trim_end().chars().rev().collect();
    fs::write(place.path("turned"), turned).unwrap();
    load("hex", &place.arg("turned"), WRONG_KEY);

    // What was typed is in no message.
    for line in &said {
        lacks(line, "wrong horse");
    }
    for (line, part) in said.iter().zip([
        "the key or passphrase is wrong",
        "does not exist",
        "holds 31 bytes",
        "is a directory",
        "hexadecimal digit, at position 6",
    ]) {
        assert!(line.contains(part), "{line} lacks {part}");
    }
    // Nothing of this unlocked anything.
    for name in ["tank/home", "tank/raw", "tank/hex"] {
        assert_eq!(key_state(&place, name), "unavailable\n");
    }

    place.ok("pool export tank");
    let file = place.path("tank.pool");
    assert!(damage_keyrings(&file) >= 4, "in front and at the end");
    let done = place.run(&["pool", "import", "-d", file.to_str().unwrap(), "tank"]);
    let damaged = match done.code {
        0 => place.fails_with("key load tank/home", PASSPHRASE, DAMAGED),
        _ => {
            assert_eq!(done.code, DAMAGED, "{done:?}");
            done.err
        }
    };
    has(&damaged, "damaged");
    lacks(&damaged, "wrong");
}

#[test]
fn no_secret_is_shown() {
    let mut place = Place::without_daemon();
    place.start_with("STRONGROOM_LOG", "trace");
    place.pool("tank");
    let (typed, wrong) = ("Xylophon-Quaste-77", "Brezel-Vulkan-99");
    let raw = place.arg("raw");
    let hex = place.arg("hex");
    place.ok(&format!("keygen {raw}"));
    place.ok(&format!("keygen --format hex {hex}"));
    place.ok_with("create -u -o encryption=on tank/home", typed);
    for (format, file) in [("raw", &raw), ("hex", &hex)] {
        place.ok(&format!(
            "create -u -o encryption=on -o keysource={format},file://{file} tank/{format}"
        ));
    }
    let mut shown = place.ok("pool history -i -l tank");
    place.ok("key unload -a");
    shown += &place.fails_with("key load tank/home", wrong, WRONG_KEY);
    shown += &place.ok_with("key load tank/home", typed);
    shown += &place.fails_with("create -u -o encryption=on tank/home", typed, EXISTS);
    shown += &place.ok_with("key change tank/home", "Neue-Parole-123");
    shown += &place.ok("pool history -i -l tank");
    shown += &place.ok("get all");
    shown += &place.ok("inspect -dddddd tank");
    shown += &place.ok("key status");
    shown += &place.log();
    for file in ["cmdline", "environ"] {
        let bytes = fs::read(format!("/proc/{}/{file}", place.pid())).unwrap();
        shown += &String::from_utf8_lossy(&bytes);
    }
    assert!(
        shown.contains("key change tank/home"),
        "the history is there"
    );
    assert!(
        place.log().contains("key load tank/home"),
        "the log is there"
    );

    let raw = fs::read(raw).unwrap();
    let hex = fs::read_to_string(hex).unwrap();
    let as_hex: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
    let as_list: Vec<String> = raw[..8].iter().map(ToString::to_string).collect();
    for secret in [
        typed,
        wrong,
        "Neue-Parole-123",
        hex.trim(),
        &as_hex,
        &as_list.join(", "),
    ] {
        assert!(!shown.contains(secret), "{secret} is shown");
    }
    // The tests' process passes the log on only as far as it is text.
    let log = fs::read(place.path("state/daemon.log")).unwrap();
    assert!(find(&log, &raw).is_none(), "the raw key is in the log");
}

#[test]
fn a_changed_key_is_another_one() {
    let place = with_passphrase();
    place.ok("create -u tank/home/ann");
    let raw = place.arg("raw");
    place.ok(&format!("keygen {raw}"));
    place.fails("key change -o keysource=nonsense tank/home", USAGE);
    place.fails(
        "key change -o keysource=raw,file:///nowhere tank/home",
        NO_KEY,
    );
    place.ok(&format!(
        "key change -o keysource=raw,file://{raw} tank/home"
    ));
    assert_eq!(
        place.ok("get -H -o value,source keysource tank/home tank/home/ann"),
        format!("raw,file://{raw}\tlocal\nraw,file://{raw}\tinherited from tank/home\n")
    );
    place.ok("key unload tank/home");
    place.fails("key change tank/home", NO_KEY);
    // The old one is not asked for, and would not be taken.
    let pass = place.arg("pass");
    fs::write(&pass, PASSPHRASE).unwrap();
    place.fails(&format!("key load -L file://{pass} tank/home"), NO_KEY);
    place.ok("key load tank/home");
    place.ok_with(
        "key change -o keysource=passphrase,prompt tank/home",
        "a new passphrase\n",
    );
    place.ok("key unload tank/home");
    place.fails_with("key load tank/home", PASSPHRASE, WRONG_KEY);
    place.ok_with("key load tank/home", "a new passphrase");
    place.fails("key load tank/home/ann", OTHER);
    assert_eq!(key_state(&place, "tank/home/ann"), "available\n");

    // It is the same after the pool went and came back.
    place.ok("pool export tank");
    let file = place.arg("tank.pool");
    place.ok(&format!("pool import -N -d {file} tank"));
    place.fails_with("key load tank/home", PASSPHRASE, WRONG_KEY);
    place.ok_with("key load tank/home", "a new passphrase");
}

#[test]
fn the_key_of_what_is_mounted_stays() {
    needs!(can_mount());
    let place = with_passphrase();
    let dir = place.path("home");
    // Where there was no place to mount it, setting one mounts it.
    place.ok(&format!("set mountpoint={} tank/home", dir.display()));
    fs::write(dir.join("file"), "text").unwrap();
    let said = place.fails("key unload tank/home", BUSY);
    has(&said, "'tank/home' is used by the mount at /");
    assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "text");
    place.ok("key unload -f tank/home");
    assert!(!dir.join("file").exists());
    assert_eq!(place.ok("mount"), "");
    place.fails("mount tank/home", NO_KEY);
    place.ok_with("mount -l tank/home", PASSPHRASE);
    assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "text");
}

fn has_setsid() -> bool {
    let found = Command::new("setsid").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: there is no setsid");
    }
    found
}

#[test]
fn a_person_types_a_new_passphrase_twice() {
    needs!(has_setsid());
    let place = Place::new();
    place.pool("tank");
    let create = ["create", "-u", "-o", "encryption=on", "tank/home"];
    let mut terminal = Terminal::run(&place, &create);
    for _ in 0..3 {
        terminal.wait_for("Enter passphrase for 'tank/home': ");
        assert!(!terminal.echoes());
        terminal.types("first passphrase\n");
        terminal.wait_for("Re-enter passphrase: ");
        terminal.types("other passphrase\n");
    }
    let (status, last) = terminal.ends();
    assert_eq!(status.code(), Some(USAGE), "{last}");
    has(&last, "not the same both times");
    place.fails("list tank/home", NOT_FOUND);

    let mut terminal = Terminal::run(&place, &create);
    terminal.wait_for("Enter passphrase for 'tank/home': ");
    terminal.types("first passphrase\n");
    terminal.wait_for("Re-enter passphrase: ");
    terminal.types("first passphrase\n");
    let (status, last) = terminal.ends();
    assert!(status.success(), "{last}");
    lacks(&last, "first passphrase");
    place.ok("key unload tank/home");
    place.ok_with("key load tank/home", "first passphrase");
}

#[test]
fn an_interrupt_at_the_prompt_leaves_a_terminal_that_echoes() {
    needs!(has_setsid());
    let place = with_passphrase();
    place.ok("key unload tank/home");
    let mut terminal = Terminal::run(&place, &["key", "load", "tank/home"]);
    terminal.wait_for("Enter passphrase for 'tank/home': ");
    assert!(!terminal.echoes());
    terminal.types("correct hor\x03");
    terminal.wait_for("\n");
    let echoes = terminal.echo_after_end();
    let (status, last) = terminal.ends();
    assert_eq!(status.signal(), Some(2), "{last}");
    assert!(echoes, "the terminal is left without echo");
    assert_eq!(key_state(&place, "tank/home"), "unavailable\n");

    // An end of the input is no passphrase.
    let mut terminal = Terminal::run(&place, &["key", "load", "tank/home"]);
    terminal.wait_for("Enter passphrase for 'tank/home': ");
    terminal.types("\x04");
    let echoes = terminal.echo_after_end();
    let (status, last) = terminal.ends();
    assert_eq!(status.code(), Some(NO_KEY), "{last}");
    has(&last, "was not given");
    assert!(echoes);
}

#[test]
fn a_forgotten_prompt_does_not_keep_the_daemon() {
    needs!(has_setsid());
    let mut place = with_passphrase();
    place.ok("key unload tank/home");
    let mut terminal = Terminal::run(&place, &["key", "load", "tank/home"]);
    terminal.wait_for("Enter passphrase for 'tank/home': ");
    place.ok("create -u tank/other");
    place.ok("daemon stop");
    place.wait_for_end();
    terminal.types("correct horse\n");
    let (status, last) = terminal.ends();
    assert_eq!(status.code(), Some(OTHER), "{last}");
    has(&last, "the daemon went away");
}

#[test]
fn a_person_is_asked_before_something_goes() {
    needs!(has_setsid());
    let place = Place::new();
    place.pool("tank");
    place.ok("create -u tank/home");
    place.ok("snapshot tank/home@monday");
    place.fails("destroy tank/home@monday", USAGE);
    let destroy = ["destroy", "-r", "tank/home"];
    let mut terminal = Terminal::run(&place, &destroy);
    terminal.wait_for("will destroy tank/home@monday");
    terminal.wait_for("(y/N) ");
    terminal.types("\n");
    let (status, last) = terminal.ends();
    assert_eq!(status.code(), Some(OTHER), "{last}");
    place.ok("list tank/home@monday");
    let mut terminal = Terminal::run(&place, &destroy);
    terminal.wait_for("(y/N) ");
    terminal.types("y\n");
    assert!(terminal.ends().0.success());
    place.fails("list tank/home", NOT_FOUND);

    let mut terminal = Terminal::run(&place, &["pool", "destroy", "tank"]);
    terminal.wait_for("Type its name: ");
    terminal.types("tonk\n");
    assert_eq!(terminal.ends().0.code(), Some(OTHER));
    let mut terminal = Terminal::run(&place, &["pool", "destroy", "tank"]);
    terminal.wait_for("Type its name: ");
    terminal.types("tank\n");
    assert!(terminal.ends().0.success());
    place.fails("pool list tank", NOT_FOUND);
}
