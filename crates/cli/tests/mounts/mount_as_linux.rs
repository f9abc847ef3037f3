//! Mounting as `mount(8)` and fstab have it: options, changes of a mount, and the helper.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::common::*;
use rustix::mount::UnmountFlags;

/// A pool with the dataset `tank/a`, and where that mounts.
fn mounted_place() -> Option<(Place, PathBuf)> {
    needs!(can_mount() && is_root(), "only root mounts with options");
    let place = Place::new();
    place.pool("tank");
    let dir = place.path("mnt");
    place.ok(&format!("create -o mountpoint={} tank/a", dir.display()));
    Some((place, dir))
}

/// The options of the mount at a directory.
fn options_at(dir: &Path) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let lines = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let mut found = lines.filter(|fields| Path::new(fields[4]) == dir);
    let options = found
        .next()
        .map(|fields| fields[5].split(',').map(str::to_owned).collect());
    options.unwrap_or_default()
}

#[test]
fn what_was_just_unmounted_mounts_again() {
    let (place, dir) = needs!(mounted_place());
    for round in 0..30 {
        let text = round.to_string();
        fs::write(dir.join("file"), &text).unwrap();
        rustix::mount::unmount(&dir, UnmountFlags::empty()).unwrap();
        place.ok("mount tank/a");
        assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), text);
    }
    // What still uses it is not waited for without end.
    let file = File::open(dir.join("file")).unwrap();
    rustix::mount::unmount(&dir, UnmountFlags::DETACH).unwrap();
    place.refuses("mount tank/a", BUSY, "unmounted here, but");
    drop(file);
    place.ok("mount tank/a");
}

#[test]
fn a_covered_mount_says_that_its_options_stay() {
    let (place, dir) = needs!(mounted_place());
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("none", &dir, "tmpfs", flags, None).unwrap();
    let said = place.fails("mount -o remount,ro tank/a", BUSY);
    has(&said, "its options stay as they are");
    place.warns("set exec=off tank/a", "its options stay as they are");
    // What is made beside it looks at no other mount, unless it reserves space that the others have to leave.
    for (line, reserves) in [
        ("create tank/b", false),
        ("clone tank/b@1 tank/c", false),
        ("create -o reservation=1M tank/d", true),
        ("clone -o refreservation=1M tank/b@1 tank/e", true),
    ] {
        let done = place.run(&words(line));
        assert_eq!(done.code, 0, "{done:?}");
        let looks = done.err.contains("its options stay as they are");
        assert_eq!(looks, reserves, "{line}: {done:?}");
        if line == "create tank/b" {
            place.ok("snapshot tank/b@1");
        }
    }
    rustix::mount::unmount(&dir, UnmountFlags::empty()).unwrap();
    place.ok("mount -o remount,ro tank/a");
    assert!(options_at(&dir).contains(&"noexec".to_owned()));
}

#[test]
fn a_mount_changes_to_read_only_and_back() {
    let (place, dir) = needs!(mounted_place());
    let file = dir.join("file");
    fs::write(&file, b"x").unwrap();
    place.ok("mount -o remount,ro,noexec tank/a");
    let is_set = |option: &str| options_at(&dir).iter().any(|found| found == option);
    assert!(is_set("ro") && is_set("noexec"));
    assert_eq!(
        fs::write(&file, b"y").unwrap_err().kind(),
        ErrorKind::ReadOnlyFilesystem
    );
    place.ok("set compression=off tank/a");
    assert!(is_set("ro") && is_set("noexec"), "no property changes that");
    place.ok("mount -o remount,rw tank/a");
    assert!(is_set("rw") && is_set("noexec"), "what is not named stays");
    let open = File::create(&file).unwrap();
    place.refuses("mount -o remount,ro tank/a", BUSY, "open for writing");
    fs::write(&file, b"y").unwrap();
    drop(open);
    place.ok("snapshot tank/a@1");
    fs::create_dir(place.path("snap")).unwrap();
    place.ok("mount tank/a@1 {DIR}/snap");
    place.fails("mount -o remount,rw tank/a@1", USAGE);
    place.ok("unmount tank/a");
    place.fails("mount -o remount,ro tank/a", NOT_FOUND);
}

