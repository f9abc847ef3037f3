//! Completion in a shell: names from the daemon that runs.

use std::process::{Command, Stdio};

use crate::common::*;

/// The words that the program offers for an unfinished command line.
fn offered(place: &Place, line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = place.command();
    command
        .env("STRONGROOM_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string())
        .env("_CLAP_IFS", "\n")
        .arg("--")
        .args(words);
    let output = command.output().unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn offers(place: &Place, line: &str, wanted: &[&str]) {
    assert_eq!(offered(place, line), wanted, "{line}");
}

#[test]
fn names_of_pools_datasets_snapshots_and_properties_are_offered() {
    let place = Place::new();
    place.pool("tank");
    place.pool("test");
    place.ok("create -p tank/home/ann");
    place.ok("snapshot -r tank/home@monday");
    place.ok("snapshot tank/home@mine");
    offers(&place, "strongroom pool scrub t", &["tank", "test"]);
    offers(
        &place,
        "strongroom create tank/h",
        &["tank/home", "tank/home/ann"],
    );
    offers(
        &place,
        "strongroom rollback tank/home@m",
        &["tank/home@monday", "tank/home@mine"],
    );
    offers(
        &place,
        "strongroom destroy tank/home/ann@",
        &["tank/home/ann@monday"],
    );
    offers(&place, "strongroom rollback nowhere@", &[]);
    offers(&place, "strongroom get compressi", &["compression"]);
    offers(
        &place,
        "strongroom get used,compressi",
        &["used,compression"],
    );
    offers(&place, "strongroom set compressi", &["compression="]);
    offers(&place, "strongroom set atime=o", &["atime=on", "atime=off"]);
    offers(&place, "strongroom set atime=off te", &["test"]);
    offers(&place, "strongroom list -o usedbyd", &["usedbydataset"]);
    offers(&place, "strongroom pool stat", &["status"]);
}

#[test]
fn no_daemon_is_started_or_waited_for() {
    let place = Place::without_daemon();
    offers(&place, "strongroom destroy t", &[]);
    assert!(!place.socket().exists());
    // Something that takes the connection and never answers.
    std::fs::create_dir_all(place.socket().parent().unwrap()).unwrap();
    let deaf = std::os::unix::net::UnixListener::bind(place.socket()).unwrap();
    offers(&place, "strongroom destroy t", &[]);
    drop(deaf);
    // A line that is no command of this program.
    offers(&place, "strongroom nonsense --what t", &[]);
}

#[test]
fn bash_completes_a_snapshot_although_it_splits_at_its_sign() {
    needs!(is_installed("bash"));
    let place = Place::new();
    place.pool("tank");
    place.ok("create tank/home");
    place.ok("snapshot tank/home@monday");
    let script = place.ok("completion bash");
    let asks = |line: &str, word: &str| {
        let script = format!(
            "{script}\nstrongroom() {{ {PROGRAM} \"$@\"; }}\nCOMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}\n\
             _strongroom strongroom '{word}' x; printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &script])
            .env("STRONGROOM_SOCKET", place.socket())
            .stdin(Stdio::null());
        let output = bash.output().unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    // Bash says which part of the word it replaces.
    assert_eq!(asks("strongroom rollback tank/home@mo", "mo"), "monday");
    assert_eq!(asks("strongroom rollback tank/home@", ""), "monday");
    assert_eq!(asks("strongroom rollback tank/ho", "tank/ho"), "tank/home");
    assert_eq!(asks("strongroom set atime=of", "of"), "off");
    // A name with a space is one word.
    let spaced = ["create", "tank/my data"];
    assert_eq!(place.run(&spaced).code, 0);
    assert_eq!(asks("strongroom list tank/my", "tank/my"), r"tank/my\ data");
    assert_eq!(
        asks(r"strongroom list tank/my\ d", r"tank/my\ d"),
        r"tank/my\ data"
    );
    assert_eq!(
        asks(r#"strongroom list "tank/my d"#, "tank/my d"),
        "tank/my data"
    );
    let spaced = ["snapshot", "tank/my data@monday"];
    assert_eq!(place.run(&spaced).code, 0);
    assert_eq!(asks(r"strongroom rollback tank/my\ data@m", "m"), "monday");
    // Values of properties.
    assert_eq!(asks("strongroom set compression=l", "l"), "lz4");
    assert_eq!(
        asks("strongroom create -o encryption=xch", "xch"),
        "xchacha20-poly1305"
    );
    assert_eq!(asks("strongroom pool set multihost=of", "of"), "off");
}
