//! Directories in the format of gocryptfs, beside the program gocryptfs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::stacked_directory::{Mounted, Theirs, refused};
use crate::common::{
    DAMAGED, EXISTS, NO_KEY, OTHER, PERMISSION, Place, WRONG_KEY, can_mount, is_installed, needs,
};

#[test]
fn gocryptfs_opens_what_is_made_here_and_the_other_way_round() {
    needs!(can_mount());
    let place = Place::without_daemon();
    for dir in ["lower", "theirs", "view"] {
        fs::create_dir(place.path(dir)).expect("a directory");
    }
    fs::write(place.path("pass"), "a passphrase\nmore").expect("written");
    let passfile = place.arg("pass");
    place.ok("stack init --format gocryptfs --passfile {DIR}/pass {DIR}/lower");
    place.says("stack status {DIR}/lower", "AES-256-GCM, authenticated");
    let again = "stack init --format gocryptfs --passfile {DIR}/pass {DIR}/lower";
    refused(&place, again, EXISTS, "already");
    fs::write(place.path("wrong"), "another one").expect("written");
    let wrong = "stack mount --passfile {DIR}/wrong {DIR}/lower {DIR}/view";
    refused(&place, wrong, WRONG_KEY, "passphrase is wrong");

    let long = "x".repeat(250);
    let mounted = Mounted::new(&place, &["--passfile", &passfile]);
    mounted.shell(&format!(
        "mkdir -p a/b; seq 5000 > a/b/{long}; ln -s b a/link; truncate -s 5M a/sparse; mkdir gone; rmdir gone"
    ));
    mounted.end();
    let mounted = Mounted::new(&place, &["--private", "--passfile", &passfile]);
    assert_eq!(mounted.shell(&format!("tail -1 a/link/{long}")), "5000\n");
    mounted.end();
    let theirs = |args: &[&str]| {
        let done = Command::new("gocryptfs")
            .args(["-q", "-passfile"])
            .arg(place.path("pass"))
            .args(args)
            .output();
        done.map(|done| {
            (
                done.status.success(),
                String::from_utf8_lossy(&done.stderr).into_owned(),
            )
        })
    };
    let Ok(checked) = theirs(&["-fsck", &place.arg("lower")]) else {
        eprintln!("skipped: gocryptfs is not installed");
        return;
    };
    assert!(checked.0, "{}", checked.1);
    let (made, error) = theirs(&["-init", &place.arg("theirs")]).expect("installed");
    assert!(made, "{error}");
    fs::remove_dir_all(place.path("lower")).expect("removed");
    fs::rename(place.path("theirs"), place.path("lower")).expect("renamed");
    let mounted = Mounted::new(&place, &["--passfile", &passfile]);
    mounted.shell("echo text > file; mkdir d; cp file d");
    mounted.end();
    let checked = theirs(&["-fsck", &place.arg("lower")]).expect("installed");
    assert!(checked.0, "{}", checked.1);
}

