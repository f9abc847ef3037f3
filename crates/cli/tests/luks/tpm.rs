//! `luks open --token-only`: containers that clevis and systemd bound to a TPM, with a TPM in software.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use crate::common::containers::*;
use crate::common::servers::tang::are_installed;
use crate::common::servers::tpm::Tpm;
use crate::common::*;
use cipher::Digest;
use serde_json::{Value, json};

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
    needs!(are_installed(&["cryptsetup", "systemd-cryptenroll"]));
    let tpm = needs!(Tpm::start(&place));
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
    needs!(are_installed(&[
        "cryptsetup",
        "clevis-encrypt-tpm2",
        "clevis-luks-bind"
    ]));
    let tpm = needs!(Tpm::start(&place));
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
    needs!(are_installed(&[
        "cryptsetup",
        "systemd-cryptenroll",
        "base64"
    ]));
    let tpm = needs!(Tpm::start(&place));
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
    let mut token: Value = serde_json::from_str(&token).unwrap();
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

/// The signature by `systemd-measure sign` for a machine that starts this kernel, after these phases
/// (systemd-measure(1)).
fn signed(place: &Place, tpm: &Tpm, key: &str, phases: &[&str]) -> Value {
    let (device, private, public) = (
        format!("--tpm2-device={}", tpm.tcti),
        format!("--private-key={key}.pem"),
        format!("--public-key={key}.pub"),
    );
    let phases: Vec<String> = phases
        .iter()
        .map(|phase| format!("--phase={phase}"))
        .collect();
    let mut words = vec![
        "sign",
        "--linux=kernel",
        "--bank=sha256",
        &device,
        &private,
        &public,
    ];
    words.extend(phases.iter().map(String::as_str));
    let file = tpm.run(place, MEASURE, &words, &[]);
    tpm.flush(place);
    serde_json::from_slice(&file).unwrap()
}

const MEASURE: &str = "/usr/lib/systemd/systemd-measure";

fn can_sign() -> bool {
    let can = Path::new(MEASURE).exists();
    if !can {
        eprintln!("skipped: not installed: {MEASURE}");
    }
    can
}

/// A pair of keys, in NAME.pem and NAME.pub.
fn key_pair(place: &Place, tpm: &Tpm, name: &str) {
    tpm.tool(place, &format!("openssl genrsa -out {name}.pem 2048"));
    tpm.tool(
        place,
        &format!("openssl rsa -in {name}.pem -pubout -out {name}.pub"),
    );
}

/// The machine goes on: this is measured into PCR 11.
fn measure(place: &Place, tpm: &Tpm, what: &str) {
    let digest = Digest::Sha256.hash(&[what.as_bytes()]);
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    tpm.tool(place, &format!("tpm2_pcrextend 11:sha256={digits}"));
}

#[test]
fn a_tpm_opens_while_the_state_of_the_machine_is_signed() {
    let place = Place::without_daemon();
    needs!(are_installed(&["systemd-cryptenroll", "openssl"]) && can_sign());
    let tpm = needs!(Tpm::start(&place));
    format(&place, CHEAP);
    std::fs::write(place.path("kernel"), "a kernel").unwrap();
    for name in ["key", "other"] {
        key_pair(&place, &tpm, name);
    }
    let device = format!("--tpm2-device={}", tpm.tcti);
    for (pcrs, pin) in [("", "no"), ("", "yes"), ("16", "yes")] {
        let (pcrs, pin) = (
            format!("--tpm2-pcrs={pcrs}"),
            format!("--tpm2-with-pin={pin}"),
        );
        let key = ["--tpm2-public-key=key.pub", "--tpm2-public-key-pcrs=11"];
        let words = [&[&*device, &pcrs, &pin], &key[..], &["image"]].concat();
        let secrets = [("PASSWORD", "correct horse"), ("NEWPIN", "0451")];
        tpm.run(&place, "systemd-cryptenroll", &words, &secrets);
        tpm.flush(&place);
    }
    let store = |name: &str, file: &Value| {
        std::fs::write(place.path(name), file.to_string()).unwrap();
    };
    let try_with = |file: &str, token: u32, input: &str| {
        let more = format!("--token-id {token} --tpm2-signature {{DIR}}/{file}");
        open(&tpm, &place, &more, input)
    };
    #[track_caller]
    fn refused((code, said): (i32, String), expected: i32, part: &str) {
        assert_eq!(code, expected, "{said}");
        has(&said, part);
    }
    let early = signed(&place, &tpm, "key", &["enter-initrd"]);
    store("early", &early);
    let both = ["enter-initrd", "enter-initrd:leave-initrd"];
    store("both", &signed(&place, &tpm, "key", &both));

    refused(try_with("early", 0, ""), NO_KEY, "not in a signed state");
    for what in [".linux\0", "a kernel", "enter-initrd"] {
        measure(&place, &tpm, what);
    }
    for (token, pin) in [(0, ""), (1, "0451\n"), (2, "0451\n")] {
        for file in ["early", "both"] {
            let (code, said) = try_with(file, token, pin);
            assert_eq!(code, 0, "{token} {file}: {said}");
        }
    }
    refused(try_with("early", 1, "0452\n"), WRONG_KEY, "PIN");
    // Nobody is asked for a PIN that would not help.
    refused(
        open(&tpm, &place, "--token-id 1", ""),
        NO_KEY,
        "tpm2-pcr-signature.json",
    );
    refused(try_with("gone", 1, ""), NO_KEY, "gone does not exist");

    // Only the holder of the key signs.
    let mut other = signed(&place, &tpm, "other", &["enter-initrd"]);
    store("other", &other);
    refused(try_with("other", 1, ""), NO_KEY, "by the key of the token");
    other["sha256"][0]["pkfp"] = early["sha256"][0]["pkfp"].clone();
    store("forged", &other);
    refused(try_with("forged", 0, ""), NO_KEY, "another key made it");
    for (field, value) in [
        ("sig", json!("AAAA")),
        ("pol", json!(7)),
        ("pcrs", json!({})),
    ] {
        let mut damaged = early.clone();
        damaged["sha256"][0][field] = value;
        store("damaged", &damaged);
        refused(try_with("damaged", 1, ""), DAMAGED, "is damaged");
    }

    tpm.extend(&place);
    assert_eq!(try_with("early", 1, "0451\n").0, 0);
    refused(try_with("early", 2, "0451\n"), NO_KEY, "PCRs do not have");
    measure(&place, &tpm, "leave-initrd");
    refused(try_with("early", 0, ""), NO_KEY, "not in a signed state");
    assert_eq!(try_with("both", 0, "").0, 0);
    assert_eq!(try_with("both", 1, "0451\n").0, 0);
}

