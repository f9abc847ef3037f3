//! Pools on object stores: a folder always, SeaweedFS if it is installed. `./test` installs it.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::*;

mod readers;

/// A store in which pools are made, and the environment of a daemon that reaches it.
struct TestStore {
    address: String,
    variables: Vec<String>,
    server: Option<Child>,
}

impl TestStore {
    fn folder(place: &Place) -> TestStore {
        fs::create_dir(place.path("bucket")).unwrap();
        TestStore {
            address: format!("file://{}", place.arg("bucket")),
            variables: Vec::new(),
            server: None,
        }
    }

    /// A server of SeaweedFS with an empty bucket. `None`, with the reason, if it is not installed.
    fn seaweed(place: &Place) -> Option<TestStore> {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/engines/s3stores.sh");
        needs!(
            script.exists(),
            "there is no script that starts object stores"
        );
        needs!(is_installed("weed") && is_installed("curl"));
        let port = free_ports();
        let server = Command::new("bash")
            .arg(script)
            .args(["seaweed", &port.to_string(), &place.arg("seaweed")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bash");
        let store = TestStore {
            address: "s3://bucket".into(),
            variables: vec![
                "AWS_ACCESS_KEY_ID=test".into(),
                "AWS_SECRET_ACCESS_KEY=testtest12".into(),
                "AWS_REGION=us-east-1".into(),
                format!("AWS_ENDPOINT_URL=http://127.0.0.1:{port}"),
                "AWS_ALLOW_HTTP=true".into(),
            ],
            server: Some(server),
        };
        let patience = "--silent --fail --retry 60 --retry-all-errors --retry-delay 1";
        let request = "--aws-sigv4 aws:amz:us-east-1:s3 --user test:testtest12 -X PUT";
        let made = Command::new("curl")
            .args(words(patience).into_iter().chain(words(request)))
            .arg(format!("http://127.0.0.1:{port}/bucket"))
            .status();
        assert!(made.expect("curl").success(), "no bucket can be made");
        Some(store)
    }

    /// A daemon that reaches the store.
    fn daemon(&self) -> Place {
        let mut place = Place::without_daemon();
        self.start(&mut place);
        place
    }

    fn start(&self, place: &mut Place) {
        let mut words = vec!["env".to_owned()];
        words.extend(self.variables.clone());
        place.start_within(&words);
    }

    fn pool(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// The first of eight ports that nobody uses now.
fn free_ports() -> u16 {
    for _ in 0..100 {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let rest = (1..8).map(|n| TcpListener::bind(("127.0.0.1", port.checked_add(n)?)).ok());
        if rest.collect::<Option<Vec<_>>>().is_some() {
            return port;
        }
    }
    panic!("no eight ports in a row are free");
}

/// Makes an encrypted dataset in a pool, mounted in `m` of the place.
fn make_files(place: &Place, dataset: &str) {
    let key = place.path("raw");
    fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    place.ok(&format!(
        "create -o encryption=on -o keysource=raw,file://{} -o mountpoint={} {dataset}",
        key.display(),
        place.arg("m")
    ));
}

#[track_caller]
fn is_whole(place: &Place, pool: &str) {
    place.ok(&format!("pool scrub -w {pool}"));
    has(&place.ok(&format!("pool status {pool}")), "with 0 errors");
}

/// The files of a folder, with their contents.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(tree(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

/// Makes a pool with the contents of [`has_contents`].
fn make_contents(place: &Place, address: &str) {
    // Another spelling of the same address.
    place.ok(&format!("pool create -m none tank {address}/"));
    has(&place.ok("pool status tank"), address);
    has(&place.ok("pool list -v tank"), address);
    assert_eq!(place.ok("get -H -o value recordsize tank"), "1M\n");
    make_files(place, "tank/fs");
    write_numbered(&place.path("m"), 0..12);
    place.ok("snapshot tank/fs@a");
    // A stream goes out and comes in again.
    let stream = place.shell(&format!(
        "{PROGRAM} send -w tank/fs@a | {PROGRAM} receive -u tank/copy"
    ));
    assert_eq!(stream.code, 0, "{stream:?}");
    place.ok("key load -L file://{DIR}/raw tank/copy");
    place.ok("mount tank/copy {DIR}/copy");
    place.ok(
        "clone -o keysource=raw,file://{DIR}/raw -o mountpoint={DIR}/clone tank/fs@a tank/clone",
    );
    place.ok("key change -o keysource=raw,file://{DIR}/raw tank/fs");
    fs::remove_file(place.path("m/11")).unwrap();
    // A volume is served, and a pool lies on another one.
    place.ok("create -s -V 64M tank/disk");
    place.ok("nbd export tank/disk");
    place.ok("nbd unexport tank/disk");
    place.ok("create -s -V 64M tank/inner");
    place.ok("pool create -m none inner volume:tank/inner");
    place.ok("pool export inner");
    // Disks of this machine are beside it.
    for name in ["log", "cache"] {
        let file = fs::File::create(place.path(name)).unwrap();
        // The segments of so large a pool are large, on a log device too.
        file.set_len(1 << 30).unwrap();
        place.ok(&format!("pool add tank {name} {{DIR}}/{name}"));
    }
    write_numbered(&place.path("m"), 12..16);
    place.ok("pool remove tank {DIR}/log");
    place.ok("pool remove tank {DIR}/cache");
}

#[track_caller]
fn has_contents(place: &Place) {
    has_numbered(&place.path("clone"), 0..12);
    has_numbered(&place.path("m"), 0..11);
    has_numbered(&place.path("m"), 12..16);
    assert!(!place.path("m/11").exists());
}

/// A pool on a store does what one on disks does.
fn is_a_pool(store: &TestStore) {
    let mut place = store.daemon();
    let address = store.pool("tank");
    make_contents(&place, &address);
    has_numbered(&place.path("copy"), 0..12);
    has_contents(&place);
    is_whole(&place, "tank");
    // It has one user, and what looks for pools does not disturb it.
    for line in ["pool create other", "pool labelclear -f"] {
        place.fails(&format!("{line} {address}"), BUSY);
    }
    has(&place.ok(&format!("pool import -d {address}")), "no pools");
    // Through exports, a stop and a crash of the daemon.
    place.ok("pool export tank");
    has(&place.ok(&format!("pool import -d {address}")), "tank");
    place.ok(&format!("pool import -l {address} tank"));
    has_contents(&place);
    place.ok("pool export tank");
    place.ok(&format!("pool import -l {address}"));
    place.ok("daemon stop");
    place.wait_for_end();
    store.start(&mut place);
    place.ok("pool list");
    has_contents(&place);
    write_numbered(&place.path("m"), 16..20);
    place.kill();
    store.start(&mut place);
    place.ok("pool list");
    has_contents(&place);
    has_numbered(&place.path("m"), 16..20);
    is_whole(&place, "tank");
    place.warns(
        "pool destroy -f tank",
        &format!("objects were removed from {address}"),
    );
    place.fails(&format!("pool import -d {address} tank"), NOT_FOUND);
    place.ok(&format!("pool create -m none tank {address}"));
}

#[test]
fn a_pool_in_a_folder_is_a_pool() {
    needs!(can_mount());
    let place = Place::without_daemon();
    is_a_pool(&TestStore::folder(&place));
    let left = tree(&place.path("bucket"));
    assert!(
        left.keys()
            .all(|path| path.starts_with(place.path("bucket/tank")))
    );
}

#[test]
fn a_pool_on_seaweedfs_is_a_pool() {
    needs!(can_mount());
    let place = Place::without_daemon();
    if let Some(store) = TestStore::seaweed(&place) {
        is_a_pool(&store);
    }
}

/// A daemon on another host: it has another name, and shares no names of sockets. `None` if this machine cannot have one.
fn other_host() -> Option<Place> {
    needs!(
        can_mount() && is_root() && is_installed("unshare"),
        "not root, or no unshare"
    );
    let mut place = Place::without_daemon();
    let named = "hostname other; exec \"$0\" \"$@\"";
    let words = ["unshare", "--net", "--uts", "sh", "-c", named];
    place.start_within(&words.map(String::from));
    Some(place)
}

fn signal(place: &Place, signal: Signal) {
    let pid = i32::try_from(place.pid()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process"), signal).expect("it is ours");
}

/// The directory of the files of one host where another one has imported its pool with `-R {DIR}/r`.
fn seen_by(two: &Place, one: &Place) -> PathBuf {
    two.path(&format!("r{}/m", one.root().display()))
}

/// A host that was stopped, and whose pool another host took, cannot write any more. Nothing that was synced is lost.
#[test]
fn a_host_that_wakes_up_is_fenced() {
    let two = needs!(other_host());
    let one = Place::new();
    let store = TestStore::folder(&one);
    let address = store.pool("tank");
    one.ok(&format!("pool create -m none tank {address}"));
    make_files(&one, "tank/fs");
    let dir = one.path("m");
    write_numbered(&dir, 0..10);
    signal(&one, Signal::STOP);
    let refused = two.fails(&format!("pool import {address} tank"), BUSY);
    has(&refused, "was not exported");
    two.ok(&format!(
        "pool import -f -l --accept -R {{DIR}}/r {address} tank"
    ));
    let there = seen_by(&two, &one);
    has_numbered(&there, 0..10);
    write_numbered(&there, 10..20);
    signal(&one, Signal::CONT);
    assert!(write_synced(&dir.join("late"), b"late").is_err());
    let status = one.ok("pool status tank");
    has(&status, "SUSPENDED");
    has(&status, "another machine");
    has(&status, "pool export -f tank");
    for line in ["pool clear tank", "snapshot tank/fs@late"] {
        one.fails(line, DEVICE);
    }
    one.fails("pool destroy -f tank", DEVICE);
    one.ok("pool export -f tank");
    // It changed nothing.
    write_numbered(&there, 20..22);
    is_whole(&two, "tank");
    has_numbered(&there, 0..22);
    assert!(!there.join("late").exists());
    two.ok("pool export tank");
    // After the export nothing has to be forced.
    one.ok(&format!("pool import -l {address} tank"));
    has_numbered(&dir, 0..22);
    is_whole(&one, "tank");
}

/// A host takes the pool while the other one writes, is stopped or was killed, several times.
#[test]
fn two_hosts_take_the_pool_from_each_other() {
    if other_host().is_none() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/two-hosts");
    let ran = Command::new(script)
        .args(["--rounds", "4"])
        .env("PROGRAM", env!("CARGO_BIN_EXE_strongroom"))
        .output()
        .expect("python3");
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("nothing lost"), "{said}");
}

/// Another host imports the pool of a machine that is lost.
#[test]
fn a_lost_host_loses_nothing_that_was_synced() {
    let two = needs!(other_host());
    let mut one = Place::new();
    let store = TestStore::folder(&one);
    let address = store.pool("tank");
    one.ok(&format!("pool create -m none tank {address}"));
    make_files(&one, "tank/fs");
    write_numbered(&one.path("m"), 0..10);
    one.kill();
    two.fails(&format!("pool import {address} tank"), BUSY);
    two.ok(&format!(
        "pool import -f -l --accept -R {{DIR}}/r {address} tank"
    ));
    has_numbered(&seen_by(&two, &one), 0..10);
    // The daemon that starts again finds that the pool has another host now.
    one.start();
    has(&one.ok("pool status tank"), "host 'other'");
    two.ok("pool export tank");
    one.ok("pool import -l tank");
    has_numbered(&one.path("m"), 0..10);
}

/// An address that is none is refused before anything is made, and no part of a secret is repeated.
#[test]
fn wrong_addresses_are_refused_and_nothing_is_made() {
    let place = Place::new();
    let store = TestStore::folder(&place);
    for (address, reason) in [
        ("s3://", "bucket is missing"),
        ("s3://Bucket/tank", "small letters"),
        ("s3://bucket/../tank", "'..'"),
        ("s3://key:hidden@bucket/tank", "credentials"),
        ("s3://bucket/tank?secret=hidden", "no options"),
        ("https://bucket.example.org/tank", "s3://bucket/tank"),
        ("gcs://bucket/tank", "gs://bucket/tank"),
        ("file://bucket/tank", "three slashes"),
        ("file:///", "root directory"),
    ] {
        for line in [
            "pool create tank",
            "pool import -d",
            "pool labelclear -f",
            "luks dump",
            "nbd export",
        ] {
            let refusal = place.fails(&format!("{line} {address}"), USAGE);
            has(&refusal, reason);
            lacks(&refusal, "hidden");
        }
    }
    let address = store.pool("tank");
    for line in [
        "luks dump",
        "luks open -r",
        "nbd export",
        "iscsi export --no-authentication",
    ] {
        let name = if line.contains("open") { "secret" } else { "" };
        let refusal = place.fails(&format!("{line} {address} {name}"), USAGE);
        has(&refusal, "volume:tank/disk");
    }
    for (options, reason) in [
        ("-o multihost=on", "heartbeats"),
        ("-O recordsize=3K", "recordsize"),
        ("-s 1M", "it needs at least"),
    ] {
        let refusal = place.fails(&format!("pool create {options} tank {address}"), USAGE);
        has(&refusal, reason);
    }
    for line in ["{DIR}/disk", "mirror {DIR}/disk", "{DIR}/disk spare"] {
        let line = format!("pool create tank {line} {address}");
        has(&place.fails(&line, USAGE), "not on both");
    }
    place.ok("pool create -s 64M -m none disks {DIR}/disks");
    for line in ["add disks", "add disks log", "add disks cache"] {
        has(
            &place.fails(&format!("pool {line} {address}"), USAGE),
            "when it is made",
        );
    }
    place.ok("pool export disks");
    place.ok(&format!("pool create -n tank {address}"));
    assert!(tree(&place.path("bucket")).is_empty());
    assert_eq!(place.ok("pool list -H"), "");
}

/// A place that holds something is not taken.
#[test]
fn a_place_that_is_not_empty_is_not_taken() {
    let place = Place::new();
    let store = TestStore::folder(&place);
    let bucket = place.path("bucket");
    let tank = store.pool("tank");
    place.ok(&format!("pool create -m none tank {tank}"));
    has(&place.fails("set multihost=on tank", USAGE), "heartbeats");
    place.ok("pool export tank");
    fs::create_dir_all(bucket.join("foreign/log")).unwrap();
    fs::write(bucket.join("foreign/photo"), b"photo").unwrap();
    fs::write(bucket.join("file"), b"file").unwrap();
    let before = tree(&bucket);
    for name in ["tank", "foreign", "tank/log"] {
        for force in ["", "-f", "-n"] {
            let line = format!("pool create {force} -m none new {}", store.pool(name));
            has(&place.fails(&line, EXISTS), &store.pool(name));
        }
    }
    for name in ["foreign", "none"] {
        for line in ["pool labelclear -f", "pool import -d"] {
            place.fails(&format!("{line} {}", store.pool(name)), NOT_FOUND);
        }
    }
    has(&place.fails(&format!("pool labelclear {tank}"), BUSY), "-f");
    assert!(tree(&bucket) == before, "something changed");
    place.ok(&format!("pool labelclear -f {tank}"));
    assert_eq!(tree(&bucket).len(), 2);
    assert_eq!(fs::read(bucket.join("foreign/photo")).unwrap(), b"photo");
}
