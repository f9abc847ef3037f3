//! Features of Linux file systems beside POSIX, judged by the tools that use them: flags of files, file handles, mounts
//! that map owners, discarding free space.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::*;

/// Calls that no safe interface has.
const SCRIPT: &str = include_str!("../../../fuse/tests/common/linux_calls.py");
const ESTALE: i32 = 116;
const USER: u32 = 1000;

/// A pool with the dataset `tank/a`, and where that mounts.
fn mounted_place(tools: &[&str]) -> Option<(Place, PathBuf)> {
    needs!(can_mount() && is_root(), "only root does this");
    for tool in tools {
        if Command::new(tool).arg("--version").output().is_err() {
            eprintln!("skipped: there is no {tool}");
            return None;
        }
    }
    let place = Place::new();
    place.pool("tank");
    let dir = place.path("mnt");
    place.ok(&format!("create -o mountpoint={} tank/a", dir.display()));
    Some((place, dir))
}

fn run(words: &[&str], path: &Path) -> Output {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(path).output().unwrap()
}

/// The output of the script, or an error number.
fn script(what: &str, place: &Path, other: &Path) -> Result<String, i32> {
    let mut command = Command::new("python3");
    let command = command.args(["-c", SCRIPT, what]).arg(place).arg(other);
    let output = command.output().unwrap();
    match output.status.code() {
        Some(0) => Ok(String::from_utf8(output.stdout).unwrap()),
        Some(errno) if output.stderr.is_empty() => Err(errno),
        _ => panic!("{output:?}"),
    }
}

#[test]
fn chattr_binds_root_and_outlives_a_mount() {
    let (place, dir) = needs!(mounted_place(&["chattr", "lsattr", "python3"]));
    let file = dir.join("file");
    fs::write(&file, "first\n").unwrap();
    let chattr = |change: &str| {
        let done = run(&["chattr", change], &file);
        assert!(done.status.success(), "{change}: {done:?}");
    };
    let shown = || {
        let listed = String::from_utf8(run(&["lsattr"], &file).stdout).unwrap();
        listed.split(' ').next().unwrap().replace('-', "")
    };
    let refused = |done: std::io::Result<()>| {
        assert_eq!(done.unwrap_err().kind(), ErrorKind::PermissionDenied);
    };
    chattr("+i");
    assert_eq!(shown(), "i");
    for _ in 0..2 {
        refused(fs::write(&file, "x"));
        refused(
            File::options()
                .append(true)
                .open(&file)
                .and_then(|mut file| file.write_all(b"x")),
        );
        refused(fs::remove_file(&file));
        refused(fs::rename(&file, dir.join("other")));
        refused(fs::hard_link(&file, dir.join("other")));
        refused(chown(&file, Some(USER), None));
        place.ok("unmount tank/a");
        place.ok("mount tank/a");
    }
    assert_eq!(
        (shown(), fs::read(&file).unwrap()),
        ("i".into(), b"first\n".to_vec())
    );
    chattr("=ad");
    assert_eq!(shown(), "ad");
    let mut end = File::options().append(true).open(&file).unwrap();
    end.write_all(&[b'x'; 3 << 20]).unwrap();
    drop(end);
    refused(fs::write(&file, "x"));
    refused(fs::remove_file(&file));
    chattr("-a");
    chown(&file, Some(USER), None).unwrap();
    let as_user = |change: &str| {
        let mut command = Command::new("chattr");
        let command = command.arg(change).arg(&file).uid(USER).gid(USER);
        command.output().unwrap().status.success()
    };
    assert!(as_user("-d") && !as_user("+i") && !as_user("+a"));
    assert_eq!(shown(), "");
    // Flags that there are not.
    let compress = run(&["chattr", "+c"], &file);
    has(&String::from_utf8_lossy(&compress.stderr), "not supported");
    place.ok("snapshot tank/a@1");
    let kept = run(&["chattr", "+i"], &dir.join(".snapshot/1/file"));
    has(&String::from_utf8_lossy(&kept.stderr), "Read-only");
    // What was stored through a mapping before is kept.
    assert_eq!(script("store", &file, Path::new("")), Ok(String::new()));
    place.ok("unmount tank/a");
    place.ok("mount tank/a");
    assert_eq!(
        (shown(), &fs::read(&file).unwrap()[..6]),
        ("i".into(), &b"stored"[..])
    );
    chattr("-i");
    fs::remove_file(&file).unwrap();
}

