//! Pool files that are not as they should be, or not where they were; and pools in use.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::common::*;
use rustix::mount::{MountFlags, mount_bind, mount_remount};

const BLOCK: u64 = 4096;

fn exported() -> (Place, PathBuf) {
    let place = Place::new();
    let file = place.pool("tank");
    place.ok("create -u tank/home");
    place.ok("pool export tank");
    (place, file)
}

fn import(file: &Path) -> String {
    format!("pool import -N -d {} tank", file.display())
}

/// The same copy of a pool with a change to it cannot be imported, inspected or taken for nothing.
fn refuses(place: &Place, file: &Path, code: i32, reason: &str) {
    let said = place.fails(&import(file), code);
    assert!(said.contains(reason), "{said} lacks {reason}");
    let said = place.fails(&format!("inspect {}", file.display()), code);
    assert!(said.contains(reason), "{said} lacks {reason}");
    assert_eq!(place.ok("pool list -H"), "");
}

#[test]
fn what_is_no_pool_is_refused() {
    let (place, pool) = exported();
    let file = place.path("other");
    fs::write(&file, "").unwrap();
    refuses(&place, &file, NOT_FOUND, "holds no Strongroom pool");
    fs::write(&file, vec![0x5a; 1 << 20]).unwrap();
    refuses(&place, &file, NOT_FOUND, "holds no Strongroom pool");
    fs::write(&file, "short").unwrap();
    refuses(&place, &file, NOT_FOUND, "holds no Strongroom pool");
    let nowhere = place.path("nowhere");
    refuses(&place, &nowhere, NOT_FOUND, "No such file");
    refuses(&place, Path::new("/dev/null"), USAGE, "character device");
    // A directory is looked through, and what is none of ours passed over.
    let said = place.fails("pool import -d {DIR}/ tonk", NOT_FOUND);
    has(&said, "no pool 'tonk' was found");
    let listed = place.ok("pool import -d {DIR}/");
    has(&listed, "pool: tank\n");
    assert_eq!(listed.matches("pool: ").count(), 1, "{listed}");
    place.ok(&import(&pool));
}

#[test]
fn a_destroyed_pool_is_gone() {
    let place = Place::new();
    let file = place.pool("tank");
    place.ok("pool destroy -f tank");
    let done = place.run(&words(&import(&file)));
    assert_eq!(done.code, NOT_FOUND, "{done:?}");
    place.prints("pool import -d {DIR}/", "no pools available to import\n");
    // Its file can be used again.
    place.ok(&format!("pool create -m none tonk {}", file.display()));
}

#[test]
fn damaged_pools_are_refused() {
    let (place, file) = exported();
    let copy = place.path("copy");
    let size = fs::metadata(&file).unwrap().len();
    let edit = |change: &dyn Fn(&File)| {
        fs::copy(&file, &copy).unwrap();
        change(&File::options().read(true).write(true).open(&copy).unwrap());
    };
    edit(&|copy| copy.set_len(size / 2).unwrap());
    refuses(&place, &copy, DAMAGED, "became too small");
    edit(&|copy| {
        for at in [100, size - BLOCK + 100] {
            copy.write_all_at(&[0x55; 8], at).unwrap();
        }
    });
    refuses(&place, &copy, DAMAGED, "both copies of its label");
    // One copy is enough.
    edit(&|copy| copy.write_all_at(&[0x55; 8], 100).unwrap());
    place.ok(&import(&copy));
    place.ok("pool export tank");
    // All superblocks: the ring behind each label.
    edit(&|copy| {
        for at in (0..size).step_by(BLOCK as usize) {
            let mut magic = [0; 8];
            copy.read_exact_at(&mut magic, at).unwrap();
            if &magic == b"SR-SUPER" {
                copy.write_all_at(&[0x55; 64], at + 64).unwrap();
            }
        }
    });
    refuses(&place, &copy, DAMAGED, "superblock");
    edit(&|copy| {
        for at in [0, size - BLOCK] {
            let mut label = [0; BLOCK as usize];
            copy.read_exact_at(&mut label, at).unwrap();
            label[8..12].copy_from_slice(&999u32.to_le_bytes());
            let sum = blake3::hash(&label[..BLOCK as usize - 32]);
            label[BLOCK as usize - 32..].copy_from_slice(sum.as_bytes());
            copy.write_all_at(&label, at).unwrap();
        }
    });
    refuses(&place, &copy, TOO_NEW, "999");
}

