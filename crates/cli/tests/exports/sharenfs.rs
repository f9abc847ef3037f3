//! The property `sharenfs`, with a program in the place of the system's `exportfs`. Only root can put it there: the daemon
//! runs in a mount namespace, in which directories of the test cover `/etc` and the places of the program.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use crate::common::*;

/// Notes its arguments, and whether something is mounted on the directory.
const EXPORTFS: &str = r#"#!/bin/sh
[ -e DIR/broken ] && { echo "it is broken" >&2; exit 1; }
for last; do :; done
echo "$* $(grep -c " ${last##*:} " /proc/self/mountinfo)" >> DIR/log
"#;

/// Makes the namespace, and starts the program in it.
const NAMESPACE: &str = r#"
mkdir -p DIR/etc
cp -a /etc/. DIR/etc
mount --bind DIR/etc /etc
for program in /usr/sbin/exportfs /sbin/exportfs; do
    [ ! -e $program ] || mount --bind DIR/sbin/exportfs $program
done
mount --bind DIR/sbin /usr/local/sbin
exec "$0" "$@"
"#;

/// A daemon with a server, or why there is none.
fn with_server() -> Option<Place> {
    needs!(
        can_mount() && is_installed("unshare") && is_root(),
        "needs root, mounts and unshare"
    );
    let mut place = Place::without_daemon();
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(place.path("sbin")).unwrap();
    let program = place.path("sbin/exportfs");
    fs::write(&program, with_dir(&place, EXPORTFS)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    start(&mut place);
    Some(place)
}

fn with_dir(place: &Place, script: &str) -> String {
    script.replace("DIR", place.root().to_str().unwrap())
}

fn start(place: &mut Place) {
    let script = with_dir(place, NAMESPACE);
    let words = ["unshare", "-m", "sh", "-euc", &script];
    place.start_within(&words.map(str::to_owned));
}

/// The calls of the program since the last look, without the fixed options.
fn calls(place: &Place) -> Vec<String> {
    let log = fs::read_to_string(place.path("log")).unwrap_or_default();
    let _ = fs::remove_file(place.path("log"));
    let dir = format!(":{}/", place.arg("mnt"));
    let lines = log.lines().map(|line| {
        let line = line.replace(&dir, " ");
        let line = line.replace(",mountpoint,no_subtree_check,sync", "");
        let Some((before, rest)) = line.split_once(",fsid=") else {
            return line;
        };
        format!("{before}{}", &rest[36..])
    });
    lines.collect()
}

/// The identifiers in the file that the server reads at its start, with their directories.
fn remembered(place: &Place) -> Vec<String> {
    let Ok(files) = fs::read_dir(place.path("etc/exports.d")) else {
        return Vec::new();
    };
    let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let texts: Vec<String> = texts.collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    let lines = lines.filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

fn with_pool() -> Option<Place> {
    let place = with_server()?;
    place.pool("tank");
    place.ok(&format!(
        "create -o mountpoint={} tank/home",
        place.arg("mnt/home")
    ));
    assert_eq!(calls(&place), Vec::<String>::new());
    Some(place)
}

#[test]
fn without_a_server_nothing_is_shared() {
    let is_there = [
        "/usr/sbin/exportfs",
        "/sbin/exportfs",
        "/usr/local/sbin/exportfs",
    ];
    if is_there.iter().any(|path| fs::exists(path).unwrap()) {
        return println!("skipped: this machine has a server");
    }
    let place = Place::new();
    place.pool("tank");
    place.ok("create -u tank/home");
    let said = place.fails("set sharenfs=on tank/home", OTHER);
    has(
        &said,
        "there is no NFS server: the program exportfs is missing; install nfs-kernel-server",
    );
    place.fails("create -u -o sharenfs=rw=10.0.0.1 tank/new", OTHER);
    place.fails("list tank/new", NOT_FOUND);
    place.ok("set sharenfs=off tank/home");
    assert_eq!(place.ok("get -H -o value sharenfs tank/home"), "off\n");
}

#[test]
fn mounted_datasets_are_exported_as_the_property_says() {
    let mut place = needs!(with_pool());
    place.ok("set sharenfs=on tank/home");
    assert_eq!(calls(&place), ["-o rw * home 1"]);
    place.ok("set sharenfs=ro=192.0.2.0/24:[2001:db8::]/32,sec=krb5 tank/home");
    assert_eq!(
        calls(&place),
        [
            "-u * home 1",
            "-o ro,sec=krb5 192.0.2.0/24 home 1",
            "-o ro,sec=krb5 [2001:db8::]/32 home 1"
        ]
    );
    // Below it is inherited. The server loses a dataset before its mount ends.
    place.ok("set sharenfs=ro tank/home");
    place.ok("create tank/home/ann");
    calls(&place);
    place.ok("unmount tank/home/ann");
    assert_eq!(calls(&place), ["-u * home/ann 1"]);
    place.ok("mount tank/home/ann");
    assert_eq!(calls(&place), ["-o ro * home/ann 1"]);
    place.ok("rename tank/home/ann tank/home/bob");
    assert_eq!(calls(&place), ["-u * home/ann 1", "-o ro * home/bob 1"]);
    let before = remembered(&place);
    assert_eq!(before.len(), 2, "{before:?}");
    has(&before[0], &format!("{} *(ro,fsid=", place.arg("mnt/home")));

    // Another machine gives clients the same handles.
    place.ok("pool export tank");
    assert_eq!(calls(&place), ["-u * home/bob 1", "-u * home 1"]);
    assert_eq!(remembered(&place), Vec::<String>::new());
    let devices = place.root().display().to_string();
    place.ok(&format!("pool import -d {devices} tank"));
    assert_eq!(calls(&place), ["-o ro * home 1", "-o ro * home/bob 1"]);
    assert_eq!(remembered(&place), before);
    place.terminate();
    assert_eq!(calls(&place).len(), 2);
    start(&mut place);
    // Commands wait until the pools are there.
    place.ok("list tank");
    assert_eq!(calls(&place).len(), 2);
    place.kill();
    start(&mut place);
    place.ok("list tank");
    assert_eq!(remembered(&place), before);
    calls(&place);

    place.ok("destroy -f tank/home/bob");
    assert_eq!(calls(&place), ["-u * home/bob 1"]);
    place.ok("inherit sharenfs tank/home");
    assert_eq!(calls(&place), ["-u * home 1"]);
    assert_eq!(remembered(&place), Vec::<String>::new());
    // Another directory than that of the property is not exported, and no snapshot.
    place.ok("set sharenfs=on tank/home");
    place.ok("unmount tank/home");
    calls(&place);
    fs::create_dir(place.path("mnt/other")).unwrap();
    place.ok(&format!("mount tank/home {}", place.arg("mnt/other")));
    place.ok("unmount tank/home");
    assert_eq!(calls(&place), Vec::<String>::new());

    // A program that fails is told, and keeps no mount away.
    fs::write(place.path("broken"), "").unwrap();
    place.ok("mount tank/home");
    place.warns("set sharenfs=rw=10.0.0.1 tank/home", "it is broken");
    fs::remove_file(place.path("broken")).unwrap();
    place.ok("set compression=off tank/home");
    assert_eq!(calls(&place), ["-o rw 10.0.0.1 home 1"]);
}

/// The value is a part of a command line of root.
#[test]
fn delegates_share_only_as_root_allows() {
    let place = needs!(with_pool());
    place.ok("allow 12345 create,mount,destroy,receive,snapshot,userprop,canmount tank/home");
    let ann = |line: &str| place.run_as((ANN, ANN), &place.socket(), line);
    let code = |line: &str| ann(line).code;
    assert_eq!(code("set sharenfs=on tank/home"), PERMISSION);
    assert_eq!(code("create -u -o sharenfs=on tank/home/x"), PERMISSION);
    assert_eq!(code("inherit sharenfs tank/home"), PERMISSION);
    place.ok("allow 12345 sharenfs tank/home");
    for value in [
        "rw=host",
        "rw=-a",
        "fsid=0",
        "async",
        "crossmnt",
        "rw=*(rw)",
        "rw=*:/etc",
    ] {
        let done = ann(&format!("set sharenfs={value} tank/home"));
        assert_eq!(done.code, USAGE, "{value}: {done:?}");
    }
    assert_eq!(calls(&place), Vec::<String>::new());
    assert_eq!(code("set sharenfs=ro tank/home"), 0);
    assert_eq!(calls(&place), ["-o ro * home 1"]);

    // A stream does not open a door.
    place.ok("create -u -o sharenfs=on tank/src");
    place.ok("snapshot tank/src@1");
    place.ok("unallow 12345 sharenfs tank/home");
    let stream = fs::File::create(place.path("stream")).unwrap();
    let sent = place
        .command()
        .args(["send", "-p", "tank/src@1"])
        .stdout(stream)
        .status();
    assert!(sent.unwrap().success());
    let stream = fs::read(place.path("stream")).unwrap();
    let received = place.run_with(&["receive", "-u", "tank/copy"], &stream);
    assert_eq!(received.code, 0, "{received:?}");
    let get = "get -H -o value,source sharenfs tank/copy";
    assert_eq!(place.ok(get), "off\tdefault\n");
    calls(&place);

    // Ann could exchange a directory on the way, so that the server exports another one.
    let home = format!("/proc/{}/root{}", place.pid(), place.arg("mnt/home"));
    chown(&home, Some(ANN), Some(ANN)).unwrap();
    place.ok("create tank/home/below");
    assert_eq!(calls(&place), Vec::<String>::new());
    has(&place.log(), "another user than root can change where");
}
