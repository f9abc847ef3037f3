//! `luks open --token-only`: containers that clevis bound to a Tang server, with both as judges, and other tokens.

use std::fs::{Permissions, set_permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::common::containers::*;
use crate::common::servers::tang::*;
use crate::common::*;

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
    needs!(are_installed(&["clevis-luks-bind", "cryptsetup"]));
    let tang = needs!(Tang::start(&place, "tang"));
    format(&place, CHEAP);
    let none = "luks open --token-only {DIR}/image x";
    place.refuses(none, NOT_FOUND, "no token");
    let config = format!("{{\"url\":\"{}\"}}", tang.url());
    bind(&place, "tang", &config);
    place.ok("luks open --test-passphrase --token-only {DIR}/image");
    place.ok("luks open --token-only {DIR}/image x");
    place.says("luks status x", "slot:    1");
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
    tang.delete_keys();
    tang.make_keys();
    place.refuses(none, NO_KEY, "does not have the key any more");
    place.ok_with("luks open {DIR}/image x", PASSPHRASE);
}

/// Two of three servers, one of them behind a sharing of its own.
#[test]
fn enough_of_several_servers_open_a_container() {
    let place = Place::without_daemon();
    needs!(are_installed(&["clevis-luks-bind", "cryptsetup"]));
    let one = needs!(Tang::start(&place, "one"));
    let two = Tang::start(&place, "two").unwrap();
    let inner = Tang::start(&place, "inner").unwrap();
    format(&place, CHEAP);
    let pin = |tang: &Tang| {
        let (url, thumbprint) = (tang.url(), tang.thumbprint());
        format!(r#"{{"url":"{url}","thp":"{thumbprint}"}}"#)
    };
    let (one_pin, two_pin, inner_pin) = (pin(&one), pin(&two), pin(&inner));
    let inner_pin = format!(r#"{{"t":1,"pins":{{"tang":[{inner_pin},{two_pin}]}}}}"#);
    let config = format!(r#"{{"t":2,"pins":{{"tang":[{one_pin},{two_pin}],"sss":{inner_pin}}}}}"#);
    bind(&place, "sss", &config);
    let test = "open --test-passphrase --token-only {DIR}/image";
    ends(&place, 0, test, "");
    one.delete_keys();
    ends(&place, 0, test, "");
    one.make_keys();
    inner.delete_keys();
    ends(&place, 0, test, "");
    two.delete_keys();
    let failed = ends(&place, NO_KEY, test, "").err;
    has(&failed, "0 of the 2 parts");
    has(&failed, "does not have the key any more");
}

/// A passphrase in the keyring of a session of its own, and cryptsetup with the same.
#[test]
fn a_passphrase_in_the_keyring_opens_a_container() {
    let place = Place::without_daemon();
    needs!(are_installed(&["keyctl", "cryptsetup"]));
    format(&place, CHEAP);
    // In the keyring of a new session there is this key, then a command runs.
    let in_session = |key: &str, program: &str, words: &[&str]| {
        let script = r#"keyctl add user here:disk "$1" @s >&2 || exit 99; shift; "$@""#;
        let session = ["session", "-", "sh", "-c", script, "sh", key, program];
        let mut keyctl = Command::new("keyctl");
        keyctl.args(session).args(words).current_dir(place.root());
        let done = keyctl.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.code().unwrap(), said)
    };
    if in_session("x", "true", &[]).0 != 0 {
        eprintln!("skipped: the kernel gives this process no keyring");
        return;
    }
    let words = ["luks", "open", "--test-passphrase", "--token-only", "image"];
    let open = |key: &str| in_session(key, PROGRAM, &words);
    let add = "token add --key-description here:disk {DIR}/image";
    ends(&place, 0, add, "");
    let (code, said) = open("correct horse");
    assert_eq!(code, 0, "{said}");
    let (code, said) = in_session(
        "correct horse",
        "cryptsetup",
        &["open", "--test-passphrase", "--token-only", "image"],
    );
    assert_eq!(code, 0, "{said}");
    assert_eq!(open("another").0, WRONG_KEY);
    let missing = "token add --key-description not:there\u{1b} {DIR}/image";
    ends(&place, 0, missing, "");
    let (code, said) = in_session(
        "x",
        PROGRAM,
        &[&words[..4], &["--token-id", "1", "image"]].concat(),
    );
    assert_eq!(code, NO_KEY, "{said}");
    has(&said, "it is not there");
    lacks(&said, "\u{1b}");

    // That of cryptsetup.
    ends(&place, 0, "token remove --token-id 0 {DIR}/image", "");
    ends(&place, 0, "token remove --token-id 1 {DIR}/image", "");
    let added = ["token", "add", "--key-description", "here:disk", "image"];
    let (code, said) = in_session("x", "cryptsetup", &added);
    assert_eq!(code, 0, "{said}");
    assert_eq!(open("correct horse").0, 0);
}

/// A recovery key is a passphrase.
#[test]
fn a_recovery_key_of_systemd_is_typed() {
    let place = Place::without_daemon();
    needs!(are_installed(&["systemd-cryptenroll", "cryptsetup"]));
    format(&place, CHEAP);
    let enrolled = Command::new("systemd-cryptenroll")
        .args(["--recovery-key", "image"])
        .env("PASSWORD", "correct horse")
        .current_dir(place.root())
        .output()
        .unwrap();
    assert!(enrolled.status.success(), "{enrolled:?}");
    let key = String::from_utf8(enrolled.stdout).unwrap();
    ends(&place, 0, "open --test-passphrase -S 1 {DIR}/image", &key);
    let recovery = "open --test-passphrase --token-only --token-type systemd-recovery {DIR}/image";
    has(&ends(&place, NO_KEY, recovery, "").err, "is typed");
}

/// Stands for fido2-token(1) of libfido2: `-L` lists authenticators, `-I` prints what one can do.
const TOKEN_TOOL: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
case $1 in
-L) cat devices ;;
-I) printf 'extension strings: credProtect, hmac-secret\noptions: rk, up, clientPin\npin retries: %s\n' "$(cat tries)" ;;
esac
"#;

