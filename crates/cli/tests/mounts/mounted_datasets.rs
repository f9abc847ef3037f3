//! Datasets that are mounted: crashes, full pools, what is busy, snapshots.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use crate::common::*;
use rustix::fs::statvfs;

const PASSPHRASE: &str = "correct horse battery staple";

/// The contents of file number `n`: of many sizes, and each its own.
fn contents(n: u64) -> Vec<u8> {
    let len = (n * 7919) % 70_000 + 1;
    let byte = |at: u64| (at.wrapping_mul(n + 3) >> 3) as u8;
    (0..len).map(byte).collect()
}

/// Writes files and makes each durable, until that fails. Tells of every one that is.
fn write_until_it_fails(dir: &Path, confirmed: &mpsc::Sender<u64>) {
    for n in 0.. {
        let write = || {
            let mut file = File::create_new(dir.join(format!("file-{n}")))?;
            file.write_all(&contents(n))?;
            file.sync_all()
        };
        match write() {
            Ok(()) => confirmed.send(n).expect("the test listens"),
            Err(error) => {
                let code = error.raw_os_error().expect("of the system");
                assert!(DISCONNECTED.contains(&code), "{error}");
                return;
            }
        }
    }
}

/// The errors of a dead mount: of every access to it, and of requests that were on their way.
const DISCONNECTED: [i32; 2] = [
    rustix::io::Errno::NOTCONN.raw_os_error(),
    rustix::io::Errno::CONNABORTED.raw_os_error(),
];

