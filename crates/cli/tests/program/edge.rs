//! The edge between commands and the daemon: sockets, the state directory, prompts, and requests that are refused
//! whole.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use crate::common::terminal::Terminal;
use crate::common::{
    BUSY, EXISTS, NO_DAEMON, NO_KEY, OTHER, PERMISSION, Place, USAGE, WRONG_KEY, can_mount, has,
    is_root, needs,
};

const CREATE: &str = "create -o encryption=on -o keysource=passphrase,prompt -o mountpoint=none";

#[test]
fn a_mistyped_socket_starts_no_daemon() {
    let place = Place::without_daemon();
    let typed = place.arg("sokcet");
    let refusal = place.fails(&format!("--socket {typed} list"), NO_DAEMON);
    assert!(
        refusal.contains(&typed) && refusal.contains("daemon --background"),
        "{refusal}"
    );
    assert!(!place.path("sokcet").exists());
    // The usual one does, which the variable names here.
    place.ok("list");
    place.ok("--socket {DIR}/socket list");
    place.ok("daemon stop");
}

#[test]
fn two_daemons_do_not_share_a_state_directory() {
    let place = Place::new();
    let (other, state) = (place.arg("other"), place.arg("state"));
    let start = format!("--socket {other} daemon --background");
    let refusal = place.fails(&format!("{start} --state-dir {state}"), NO_DAEMON);
    has(&refusal, &format!("pid {}", place.pid()));
    assert!(refusal.contains(&place.arg("socket")), "{refusal}");
    place.ok(&format!("{start} --state-dir {state}2"));
    place.ok(&format!("--socket {other} daemon stop"));
}

#[test]
fn a_state_directory_is_remembered() {
    let place = Place::without_daemon();
    let state = place.arg("elsewhere");
    place.ok(&format!("daemon --background --state-dir {state}"));
    place.pool("tank");
    place.ok("daemon stop");
    // Whichever command starts the next daemon: it knows what the one before knew.
    place.says("pool list -H -o name", "tank");
    assert!(place.path("elsewhere/daemon.lock").exists());
    assert!(!place.path("xdg/strongroom").exists());
    place.ok("daemon stop");
}

#[test]
fn who_may_use_a_socket_is_said() {
    needs!(is_root(), "only root can become another user");
    let place = Place::new();
    let open = |mode| std::fs::set_permissions(place.root(), PermissionsExt::from_mode(mode));
    for mode in [0o700, 0o711] {
        open(mode).unwrap();
        let mut command = place.command();
        // The program may lie where others cannot go: it is opened before.
        let done = command.args(["list"]).uid(65534).gid(65534).output();
        let Ok(done) = done else {
            println!("skipped: the program cannot be run by others");
            return;
        };
        let told = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(PERMISSION), "{told}");
        has(&told, "only user 'root' may use it");
    }
}

#[test]
fn a_word_that_is_mistyped_makes_no_file() {
    let place = Place::new();
    let (a, b) = (place.arg("a"), place.arg("b"));
    let refusal = place.fails(&format!("pool create -s 16M tank mirorr {a} {b}"), USAGE);
    has(&refusal, "did you mean 'mirror'");
    has(&refusal, "./mirorr");
    assert!(!place.path("a").exists());
}

#[test]
fn a_mountpoint_that_fails_is_not_set() {
    needs!(can_mount(), "nothing can be mounted here");
    let place = Place::new();
    place.pool("tank");
    let (old, full) = (place.arg("old"), place.arg("full"));
    std::fs::create_dir(&full).unwrap();
    std::fs::write(place.path("full/file"), "").unwrap();
    place.ok(&format!("create -o mountpoint={old} tank/a"));
    place.ok("create tank/a/b");
    place.ok("create -o mountpoint=none tank/c");
    let mounted = place.ok("mount");
    for name in ["tank/a", "tank/c"] {
        let before = place.ok(&format!("get -H -o value,source mountpoint {name}"));
        place.refuses(&format!("set mountpoint={full} {name}"), BUSY, "not empty");
        let after = place.ok(&format!("get -H -o value,source mountpoint {name}"));
        assert_eq!(before, after);
        assert_eq!(place.ok("mount"), mounted);
    }
    place.ok("unmount -a");
}

#[test]
fn keys_that_are_loaded_are_no_failures_of_a_whole_tree() {
    let place = Place::new();
    place.pool("tank");
    place.ok_with(&format!("{CREATE} tank/a"), "password1\n");
    place.ok_with(&format!("{CREATE} tank/a/b"), "password2\n");
    place.ok("key unload tank/a/b");
    place.ok_with("key load -r tank/a", "password2\n");
    place.ok("key load -r tank/a");
    place.fails("key load tank/a", EXISTS);
    place.ok("key unload tank/a/b");
    // A clear dataset above is no failure either, unless nothing below it has a key.
    place.ok("unmount -a");
    place.ok("key unload -r tank");
    place.ok_with("key load -r tank", "password1\npassword2\n");
    place.ok("create tank/clear");
    place.refuses("key load -r tank/clear", OTHER, "not encrypted");
    place.ok("key unload tank/a/b");
    // What a script gives is for one dataset each.
    place.fails_with("key load tank/a/b", "not this 1\npassword2\n", WRONG_KEY);
}

#[test]
fn a_person_types_a_passphrase_up_to_three_times() {
    let place = Place::new();
    place.pool("tank");
    place.ok_with(&format!("{CREATE} tank/a"), "password1\n");
    for (typed, is_loaded) in [
        (&["password1"][..], true),
        (&["not this 1", "nor this 2", "password1"], true),
        (&["short", "", "password1"], true),
        (&["not this 1", "nor this 2", "nor this 3"], false),
    ] {
        place.run(&["key", "unload", "tank/a"]);
        let mut terminal = Terminal::run(&place, &["key", "load", "tank/a"]);
        for (n, text) in typed.iter().enumerate() {
            if n > 0 {
                terminal.wait_for("That passphrase is wrong; try again.");
            }
            terminal.wait_for("Enter passphrase for 'tank/a': ");
            terminal.types(&format!("{text}\n"));
        }
        assert_eq!(terminal.ends().0.success(), is_loaded, "{typed:?}");
    }
}

#[test]
fn how_long_a_passphrase_must_be_is_said() {
    let place = Place::new();
    place.pool("tank");
    let refusal = place.fails_with(&format!("{CREATE} tank/a"), "short\n", NO_KEY);
    has(&refusal, "at least 8");
    let words: Vec<&str> = CREATE.split(' ').chain(["tank/a"]).collect();
    let mut terminal = Terminal::run(&place, &words);
    for _ in 0..3 {
        terminal.wait_for("Enter passphrase for 'tank/a': ");
        terminal.types("short\n");
    }
    terminal.wait_for("strongroom: the passphrase for 'tank/a' is too short; use at least 8");
    assert!(!terminal.ends().0.success());
}

#[test]
fn a_named_dataset_that_inherits_its_key_is_not_passed_over() {
    let place = Place::new();
    place.pool("tank");
    place.ok_with(&format!("{CREATE} tank/a"), "password1\n");
    place.ok("create tank/a/heir");
    place.ok_with(&format!("{CREATE} tank/a/heir/own"), "password2\n");
    has(
        &place.fails("key unload -r tank/a/heir", OTHER),
        "has its key from 'tank/a'",
    );
}