/// An attacker with the devices can write any name into them.
#[test]
fn a_name_that_no_pool_can_have_is_refused() {
    let (place, file) = exported();
    let mut image = fs::read(&file).unwrap();
    for frame in image.chunks_exact_mut(BLOCK as usize) {
        if !frame.starts_with(b"SR-SUPER") {
            continue;
        }
        if let Some(at) = find(frame, b"tank") {
            frame[at..at + 4].copy_from_slice(b"t/..");
        }
        let (content, sum) = frame.split_at_mut(BLOCK as usize - 32);
        sum.copy_from_slice(blake3::hash(content).as_bytes());
    }
    fs::write(&file, image).unwrap();
    let import = format!("pool import -N -d {}", file.display());
    let refused = place.fails(&format!("{import} -a"), USAGE);
    has(&refused, "by its guid under a new name");
    let found = place.ok(&format!("--json pool import -d {}", file.display()));
    let guid = found.split("\"guid\": \"").nth(1).unwrap();
    let guid = guid.split('"').next().unwrap();
    place.ok(&format!("{import} {guid} rescued"));
    assert_eq!(place.ok("list -H -o name"), "rescued\nrescued/home\n");
}

#[test]
fn a_pool_that_may_not_be_written_can_be_read() {
    let (mut place, file) = exported();
    if is_root() {
        // Root is stopped by a file system only.
        let dir = place.path("ro");
        fs::create_dir(&dir).unwrap();
        if let Err(error) = mount_bind(place.root(), &dir)
            .and_then(|()| mount_remount(&dir, MountFlags::BIND | MountFlags::RDONLY, ""))
        {
            eprintln!("skipped: a directory cannot be made read-only: {error}");
            return;
        }
        let file = dir.join("tank.pool");
        place.refuses(&import(&file), PERMISSION, "Read-only file system");
        place.ok(&import(&file).replace("-N", "-N -o readonly=on"));
    } else {
        fs::set_permissions(&file, Permissions::from_mode(0o400)).unwrap();
        place.refuses(&import(&file), PERMISSION, "Permission denied");
        place.ok(&import(&file).replace("-N", "-N -o readonly=on"));
    }
    place.ok("list tank/home");
    assert_eq!(place.ok("pool list -H -o readonly"), "on\n");
    let done = place.run(&["create", "-u", "tank/new"]);
    assert_ne!(done.code, 0);
    has(&done.err, "read-only");
    place.ok("pool export tank");
    assert!(place.terminate());
}

#[test]
fn an_unreadable_pool_is_refused() {
    if is_root() {
        eprintln!("skipped: root can read every file");
        return;
    }
    let (place, file) = exported();
    fs::set_permissions(&file, Permissions::from_mode(0o000)).unwrap();
    refuses(&place, &file, PERMISSION, "Permission denied");
}

#[test]
fn a_pool_in_use_is_refused() {
    let place = Place::new();
    let file = place.pool("tank");
    place.fails(&import(&file), EXISTS);
    let path = file.display();
    place.fails(&format!("pool create -s 64M tonk {path}"), EXISTS);
    place.fails(&format!("pool create -f tonk {path}"), BUSY);

    let other = Place::new();
    let said = other.fails(&import(&file), BUSY);
    // The other daemon, by its pid and its program.
    has(&said, &format!("process {} (user ", place.pid()));
    has(&said, ", strongroom) of this machine has the pool 'tank'");
    other.fails(&format!("pool create -f tonk {path}"), BUSY);
    assert_eq!(other.ok("pool list -H"), "");
    place.ok("pool export tank");
    other.fails(&format!("pool create tonk {path}"), EXISTS);
    other.ok(&import(&file));
    place.fails(&import(&file), BUSY);
}