/// Stands for fido2-assert(1) of libfido2, and an authenticator with one credential. It reads its input in one piece, as
/// the C library does: a PIN that comes too early is lost. The question for the PIN goes to the terminal if there is
/// one. What it was started with is kept in `calls`.
const ASSERT_TOOL: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
{ echo "$*"; env; } >>calls
fail() { echo "fido2-assert: fido_dev_get_assert: FIDO_ERR_$1" >&2; exit 1; }
(: </dev/tty) 2>/dev/null && fail TERMINAL
given=$(dd bs=4096 count=1 2>/dev/null)
{ read -r hash; read -r rp; read -r credential; read -r salt; } <<END
$given
END
[ "$hash" = AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= ] || fail INVALID_ARGUMENT
[ "$rp $credential" = "$(cat credential)" ] || fail NO_CREDENTIALS
answer() { printf '%s\n' "$hash" "$rp" data signature "$@"; exit; }
case "$* $(cat mode)" in
"-G -t up=false /dev/hidraw7 "*) answer ;;
*up=true*" is left alone") fail ACTION_TIMEOUT ;;
*up=false*" demands all") fail UP_REQUIRED ;;
*pin=true*) ;;
*" demands all") fail PIN_REQUIRED ;;
esac
[ "${*%% -t*} $salt" = "-G -h BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=" ] || fail INVALID_PARAMETER
case $* in *pin=true*)
    printf 'Enter PIN for /dev/hidraw7: ' >&2
    read -r pin
    [ "$pin" = 0451 ] || { echo 7 >tries; fail PIN_INVALID; } ;;
esac
answer CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=
"#;

/// The secret that this authenticator computes.
const OF_AUTHENTICATOR: &str = "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=";

