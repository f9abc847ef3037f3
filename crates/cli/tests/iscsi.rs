//! Targets of iSCSI, and what the initiators of others make of them. `./test` installs these.

mod common;

use std::fs::File;
use std::net::TcpListener;
use std::process::{Command, Output};

use common::*;

const PREFIX: &str = "iqn.2026-01.io.github.strongroom";

fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).output().expect(program)
}

fn ok(program: &str, args: &[&str]) -> String {
    let output = run(program, args);
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {out}{err}");
    out
}

/// A portal at which nobody listens.
fn portal() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn image(place: &Place, name: &str, size: u64) -> String {
    File::create(place.path(name))
        .unwrap()
        .set_len(size)
        .unwrap();
    place.arg(name)
}

/// Whether qemu has its driver for iSCSI, and libiscsi its programs.
fn has_initiators() -> bool {
    let has = is_installed("iscsi-inq") && is_installed("qemu-io");
    let driver = has && {
        let tried = run(
            "qemu-io",
            &["-r", "-c", "quit", "iscsi://127.0.0.1:1/iqn.x/0"],
        );
        !String::from_utf8_lossy(&tried.stderr).contains("Unknown protocol")
    };
    if !driver {
        println!("skipped: needs libiscsi-bin and qemu-block-extra");
    }
    driver
}

#[test]
fn targets_come_and_go_and_stay_over_a_restart() {
    let mut place = Place::new();
    let (disk, portal) = (image(&place, "disk.img", 16 << 20), portal());
    let export = format!("iscsi export --portal {portal} {disk}");
    let open = place.fails(&export, USAGE);
    has(&open, "--no-authentication");
    let export = export.replace("export", "export --no-authentication");
    place.ok(&export);
    let name = format!("{PREFIX}:disk.img");
    let rows = place.ok("iscsi list -H");
    let uri = format!("iscsi://{portal}/{name}/0");
    assert_eq!(rows, format!("{name}\t{disk}\t16M\tread-write\t0\t{uri}\n"));
    assert_eq!(place.ok("nbd list -H"), "");
    place.fails(&export, EXISTS);
    place.fails(&format!("nbd export {disk}"), BUSY);
    place.fails(&format!("nbd unexport {name}"), NOT_FOUND);
    let held = place.fails(&format!("pool create -f -m none tank {disk}"), BUSY);
    has(&held, &format!("strongroom iscsi unexport {name}"));

    place.ok("daemon stop");
    place.wait_for_end();
    place.start();
    assert_eq!(place.ok("iscsi list -H"), rows);
    place.ok(&format!("iscsi unexport {name}"));
    assert_eq!(place.ok("iscsi list -H"), "");
    place.fails(&format!("iscsi unexport {name}"), NOT_FOUND);
    // Nothing listens there any more.
    TcpListener::bind(&portal).unwrap();
}

#[test]
fn what_cannot_be_a_target_is_refused() {
    let place = Place::new();
    let disk = image(&place, "disk.img", 1 << 20);
    let odd = image(&place, "odd", 1000);
    let fails =
        |args: &str, code| place.fails(&format!("iscsi export --no-authentication {args}"), code);
    has(
        &fails(&format!("--portal {} {odd}", portal()), USAGE),
        "truncate -s",
    );
    has(
        &fails(&format!("--portal localhost {disk}"), USAGE),
        "ADDRESS:PORT",
    );
    has(
        &fails(&format!("--name Disk {disk}"), USAGE),
        "small letters",
    );
    has(
        &fails(&format!("--name disk --portal {} {disk}", portal()), USAGE),
        "iqn.",
    );
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let portal = taken.local_addr().unwrap();
    fails(&format!("--portal {portal} {disk}"), BUSY);
    assert_eq!(place.ok("iscsi list -H"), "");
}

#[test]
fn initiators_read_and_write() {
    if !has_initiators() {
        return;
    }
    let place = Place::new();
    let (disk, portal) = (image(&place, "disk.img", 64 << 20), portal());
    place.ok(&format!(
        "iscsi export --no-authentication --portal {portal} {disk}"
    ));
    let name = format!("{PREFIX}:disk.img");
    let uri = format!("iscsi://{portal}/{name}/0");
    let list = ok("iscsi-ls", &["-s", &format!("iscsi://{portal}")]);
    has(&list, &format!("Target:{name} Portal:{portal},1"));
    has(&ok("iscsi-inq", &[&uri]), "Vendor:STRNGRM");
    has(&ok("iscsi-readcapacity16", &[&uri]), "Total size:67108864");
    let io = [
        "write -P 7 1M 3M",
        "write -P 9 5000K 4K",
        "read -P 7 1M 3M",
        "read -P 9 5000K 4K",
        "flush",
        "write -z 1M 1M",
        "read -P 0 1M 1M",
        "discard 8M 8M",
        "aio_write -P 1 16M 1M",
        "aio_write -P 2 17M 1M",
        "aio_flush",
        "read -P 2 17M 1M",
    ];
    let mut args = vec!["-f", "raw"];
    args.extend(io.iter().flat_map(|one| ["-c", one]));
    args.push(&uri);
    let done = ok("qemu-io", &args);
    lacks(&done, "fail");
    // What an initiator wrote is in the file, and the other way round.
    ok(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", &uri, &disk],
    );
    let read_only = format!("{PREFIX}:copy");
    let copy = place.arg("copy.img");
    ok(
        "qemu-img",
        &["convert", "-f", "raw", "-O", "raw", &uri, &copy],
    );
    place.ok(&format!(
        "iscsi export --no-authentication --read-only --name {read_only} --portal {portal} {copy}"
    ));
    let other = format!("iscsi://{portal}/{read_only}/0");
    ok(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", &uri, &other],
    );
    let write = run("qemu-io", &["-f", "raw", "-c", "write 0 4K", &other]);
    assert!(!write.status.success());
}

#[test]
fn a_session_keeps_its_target_unless_forced() {
    if !has_initiators() {
        return;
    }
    let mut place = Place::new();
    let portal = portal();
    place.pool("tank");
    place.ok("create -V 16M tank/disk");
    let only = "iqn.2026-01.org.example:only";
    place.ok(&format!(
        "iscsi export --no-authentication --portal {portal} --initiator {only} tank/disk"
    ));
    let name = format!("{PREFIX}:tank.disk");
    let uri = format!("iscsi://{portal}/{name}/0");
    // Others are not told of it, and cannot log in.
    assert_eq!(ok("iscsi-ls", &[&format!("iscsi://{portal}")]), "");
    assert!(!run("iscsi-inq", &[&uri]).status.success());
    ok("iscsi-inq", &["-i", only, &uri]);

    let image = format!(
        "driver=iscsi,transport=tcp,portal={portal},target={name},lun=0,initiator-name={only}"
    );
    let mut client = Command::new("qemu-io");
    let client = client.args(["--image-opts", &image]);
    let mut client = client.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let held = loop {
        let sessions = place.ok("iscsi sessions -H");
        if !sessions.is_empty() {
            break sessions;
        }
    };
    has(&held, &format!("{name}\t"));
    has(&held, only);
    place.fails(&format!("iscsi unexport {name}"), BUSY);
    place.fails("rename tank/disk tank/other", BUSY);
    place.ok(&format!("iscsi unexport --force {name}"));
    assert_eq!(place.ok("iscsi sessions -H"), "");
    place.ok("destroy -f tank/disk");
    drop(client.stdin.take());
    client.wait().unwrap();
    place.terminate();
}