#[test]
fn a_pool_is_found_by_its_content() {
    let (place, file) = exported();
    let moved = place.path("some where else");
    fs::rename(&file, &moved).unwrap();
    let line = ["pool", "import", "-N", "-d", moved.to_str().unwrap()];
    let listed = place.run(&line);
    has(&listed.out, "pool: tank\n");
    assert_eq!(
        place
            .run(&[&line[..], &["tank", "rescued"][..]].concat())
            .code,
        0
    );
    place.ok("list rescued/home");
    place.fails("list tank/home", NOT_FOUND);
    // The new name stays, and the guid is the same pool.
    let guid = place.ok("pool list -H -o guid");
    place.ok("pool export rescued");
    let by_guid = ["-d", place.root().to_str().unwrap(), guid.trim()];
    let done = place.run(&[&["pool", "import", "-N"][..], &by_guid[..]].concat());
    assert_eq!(done.code, 0, "{done:?}");
    place.ok("list rescued/home");
}

#[test]
fn a_missing_device_is_named() {
    let place = Place::new();
    let [a, b] = ["a", "b"].map(|name| place.arg(name));
    place.ok(&format!("pool create -s 64M -m none tank {a} {b}"));
    place.ok("create -u tank/home");
    place.ok("pool export tank");
    for (there, missing) in [(&a, &b), (&b, &a)] {
        let line = format!("pool import -N -d {there} tank");
        let done = place.run(&words(&line));
        assert_eq!(done.code, DEVICE, "{done:?}");
        has(&done.err, "missing");
        assert!(done.err.contains(there.as_str()), "{done:?}");
        assert!(done.err.contains(missing.as_str()), "{done:?}");
        let listed = place.ok(&format!("pool import -d {there}"));
        has(&listed, "missing");
        assert!(listed.contains(there.as_str()), "{listed}");
    }
    place.ok(&format!("pool import -N -d {a} -d {b} tank"));
    place.ok("list tank/home");
}

#[test]
fn the_daemon_remembers_pools() {
    let mut place = Place::new();
    place.pool("tank");
    place.ok("create -u tank/home");
    place.ok("daemon stop");
    place.wait_for_end();
    place.fails("daemon status", NO_DAEMON);
    place.start();
    place.ok("list tank/home");
    // It ends at a signal, even if its socket was removed.
    fs::remove_file(place.socket()).unwrap();
    assert!(place.terminate(), "the daemon ends when it is told to");
    place.start();
    place.ok("list tank/home");
    place.ok("pool export tank");
    place.ok("daemon stop");
    place.wait_for_end();
    place.start();
    assert_eq!(place.ok("pool list -H"), "");
}

/// The first block of a device: its label.
fn label(place: &Place, name: &str) -> Vec<u8> {
    let mut block = vec![0; BLOCK as usize];
    let file = File::open(place.path(name)).unwrap();
    file.read_exact_at(&mut block, 0).unwrap();
    block
}

