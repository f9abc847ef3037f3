//! Malformed input, and outputs that are closed: an error with its code, and never a panic.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use crate::common::*;

#[test]
fn odd_names_are_refused_or_kept() {
    let place = Place::new();
    place.pool("tank");
    let long = format!("tank/{}", "x".repeat(300));
    for name in [
        "",
        "/",
        "tank/",
        "/tank",
        "tank//a",
        "tank/.",
        "tank/..",
        "tank/a@",
        "@",
        "tank@a@b",
        "tank/ a",
        "tank/a ",
        "tank/ä",
        "tank/a\nb",
        "tank/a\x1b[31m",
        "tank/%s",
        "tank/a\\",
        &long,
    ] {
        let done = place.run(&["create", "-u", name]);
        assert_eq!(done.code, USAGE, "{name:?}: {done:?}");
        assert_eq!(done.err.lines().count(), 1, "{name:?}: {done:?}");
        assert!(done.err.starts_with("strongroom: "), "{name:?}: {done:?}");
        assert!(!done.err.contains('\x1b'), "{done:?}");
    }
    for name in ["tank/a b", "tank/a-_.:b", "tank/-x", "tank/A"] {
        let done = place.run(&["create", "-u", name]);
        let code = if name == "tank/-x" { USAGE } else { 0 };
        assert_eq!(done.code, code, "{name:?}: {done:?}");
    }
    place.prints("list -H -o name", "tank\ntank/A\ntank/a b\ntank/a-_.:b\n");
    place.says("pool history tank", "create -u 'tank/a b'\n");
}

#[test]
fn errors_name_what_the_user_typed() {
    let place = Place::new();
    place.pool("tank");
    let said = place.fails("create /mine", USAGE);
    has(&said, "'/mine'");
    has(&said, "write POOL/PATH");
    place.refuses("send tank@none", NOT_FOUND, "tank@none: no such snapshot");
    let said = place.fails("send tank/none@monday", NOT_FOUND);
    has(&said, "tank/none: no such dataset");
    let said = place.fails("keygen {DIR}/", EXISTS);
    has(&said, "it is a directory; name a new file in it");
    let said = place.fails("keygen {DIR}/none/key", NOT_FOUND);
    has(&said, "none does not exist; create it first");
}

#[test]
fn all_sizes_are_written_in_the_same_ways() {
    let place = Place::new();
    place.pool("tank");
    place.ok("create -o quota=0.05G -o recordsize=64KiB tank/a");
    place.ok("set refquota=32MiB reservation=1.5M tank/a");
    let get = "get -H -p -o value recordsize,quota,refquota,reservation tank/a";
    assert_eq!(place.ok(get), "64K\n53687091\n33554432\n1572864\n");
    place.ok("create -V 1.5M -o volblocksize=0.0625M tank/v");
    place.ok("set volsize=2.5MiB tank/v");
    let get = "get -H -p -o value volsize,volblocksize tank/v";
    assert_eq!(place.ok(get), "2621440\n65536\n");
    let said = place.fails("set quota=1.5X tank/a", USAGE);
    has(&said, "allowed: none | a size, such as 512M");
}

/// A command that a pool without writes must refuse leaves mounts and open files as they are.
#[test]
fn refused_changes_unmount_nothing() {
    needs!(can_mount(), "nothing can be mounted here");
    let place = Place::new();
    let (mnt, file) = (place.arg("mnt"), place.arg("tank.pool"));
    place.ok(&format!("pool create -s 64M -m {mnt} tank {file}"));
    place.ok("create tank/a");
    fs::write(place.path("mnt/a/file"), "text").unwrap();
    place.ok("snapshot tank/a@1");
    place.ok("pool export tank");
    place.ok(&format!("pool import -d {file} -o readonly=on tank"));
    let mut open = File::open(place.path("mnt/a/file")).unwrap();
    for line in [
        "destroy -r -f tank/a",
        "rollback -f tank/a@1",
        "rename tank/a tank/b",
        "set mountpoint=none tank/a",
    ] {
        let said = place.fails(line, PERMISSION);
        assert_eq!(
            said, "strongroom: the pool is imported read-only\n",
            "{line}"
        );
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut open, &mut text).unwrap();
    assert_eq!(text, "text");
}

#[test]
fn several_datasets_change_together_or_not_at_all() {
    let place = Place::new();
    place.pool("tank");
    place.ok("create -p tank/a/b/c");
    place.ok("create tank/d");
    place.ok("snapshot tank/d@s");
    let lines = |what: &str| place.ok("pool history tank").matches(what).count();
    assert_eq!(lines("create -p tank/a/b/c"), 1);
    assert_eq!(place.ok("list -H -o name -r tank/a").lines().count(), 3);

    place.ok("set atime=off compression=zstd tank/a tank/d tank/a");
    assert_eq!(lines("set atime=off"), 1);
    let values = place.ok("get -H -o value atime,compression tank/a tank/d");
    assert_eq!(values, "off\nzstd\noff\nzstd\n");
    // One of them cannot have it.
    place.fails("set atime=on tank/a tank/d@s tank/d", USAGE);
    place.fails("set atime=on tank/a tank/nothing", NOT_FOUND);
    place.prints("get -H -o value atime tank/a tank/d", "off\noff\n");
    place.ok("set note:x=1 tank/a tank/d@s");
    assert_eq!(place.ok("get -H -o value note:x tank/a tank/d@s"), "1\n1\n");

    place.ok("inherit -r atime tank");
    assert_eq!(lines("inherit -r atime tank"), 1);
    place.prints("get -H -o source atime tank/a tank/d", "default\ndefault\n");
    // Nothing is left of a creation that is refused.
    place.fails("create -p -o recordsize=3K tank/x/y", USAGE);
    place.fails("list tank/x", NOT_FOUND);
}