/// systemd 255.0 wrote 0 for the usual exponent, so that the key has another name.
#[test]
fn a_signing_key_is_known_by_its_other_name() {
    let place = Place::without_daemon();
    needs!(are_installed(&["openssl", "base64", "tpm2_create"]) && can_sign());
    let tpm = needs!(Tpm::start(&place));
    format(&place, CHEAP);
    key_pair(&place, &tpm, "key");
    // `TPMT_PUBLIC` of the key, its name, and a policy that it signs.
    let modulus = tpm.tool(&place, "openssl rsa -pubin -in key.pub -noout -modulus");
    let digits = String::from_utf8(modulus).unwrap();
    let digits = digits.trim().strip_prefix("Modulus=").unwrap();
    let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
    let modulus: Vec<u8> = (0..256).map(byte).collect();
    let head = b"\0\x01\0\x0b\0\x06\0\x40\0\0\0\x10\0\x10\x08\0\0\0\0\0\x01\0";
    let hash = |parts: &[&[u8]]| Digest::Sha256.hash(parts);
    let name = [&b"\0\x0b"[..], &hash(&[head, &modulus])].concat();
    let policy = hash(&[&hash(&[&[0; 32], b"\0\0\x01\x6a", &name])]);
    std::fs::write(place.path("policy"), &*policy).unwrap();
    std::fs::write(place.path("sealed"), [7; 32]).unwrap();
    tpm.tool(&place, "tpm2_createprimary -Q -C o -G ecc -c key.ctx");
    let seal =
        "tpm2_create -Q -C key.ctx -i sealed -L policy -a fixedtpm|fixedparent -r blob -u public";
    tpm.tool(&place, seal);
    tpm.flush(&place);
    // The private part comes before the public one.
    let mut blob = std::fs::read(place.path("blob")).unwrap();
    blob.extend(std::fs::read(place.path("public")).unwrap());
    std::fs::write(place.path("blob"), blob).unwrap();
    let base64 =
        |file: &str| String::from_utf8(tpm.tool(&place, &format!("base64 -w0 {file}"))).unwrap();
    let input = format!("{PASSPHRASE}{0}\n{0}\n", base64("sealed"));
    ends(&place, 0, &format!("add-key {CHEAP} {{DIR}}/image"), &input);
    let token = json!({
        "type": "systemd-tpm2", "keyslots": ["1"], "tpm2-blob": base64("blob"), "tpm2-pcrs": [],
        "tpm2-pcr-bank": "sha256", "tpm2-primary-alg": "ecc", "tpm2-policy-hash": "", "tpm2-pin": false,
        "tpm2_pubkey_pcrs": [11], "tpm2_pubkey": base64("key.pub"),
    });
    std::fs::write(place.path("token"), token.to_string()).unwrap();
    ends(
        &place,
        0,
        "token import --json-file {DIR}/token {DIR}/image",
        "",
    );
    std::fs::write(place.path("kernel"), "a kernel").unwrap();
    let file = signed(&place, &tpm, "key", &["enter-initrd"]);
    std::fs::write(place.path("file"), file.to_string()).unwrap();
    for what in [".linux\0", "a kernel", "enter-initrd"] {
        measure(&place, &tpm, what);
    }
    let (code, said) = open(&tpm, &place, "--token-id 0 --tpm2-signature {DIR}/file", "");
    assert_eq!(code, 0, "{said}");
}
