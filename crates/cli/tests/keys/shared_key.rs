//! Keys of datasets that several sources hold together: a TPM in software, Tang servers and files.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::servers::tang::{Tang, are_installed};
use crate::common::servers::tpm::Tpm;
use crate::common::*;

const STATUS: &str = "get -H -o value keystatus tank/a";

#[test]
fn enough_parts_open_a_dataset_and_fewer_do_not() {
    let mut place = Place::without_daemon();
    let tpm = needs!(Tpm::start(&place));
    let (Some(one), Some(two)) = (Tang::start(&place, "one"), Tang::start(&place, "two")) else {
        return;
    };
    place.start_with("STRONGROOM_TPM", &tpm.socket);
    let file = place.pool("tank");
    place.ok("keygen {DIR}/stick");
    let tang = |tang: &Tang| format!("tang:{}#thp={}", tang.url(), tang.thumbprint());
    let stick = format!("file://{}", place.arg("stick"));
    let source = format!(
        "raw,sss:2|tpm2:#pcrs=16|{}|{}|{stick}",
        tang(&one),
        tang(&two)
    );
    place.ok(&format!(
        "create -u -o encryption=on -o keysource={source} tank/a"
    ));
    let keysource = place.ok("get -H -o value keysource tank/a");
    assert_eq!(keysource.trim_end(), source);
    place.says("key slots tank/a", " sss ");
    // A share is sealed to a server as clevis does it, and has two numbers of 256 bits.
    place.ok("pool sync tank");
    if are_installed(&["clevis"]) {
        let mut clevis = Command::new("clevis")
            .arg("decrypt")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = clevis.stdin.take().unwrap();
        input
            .write_all(&crate::common::servers::tang::sealed(&file, 64))
            .unwrap();
        drop(input);
        let opened = clevis.wait_with_output().unwrap();
        assert!(opened.status.success());
        assert_eq!(opened.stdout.len(), 64);
    }

    // After a restart nobody is asked: the TPM and the servers help.
    fs::rename(place.path("stick"), place.path("away")).unwrap();
    assert!(place.terminate());
    place.start_with("STRONGROOM_TPM", &tpm.socket);
    assert_eq!(place.ok(STATUS), "available\n");
    place.ok("key unload tank/a");

    // Each two of them open it.
    tpm.extend(&place);
    place.ok("key load tank/a");
    place.ok("key unload tank/a");
    one.delete_keys();
    let said = place.fails("key load tank/a", NO_KEY);
    for part in [
        "1 of the 2 parts",
        "PCRs",
        "does not sign with the key",
        "stick does not exist",
    ] {
        has(&said, part);
    }
    fs::rename(place.path("away"), place.path("stick")).unwrap();
    place.ok("key load tank/a");
    place.ok("key unload tank/a");
    two.delete_keys();
    place.refuses("key load tank/a", NO_KEY, "1 of the 2 parts");

    // What is no part of a key does not keep the others from opening it.
    let short = place.path("short");
    fs::write(&short, "x".repeat(16)).unwrap();
    let with_short = format!("tpm2:|file://{}|{stick}", short.display());
    has(
        &place.fails(
            &format!("key load -o keysource=raw,sss:1|{with_short} tank/a"),
            NO_KEY,
        ),
        "raw key of 32 bytes",
    );

    // A new key needs all parts; nothing is made without one.
    let create = "create -u -o encryption=on -o";
    let new = |source: &str| format!("{create} keysource=raw,sss:1|{source} tank/b");
    let elsewhere = new(&format!("{stick}|file:///nowhere/key"));
    place.refuses(&elsewhere, NO_KEY, "/nowhere/key does not exist");
    let elsewhere = new(&format!("{stick}|file://{}", short.display()));
    place.fails(&elsewhere, USAGE);
    place.fails("list tank/b", NOT_FOUND);
    let with_pin = new(&format!("{stick}|tpm2:#pin=yes"));
    place.ok_with(&with_pin, "0451\n0451\n");
    place.ok("key unload tank/b");
    // Nobody gives the PIN.
    place.ok("key load tank/b");
    place.ok("key unload tank/b");
    let instead = format!(
        "key load -o keysource=raw,sss:1|file://{}|{stick} tank/b",
        short.display()
    );
    place.ok(&instead);
}
