//! `luks open --token-only`: containers that clevis and systemd bound to a TPM, with a TPM in software.

mod common;

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use common::containers::*;
use common::tang::are_installed;
use common::tpm::Tpm;
use common::*;

/// Opens the container.
fn open(tpm: &Tpm, place: &Place, more: &str, input: &str) -> (i32, String) {
    open_at(&tpm.socket, place, more, input)
}

fn open_at(socket: &str, place: &Place, more: &str, input: &str) -> (i32, String) {
    let line = format!("luks open --test-passphrase --token-only {more} {{DIR}}/image");
    let mut command = place.command();
    command.env("STRONGROOM_TPM", socket);
    let mut child = command
        .args(place.words(&line))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    (done.status.code().unwrap(), said)
}

/// A device between the TPM and the processor: it keeps the answers, and changes a byte of the last command's.
fn tap(place: &Place, tpm: &Tpm, changes: bool) -> (String, Arc<Mutex<Vec<u8>>>) {
    /// `TPM_CC_Unseal`.
    const UNSEAL: [u8; 4] = [0, 0, 1, 0x5e];
    let path = place.arg(if changes { "changes" } else { "listens" });
    let listener = UnixListener::bind(&path).unwrap();
    let (heard, socket) = (Arc::new(Mutex::new(Vec::new())), tpm.socket.clone());
    let all = Arc::clone(&heard);
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut tpm = UnixStream::connect(socket).unwrap();
        while let Some(command) = message(&mut client) {
            tpm.write_all(&command).unwrap();
            let mut answer = message(&mut tpm).unwrap();
            all.lock().unwrap().extend_from_slice(&answer);
            if changes && command[6..10] == UNSEAL {
                answer[20] ^= 1;
            }
            client.write_all(&answer).unwrap();
        }
    });
    (path, heard)
}

/// A command or an answer, which have their length after two bytes.
fn message(from: &mut UnixStream) -> Option<Vec<u8>> {
    let mut message = vec![0; 10];
    from.read_exact(&mut message).ok()?;
    let len = u32::from_be_bytes(message[2..6].try_into().unwrap());
    message.resize(len as usize, 0);
    from.read_exact(&mut message[10..]).ok()?;
    Some(message)
}

#[test]
fn a_tpm_opens_what_systemd_bound_to_it() {
    let place = Place::without_daemon();
    if !are_installed(&["cryptsetup", "systemd-cryptenroll"]) {
        return;
    }
    let Some(tpm) = Tpm::start(&place) else {
        return;
    };
    format(&place, CHEAP);
    let device = format!("--tpm2-device={}", tpm.tcti);
    let enroll = |more: &[&str], variables: &[(&str, &str)]| {
        let words = [&[&*device], more, &["image"]].concat();
        let variables = [&[("PASSWORD", "correct horse")], variables].concat();
        tpm.run(&place, "systemd-cryptenroll", &words, &variables);
        tpm.flush(&place);
    };
    enroll(&["--tpm2-pcrs=7+16"], &[]);
    enroll(&["--tpm2-pcrs="], &[]);
    enroll(
        &["--tpm2-pcrs=16", "--tpm2-with-pin=yes"],
        &[("NEWPIN", "0451")],
    );
    for (more, input) in [
        ("--token-id 0", ""),
        ("--token-id 1", ""),
        ("--token-id 2", "0451\n"),
        ("", ""),
    ] {
        let (code, said) = open(&tpm, &place, more, input);
        assert_eq!(code, 0, "{more}: {said}");
    }
    let (code, said) = open(&tpm, &place, "--token-id 2", "0452\n");
    assert_eq!(code, WRONG_KEY, "{said}");
    has(&said, "PIN");

    // Another kernel was started.
    tpm.extend(&place);
    for (more, input) in [("--token-id 0", ""), ("--token-id 2", "0451\n")] {
        let (code, said) = open(&tpm, &place, more, input);
        assert_eq!(code, NO_KEY, "{said}");
        has(&said, "PCRs");
    }
    assert_eq!(open(&tpm, &place, "--token-id 1", "").0, 0);

    // The TPM refuses after wrong PINs, and says so.
    tpm.run(&place, "tpm2_pcrreset", &["16"], &[]);
    assert_eq!(open(&tpm, &place, "--token-id 2", "0451\n").0, 0);
    let setup = [
        "--setup-parameters",
        "--max-tries=1",
        "--recovery-time=1000",
    ];
    tpm.run(&place, "tpm2_dictionarylockout", &setup, &[]);
    assert_ne!(open(&tpm, &place, "--token-id 2", "0452\n").0, 0);
    let (code, said) = open(&tpm, &place, "--token-id 2", "0451\n");
    assert_eq!(code, NO_KEY, "{said}");
    has(&said, "locked");
    has(&open(&tpm, &place, "--token-id 0", "").1, "locked");

    // Another TPM, and none.
    tpm.run(&place, "tpm2_clear", &[], &[]);
    let (code, said) = open(&tpm, &place, "--token-id 0", "");
    assert_eq!(code, NO_KEY, "{said}");
    has(&said, "another TPM");
    drop(tpm);
    let gone = ends(
        &place,
        NO_KEY,
        "open --test-passphrase --token-only --token-id 1 {DIR}/image",
        "",
    );
    has(&gone.err, "TPM");
}