#[test]
fn fstrim_says_that_it_is_not_needed_here() {
    let (_place, dir) = needs!(mounted_place(&["fstrim"]));
    let done = run(&["fstrim"], &dir);
    assert!(!done.status.success());
    has(
        &String::from_utf8_lossy(&done.stderr),
        "the discard operation is not supported",
    );
}

#[test]
fn file_handles_outlive_a_mount() {
    let (place, dir) = needs!(mounted_place(&["python3"]));
    let handle = |name: &str| place.path(&format!("handle of {name}"));
    let save = |name: &str, path: &Path| {
        assert_eq!(script("save", path, &handle(name)), Ok(String::new()));
    };
    let open = |name: &str| script("open", &dir, &handle(name));
    place.ok("snapshot tank/a@empty");
    fs::create_dir(dir.join("dir")).unwrap();
    for name in ["kept", "gone", "rolled back"] {
        fs::write(dir.join("dir").join(name), name).unwrap();
        save(name, &dir.join("dir").join(name));
    }
    place.ok("snapshot tank/a@1");
    save("old", &dir.join(".snapshot/1/dir/kept"));
    for _ in 0..2 {
        place.ok("unmount tank/a");
        place.ok("mount tank/a");
        assert_eq!(open("kept"), Ok("kept".into()));
        // A number of the mount, which may be that of another snapshot now.
        place.ok("snapshot tank/a@0");
        fs::metadata(dir.join(".snapshot/0/dir/kept")).unwrap();
        assert_eq!(open("old"), Err(ESTALE));
        place.ok("destroy -f tank/a@0");
    }
    fs::rename(dir.join("dir/kept"), dir.join("renamed")).unwrap();
    fs::remove_file(dir.join("dir/gone")).unwrap();
    assert_eq!(open("kept"), Ok("kept".into()));
    assert_eq!(open("gone"), Err(ESTALE));
    // Their numbers are given out again.
    place.ok("rollback -r -f tank/a@empty");
    assert!(!dir.join("dir").exists());
    for name in ["a", "b", "c", "d", "e"] {
        fs::write(dir.join(name), name).unwrap();
    }
    for name in ["kept", "rolled back"] {
        assert_eq!(open(name), Err(ESTALE));
    }
}

#[test]
fn a_mount_that_maps_owners() {
    let (place, dir) = needs!(mounted_place(&["python3", "unshare"]));
    let other = place.path("other");
    for dir in [&other, &dir.join("private")] {
        fs::create_dir(dir).unwrap();
    }
    for (path, mode) in [(place.root(), "755"), (&dir.join("private"), "700")] {
        assert!(run(&["chmod", mode], path).status.success());
    }
    match script("map", &dir, &other) {
        Ok(_) => {}
        Err(errno) => {
            return eprintln!("skipped: this kernel maps no owners of FUSE: error {errno}");
        }
    }
    let as_user = |user: u32, words: &[&str], path: &Path| {
        let mut command = Command::new(words[0]);
        let command = command.args(&words[1..]).arg(path).uid(user).gid(user);
        command.output().unwrap().status.success()
    };
    let owner = |path: &Path| {
        let found = fs::symlink_metadata(path).unwrap();
        (found.uid(), found.gid())
    };
    for (words, name) in [
        (&["touch"][..], "file"),
        (&["mkdir"], "dir"),
        (&["mkfifo"], "fifo"),
        (&["ln", "-s", "to"], "link"),
    ] {
        assert!(as_user(USER, words, &other.join(name)), "{name}");
        assert_eq!(owner(&other.join(name)), (USER, USER), "{name}");
        assert_eq!(owner(&dir.join(name)), (0, 0), "{name}");
    }
    assert!(as_user(USER, &["ls"], &other.join("private")));
    assert!(!as_user(USER + 1, &["ls"], &other.join("private")));
    assert!(as_user(USER, &["chmod", "600"], &other.join("file")));
    assert!(!as_user(USER + 1, &["chmod", "644"], &other.join("file")));
    assert!(as_user(USER, &["chattr", "+d"], &other.join("file")));
    assert!(!as_user(USER + 1, &["chattr", "-d"], &other.join("file")));
    // To root of the machine, owners are mapped back.
    chown(other.join("file"), Some(USER + 5), Some(USER + 6)).unwrap();
    assert_eq!(owner(&dir.join("file")), (5, 6));
    rustix::mount::unmount(&other, rustix::mount::UnmountFlags::DETACH).unwrap();
}
