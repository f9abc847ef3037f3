//! `strongroom bench` on a disk: what it prints, and that nothing of it is left.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::common::*;
use rustix::process::{Pid, Signal, kill_process};

/// A directory to measure, one for sockets and mountpoints, and the command.
fn prepared() -> Place {
    let place = Place::without_daemon();
    for name in ["disk", "near"] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    place
}

fn bench(place: &Place, line: &str) -> std::process::Command {
    let mut command = place.command();
    command.env("TMPDIR", place.path("near")).arg("bench");
    command.args(place.words(line));
    command
}

fn run(mut command: std::process::Command) -> Done {
    let ended = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Done {
        code: ended.status.code().unwrap(),
        out: text(ended.stdout),
        err: text(ended.stderr),
    }
}

fn is_clean(place: &Place) {
    for name in ["disk", "near"] {
        let left: Vec<_> = std::fs::read_dir(place.path(name)).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    lacks(&mounts, &place.arg("near"));
}

/// The rows of a short run: name, unit, ratio.
fn rows(place: &Place, what: &str) -> Vec<(String, String, f64)> {
    let line =
        format!("{what} --seconds 0.01 --size 16M --json --report {{DIR}}/page {{DIR}}/disk");
    let page = place.path("page");
    std::fs::write(&page, "mine").unwrap();
    assert_eq!(run(bench(place, &line)).code, EXISTS);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "mine");
    std::fs::remove_file(&page).unwrap();
    let done = run(bench(place, &line));
    assert_eq!(done.code, 0, "{done:?}");
    has(&done.err, &place.arg("disk"));
    is_clean(place);
    let page = std::fs::read_to_string(page).unwrap();
    has(&page, "</svg>");
    lacks(&page, "<script");
    let found: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    let rows = found["rows"].as_array().unwrap().iter().map(|row| {
        let number = |name: &str| row[name].as_f64().unwrap();
        let known = ["disk", "cipher", "fuse"].map(|name| row[name].as_f64());
        let least = known.iter().flatten().copied().fold(f64::MAX, f64::min);
        assert!(number("allowed") <= least * (1.0 + 1e-9), "{row}");
        let ratio = number("reached") / number("allowed");
        assert!((number("ratio") / ratio - 1.0).abs() < 1e-9, "{row}");
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        (text("measure"), text("unit"), number("ratio"))
    });
    rows.collect()
}

#[test]
fn a_pool_and_a_directory_are_measured_and_nothing_is_left() {
    needs!(can_mount());
    let place = prepared();
    for what in ["pool", "file"] {
        let rows = rows(&place, what);
        assert_eq!(rows.len(), 9, "{rows:?}");
        assert!(rows.iter().all(|(_, _, ratio)| *ratio > 0.0), "{rows:?}");
    }
}

#[test]
fn a_device_is_measured_and_nothing_is_left() {
    let place = prepared();
    let rows = rows(&place, "block");
    assert_eq!(rows.len(), 6, "no small files: {rows:?}");
}

#[test]
fn an_interrupt_ends_it_and_nothing_is_left() {
    needs!(can_mount());
    let place = prepared();
    let line = "pool --seconds 60 --size 16M {DIR}/disk";
    let mut child = bench(&place, line).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    has(&said.next().unwrap().unwrap(), "Ctrl-C");
    let mounts = || std::fs::read_to_string("/proc/self/mounts").unwrap();
    while !mounts().contains(&place.arg("near")) {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    has(&said.next().unwrap().unwrap(), "interrupted");
    assert_eq!(child.wait().unwrap().code(), Some(OTHER));
    is_clean(&place);
}

#[test]
fn a_killed_one_leaves_no_mount_and_no_process() {
    needs!(can_mount());
    for what in ["pool", "file"] {
        let place = prepared();
        let near = place.arg("near");
        let line = format!("{what} --seconds 60 --size 16M {{DIR}}/disk");
        let mut child = bench(&place, &line).stderr(Stdio::null()).spawn().unwrap();
        let mounts = || std::fs::read_to_string("/proc/self/mounts").unwrap();
        while !mounts().contains(&near) {
            assert!(child.try_wait().unwrap().is_none(), "it ended");
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        while mounts().contains(&near) || serves(&near) {
            std::thread::yield_now();
        }
    }
}

/// Returns whether a process has been started with a path in its arguments.
fn serves(path: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap();
    let names = processes.map(|entry| entry.unwrap().path().join("cmdline"));
    // Of one that has ended there is none.
    let lines = names.filter_map(|name| std::fs::read(name).ok());
    let found: Vec<String> = lines
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .collect();
    found.iter().any(|line| line.contains(path))
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_written() {
    let place = prepared();
    std::fs::write(place.path("file"), "x").unwrap();
    for (line, code, why) in [
        ("pool {DIR}/none", NOT_FOUND, "none"),
        ("pool {DIR}/file", USAGE, "file"),
        ("file --size 1M {DIR}/disk", USAGE, "16M"),
        ("block --seconds 0 {DIR}/disk", USAGE, "0.01"),
        ("block --size 4E {DIR}/disk", NO_SPACE, "--size"),
        ("block --cipher aes-zip {DIR}/disk", USAGE, "sector cipher"),
    ] {
        let done = run(bench(&place, line));
        assert_eq!((done.code, &*done.out), (code, ""), "{line}: {done:?}");
        has(&done.err, why);
        assert_eq!(done.err.lines().count(), 1, "{line}: {done:?}");
        is_clean(&place);
    }
}