#[test]
fn an_authenticator_opens_a_container() {
    let place = Place::without_daemon();
    format(&place, CHEAP);
    let add = format!("add-key {CHEAP} {{DIR}}/image");
    let input = format!("{PASSPHRASE}{OF_AUTHENTICATOR}\n");
    ends(&place, 0, &add, &input);
    let import = |more: &str| {
        let salt = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
        let json = format!(
            r#"{{"type":"systemd-fido2","keyslots":["1"],"fido2-credential":"AAAA","fido2-salt":"{salt}"{more}}}"#
        );
        std::fs::write(place.path("token"), json).unwrap();
        let line = "token import --json-file {DIR}/token {DIR}/image";
        ends(&place, 0, line, "");
    };
    // What newer versions of systemd make, what older ones made, and that of another authenticator.
    import(r#","fido2-rp":"a b","fido2-clientPin-required":true,"fido2-up-required":true"#);
    import("");
    import(r#","fido2-rp":"other""#);
    import(r#","fido2-clientPin-required":false,"fido2-up-required":true"#);
    std::fs::create_dir(place.path("fido2")).unwrap();
    let put =
        |name: &str, text: &str| std::fs::write(place.path("fido2").join(name), text).unwrap();
    let open = |id: u32, code: i32, input: &str| {
        let line =
            format!("luks open --test-passphrase --token-only --token-id {id} {{DIR}}/image");
        let mut command = place.command();
        command.env("STRONGROOM_FIDO2", place.path("fido2"));
        let command = command.args(place.words(&line)).stdin(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(code), "{id}: {said}");
        said
    };
    has(&open(0, NO_KEY, ""), "package fido2-tools");
    for (name, text) in [("fido2-token", TOKEN_TOOL), ("fido2-assert", ASSERT_TOOL)] {
        put(name, text);
        set_permissions(
            place.path("fido2").join(name),
            Permissions::from_mode(0o755),
        )
        .unwrap();
    }
    put("devices", "");
    has(&open(0, NO_KEY, ""), "plug it in");
    put(
        "devices",
        "/dev/hidraw7: vendor=0x1050, product=0x0407 (Yubico YubiKey)\n",
    );
    put("tries", "8");
    put("mode", "");
    put("credential", "a b AAAA");
    has(
        &open(0, 0, "0451\n"),
        "touch the authenticator /dev/hidraw7",
    );
    let wrong = open(0, WRONG_KEY, "0452\n");
    has(&wrong, "7 tries");
    // One that it cannot have costs no try, and neither does another authenticator.
    std::fs::remove_file(place.path("fido2/calls")).unwrap();
    has(&open(0, WRONG_KEY, "045\n"), "4 to 63");
    has(&open(2, NO_KEY, "0451\n"), "does not have the credential");
    let calls = std::fs::read_to_string(place.path("fido2/calls")).unwrap();
    lacks(&calls, "pin=true");

    put("credential", "io.systemd.cryptsetup AAAA");
    lacks(&open(1, 0, ""), "touch");
    has(&open(3, 0, ""), "touch");
    put("mode", "demands all");
    has(&open(1, 0, "0451\n"), "touch");
    put("mode", "is left alone");
    has(&open(3, NO_KEY, ""), "not touched in time");
    // Of two that do not tell, neither gets the PIN.
    let two =
        "/dev/hidraw8: vendor=0x1050, product=0x1\n/dev/hidraw9: vendor=0x1050, product=0x1\n";
    put("devices", two);
    put("mode", "demands all");
    std::fs::remove_file(place.path("fido2/calls")).unwrap();
    has(&open(1, NO_KEY, "0451\n"), "unplug the others");
    let calls = std::fs::read_to_string(place.path("fido2/calls")).unwrap();
    lacks(&calls, "pin=true");
    put(
        "devices",
        "/dev/hidraw7: vendor=0x1050, product=0x0407 (Yubico YubiKey)\n",
    );
    assert!(open(1, 0, "0451\n").contains("touch"));
    let calls = std::fs::read_to_string(place.path("fido2/calls")).unwrap();
    has(&calls, "pin=true");
    for secret in ["0451", "HOME=", "BwcH", "CQkJ"] {
        lacks(&calls, secret);
    }
}

/// A token that is unknown here, or was changed, is refused, and no user is asked.
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
    #[rustfmt::skip]
    let rows = [
        (r#"{"type":"other","keyslots":[]}"#.to_owned(), TOO_NEW, "'other'"),
        (r#"{"type":"clevis","keyslots":[]}"#.to_owned(), NO_KEY, "sealed"),
        (jwe(r#"{"clevis":{"pin":"yubikey"}}"#), NO_KEY, "'yubikey'"),
        (jwe(r#"{"alg":"dir","enc":"A256GCM","clevis":{"pin":"tang"}}"#), NO_KEY, "ECDH-ES"),
        (jwe(r#"{"alg":"ECDH-ES","enc":"A256GCM","clevis":{"pin":"tang"}}"#), NO_KEY, "curve"),
    ];
    for (token, code, why) in rows {
        let id = import(&token);
        let line = format!("open --test-passphrase --token-only --token-id {id} {{DIR}}/image");
        has(&ends(&place, code, &line, "").err, why);
    }
}