#[test]
fn access_times_follow_the_options() {
    let (place, dir) = needs!(mounted_place());
    let file = dir.join("file");
    let accessed = || {
        let before = fs::metadata(&file).unwrap();
        fs::read(&file).unwrap();
        let after = fs::metadata(&file).unwrap();
        assert_eq!(before.mtime_nsec(), after.mtime_nsec());
        (before.atime(), before.atime_nsec()) != (after.atime(), after.atime_nsec())
    };
    let mounted = |options: &str, expected: [bool; 2]| {
        fs::write(&file, options).unwrap();
        place.ok("unmount tank/a");
        place.ok(&format!("mount -o {options} tank/a"));
        assert_eq!([accessed(), accessed()], expected, "{options}");
        let shown = options_at(&dir);
        let words = options.split(',').filter(|word| *word != "strictatime");
        let mut missing = words.filter(|word| !shown.iter().any(|found| found == word));
        assert_eq!(missing.next(), None, "{options} {shown:?}");
    };
    mounted("noatime", [false, false]);
    mounted("relatime", [true, false]);
    mounted("strictatime", [true, true]);
    mounted("relatime,nodiratime", [true, false]);
    mounted("ro,strictatime", [false, false]);
    // Of a mount that is there, too.
    place.ok("mount -o remount,rw,relatime tank/a");
    fs::write(&file, b"x").unwrap();
    place.ok("mount -o remount,noatime tank/a");
    assert!(!accessed() && options_at(&dir).iter().any(|option| option == "noatime"));
}

#[test]
fn the_helper_that_mount_calls() {
    let (place, dir) = needs!(mounted_place());
    let program = PathBuf::from(place.command().get_program());
    let helper = place.path("mount.strongroom");
    symlink(&program, &helper).unwrap();
    symlink(&program, place.path("mount.fuse.strongroom")).unwrap();
    let call = |name: &str, line: &str| {
        let mut command = Command::new(place.path(name));
        command
            .args(words(line))
            .env("STRONGROOM_SOCKET", place.socket());
        command.output().unwrap()
    };
    let at = dir.display();
    place.ok("unmount tank/a");
    let line = format!("tank/a {at} -o rw,noatime,noauto,x-systemd.automount -t strongroom");
    let done = call("mount.strongroom", &line);
    assert!(done.status.success(), "{done:?}");
    assert!(options_at(&dir).iter().any(|option| option == "noatime"));
    let done = call(
        "mount.fuse.strongroom",
        &format!("tank/a {at} -o remount,ro"),
    );
    assert!(done.status.success(), "{done:?}");
    assert!(options_at(&dir).iter().any(|option| option == "ro"));
    // What mount(8) knows: 32 for a mount that failed, 1 for a wrong call.
    let again = call("mount.strongroom", &line);
    assert_eq!(again.status.code(), Some(32), "{again:?}");
    let wrong = call("mount.strongroom", &format!("tank/a {at} -o surprise"));
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    assert_eq!(call("mount.strongroom", "tank/a").status.code(), Some(1));
}