#[test]
fn arguments_that_are_no_utf8_are_refused_but_for_paths() {
    let place = Place::new();
    let bytes = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    for args in [
        [bytes(b"create"), bytes(b"tank/\xff\xfe")],
        [bytes(b"list"), bytes(b"\xff")],
        [bytes(b"\xff"), bytes(b"tank")],
    ] {
        let done = place.run(&args);
        assert_eq!(done.code, USAGE, "{args:?}: {done:?}");
    }
    // A key file may have any name; so may a directory with manual pages.
    let key = place.root().join(OsStr::from_bytes(b"key-\xff"));
    let done = place.run(&[OsStr::new("keygen"), key.as_os_str()]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(fs::read(&key).unwrap().len(), 32);
    // Pools are named to the daemon, and their paths shown, as text.
    let pool = place.root().join(OsStr::from_bytes(b"pool-\xff"));
    let mut args: Vec<&OsStr> = ["pool", "create", "-s", "64M", "tank"]
        .map(OsStr::new)
        .into();
    args.push(pool.as_os_str());
    let done = place.run(&args);
    assert_eq!(done.code, USAGE, "{done:?}");
    assert!(!pool.exists());
    // The daemon goes on.
    place.ok("daemon status");
}

#[test]
fn long_and_many_properties() {
    let place = Place::new();
    place.pool("tank");
    let long = format!("org:note={}", "x".repeat(100_000));
    let done = place.run(&["set", &long, "tank"]);
    assert_eq!(done.code, USAGE, "{done:?}");
    has(&done.err, "longer than 8192 bytes");
    place.ok("set org:note= tank");
    assert_eq!(place.ok("get -H -o value org:note tank"), "\n");
    let mut many = vec!["create".to_owned(), "-u".to_owned()];
    for n in 0..500 {
        many.extend(["-o".to_owned(), format!("u:p{n}=v{n}")]);
    }
    many.push("tank/many".to_owned());
    let done = place.run(&many);
    assert_eq!(done.code, 0, "{done:?}");
    let mine = place.ok("get -H -s local -o property,value all tank/many");
    assert_eq!(mine.lines().count(), 500);
    assert!(mine.contains("u:p499\tv499\n"));
}

#[test]
fn paths_with_spaces() {
    let place = Place::new();
    let dir = place.path("my files");
    fs::create_dir(&dir).unwrap();
    let file = dir.join("the pool");
    let key = dir.join("the key");
    let (file, key) = (file.to_str().unwrap(), key.to_str().unwrap());
    let create = ["pool", "create", "-s", "64M", "-m", "none", "tank", file];
    assert_eq!(place.run(&create).code, 0);
    assert_eq!(place.run(&["keygen", key]).code, 0);
    let source = format!("keysource=raw,file://{key}");
    let done = place.run(&[
        "create",
        "-u",
        "-o",
        "encryption=on",
        "-o",
        &source,
        "tank/a",
    ]);
    let escaped = source.replace(' ', "%20");
    if done.code != 0 {
        assert_eq!(done.code, USAGE, "{done:?}");
        let done = place.run(&[
            "create",
            "-u",
            "-o",
            "encryption=on",
            "-o",
            &escaped,
            "tank/a",
        ]);
        assert_eq!(done.code, 0, "{done:?}");
    }
    place.ok("key unload tank/a");
    place.ok("key load tank/a");
    place.ok("pool export tank");
    assert_eq!(place.run(&["pool", "import", "-d", file, "tank"]).code, 0);
}

#[test]
fn closed_inputs_and_outputs() {
    let place = Place::new();
    place.pool("tank");
    let run = |args: &[&str], stdin: Stdio, stdout: Stdio| {
        let child = place
            .command()
            .args(args)
            .stdin(stdin)
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        lacks(&said, "panicked");
        assert_eq!(output.status.signal(), None, "{args:?}: {said}");
        (output.status.code(), said)
    };
    // A reader that has gone.
    for args in [
        &["list"][..],
        &["get", "all"],
        &["--help"],
        &["help", "pool", "create"],
        &["completion", "bash"],
        &["--json", "pool", "list"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, said) = run(args, Stdio::null(), writer.into());
        assert_eq!((code, said.as_str()), (Some(0), ""), "{args:?}");
    }
    // A full disk.
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for args in [&["list"][..], &["help", "pool"], &["explain", "9"]] {
        let (code, said) = run(args, Stdio::null(), full().into());
        assert_eq!(code, Some(NO_SPACE), "{args:?}");
        has(&said, "cannot write to the standard output");
    }
    // Input that ended before it began.
    let create = ["create", "-u", "-o", "encryption=on", "tank/a"];
    let (code, said) = run(&create, Stdio::null(), Stdio::null());
    assert_eq!(code, Some(NO_KEY), "{said}");

    // Nothing there at all.
    let close = |what: &str| {
        let line = format!("\"$0\" list {what}");
        let mut shell = std::process::Command::new("sh");
        for (key, value) in place.command().get_envs() {
            if let Some(value) = value {
                shell.env(key, value);
            }
        }
        let status = shell.args(["-c", &line, PROGRAM]).stdout(Stdio::null());
        status.status().unwrap().code()
    };
    for what in ["<&-", "2>&-", "<&- 2>&-", ">&-", "<&- >&- 2>&-"] {
        assert_eq!(close(what), Some(0), "{what}");
    }
}
