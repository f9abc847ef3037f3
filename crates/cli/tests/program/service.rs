//! The promises to service managers and operators: readiness, the log, and the secrets that are never in it.

use std::fs;
use std::os::unix::net::UnixDatagram;

use crate::common::*;
use serde_json::{Value as Json, json};

#[test]
fn ready_is_said_when_everything_is_mounted() {
    needs!(can_mount());
    let mut place = Place::new();
    let dir = place.path("mnt");
    let device = place.arg("tank.pool");
    place.ok(&format!(
        "pool create -s 64M -m {} tank {device}",
        dir.display()
    ));
    fs::write(dir.join("file"), "here").unwrap();
    assert!(place.terminate());
    assert!(!dir.join("file").exists());

    let socket = UnixDatagram::bind(place.path("notify")).unwrap();
    place.start_with("NOTIFY_SOCKET", &place.arg("notify"));
    let mut buf = [0; 64];
    let len = socket.recv(&mut buf).unwrap();
    assert_eq!(&buf[..len], b"READY=1\n");
    assert_eq!(fs::read(dir.join("file")).unwrap(), b"here");
    assert!(place.terminate());
    let len = socket.recv(&mut buf).unwrap();
    assert_eq!(&buf[..len], b"STOPPING=1\n");
}

#[test]
fn secrets_and_names_of_files_are_not_in_the_log_on_any_level() {
    let mut place = Place::without_daemon();
    place.start_with("STRONGROOM_LOG", "trace");
    place.pool("tank");
    let raw = *b"\x01raw key that nobody may see!!\xfe\xff";
    let hex = "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef";
    fs::write(place.path("raw"), raw).unwrap();
    fs::write(place.path("hex"), hex).unwrap();
    let create = |name: &str, source: &str, input: &str| {
        let options = "-o encryption=on -o mountpoint=none";
        place.ok_with(
            &format!("create {options} -o keysource={source} tank/{name}"),
            input,
        );
    };
    create("raw", &format!("raw,file://{}", place.arg("raw")), "");
    create("hex", &format!("hex,file://{}", place.arg("hex")), "");
    let (old, wrong, new) = (
        "the old passphrase",
        "not the passphrase",
        "a newer passphrase",
    );
    create("typed", "passphrase,prompt", &format!("{old}\n{old}\n"));
    create("typedhex", "hex,prompt", &format!("{hex}\n"));
    place.ok("key unload tank/typed tank/hex tank/raw");
    place.fails_with("key load tank/typed", &format!("{wrong}\n"), WRONG_KEY);
    place.ok_with("key load tank/typed", &format!("{old}\n"));
    place.ok_with("key change tank/typed", &format!("{new}\n{new}\n"));
    place.ok("key load tank/hex tank/raw");
    if can_mount() {
        let dir = place.arg("mnt");
        place.ok(&format!("mount tank/typed {dir}"));
        let file = place.path("mnt/the-name-of-a-file");
        fs::write(&file, "contents that are private").unwrap();
        fs::File::open(&file).unwrap().sync_all().unwrap();
        rustix::fs::setxattr(
            &file,
            "user.privy",
            b"of an attribute",
            rustix::fs::XattrFlags::empty(),
        )
        .unwrap();
        fs::read_dir(place.path("mnt")).unwrap().for_each(drop);
        fs::remove_file(&file).unwrap();
    }
    assert!(place.terminate());

    let log = place.log();
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "{log}");
    let log = log.to_lowercase();
    let hex_of_raw: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
    let hex_start = hex[..16].to_owned();
    let list_of_raw = format!("{}, {}, {}", raw[1], raw[2], raw[3]);
    for secret in [
        "raw key that",
        &hex_of_raw[..16],
        &list_of_raw,
        &hex_start,
        old,
        wrong,
        new,
        "name-of-a-file",
        "contents that",
        "privy",
        "of an attribute",
    ] {
        assert!(
            !log.contains(&secret.to_lowercase()),
            "{secret} is in the log"
        );
    }
}

#[test]
fn a_log_filter_that_makes_no_sense_is_said() {
    let mut place = Place::without_daemon();
    place.start_with("STRONGROOM_LOG", "=,=nonsense=");
    assert!(place.log().contains("STRONGROOM_LOG is not valid"));
}

#[test]
fn what_goes_wrong_names_what_it_is_about() {
    needs!(can_mount());
    let mut place = Place::new();
    let file = place.pool("tank");
    let dir = place.arg("mnt");
    place.ok(&format!(
        "create -o mountpoint={dir} -o compression=off tank/a"
    ));
    fs::write(place.path("mnt/f"), [0xa5; 100_000]).unwrap();
    place.ok("pool export tank");

    // Spoil the one copy of the contents.
    let mut image = fs::read(&file).unwrap();
    let at = find(&image, &[0xa5; 4096]).expect("it is clear");
    image[at] ^= 1;
    fs::write(&file, image).unwrap();
    place.ok(&format!("pool import -d {} tank", file.display()));
    fs::read(place.path("mnt/f")).unwrap_err();
    place.fails("pool scrub -w tank", DAMAGED);
    place.fails("mount tank/nothing", NOT_FOUND);
    assert!(place.terminate());
    let log = place.log();
    let has = |parts: &[&str]| {
        let found = log
            .lines()
            .any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "{parts:?}: {log}");
    };
    has(&["ERROR", "tank/a", "damaged", "scrub"]);
    has(&["WARN", "pool=\"tank\"", "scrub found damage"]);
    has(&["a command failed", "tank/nothing"]);
}

/// `strongroom` alone says how things are, and where to go on; on a pipe too. It starts no daemon.
#[test]
fn the_program_alone_says_how_things_are() {
    let nothing: [&str; 0] = [];
    let place = Place::without_daemon();
    let done = place.run(&nothing);
    assert_eq!(done.code, 0, "{done:?}");
    has(&done.out, "the daemon is not running");
    has(&done.out, "Next:");
    assert!(!place.socket().exists());
    let place = Place::new();
    place.pool("tank");
    let done = place.run(&nothing);
    assert_eq!(done.code, 0, "{done:?}");
    has(&done.out, "pool tank: ONLINE");
}

#[test]
fn the_version_names_what_pools_may_have() {
    let place = Place::without_daemon();
    let version: Json = serde_json::from_str(&place.ok("--json version")).unwrap();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    // `scripts/release` sets it for a build.
    assert_eq!(version["commit"], json!(option_env!("STRONGROOM_COMMIT")));
    let arch = std::env::consts::ARCH;
    assert!(version["target"].as_str().unwrap().starts_with(arch));
    let known: Json = serde_json::from_str(&place.ok("--json pool upgrade -v")).unwrap();
    let formats = known["formats"].as_array().unwrap();
    assert_eq!(version["format"], formats.last().unwrap()["format"]);
    let names = known["features"].as_array().unwrap();
    let names: Vec<&Json> = names.iter().map(|feature| &feature["name"]).collect();
    assert_eq!(version["features"], json!(names));
    place.says("version", "feature");
    // No daemon was started for it.
    place.fails("daemon status", NO_DAEMON);
}
