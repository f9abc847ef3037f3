//! `luks open --token-only`: containers that clevis bound to a Tang server, with both as judges.

mod common;

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::containers::*;
use common::*;

/// A Tang server, as inetd runs it, until the test ends.
struct Tang {
    keys: PathBuf,
    port: u16,
}

const TANGD: &str = "/usr/libexec/tangd";

impl Tang {
    /// `None` if a judge is missing.
    fn start(place: &Place) -> Option<Tang> {
        let is_there = [
            TANGD,
            "/usr/libexec/tangd-keygen",
            "/usr/bin/clevis-luks-bind",
        ]
        .iter()
        .all(|program| std::path::Path::new(program).exists());
        if !is_there || !is_installed("cryptsetup") {
            eprintln!("skipped: tang, clevis-luks and cryptsetup are not all installed");
            return None;
        }
        let keys = place.path("tang");
        std::fs::create_dir(&keys).unwrap();
        make_keys(&keys);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let of_server = keys.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (input, output) = (stream.try_clone().unwrap(), stream);
                let mut server = Command::new(TANGD);
                server.arg(&of_server).stdin(OwnedFd::from(input));
                let server = server.stdout(OwnedFd::from(output)).stderr(Stdio::null());
                let _ = server.status();
            }
        });
        Some(Tang { keys, port })
    }
}

fn make_keys(dir: &std::path::Path) {
    let made = Command::new("/usr/libexec/tangd-keygen").arg(dir).output();
    let made = made.unwrap();
    assert!(made.status.success(), "{made:?}");
}

fn output(place: &Place, program: &str, words: &[&str]) -> (bool, String) {
    let done = Command::new(program)
        .args(words)
        .current_dir(place.root())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [done.stdout, done.stderr].concat();
    (
        done.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// Binds the container to a server.
fn bind(place: &Place, pin: &str, config: &str) {
    std::fs::write(place.path("key"), "correct horse").unwrap();
    let words = [
        "luks", "bind", "-y", "-k", "key", "-d", "image", pin, config,
    ];
    let (is_bound, text) = output(place, "clevis", &words);
    assert!(is_bound, "{text}");
}

#[test]
fn a_tang_server_opens_a_container() {
    let place = Place::new();
    let Some(tang) = Tang::start(&place) else {
        return;
    };
    format(&place, CHEAP);
    let none = "luks open --token-only {DIR}/image x";
    has(&place.fails(none, NOT_FOUND), "no token");
    let config = format!("{{\"url\":\"http://127.0.0.1:{}\"}}", tang.port);
    bind(&place, "tang", &config);
    place.ok("luks open --test-passphrase --token-only {DIR}/image");
    place.ok("luks open --token-only {DIR}/image x");
    has(&place.ok("luks status x"), "slot:    1");
    place.ok("luks close x");
    place.ok("luks open --token-only --token-id 0 --token-type clevis {DIR}/image x");
    place.ok("luks close x");
    place.fails(
        "luks open --token-only --token-id 7 {DIR}/image x",
        NOT_FOUND,
    );
    place.fails(
        "luks open --token-only --token-type systemd-tpm2 {DIR}/image x",
        NOT_FOUND,
    );
    // What was changed here opens there still.
    let add = format!("luks add-key {CHEAP} {{DIR}}/image");
    place.ok_with(&add, "correct horse\nanother one\n");
    let (is_known, passphrase) = output(
        &place,
        "clevis",
        &["luks", "pass", "-d", "image", "-s", "1"],
    );
    assert!(is_known, "{passphrase}");
    let test = "luks open --test-passphrase -S 1 {DIR}/image";
    place.ok_with(test, &format!("{}\n", passphrase.trim_end()));

    // The server has other keys now, and knows the old ones no more.
    for file in std::fs::read_dir(&tang.keys).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    make_keys(&tang.keys);
    let gone = place.fails(none, NO_KEY);
    has(&gone, "does not have the key any more");
    place.ok_with("luks open {DIR}/image x", PASSPHRASE);
}

/// What is not known here, or was changed, is refused, and asks nobody.
#[test]
fn other_tokens_are_refused() {
    let place = Place::without_daemon();
    format(&place, CHEAP);
    let import = |json: &str| {
        std::fs::write(place.path("token"), json).unwrap();
        let line = "token import --json-file {DIR}/token {DIR}/image";
        ends(&place, 0, line, "").out.trim().to_owned()
    };
    let header = |text: &str| {
        let (ok, encoded) = {
            let done = Command::new("sh")
                .args([
                    "-c",
                    "printf %s \"$1\" | base64 -w0 | tr +/ -_ | tr -d =",
                    "sh",
                    text,
                ])
                .output()
                .unwrap();
            (
                done.status.success(),
                String::from_utf8(done.stdout).unwrap(),
            )
        };
        assert!(ok);
        encoded
    };
    let jwe = |text: &str| {
        let tag = "AAAAAAAAAAAAAAAAAAAAAA";
        format!(
            r#"{{"type":"clevis","keyslots":["0"],"jwe":{{"protected":"{}","iv":"AAAAAAAAAAAAAAAA","ciphertext":"AAAA","tag":"{tag}"}}}}"#,
            header(text)
        )
    };
    for (token, code, why) in [
        (
            r#"{"type":"other","keyslots":[]}"#.to_owned(),
            TOO_NEW,
            "'other'",
        ),
        (
            r#"{"type":"clevis","keyslots":[]}"#.to_owned(),
            NO_KEY,
            "sealed",
        ),
        (jwe(r#"{"clevis":{"pin":"tpm2"}}"#), NO_KEY, "'tpm2'"),
        (
            jwe(r#"{"alg":"dir","enc":"A256GCM","clevis":{"pin":"tang"}}"#),
            NO_KEY,
            "ECDH-ES",
        ),
        (
            jwe(r#"{"alg":"ECDH-ES","enc":"A256GCM","clevis":{"pin":"tang"}}"#),
            NO_KEY,
            "curve",
        ),
    ] {
        let id = import(&token);
        let line = format!("open --test-passphrase --token-only --token-id {id} {{DIR}}/image");
        has(&ends(&place, code, &line, "").err, why);
    }
}