/// `mount -t strongroom-stack`, as a line of fstab has it.
#[test]
fn the_helper_of_encrypted_directories() {
    needs!(can_mount() && is_root(), "only root mounts with options");
    let place = Place::without_daemon();
    for name in ["lower", "view"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    place.ok("keygen {DIR}/a_key");
    place.ok("stack init -d {DIR}/a_key {DIR}/lower");
    symlink(PROGRAM, place.path("mount.strongroom-stack")).unwrap();
    let (lower, view) = (place.arg("lower"), place.path("view"));
    let call = |options: &str| {
        let mut command = Command::new(place.path("mount.strongroom-stack"));
        command.args([&*lower, view.to_str().unwrap(), "-o", options]);
        command.output().unwrap()
    };
    let key = format!("key-file={}", place.arg("a_key"));
    let options = format!("rw,nodev,{key},allow_other,private,noatime,nofail,_netdev");
    let done = call(&options);
    assert!(done.status.success(), "{done:?}");
    let file = view.join("file");
    fs::write(&file, "text").unwrap();
    assert!(options_at(&view).iter().any(|option| option == "nodev"));

    // Access times stay, of files and of directories.
    let past = fs::FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH);
    for path in [&file, &view] {
        fs::File::open(path).unwrap().set_times(past).unwrap();
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    assert_eq!(fs::read_dir(&view).unwrap().count(), 1);
    for path in [&file, &view] {
        let accessed = fs::metadata(path).unwrap().accessed().unwrap();
        assert_eq!(accessed, SystemTime::UNIX_EPOCH, "{}", path.display());
    }

    // What the kernel lists comes again with a remount.
    let done = call("remount,ro,nodev,noatime,user_id=0,group_id=0,allow_other,max_read=1048576");
    assert!(done.status.success(), "{done:?}");
    assert!(fs::write(&file, "more").is_err());
    let done = call("remount,rw,noatime");
    assert!(done.status.success(), "{done:?}");
    fs::write(&file, "more").unwrap();
    assert!(!options_at(&view).iter().any(|option| option == "nodev"));
    // The process of the mount goes on as it began.
    assert_eq!(call("remount,rw,relatime").status.code(), Some(32));

    place.ok(&format!("stack unmount -f {}", view.display()));
    assert_eq!(call("key-file=/nowhere").status.code(), Some(32));
    assert_eq!(call("surprise").status.code(), Some(1));
}

#[test]
fn a_refused_mount_says_why_and_mounts_nothing() {
    let (place, dir) = needs!(mounted_place());
    place.ok("unmount tank/a");
    place.ok("snapshot tank/a@1");
    place.ok("create -V 1M tank/volume");
    place.ok("create -o canmount=off tank/off");
    place.ok("create -o mountpoint=none tank/none");
    let full = place.path("full");
    fs::create_dir_all(full.join("content")).unwrap();
    let file = place.path("file");
    fs::write(&file, b"").unwrap();
    let below = place.path("below");
    fs::create_dir(&below).unwrap();
    let read_only = rustix::mount::MountFlags::RDONLY;
    rustix::mount::mount("none", &below, "tmpfs", read_only, None).unwrap();
    let missing = below.join("missing");
    #[rustfmt::skip]
    let rows = [
        (
            format!("tank/a {}", full.display()),
            BUSY,
            "is not empty: it has 'content', of root; --take-in moves that into the dataset, -O hides it",
        ),
        ("tank/off".to_owned(), PERMISSION, "set canmount=noauto tank/off"),
        (format!("tank/off {}", dir.display()), PERMISSION, "canmount is off"),
        ("tank/none".to_owned(), USAGE, "has no mountpoint"),
        ("tank/a@1".to_owned(), USAGE, "has no mountpoint"),
        ("tank/volume".to_owned(), USAGE, "is a volume"),
        (format!("tank/a {}", file.display()), OTHER, "Not a directory"),
        (format!("tank/a {}", missing.display()), PERMISSION, "Read-only file system"),
    ];
    for (line, code, why) in rows {
        place.refuses(&format!("mount {line}"), code, why);
    }
    rustix::mount::unmount(&below, UnmountFlags::empty()).unwrap();
    assert_eq!(place.ok("mount"), "");
    place.ok(&format!("mount -O tank/a {}", full.display()));
    place.fails("mount tank/a", BUSY);
}

#[test]
fn a_pool_that_is_read_only_refuses_changes_and_mounts_read_only() {
    let (place, dir) = needs!(mounted_place());
    fs::write(dir.join("file"), b"text").unwrap();
    place.ok("pool export tank");
    place.ok("pool import -o readonly=on -d {DIR} tank");
    for line in [
        "create tank/b",
        "snapshot tank/a@1",
        "set atime=off tank/a",
        "destroy -f tank/a",
        "rename tank/a tank/b",
        "pool scrub tank",
        "pool clear tank",
    ] {
        place.refuses(line, PERMISSION, "read-only");
    }
    place.ok("unmount tank/a");
    place.ok("mount -o rw tank/a");
    assert!(options_at(&dir).contains(&"ro".to_owned()));
    place.fails("mount -o remount,rw tank/a", USAGE);
    assert_eq!(fs::read(dir.join("file")).unwrap(), b"text");
    let refused = fs::write(dir.join("file"), b"new").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
}
