//! Text that the dashboard shows and copies: no hidden character is in it, and a shell reads the words that were meant.

use std::path::Path;
use std::process::{Command, Stdio};

use protocol::characters::{HIDDEN, is_hidden};

const SCRIPT: &str = include_str!("../assets/lib/characters.js");

/// Words that a delegate could choose, and that root copies.
const WORDS: [&str; 12] = [
    "tank/home@monday",
    "größe",
    "two words",
    "it's",
    "$(reboot)",
    "=ls",
    "",
    "x\nreboot\n",
    "a\u{1b}[201~reboot\r",
    "it's \\ \u{202e}'; reboot #\n",
    "\u{3164}\u{e0041}",
    "~/x{a,b}*?!|&;<>`",
];

#[test]
fn the_table_is_that_of_the_protocol() {
    let table = SCRIPT.split("const HIDDEN = [").nth(1).expect("a table");
    let table = table.split("\n];").next().expect("its end");
    let number = |text: &str| u32::from_str_radix(text.trim().trim_start_matches("0x"), 16);
    let rows: Vec<(u32, u32)> = table
        .lines()
        .filter_map(|line| line.trim().strip_prefix('[')?.split_once("],"))
        .filter_map(|(row, _)| row.split_once(','))
        .map(|(first, last)| (number(first).unwrap(), number(last).unwrap()))
        .collect();
    let wanted = HIDDEN.map(|(first, last)| (first.into(), last.into()));
    assert_eq!(rows, wanted);
}

#[test]
fn what_is_copied_is_what_is_meant() {
    let has = |program| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null());
        command.status().is_ok()
    };
    if !has("node") || !has("bash") {
        eprintln!("skipped: node or bash is not installed");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("characters.mjs"), SCRIPT).expect("a file");
    let words = serde_json::to_string(&WORDS).expect("JSON");
    let run = "import { commandLine, visible } from './characters.mjs';\n\
               const all = JSON.parse(process.argv[2]);\n\
               const shown = visible(all.join(''));\n\
               console.log(JSON.stringify([...all.map((word) => commandLine([word])), shown]));";
    std::fs::write(dir.path().join("run.mjs"), run).expect("a file");
    let node = output(dir.path(), "node", &["run.mjs", &words]);
    let mut lines: Vec<String> = serde_json::from_slice(&node).expect("JSON");
    for line in &lines {
        assert!(!line.contains(is_hidden), "{line:?}");
    }
    lines.pop();
    assert_eq!(lines[..3], ["tank/home@monday", "größe", "'two words'"]);
    for (line, word) in lines.iter().zip(WORDS) {
        let script = format!("printf '%s\\0' {line}");
        let read = output(dir.path(), "bash", &["--norc", "-c", &script]);
        assert_eq!(String::from_utf8_lossy(&read), format!("{word}\0"));
    }
}

fn output(dir: &Path, program: &str, args: &[&str]) -> Vec<u8> {
    let mut command = Command::new(program);
    let run = command.current_dir(dir).env("LC_ALL", "C.UTF-8").args(args);
    let done = run.output().expect("the program");
    assert!(done.status.success(), "{done:?}");
    done.stdout
}