#[test]
fn what_was_synced_outlives_a_crash() {
    needs!(can_mount());
    let mut place = Place::new();
    let pool = place.path("tank.pool");
    let dir = place.path("home");
    place.ok(&format!(
        "pool create -s 256M -m none tank {}",
        pool.display()
    ));
    place.ok_with(
        &format!(
            "create -o encryption=on -o mountpoint={} tank/home",
            dir.display()
        ),
        PASSPHRASE,
    );
    fs::create_dir(dir.join("tree")).unwrap();
    for n in 0..50 {
        fs::write(dir.join(format!("tree/{n}")), contents(n)).unwrap();
    }
    std::os::unix::fs::symlink("tree/7", dir.join("link")).unwrap();
    place.ok("snapshot tank/home@before");
    rustix::fs::syncfs(File::open(&dir).unwrap()).unwrap();

    for round in 0..3 {
        let under = dir.join(format!("round-{round}"));
        fs::create_dir(&under).unwrap();
        let (sender, receiver) = mpsc::channel();
        let writer = {
            let under = under.clone();
            std::thread::spawn(move || write_until_it_fails(&under, &sender))
        };
        // Once so many are durable, it goes down in the middle of the next.
        let mut confirmed: Vec<u64> = receiver.iter().take(40 + round * 23).collect();
        place.kill();
        confirmed.extend(&receiver);
        writer.join().unwrap();
        assert!(confirmed.len() >= 40);

        // It comes back knowing nothing, and finds the pool by its file.
        fs::remove_file(place.path("state/pools.json")).unwrap();
        place.start();
        place.ok(&format!("pool import -d {} tank", pool.display()));
        place.refuses("mount tank/home", NO_KEY, "not loaded");
        place.ok_with("key load tank/home", PASSPHRASE);
        // The dead mount is cleared away by this.
        place.ok("mount tank/home");
        for n in &confirmed {
            let file = under.join(format!("file-{n}"));
            let found = fs::read(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
            assert!(found == contents(*n), "{file:?} differs");
        }
        for n in 0..50 {
            assert!(fs::read(dir.join(format!("tree/{n}"))).unwrap() == contents(n));
        }
        assert_eq!(fs::read(dir.join("link")).unwrap(), contents(7));
        let checked = place.ok("inspect --check tank");
        has(&checked, "every unit belongs to exactly one thing");
    }
    place.ok("pool scrub -w tank");
    place.says("pool status tank", "with 0 errors");
}

#[test]
fn what_was_written_before_a_pool_sync_outlives_a_crash() {
    needs!(can_mount());
    let mut place = Place::new();
    let (pool, dir) = (place.path("tank.pool"), place.path("tank"));
    place.ok(&format!(
        "pool create -s 64M -m {} tank {}",
        dir.display(),
        pool.display()
    ));
    for n in 0..20 {
        fs::write(dir.join(format!("file-{n}")), contents(n)).unwrap();
    }
    place.ok("pool sync");
    place.kill();
    place.start();
    place.ok("mount -a");
    for n in 0..20 {
        assert!(fs::read(dir.join(format!("file-{n}"))).unwrap() == contents(n));
    }
    place.ok("pool sync tank");
    place.fails("pool sync tank nosuch", NOT_FOUND);
}

/// Recognisable, and too random to become shorter.
fn marker(what: &str) -> String {
    let digest = blake3::hash(what.as_bytes()).to_hex();
    format!("{what}-{digest}")
}

/// Puts markers everywhere that a user can put something; returns them with what they are.
fn put_markers(dir: &Path, of: &str) -> Vec<(String, String)> {
    let marker = |what: &str| marker(&format!("{of}-{what}"));
    let name = marker("name");
    let below = marker("directory");
    fs::create_dir(dir.join(&below)).unwrap();
    let file = dir.join(below.clone() + "/" + &name);
    fs::write(&file, marker("content")).unwrap();
    // And in the middle of a large one.
    let mut large = vec![0; 300_000];
    large.extend(marker("large").as_bytes());
    large.extend([0; 1000]);
    fs::write(dir.join("large"), large).unwrap();
    std::os::unix::fs::symlink(marker("target"), dir.join("link")).unwrap();
    rustix::fs::setxattr(
        &file,
        format!("user.{}", marker("attribute")),
        marker("value").as_bytes(),
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    // What was removed again was written too.
    let gone = dir.join(marker("gone"));
    fs::write(&gone, marker("removed")).unwrap();
    let open = File::open(&gone).unwrap();
    open.sync_all().unwrap();
    fs::remove_file(&gone).unwrap();
    rustix::fs::syncfs(&open).unwrap();
    [
        "name",
        "directory",
        "content",
        "large",
        "target",
        "attribute",
        "value",
        "removed",
    ]
    .map(|what| (what.to_owned(), marker(what)))
    .into()
}

#[test]
fn nothing_of_what_is_encrypted_is_on_the_devices() {
    needs!(can_mount());
    let mut place = Place::new();
    let [a, b, raw, hex] = ["a", "b", "raw", "hex"].map(|name| place.arg(name));
    place.ok(&format!(
        "pool create -s 64M -m none -O compression=off tank {a} {b}"
    ));
    place.ok(&format!("keygen {raw}"));
    place.ok(&format!("keygen --format hex {hex}"));
    let on = |source: &str, name: &str| {
        format!(
            "create -o encryption=on -o keysource={source} -o mountpoint={} tank/{name}",
            place.path(name).display()
        )
    };
    let passphrase = marker("passphrase");
    place.ok_with(&on("passphrase,prompt", "typed"), &passphrase);
    place.ok(&on(&format!("raw,file://{raw}"), "keyed"));
    place.ok(&on(&format!("hex,file://{hex}"), "digits"));
    place.ok(&format!(
        "create -o mountpoint={} tank/open",
        place.path("open").display()
    ));
    let mut secret = Vec::new();
    for name in ["typed", "keyed", "digits"] {
        secret.extend(put_markers(&place.path(name), name));
    }
    let open = put_markers(&place.path("open"), "open");
    place.ok("snapshot -r tank@now");
    secret.push(("the passphrase".into(), passphrase.clone()));
    let key = fs::read_to_string(&hex).unwrap();
    let bytes: Vec<u8> = (0..32)
        .map(|at| u8::from_str_radix(&key[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    let mut wanted: Vec<(String, Vec<u8>)> = secret
        .into_iter()
        .map(|(what, marker)| (what, marker.into_bytes()))
        .collect();
    wanted.push(("the raw key".into(), fs::read(&raw).unwrap()));
    wanted.push(("the digits of the key".into(), key.trim().into()));
    wanted.push(("the hexadecimal key".into(), bytes));
    place.ok_with("key change tank/typed", &marker("another passphrase"));
    wanted.push(("the new one".into(), marker("another passphrase").into()));
    place.ok("pool export tank");
    assert!(place.terminate());

    let files: [PathBuf; 2] = [a.into(), b.into()];
    let found = |bytes: &[u8]| files.iter().any(|file| find_in_file(file, bytes).is_some());
    // The search finds what is there to be found.
    for (what, marker) in &open {
        assert!(found(marker.as_bytes()), "{what} of the open dataset");
    }
    assert!(found(b"keysource"), "properties are not encrypted");
    for (what, bytes) in &wanted {
        assert!(!found(bytes), "{what} is on the devices");
        // Nor a part of it, as where a record ends in the middle.
        assert!(!found(&bytes[bytes.len() / 2..]), "half of {what}");
    }
}

#[test]
fn a_full_pool_can_be_emptied() {
    needs!(can_mount());
    let place = Place::new();
    place.pool("tank");
    let dir = place.path("full");
    place.ok(&format!(
        "create -o compression=off -o mountpoint={} tank/full",
        dir.display()
    ));
    let available = || {
        let fs = statvfs(&dir).unwrap();
        fs.f_bavail * fs.f_frsize
    };
    let sync = || rustix::fs::syncfs(File::open(&dir).unwrap());
    let before = available();
    assert!((40 << 20..64 << 20).contains(&before), "{before}");
    let block = vec![0x5a; 1 << 20];
    let mut count = 0;
    let full = loop {
        assert!(count < 100, "64 MiB hold more than 100");
        let write = || {
            let mut file = File::create(dir.join(format!("{count}")))?;
            file.write_all(&block)?;
            file.sync_all()
        };
        match write() {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
    assert!(count >= 40, "{count}");
    assert!(available() < 4 << 20, "{}", available());
    let used: u64 = place
        .ok("get -H -p -o value used tank/full")
        .trim()
        .parse()
        .unwrap();
    assert!(used >= count << 20, "{used}");
    // What was written before is there.
    assert!(fs::read(dir.join("0")).unwrap() == block);

    for entry in fs::read_dir(&dir).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    // Space comes back as the pool's thread finds the time; a scrub wakes it, and ends after it did.
    let came_back = (0..20).any(|_| {
        sync().unwrap();
        place.ok("pool scrub -w tank");
        available() >= before - (4 << 20)
    });
    assert!(came_back, "{} of {before}", available());
    fs::write(dir.join("again"), &block).unwrap();
    sync().unwrap();
    place.says("inspect --check tank", "exactly one thing");
}

#[test]
fn what_is_busy_stays() {
    needs!(can_mount());
    let mut place = Place::new();
    let root = place.path("mnt");
    place.ok(&format!(
        "pool create -s 64M -m {} tank {}",
        root.display(),
        place.arg("tank.pool")
    ));
    place.ok("create tank/a");
    place.ok("create tank/b");
    let mounts = place.ok("mount");
    assert_eq!(mounts.lines().count(), 3, "{mounts}");
    fs::write(root.join("a/file"), "text").unwrap();
    place.ok("snapshot tank/a@now");
    fs::write(root.join("a/file"), "other").unwrap();
    let said = place.fails("unmount tank", BUSY);
    has(&said, " is mounted in it");
    has(&said, " -f");
    let held = File::open(root.join("a/file")).unwrap();
    for line in [
        "pool export tank",
        "pool destroy tank",
        "daemon stop",
        "destroy -r tank/a",
        "rename tank/a tank/c",
        "rollback tank/a@now",
        "unmount tank/a",
        "set mountpoint=/nowhere tank/a",
        "mount tank/b",
    ] {
        if line.contains("destroy") {
            // Asks, or wants -f, which also unmounts; so there is no such case.
            place.fails(line, USAGE);
            continue;
        }
        let said = place.fails(line, BUSY);
        let name = if line == "mount tank/b" {
            "tank/b"
        } else {
            "tank/a"
        };
        assert!(said.contains(name), "{line}: {said}");
        // Nothing has changed; in particular all is mounted as it was.
        assert_eq!(place.ok("mount"), mounts, "{line}");
        assert_eq!(fs::read_to_string(root.join("a/file")).unwrap(), "other");
    }
    fs::write(root.join("b/new"), "text").unwrap();
    drop(held);
    // What is unmounted for a moment stays mounted after it.
    for _ in 0..30 {
        place.ok("rollback tank/a@now");
        assert_eq!(fs::read_to_string(root.join("a/file")).unwrap(), "text");
        assert_eq!(place.ok("mount"), mounts);
    }
    place.ok("rename tank/a tank/c");
    assert_eq!(fs::read_to_string(root.join("c/file")).unwrap(), "text");
    assert!(!root.join("a").exists());

    // With -f it goes, whatever is open.
    let held = File::open(root.join("c/file")).unwrap();
    place.ok("pool export -f tank");
    assert_eq!(place.ok("mount"), "");
    assert!(rustix::fs::fstat(&held).is_err());
    drop(held);
    place.ok("pool import -d {DIR}/tank.pool tank");
    assert_eq!(fs::read_to_string(root.join("c/file")).unwrap(), "text");
    assert_eq!(fs::read_to_string(root.join("b/new")).unwrap(), "text");
    let _held = File::open(root.join("b/new")).unwrap();
    place.ok("destroy -r -f tank/b");
    assert!(!root.join("b/new").exists());
    assert!(place.terminate());
}

#[test]
fn snapshots_can_be_looked_into() {
    needs!(can_mount());
    let place = Place::new();
    place.pool("tank");
    let dir = place.path("home");
    place.ok_with(
        &format!(
            "create -o encryption=on -o mountpoint={} tank/home",
            dir.display()
        ),
        PASSPHRASE,
    );
    let file = dir.join("file");
    for (snapshot, text) in [("monday", "first"), ("tuesday", "second")] {
        fs::write(&file, text).unwrap();
        place.ok(&format!("snapshot tank/home@{snapshot}"));
    }
    fs::remove_file(&file).unwrap();
    let snapshots = dir.join(".snapshot");
    let listed = |dir: &Path| -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(listed(&snapshots), ["monday", "tuesday"]);
    let read = |name: &str| fs::read_to_string(snapshots.join(name).join("file"));
    assert_eq!(read("monday").unwrap(), "first");
    assert_eq!(read("tuesday").unwrap(), "second");
    let refused = fs::write(snapshots.join("monday/file"), "x").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
    assert_eq!(listed(&dir), [""; 0]);
    place.ok("set snapdir=visible tank/home");
    // The kernel remembers what it listed of the root until that changes.
    fs::write(dir.join("new"), "").unwrap();
    fs::remove_file(dir.join("new")).unwrap();
    assert_eq!(listed(&dir), [".snapshot"]);

    place.ok("destroy -f tank/home@monday");
    place.ok("unmount tank/home");
    place.ok("mount tank/home");
    assert_eq!(listed(&snapshots), ["tuesday"]);
    assert_eq!(read("monday").unwrap_err().kind(), ErrorKind::NotFound);
    let aside = place.arg("aside");
    place.ok(&format!("mount tank/home@tuesday {aside}"));
    assert_eq!(
        fs::read_to_string(place.path("aside/file")).unwrap(),
        "second"
    );
    place.ok(&format!("unmount {aside}"));
    place.ok("rollback tank/home@tuesday");
    assert_eq!(fs::read_to_string(&file).unwrap(), "second");
}

#[test]
fn the_list_of_snapshots_is_of_now() {
    needs!(can_mount());
    let place = Place::new();
    place.pool("tank");
    let dir = place.path("home");
    place.ok(&format!("create -o mountpoint={} tank/home", dir.display()));
    let snapshots = dir.join(".snapshot");
    let count = || fs::read_dir(&snapshots).unwrap().count();
    assert_eq!(count(), 0);
    place.ok("snapshot tank/home@monday");
    assert_eq!(count(), 1);
    place.ok("destroy -f tank/home@monday");
    assert_eq!(count(), 0);
}

/// The options of the mount at a directory.
fn options_at(dir: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let dir = dir.to_str().unwrap();
    let mut lines = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let line = lines.find(|fields| fields[4] == dir).expect("a mount");
    line[5].to_owned()
}

#[test]
fn contents_are_stored_as_often_as_the_property_says() {
    needs!(can_mount());
    let place = Place::new();
    place.pool("tank");
    let dir = place.path("mnt");
    place.ok(&format!(
        "create -o compression=off -o mountpoint={} tank/a",
        dir.display()
    ));
    let mut referenced = 0;
    let mut grown = |place: &Place, name: &str| {
        fs::write(dir.join(name), vec![7; 1 << 20]).unwrap();
        place.ok("pool sync tank");
        let now: u64 = place
            .ok("get -H -p -o value referenced tank/a")
            .trim()
            .parse()
            .unwrap();
        (now - std::mem::replace(&mut referenced, now)) >> 20
    };
    assert_eq!(grown(&place, "once"), 1);
    place.ok("set copies=2 tank");
    assert_eq!(grown(&place, "twice"), 2);
    place.ok("unmount tank/a");
    place.ok("mount tank/a");
    assert_eq!(grown(&place, "mounted again"), 2);
    place.ok("inherit copies tank");
    assert_eq!(grown(&place, "once more"), 1);
    place.fails("set copies=3 tank/a", USAGE);
    place.ok("create -s -V 1M tank/vol");
    place.fails("set copies=2 tank/vol", USAGE);
}

#[test]
fn what_a_mount_refuses_follows_properties_and_options() {
    needs!(can_mount() && is_root());
    let place = Place::new();
    place.pool("tank");
    let dir = place.path("mnt");
    place.ok(&format!(
        "create -o mountpoint={} -o setuid=off tank/a",
        dir.display()
    ));
    let is_set = |option: &str| options_at(&dir).split(',').any(|found| found == option);
    assert!(is_set("nosuid") && !is_set("noexec") && !is_set("nodev") && is_set("rw"));

    // Programs run, until they may not; at once, and again.
    let program = dir.join("program");
    fs::copy("/bin/true", &program).unwrap();
    let run = || std::process::Command::new(&program).status();
    assert!(run().unwrap().success());
    place.ok("set exec=off devices=off tank");
    assert!(is_set("noexec") && is_set("nodev") && is_set("nosuid"));
    assert_eq!(
        run().unwrap_err().kind(),
        std::io::ErrorKind::PermissionDenied
    );
    place.ok("inherit exec tank");
    assert!(!is_set("noexec") && run().unwrap().success());

    // What a command says counts for its mount, also when that moves.
    place.ok("unmount tank/a");
    place.ok("mount -o noexec,suid,ro tank/a");
    assert!(is_set("noexec") && !is_set("nosuid") && is_set("nodev") && is_set("ro"));
    place.ok("set setuid=on tank/a");
    place.ok("rename tank/a tank/b");
    assert!(is_set("noexec") && is_set("ro"));
    let refused = place.run(&words("mount -o exec=perhaps tank/b"));
    assert_eq!(refused.code, USAGE, "{refused:?}");
    place.ok("unmount tank/b");
    place.ok("mount tank/b");
    assert!(!is_set("noexec") && !is_set("nosuid") && is_set("rw"));
}
