//! What is typed and what is printed, word for word: `tests/help` and `tests/sessions`.
//!
//! `TRYCMD=overwrite cargo test --test golden` writes down what is printed now; then put `[..]` in the
//! place of guids, dates and hosts again. In a session, {DIR} stands for the directory of the test.

mod common;

use std::fs;
use std::path::Path;

use common::*;

fn cases() -> trycmd::TestCases {
    let cases = trycmd::TestCases::new();
    // The width of help texts, and the zone of times.
    cases.env("COLUMNS", "100").env("TZ", "UTC");
    cases
}

#[test]
fn help_of_every_command() {
    // No daemon may be found or started for any of this.
    let place = Place::without_daemon();
    let cases = cases();
    cases
        .env("STRONGROOM_SOCKET", place.arg("socket"))
        .env("XDG_STATE_HOME", place.arg("xdg"))
        .case("tests/help/*.trycmd")
        .insert_var("[SOCKET]", place.arg("socket"))
        .expect("a variable");
    cases.run();
    assert!(!place.socket().exists(), "a daemon was started");
}

/// Every command has its help in a case.
#[test]
fn no_command_is_left_out() {
    fn visit(place: &Place, path: &[&str], cases: &str, count: &mut usize) {
        let line = [&["$", "strongroom"][..], path, &["--help"]]
            .concat()
            .join(" ");
        assert!(cases.contains(&(line.clone() + "\n")), "{line}");
        *count += 1;
        let help = place.run(&[path, &["-h"]].concat()).out;
        let Some((_, commands)) = help.split_once("\nCommands:\n") else {
            return;
        };
        let names = commands.lines().take_while(|line| !line.is_empty());
        for name in names.filter_map(|line| line.split_whitespace().next()) {
            // An alias follows after a comma.
            let name = name.trim_end_matches(',');
            if name != "help" {
                visit(place, &[path, &[name]].concat(), cases, count);
            }
        }
    }
    let place = Place::without_daemon();
    let entries = fs::read_dir("tests/help").unwrap();
    let cases: String = entries
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let mut count = 0;
    visit(&place, &[], &cases, &mut count);
    assert!(count >= 33, "{count}");
}

/// Runs a session with a daemon of its own.
fn session(name: &str) {
    let place = Place::new();
    let dir = place.root().to_str().expect("UTF-8");
    let template = Path::new("tests/sessions")
        .join(name)
        .with_extension("trycmd");
    let text = fs::read_to_string(&template).unwrap();
    let case = place.path(name).with_extension("trycmd");
    fs::write(&case, text.replace("{DIR}", dir)).unwrap();
    let cases = cases();
    cases
        .env("STRONGROOM_SOCKET", place.arg("socket"))
        .env("XDG_STATE_HOME", place.arg("xdg"))
        .case(&case);
    cases.run();
    if std::env::var_os("TRYCMD").is_some_and(|mode| mode == "overwrite") {
        let text = fs::read_to_string(&case).unwrap();
        fs::write(&template, text.replace(dir, "{DIR}")).unwrap();
    }
}

#[test]
fn session_datasets() {
    session("datasets");
}

#[test]
fn session_snapshots() {
    session("snapshots");
}

#[test]
fn session_pools() {
    session("pools");
}

#[test]
fn session_mirrors() {
    session("mirrors");
}

#[test]
fn session_raidz() {
    session("raidz");
}

#[test]
fn session_logs() {
    session("logs");
}

#[test]
fn session_caches() {
    session("caches");
}

#[test]
fn session_removal() {
    session("removal");
}

#[test]
fn session_keys() {
    session("keys");
}

#[test]
fn session_slots() {
    session("slots");
}

#[test]
fn session_volumes() {
    session("volumes");
}

#[test]
fn session_clones() {
    session("clones");
}

#[test]
fn session_refusals() {
    session("refusals");
}
