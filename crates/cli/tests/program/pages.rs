//! Manual pages and completion scripts, as the programs that read them see them, and what errors say to read.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::terminal::Terminal;
use crate::common::*;

/// Runs another program, if it is installed.
fn tool(program: &str, args: &[&str], input: &[u8]) -> Option<Output> {
    let child = Command::new(program)
        .args(args)
        .env("LC_ALL", "C.UTF-8")
        .env("MANWIDTH", "100")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: there is no {program}");
        return None;
    };
    let mut stdin = child.stdin.take().expect("a pipe");
    // More than a pipe holds must not keep both waiting for each other.
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output()
    });
    Some(output.expect("output"))
}

/// The program accepts it, and has nothing to say about it.
fn accepts(program: &str, args: &[&str], input: &[u8]) {
    let output = needs!(tool(program, args, input));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    assert_eq!(said, "", "{program} {args:?}");
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Place::without_daemon();
    place.ok("man {DIR}/a/man1");
    let dir = place.path("a/man1");
    let mut names: Vec<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in [
        "strongroom.1",
        "strongroom-list.1",
        "strongroom-pool.1",
        "strongroom-pool-create.1",
        "strongroom-key-load.1",
        "strongroom-daemon-stop.1",
    ] {
        assert!(names.iter().any(|there| there == name), "{name}");
    }
    assert!(names.len() >= 33, "{names:?}");
    for name in &names {
        check_page(&dir.join(name));
    }
}

fn check_page(path: &Path) {
    let file = path.to_str().unwrap();
    let page = fs::read(path).unwrap();
    accepts("groff", &["-man", "-ww", "-Tutf8", "-z"], &page);
    accepts("mandoc", &["-T", "lint", "-W", "error"], &page);
    if let Some(output) = tool("man", &["--warnings=w", "-l", file], b"") {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "", "man -l {file}");
        let text = String::from_utf8_lossy(&output.stdout);
        // Without the programs that it calls, or its pages left out of an image, it prints nothing.
        if output.status.success() && text.contains("NAME") {
            for section in ["SYNOPSIS", "DESCRIPTION", "EXAMPLES"] {
                assert!(text.contains(section), "{file} has no {section}:\n{text}");
            }
        }
    }
}

#[test]
fn the_guide_is_in_the_program_and_in_a_manual_page() {
    let place = Place::without_daemon();
    place.ok("man {DIR}/man1");
    let page = fs::read_to_string(place.path("man1/strongroom-explain.1")).unwrap();
    for title in ["A POOL IS SUSPENDED", "DATA IS DAMAGED", "EXIT CODES"] {
        has(&page, &format!(".SH \"{title}\""));
    }
    for (other, topic) in [
        ("help 9", "9"),
        ("help pool-full", "ENOSPC"),
        ("help errors", ""),
    ] {
        let explained = place.ok(format!("explain {topic}").trim_end());
        assert_eq!(place.ok(other), explained, "{topic}");
    }
    let damaged = place.ok("explain 9");
    has(
        &damaged,
        "Exit code 9: data, keys or structures are damaged",
    );
    has(&damaged, "strongroom pool scrub -w tank");
    has(
        &place.ok("explain SUSPENDED --json"),
        r#""name": "pool-suspended""#,
    );
    place.refuses("explain 99", NOT_FOUND, "'strongroom explain' lists");
}

/// Only a person is told what to read, and only where there is more than the message.
#[test]
fn an_error_in_a_terminal_names_a_page() {
    let place = Place::without_daemon();
    let shown = |words: &[&str], code: i32| {
        let (status, shown) = Terminal::run(&place, words).ends();
        assert_eq!(status.code(), Some(code), "{shown}");
        shown
    };
    let said = shown(&["daemon", "status"], NO_DAEMON);
    assert!(said.starts_with("strongroom: no daemon"), "{said}");
    assert!(said.ends_with("\r\nsee: strongroom help 13\r\n"), "{said}");
    lacks(&shown(&["--json", "daemon", "status"], NO_DAEMON), "see:");
    lacks(&shown(&["lisst"], USAGE), "see:");
    lacks(&place.fails("daemon status", NO_DAEMON), "see:");
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error() {
    let place = Place::without_daemon();
    fs::write(place.path("file"), "").unwrap();
    place.refuses("man {DIR}/file/man1", OTHER, "cannot write");
}

#[test]
fn shells_accept_their_completion() {
    let place = Place::without_daemon();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.ok(&format!("completion {shell}"));
        assert!(script.contains("STRONGROOM_COMPLETE"));
        accepts(shell, &["-n"], script.as_bytes());
    }
    // It completes.
    let mut script = place.ok("completion bash");
    script += &format!(
        "
strongroom() {{ {PROGRAM} \"$@\"; }}
COMP_LINE='strongroom pool sc'; COMP_POINT=${{#COMP_LINE}}
_strongroom strongroom sc pool; echo \"found ${{COMPREPLY[*]}}\"
"
    );
    if let Some(output) = tool("bash", &["--norc"], script.as_bytes()) {
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text, "found scrub\n", "{output:?}");
    }
}