#[test]
fn a_tpm_opens_what_clevis_bound_to_it() {
    let place = Place::without_daemon();
    if !are_installed(&["cryptsetup", "clevis-encrypt-tpm2", "clevis-luks-bind"]) {
        return;
    }
    let Some(tpm) = Tpm::start(&place) else {
        return;
    };
    format(&place, CHEAP);
    std::fs::write(place.path("key"), "correct horse").unwrap();
    let bind = |pin: &str, config: &str| {
        let words = [
            "luks", "bind", "-y", "-k", "key", "-d", "image", pin, config,
        ];
        tpm.run(&place, "clevis", &words, &[]);
    };
    bind("tpm2", "{}");
    bind("tpm2", r#"{"pcr_bank":"sha256","pcr_ids":"0,16"}"#);
    bind(
        "sss",
        r#"{"t":1,"pins":{"tpm2":[{"pcr_bank":"sha1","pcr_ids":"7"}]}}"#,
    );
    for token in ["--token-id 0", "--token-id 1", "--token-id 2", ""] {
        let (code, said) = open(&tpm, &place, token, "");
        assert_eq!(code, 0, "{token}: {said}");
    }
    // A listener at the bus learns nothing, and a changed message is noticed.
    let (socket, heard) = tap(&place, &tpm, false);
    let (code, said) = open_at(&socket, &place, "--token-id 1", "");
    assert_eq!(code, 0, "{said}");
    let heard = heard.lock().unwrap();
    assert!(heard.len() > 500 && find(&heard, b"A256GCM").is_none());
    let (socket, _) = tap(&place, &tpm, true);
    let (code, said) = open_at(&socket, &place, "--token-id 1", "");
    assert_eq!(code, NO_KEY, "{said}");
    has(&said, "not authentic");

    tpm.extend(&place);
    let (code, said) = open(&tpm, &place, "--token-id 1", "");
    assert_eq!(code, NO_KEY, "{said}");
    has(&said, "PCRs");
    assert_eq!(open(&tpm, &place, "", "").0, 0, "the others open it");
}

/// systemd 254 and newer protect what they seal by a key that the TPM keeps, and write its name into the token.
#[test]
fn a_kept_key_of_the_tpm_is_known_by_its_name() {
    let place = Place::without_daemon();
    if !are_installed(&["cryptsetup", "systemd-cryptenroll", "base64"]) {
        return;
    }
    let Some(tpm) = Tpm::start(&place) else {
        return;
    };
    format(&place, CHEAP);
    let device = format!("--tpm2-device={}", tpm.tcti);
    let words = [&*device, "--tpm2-pcrs=", "image"];
    let passphrase = [("PASSWORD", "correct horse")];
    tpm.run(&place, "systemd-cryptenroll", &words, &passphrase);
    tpm.flush(&place);
    // The same key, kept, as tpm2-tss writes it: handle, name, and more.
    tpm.tool(&place, "tpm2_createprimary -Q -C o -G ecc -c key.ctx");
    let keep = "tpm2_evictcontrol -Q -C o -c key.ctx 0x81000001 -o kept";
    tpm.tool(&place, keep);
    tpm.flush(&place);
    let token = ends(&place, 0, "token export --token-id 0 {DIR}/image", "").out;
    let mut token: serde_json::Value = serde_json::from_str(&token).unwrap();
    let mut import = |number: u32| {
        let kept = tpm.tool(&place, "base64 -w0 kept");
        token["tpm2_srk"] = String::from_utf8(kept).unwrap().into();
        std::fs::write(place.path("token"), token.to_string()).unwrap();
        let import = "token import --json-file {DIR}/token --token-id";
        ends(&place, 0, &format!("{import} {number} {{DIR}}/image"), "");
    };
    import(5);
    let (code, said) = open(&tpm, &place, "--token-id 5", "");
    assert_eq!(code, 0, "{said}");
    // It is not the key of this name.
    let mut kept = std::fs::read(place.path("kept")).unwrap();
    kept[20] ^= 1;
    std::fs::write(place.path("kept"), kept).unwrap();
    import(6);
    let (code, said) = open(&tpm, &place, "--token-id 6", "");
    assert_eq!(code, NO_KEY, "{said}");
    has(&said, "another TPM");
}