/// Extended attributes and ACLs of all files, but for what gocryptfs lists and does not read.
fn attributes(view: &Path) -> String {
    let script = "find . -print0 | sort -z | xargs -0 getfattr -h -d -m - -e hex --";
    let done = Command::new("sh")
        .args(["-euc", script])
        .current_dir(view)
        .output();
    let done = done.expect("a shell");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[test]
fn gocryptfs_sees_the_same_attributes() {
    needs!(can_mount());
    needs!(
        ["gocryptfs", "setfattr", "setfacl"]
            .into_iter()
            .all(is_installed),
        "gocryptfs, attr or acl is not installed"
    );
    for how in [&[][..], &["-plaintextnames"], &["-xchacha"], &["-aessiv"]] {
        let place = Place::without_daemon();
        for dir in ["lower", "theirs", "view"] {
            fs::create_dir(place.path(dir)).expect("a directory");
        }
        fs::write(place.path("pass"), "a passphrase").expect("written");
        let made = Command::new("gocryptfs")
            .args(["-q", "-init", "-scryptn", "10", "-passfile"])
            .arg(place.path("pass"))
            .args(how)
            .arg(place.path("lower"))
            .status();
        assert!(made.expect("installed").success());
        let passfile = place.arg("pass");
        let ours = || Mounted::new(&place, &["--passfile", &passfile]);

        let long = "n".repeat(150);
        let script = format!(
            "touch f$0; mkdir d$0; setfattr -n user.a -v some f$0; setfattr -n user.empty d$0
             setfattr -n user.{long} -v more d$0; setfattr -n security.other -v label f$0
             setfattr -n user.gone -v gone f$0; setfattr -x user.gone f$0
             setfacl -m u:1234:r f$0"
        );
        let mounted = ours();
        mounted.shell(&script.replace("$0", "1"));
        let shown = attributes(&place.path("view"));
        mounted.end();
        assert!(
            shown.contains("user.a=") && !shown.contains("user.gone"),
            "{shown}"
        );

        let theirs = Theirs::new(&place, &["-acl"], "lower", "theirs");
        assert_eq!(attributes(&theirs.0), shown, "{how:?}");
        let done = Command::new("sh")
            .args(["-euc", &script.replace("$0", "2")])
            .current_dir(&theirs.0)
            .status();
        assert!(done.expect("a shell").success());
        let shown = attributes(&theirs.0);
        drop(theirs);

        let mounted = ours();
        assert_eq!(attributes(&place.path("view")), shown, "{how:?}");
        mounted.end();
    }
}

/// Returns whether gocryptfs opens the directory `lower` with a passphrase. Says so and returns `None` if it is not
/// installed.
fn gocryptfs_opens(place: &Place, passfile: &str) -> Option<bool> {
    needs!(is_installed("gocryptfs"), "gocryptfs is not installed");
    let done = Command::new("gocryptfs")
        .args(["-q", "-fsck", "-passfile"])
        .args([place.path(passfile), place.path("lower")])
        .output()
        .expect("installed");
    Some(done.status.success())
}

#[test]
fn the_passphrase_of_gocryptfs_changes() {
    let place = Place::without_daemon();
    fs::create_dir(place.path("lower")).expect("a directory");
    for (name, passphrase) in [
        ("old", "old one\n"),
        ("new", "new one\nmore"),
        ("empty", "\n"),
    ] {
        fs::write(place.path(name), passphrase).expect("written");
    }
    place.ok("stack init --format gocryptfs --passfile {DIR}/old {DIR}/lower");
    let config = place.path("lower/gocryptfs.conf");
    fs::set_permissions(&config, fs::Permissions::from_mode(0o400)).expect("changed");
    let first = fs::read(&config).expect("read");
    let passwd = |old: &str, new: &str| {
        format!("stack passwd --passfile {{DIR}}/{old} --new-passfile {{DIR}}/{new} {{DIR}}/lower")
    };
    refused(
        &place,
        &passwd("new", "new"),
        WRONG_KEY,
        "passphrase is wrong",
    );
    refused(&place, &passwd("old", "empty"), NO_KEY, "is empty");
    assert_eq!(fs::read(&config).expect("read"), first);

    place.ok(&passwd("old", "new"));
    let mode = fs::metadata(&config).expect("there").mode();
    assert_eq!(mode & 0o777, 0o400);
    let names = fs::read_dir(place.path("lower")).expect("listed").count();
    assert_eq!(names, 2, "something is left over");
    refused(
        &place,
        &passwd("old", "new"),
        WRONG_KEY,
        "passphrase is wrong",
    );
    assert_ne!(gocryptfs_opens(&place, "new"), Some(false));
    assert_ne!(gocryptfs_opens(&place, "old"), Some(true));

    // What gocryptfs changes opens here.
    if is_installed("gocryptfs") {
        fs::write(place.path("both"), "new one\nold one\n").expect("written");
        let done = Command::new("gocryptfs")
            .args(["-q", "-passwd"])
            .arg(place.path("lower"))
            .stdin(fs::File::open(place.path("both")).expect("opened"))
            .output()
            .expect("installed");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        refused(
            &place,
            &passwd("new", "old"),
            WRONG_KEY,
            "passphrase is wrong",
        );
        place.ok(&passwd("old", "new"));
    }

    let whole = fs::read(&config).expect("read");
    fs::remove_file(&config).expect("removed");
    refused(&place, &passwd("new", "old"), OTHER, "no gocryptfs.conf");
    fs::write(&config, &whole[..100]).expect("written");
    refused(&place, &passwd("new", "old"), DAMAGED, "damaged");
    assert_eq!(fs::read(&config).expect("read"), &whole[..100]);
}

#[test]
fn the_passphrase_of_a_read_only_directory_stays() {
    let place = Place::without_daemon();
    let lower = place.path("lower");
    fs::create_dir(&lower).expect("a directory");
    fs::write(place.path("old"), "old one").expect("written");
    fs::write(place.path("new"), "new one").expect("written");
    place.ok("stack init --format gocryptfs --passfile {DIR}/old {DIR}/lower");
    let before = fs::read(lower.join("gocryptfs.conf")).expect("read");
    let _read_only = needs!(ReadOnly::new(&lower));
    let passwd = "stack passwd --passfile {DIR}/old --new-passfile {DIR}/new {DIR}/lower";
    refused(&place, passwd, PERMISSION, "read-only");
    assert_eq!(
        fs::read(lower.join("gocryptfs.conf")).expect("read"),
        before
    );
}

/// A directory whose file system takes no changes, until this is dropped.
struct ReadOnly(PathBuf);

impl ReadOnly {
    /// Makes the directory read-only. Says so and returns `None` if it cannot be mounted.
    fn new(dir: &Path) -> Option<ReadOnly> {
        use rustix::mount::{MountFlags, mount_bind, mount_remount};
        let bound = mount_bind(dir, dir);
        if let Err(error) = bound {
            eprintln!("skipped: nothing can be mounted: {error}");
            return None;
        }
        let bound = ReadOnly(dir.to_owned());
        mount_remount(dir, MountFlags::BIND | MountFlags::RDONLY, "").expect("read-only");
        Some(bound)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}