/// A device that was away when it left keeps no keys if it can be reached. If not, the user is told.
#[test]
fn devices_that_were_away_are_overwritten_when_they_leave() {
    let place = Place::new();
    let all = ["a", "b", "c"].map(|name| place.arg(name)).join(" ");
    place.ok(&format!("pool create -s 64M -m none tank mirror {all}"));
    let blank = |name: &str| label(&place, name).iter().all(|byte| *byte == 0);
    let (b, c) = (place.arg("b"), place.arg("c"));
    place.ok(&format!("pool offline tank {b}"));
    let told = place.run(&["pool", "detach", "tank", &b]);
    assert!(told.code == 0 && told.err.is_empty(), "{told:?}");
    assert!(blank("b") && !blank("c"));

    place.ok(&format!("pool offline tank {c}"));
    fs::rename(place.path("c"), place.path("away")).unwrap();
    let told = place.run(&["pool", "detach", "tank", &c]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(
        told.err.contains(&c) && told.err.contains("not overwritten"),
        "{told:?}"
    );
    place.ok("pool destroy -f tank");
    assert!(blank("a") && !blank("away"));

    let both = ["d", "e"].map(|name| place.arg(name)).join(" ");
    place.ok(&format!("pool create -s 64M -m none tank mirror {both}"));
    place.ok("pool offline tank {DIR}/e");
    place.ok("pool destroy -f tank");
    assert!(blank("d") && blank("e"));
}

#[test]
fn a_path_that_cannot_be_is_no_failure_of_a_device() {
    let place = Place::new();
    std::fs::write(place.path("file"), "").unwrap();
    for name in ["x".repeat(300), "file/x".into()] {
        let path = place.arg(&name);
        place.fails(&format!("pool create -s 64M -m none tank {path}"), USAGE);
    }
}

/// A pool that was in use and is missing is shown, and another pool of its name does not take its place.
#[test]
fn another_pool_of_the_same_name_does_not_take_its_place() {
    let other = Place::new();
    let impostor = other.pool("tank");
    let foreign = other.ok("pool list -H -o guid").trim().to_owned();
    other.ok("pool export tank");
    let mut place = Place::new();
    let file = place.pool("tank");
    let own = place.ok("pool list -H -o guid").trim().to_owned();
    place.kill();
    let away = place.path("away");
    fs::rename(&file, &away).unwrap();
    place.start();
    let status = place.ok("pool status tank");
    has(&status, "state: UNAVAIL");
    has(&status, "no device of pool 'tank'");
    lacks(&status, "No known data errors");
    assert_eq!(
        place.ok("pool list -H -o name,size,guid,health"),
        format!("tank\t-\t{own}\tUNAVAIL\n")
    );

    fs::copy(&impostor, &file).unwrap();
    place.kill();
    place.start();
    let status = place.ok("pool status");
    has(&status, &own);
    has(&status, &foreign);
    let import = format!("pool import -N -d {}", file.display());
    for line in [format!("{import} tank"), format!("{import} -a")] {
        let refusal = place.fails(&line, PERMISSION);
        has(&refusal, &own);
        has(
            &refusal,
            &format!("pool import -d {} {foreign}", file.display()),
        );
    }
    place.ok(&format!("{import} {foreign} other"));
    place.says("pool status", "state: UNAVAIL");
    place.ok(&format!("pool import -N -d {} tank", away.display()));
    lacks(&place.ok("pool status"), "UNAVAIL");
}

#[test]
fn a_pool_that_is_gone_for_good_is_forgotten_by_export() {
    let mut place = Place::new();
    let file = place.pool("tank");
    place.kill();
    fs::remove_file(&file).unwrap();
    place.start();
    place.says("pool status", "pool export tank");
    place.ok("pool export tank");
    place.says("pool status", "no pools available");
}

#[test]
fn lists_show_devices_and_what_has_problems() {
    let place = Place::new();
    let device = |name: &str| place.arg(name);
    let (a, b, c) = (device("a"), device("b"), device("c"));
    place.ok(&format!(
        "pool create -s 64M -m none tank mirror {a} {b} spare {c}"
    ));
    let listed = place.ok("pool list -v -H -o name,health");
    let expected = format!(
        "tank\tONLINE\n  mirror-0\tONLINE\n    {a}\tONLINE\n    {b}\tONLINE\n  {c} (spare)\tAVAIL\n"
    );
    assert_eq!(listed, expected);
    assert_eq!(place.ok("pool list -H -o name"), "tank\n");

    assert_eq!(place.ok("pool status -x"), "all pools are healthy\n");
    assert_eq!(place.ok("pool status -x tank"), "pool 'tank' is healthy\n");
    assert_eq!(place.ok("pool status -x --json").trim(), "[]");
    place.pool("other");
    place.ok(&format!("pool offline tank {b}"));
    let status = place.ok("pool status -x");
    has(&status, "pool: tank\n");
    lacks(&status, "other");
    place.prints("pool status -x other", "pool 'other' is healthy\n");
}

#[test]
fn properties_of_pools_are_shown_and_set() {
    let place = Place::new();
    place.pool("tank");
    let one = |line: &str| place.ok(&format!("pool get -H -p -o value {line}"));
    assert_eq!(one("autoexpand tank"), "off\n");
    place.ok("pool set autoexpand=on tank");
    assert_eq!(
        place.ok("pool get -H autoexpand tank"),
        "tank\tautoexpand\ton\tlocal\n"
    );
    // It is the same as that of the root dataset.
    assert_eq!(place.ok("get -H -o value autoexpand tank"), "on\n");
    let listed = place.ok("pool list -H -p -o size,guid,health tank");
    assert_eq!(one("size,guid,health tank").replace('\n', "\t"), {
        let mut values: Vec<&str> = listed.trim().split('\t').collect();
        // In the order of `pool get all`.
        values.swap(1, 2);
        values
            .iter()
            .map(|value| format!("{value}\t"))
            .collect::<String>()
    });
    assert_eq!(one("alloc,cap tank").lines().count(), 2);
    let all = place.ok("pool get all");
    for name in [
        "size",
        "capacity",
        "health",
        "free",
        "readonly",
        "autoexpand",
    ] {
        has(&all, name);
    }
    place.says("pool get --json health", "\"ONLINE\"");
    place.fails("pool get nonsense tank", NOT_FOUND);
    place.fails("pool get size nowhere", NOT_FOUND);
    place.refuses("pool set size=1G tank", USAGE, "cannot be set");
    place.refuses("pool set atime=off tank", NOT_FOUND, "strongroom set");
    place.fails("pool set autoexpand=perhaps tank", USAGE);
    place.fails("pool set autoexpand=on tank/a", USAGE);
    place.fails("pool set autoexpand=on nowhere", NOT_FOUND);
}

/// `pool import -a` finds the pools that `pool import` shows, and one that cannot be imported keeps no other away.
#[test]
fn all_pools_are_imported_though_one_of_them_cannot_be() {
    let place = Place::new();
    for pool in ["a", "b", "c", "d"] {
        place.ok(&format!(
            "pool create -s 64M -m none {pool} {{DIR}}/{pool}.pool"
        ));
    }
    place.ok("pool destroy -f d");
    place.ok("pool export -a");
    // Both labels are there, and no superblock.
    let image = place.path("b.pool");
    let mut bytes = fs::read(&image).unwrap();
    let len = bytes.len();
    bytes[4096..1 << 20].fill(0);
    bytes[len - (1 << 20)..len - 4096].fill(0);
    fs::write(&image, bytes).unwrap();
    let shown = place.ok("pool import -d {DIR}");
    let names: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pool: "))
        .collect();
    assert_eq!(names.len(), 3, "{shown}");
    let done = place.run(&place.words("pool import -a -d {DIR}"));
    assert_ne!(done.code, 0, "{done:?}");
    assert_eq!(place.ok("pool list -H -o name"), "a\nc\n");
    place.fails("pool import -a -d {DIR}/nowhere", NOT_FOUND);
}

/// A device of the pool that has another name now is recognised by its label, and not offered to be overwritten.
#[test]
fn a_device_at_another_path_is_found_by_its_label() {
    let place = Place::new();
    place.ok("pool create -s 64M -m none tank mirror {DIR}/a {DIR}/b");
    place.ok("pool offline tank {DIR}/b");
    fs::rename(place.path("b"), place.path("c")).unwrap();
    let status = place.json("pool status --json tank");
    let devices = status[0]["devices"].as_array().unwrap();
    let offline = devices.iter().find(|it| it["state"] == "OFFLINE").unwrap();
    for line in [
        "replace tank {DIR}/b {DIR}/c",
        "replace -f tank {DIR}/b {DIR}/c",
        "attach tank {DIR}/a {DIR}/c",
        "add -f tank {DIR}/c",
        "add -f tank spare {DIR}/c",
    ] {
        let refused = place.fails(&format!("pool {line}"), EXISTS);
        has(&refused, &format!("pool online tank {}", place.arg("c")));
        has(&refused, offline["guid"].as_str().unwrap());
        assert!(!refused.contains("use -f"), "{refused}");
    }
    place.fails("pool online tank {DIR}/d", NOT_FOUND);
    place.ok("pool online tank {DIR}/c");
    let status = place.ok("pool status tank");
    has(&status, &place.arg("c"));
    assert!(!status.contains("OFFLINE"), "{status}");
}
