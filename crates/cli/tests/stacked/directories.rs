//! Directories that are encrypted file by file, by command and mounted.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::stacked_directory::{Mounted, refused};
use crate::common::{
    BUSY, DAMAGED, EXISTS, NO_KEY, NOT_FOUND, OTHER, PROGRAM, Place, USAGE, WRONG_KEY, can_mount,
    has, is_installed, is_root, needs,
};

/// A user with a name: the helper asks for it.
const NOBODY: u32 = 65534;

/// A lower directory with its key, without a daemon.
fn prepared() -> Place {
    let place = Place::without_daemon();
    place.ok("keygen {DIR}/key");
    fs::create_dir(place.path("lower")).expect("a directory");
    fs::create_dir(place.path("view")).expect("a directory");
    place.ok("stack init -d {DIR}/key {DIR}/lower");
    place
}

#[test]
fn what_is_wrong_is_said() {
    let place = prepared();
    let lower = "{DIR}/lower";
    let key = "-d {DIR}/key";
    let directory = format!("stack mount -d {{DIR}} {lower} {{DIR}}/view");
    refused(&place, &directory, NO_KEY, "Is a directory");
    refused(
        &place,
        &format!("stack init {key} {lower}"),
        EXISTS,
        "encrypted already",
    );
    refused(
        &place,
        &format!("stack init {key} {{DIR}}/none"),
        NOT_FOUND,
        "no such directory",
    );
    refused(
        &place,
        &format!("stack init {key} {{DIR}}/key"),
        USAGE,
        "not a directory",
    );
    refused(
        &place,
        &format!("stack init {key} {{DIR}}"),
        OTHER,
        "not empty",
    );
    refused(
        &place,
        &format!("stack init {key} --padding 5 {{DIR}}/view"),
        USAGE,
        "4, 8, 16 or 32",
    );
    refused(&place, "stack status {DIR}/view", OTHER, "stack init");
    refused(
        &place,
        &format!("stack mount {key} {{DIR}}/view {{DIR}}/view"),
        OTHER,
        "stack init",
    );
    let mount = |key| format!("stack mount -d {{DIR}}/{key} {lower} {{DIR}}/view");
    place.ok("keygen {DIR}/other");
    fs::write(place.path("view/clear"), "").expect("written");
    refused(&place, &mount("other"), BUSY, "-O");
    fs::remove_file(place.path("view/clear")).expect("removed");
    refused(&place, &mount("other"), WRONG_KEY, "not the one");
    refused(&place, &mount("none"), NO_KEY, "No such file");
    fs::write(place.path("short"), [1; 15]).expect("written");
    refused(&place, &mount("short"), NO_KEY, "15 bytes");
    // As long as a key of AES-128 may be.
    fs::write(place.path("short"), [1; 31]).expect("written");
    refused(&place, &mount("short"), WRONG_KEY, "not the one");
    refused(
        &place,
        &format!("stack mount {lower} {{DIR}}/view"),
        USAGE,
        "--locked",
    );
    refused(&place, "stack init {DIR}/view", NO_KEY, "was not given");
}

#[test]
fn status_needs_no_key() {
    let place = prepared();
    place.says("stack status {DIR}/lower", "AES_256_XTS, not authenticated");
    place.says("--json stack status {DIR}/lower", "\"padding\": 32");
    place.ok("stack init -d {DIR}/key --cipher adiantum --padding 4 {DIR}/view");
    place.says("stack status {DIR}/view", "Adiantum, padded to 4 bytes");
}

#[test]
fn programs_use_the_view() {
    needs!(can_mount());
    let place = prepared();
    let mounted = Mounted::with_key(&place);
    mounted.shell(
        "mkdir -p a/b; echo text > a/b/file; ln -s b/file a/link; ln a/b/file a/hard; \
         mkfifo pipe; cp a/link copy; mv a/hard moved; \
         dd if=/dev/zero of=sparse bs=1 count=0 seek=10M 2>/dev/null; \
         for i in $(seq 300); do echo $i > file-$i; done",
    );
    assert_eq!(mounted.shell("cat moved a/link copy"), "text\n".repeat(3));
    assert_eq!(mounted.shell("ls | wc -l").trim(), "305");
    assert_eq!(
        mounted.shell("cat file-* | sort -n | tail -1").trim(),
        "300"
    );
    assert_eq!(
        mounted.shell("stat -c '%h %s' moved; du -k sparse | cut -f1"),
        "2 5\n0\n"
    );
    mounted.end();
    let mounted = Mounted::new(&place, &["--private", "-d", &place.arg("key")]);
    assert_eq!(
        mounted.shell("cat a/link; readlink a/link"),
        "text\nb/file\n"
    );
    mounted.end();
    // What the kernel gathers is there in the end, with the times that it has set.
    let alone = "stack mount --writeback -d {DIR}/key {DIR}/lower {DIR}/view";
    refused(&place, alone, USAGE, "--private");
    let key = place.arg("key");
    let mounted = Mounted::new(&place, &["--private", "--writeback", "-d", &key]);
    mounted.shell(
        "for i in 3 1 2 0; do printf 'part %d\n' $i | dd of=parts bs=7 seek=$i conv=notrunc status=none; done; \
         truncate -s 20 parts; cp parts copy; mv copy moved-parts; echo more >> parts; touch -d @1000000000 parts",
    );
    mounted.end();
    let mounted = Mounted::new(&place, &["-d", &key]);
    let parts = "part 0\npart 1\npart 2";
    assert_eq!(
        mounted.shell("cat parts moved-parts; stat -c ' %s %Y' parts"),
        format!("{parts}more\n{parts} 25 1000000000\n")
    );
    mounted.shell("rm -rf *");
    mounted.end();
    assert!(
        fs::read_dir(place.path("lower"))
            .expect("listed")
            .next()
            .is_none()
    );
}

/// Else what is written next is in clear.
#[test]
fn a_mount_stays_when_its_terminal_closes() {
    needs!(can_mount() && is_installed("script"));
    let place = prepared();
    fs::write(place.path("view/hidden"), "").expect("written");
    let line = "stack mount -O -d {DIR}/key {DIR}/lower {DIR}/view";
    let words = place.words(line).join(" ");
    for round in 0..5 {
        let closed = Command::new("script")
            .args(["-qec", &format!("{PROGRAM} {words}"), "/dev/null"])
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        assert!(closed.status.success(), "{closed:?}");
        assert!(!place.path("view/hidden").exists(), "round {round}");
        place.ok("stack unmount {DIR}/view");
        assert!(place.path("view/hidden").exists());
    }
}

#[test]
fn fscrypt_by_passphrase() {
    let place = Place::without_daemon();
    for dir in ["lower", "view"] {
        fs::create_dir(place.path(dir)).expect("a directory");
    }
    fs::write(place.path("pass"), "a passphrase").expect("written");
    fs::write(place.path("wrong"), "another one").expect("written");
    place.ok("stack init --passfile {DIR}/pass {DIR}/lower");
    let again = "stack init --passfile {DIR}/pass {DIR}/lower";
    refused(&place, again, EXISTS, "already");
    let wrong = "stack mount --passfile {DIR}/wrong {DIR}/lower {DIR}/view";
    refused(&place, wrong, WRONG_KEY, "passphrase is wrong");
    needs!(can_mount());
    let mounted = Mounted::new(&place, &["--passfile", &place.arg("pass")]);
    // What opens it is not in the view, and cannot be removed through it.
    assert_eq!(
        mounted.shell("ls -A; rm -rf .fscrypt; echo text > file"),
        ""
    );
    mounted.end();
    let mounted = Mounted::new(&place, &["--passfile", &place.arg("pass")]);
    assert_eq!(mounted.shell("ls -A; cat file"), "file\ntext\n");
    mounted.end();
    let status = place.ok("fscrypt status {DIR}/lower");
    let id = status
        .lines()
        .nth(1)
        .and_then(|line| line.split(' ').next());
    let id = id.expect("a protector");
    let change = format!("fscrypt metadata change-passphrase --protector {{DIR}}/lower:{id}");
    place.ok_with(&change, "a passphrase\nanother one\n");
    let mounted = Mounted::new(&place, &["--passfile", &place.arg("wrong")]);
    assert_eq!(mounted.shell("cat file"), "text\n");
    mounted.end();
    // The key of a protector opens it too.
    fs::write(place.path("raw"), [7; 32]).expect("written");
    let new =
        "fscrypt metadata create protector --source raw_key --name raw --key {DIR}/raw {DIR}/lower";
    let raw = place.ok(new);
    let policies = place.path("lower").join(".fscrypt/policies");
    let policy = fs::read_dir(&policies).expect("listed").next();
    let policy = policy.expect("one").expect("an entry").file_name();
    let with_raw = "stack mount -d {DIR}/raw {DIR}/lower {DIR}/view";
    refused(&place, with_raw, WRONG_KEY, "not the one");
    let add = format!(
        "fscrypt metadata add-protector-to-policy --key {{DIR}}/raw --unlock-with {{DIR}}/lower:{id} \
         --protector {{DIR}}/lower:{} --policy {{DIR}}/lower:{}",
        raw.trim(),
        policy.display()
    );
    place.ok_with(&add, "another one\n");
    let mounted = Mounted::new(&place, &["-d", &place.arg("raw")]);
    assert_eq!(mounted.shell("cat file"), "text\n");
    mounted.end();
    let policy = fs::read_dir(policies).expect("listed").next();
    let policy = policy.expect("one").expect("an entry").path();
    let bytes = fs::read(&policy).expect("read");
    fs::write(&policy, &bytes[..50]).expect("written");
    let damaged = "stack mount --passfile {DIR}/pass {DIR}/lower {DIR}/view";
    refused(&place, damaged, DAMAGED, "damaged");
}

/// A policy of Linux whose IVs have the numbers of inodes.
#[test]
fn inode_numbers_in_ivs_are_refused() {
    let place = prepared();
    let lower = place.path("lower");
    let space = ["trusted.sr-c", "user.sr-c"];
    let (name, mut context) = space
        .iter()
        .find_map(|name| {
            let mut bytes = vec![0; 40];
            let len = rustix::fs::getxattr(&lower, *name, &mut bytes[..]).ok()?;
            (len == 40).then_some((*name, bytes))
        })
        .expect("a context");
    for flag in [8, 16] {
        context[3] = context[3] & 3 | flag;
        let replace = rustix::fs::XattrFlags::REPLACE;
        rustix::fs::setxattr(&lower, name, &context, replace).expect("set");
        let mount = "stack mount -d {DIR}/key {DIR}/lower {DIR}/view";
        refused(&place, mount, OTHER, "IV_INO_LBLK");
        refused(&place, "stack status {DIR}/lower", OTHER, "IV_INO_LBLK");
    }
}

/// Over the lower directory itself, which is hidden meanwhile.
#[test]
fn mounted_over_itself() {
    needs!(can_mount());
    let place = prepared();
    fs::remove_dir(place.path("view")).expect("removed");
    std::os::unix::fs::symlink(place.path("lower"), place.path("view")).expect("linked");
    let mounted = Mounted::with_key(&place);
    mounted.shell("echo text > file");
    assert_eq!(
        fs::read_to_string(place.path("lower/file")).expect("read"),
        "text\n"
    );
    mounted.shell("rm file");
    mounted.end();
}

/// Changes beneath the mount are seen when a file is opened.
#[test]
fn two_mounts_of_one_directory() {
    needs!(can_mount());
    let place = prepared();
    let first = Mounted::with_key(&place);
    fs::create_dir(place.path("second")).expect("a directory");
    let mut second = Command::new(PROGRAM)
        .args(["stack", "mount", "--foreground", "-d"])
        .args([place.path("key"), place.path("lower"), place.path("second")])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut line = String::new();
    let output = second.stderr.as_mut().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("a line");
    let other = place.path("second");
    for text in ["one", "two", "a longer one"] {
        first.shell(&format!("printf '{text}' > file"));
        assert_eq!(fs::read_to_string(other.join("file")).expect("read"), text);
    }
    // Its kernel keeps attributes for a moment. What is opened by a name is what is there now, with the end that it has.
    for text in ["a file in its place", "another"] {
        fs::metadata(other.join("file")).expect("found");
        first.shell(&format!(
            "printf '{text}' > made; mv file kept; mv made file"
        ));
        assert_eq!(fs::read_to_string(other.join("file")).expect("read"), text);
        fs::metadata(other.join("file")).expect("found");
        first.shell("printf ', more' >> file");
        let end = fs::OpenOptions::new().append(true).open(other.join("file"));
        end.expect("opened")
            .write_all(b", and more")
            .expect("written");
        let all = format!("{text}, more, and more");
        assert_eq!(first.shell("cat file"), all);
        fs::metadata(other.join("file")).expect("found");
        first.shell("mv file kept; printf new > file");
        fs::write(other.join("file"), "newer").expect("written");
        assert_eq!(
            first.shell("cat kept; echo; cat file"),
            format!("{all}\nnewer")
        );
    }
    fs::write(other.join("new"), "of the second").expect("written");
    assert_eq!(first.shell("cat new"), "of the second");
    fs::remove_file(other.join("file")).expect("removed");
    assert_eq!(first.shell("ls"), "kept\nnew\n");
    let process = rustix::process::Pid::from_child(&second);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("sent");
    assert!(second.wait().expect("ended").success());
    first.end();
}

#[test]
fn without_the_key() {
    needs!(can_mount());
    let place = prepared();
    let mounted = Mounted::with_key(&place);
    mounted.shell("echo secret > file; mkdir dir");
    mounted.end();
    let mounted = Mounted::new(&place, &["--locked"]);
    let entries: Vec<_> = fs::read_dir(&mounted.view)
        .expect("listed")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(entries.len(), 2);
    let file = entries.iter().find(|path| path.is_file()).expect("a file");
    let error = fs::read(file).expect_err("no key");
    assert_eq!(error.raw_os_error(), Some(vfs_no_key()));
    let error = fs::write(mounted.view.join("new"), "x").expect_err("no key");
    assert_eq!(error.raw_os_error(), Some(vfs_no_key()));
    fs::remove_file(file).expect("removed");
    mounted.end();
}

#[test]
fn names_in_clear() {
    needs!(can_mount());
    let place = Place::without_daemon();
    place.ok("keygen {DIR}/key");
    for dir in ["lower", "view"] {
        fs::create_dir(place.path(dir)).expect("a directory");
    }
    place.ok("stack init --clear-names -d {DIR}/key {DIR}/lower");
    place.says("stack status {DIR}/lower", "NULL");
    let mounted = Mounted::with_key(&place);
    mounted
        .shell("mkdir d; echo secret text > d/name; mv d/name d/new; ln -s d/new link; cat link");
    assert_eq!(
        mounted.shell("cat d/new; readlink link"),
        "secret text\nd/new\n"
    );
    mounted.end();
    let stored = fs::read(place.path("lower/d/new")).expect("under its own name");
    assert_eq!(stored.len(), 4096);
    assert!(!stored.windows(6).any(|bytes| bytes == b"secret"));
    // Without the key names are there, and contents are not.
    let locked = Mounted::new(&place, &["--locked"]);
    let view = place.path("view");
    assert_eq!(
        locked.shell("ls; ls d; readlink link"),
        "d\nlink\nnew\nd/new\n"
    );
    let codes = [
        fs::read(view.join("d/new")).map(drop),
        fs::write(view.join("d/other"), ""),
        fs::create_dir(view.join("other")),
        fs::rename(view.join("d/new"), view.join("d/other")),
    ];
    let codes = codes.map(|done| done.expect_err("without the key").raw_os_error());
    assert_eq!(codes, [Some(vfs_no_key()); 4]);
    locked.shell("rm d/new link; rmdir d");
    locked.end();
}

/// A passphrase opens a directory whose names are not encrypted.
#[test]
fn names_in_clear_with_a_passphrase() {
    needs!(can_mount());
    let place = Place::without_daemon();
    for dir in ["lower", "view"] {
        fs::create_dir(place.path(dir)).expect("a directory");
    }
    for name in ["pass", "wrong"] {
        fs::write(place.path(name), format!("a passphrase {name}\n")).expect("written");
    }
    place.ok("stack init --clear-names --passfile {DIR}/pass {DIR}/lower");
    place.says("stack status {DIR}/lower", "NULL");
    let wrong = "stack mount --passfile {DIR}/wrong {DIR}/lower {DIR}/view";
    refused(&place, wrong, WRONG_KEY, "wrong");
    for script in ["echo secret text > name", "cat name"] {
        let mounted = Mounted::new(&place, &["--passfile", &place.arg("pass")]);
        mounted.shell(script);
        mounted.end();
    }
    let stored = fs::read(place.path("lower/name")).expect("under its own name");
    assert!(!stored.windows(6).any(|bytes| bytes == b"secret"));
    place.says("fscrypt status {DIR}/lower", "POLICY");
}

/// `ENOKEY`
fn vfs_no_key() -> i32 {
    rustix::io::Errno::NOKEY.raw_os_error()
}

/// Each file in the lower directory belongs to the user who made it, with the modes of the view.
#[test]
fn owners_and_modes() {
    needs!(can_mount());
    let place = prepared();
    let mounted = Mounted::with_key(&place);
    mounted.shell(
        "umask 027; echo x > file; mkdir dir; chmod 1777 dir; echo y > closed; chmod 0 closed",
    );
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    assert_eq!(mode(&mounted.view.join("file")), 0o640);
    assert_eq!(mode(&mounted.view.join("dir")), 0o1777);
    assert_eq!(mode(&mounted.view.join("closed")), 0);
    if is_root() {
        mounted.shell("chown 12345:54321 file");
        let file = fs::metadata(mounted.view.join("file")).expect("there");
        assert_eq!((file.uid(), file.gid()), (12345, 54321));
    }
    mounted.end();
}

/// Makes the lower directory that the crate `stack` has from pefs, with its key chain.
fn unpack_pefs(to: &Path) {
    use std::os::unix::ffi::OsStringExt;
    let bytes = |text: &str| -> Vec<u8> {
        let digits = (0..text.len() / 2).map(|i| &text[2 * i..2 * i + 2]);
        let byte = |digits| u8::from_str_radix(digits, 16).expect("hex");
        digits.map(byte).collect()
    };
    let path = |text: &str| PathBuf::from(std::ffi::OsString::from_vec(bytes(text)));
    fs::create_dir(to).expect("a directory");
    let lines = include_str!("../../../stack/tests/pefs_tree.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let at = to.join(path(fields[1]));
        match fields[0] {
            "dir" => fs::create_dir(at).expect("a directory"),
            "file" => fs::write(at, bytes(fields[2])).expect("written"),
            "hard" => fs::hard_link(to.join(path(fields[2])), at).expect("linked"),
            _ => std::os::unix::fs::symlink(path(fields[2]), at).expect("linked"),
        }
    }
    fs::copy("../stack/tests/pefs_database", to.join(".pefs.db")).expect("copied");
}

#[test]
fn a_directory_of_pefs() {
    let place = Place::without_daemon();
    unpack_pefs(&place.path("lower"));
    fs::create_dir(place.path("view")).expect("a directory");
    place.says("stack status {DIR}/lower", "pefs");
    fs::write(place.path("wrong"), "open sesam\n").expect("written");
    let line = "stack mount --passfile {DIR}/wrong {DIR}/lower {DIR}/view";
    refused(&place, line, WRONG_KEY, "none of those");
    needs!(can_mount());
    fs::write(place.path("pass"), "open sesame\n").expect("written");
    let mounted = Mounted::new(&place, &["--passfile", &place.arg("pass")]);
    // Of the first key, and of the two that its chain leads to.
    assert_eq!(
        mounted.shell("cat hello.txt s-short"),
        "Hello WORLD\n".repeat(2)
    );
    assert_eq!(mounted.shell("ls -A mixed docs/b | wc -w").trim(), "11");
    mounted.shell("echo text > docs/b/new; mv docs/b/new docs/b/moved");
    assert_eq!(mounted.shell("cat docs/b/moved"), "text\n");
    mounted.end();
    let mounted = Mounted::new(&place, &["--locked"]);
    assert_eq!(mounted.shell("cat plain.txt | wc -c").trim(), "16");
    assert!(fs::write(mounted.view.join("new"), "x").is_err());
    mounted.end();
}

/// The command returns when the mount answers, and others find it and end it.
#[test]
fn a_mount_in_the_background() {
    needs!(can_mount());
    let place = prepared();
    let (lower, view) = (place.arg("lower"), place.arg("view"));
    let unmount = format!("stack unmount {view}");
    refused(
        &place,
        &unmount,
        NOT_FOUND,
        "no encrypted directory is mounted",
    );
    place.ok(&format!("stack mount -d {{DIR}}/key {lower} {view}"));
    fs::write(place.path("view/file"), "text").expect("written");
    let listed = place.ok("stack list -H");
    let line = listed.lines().find(|line| line.contains(&view));
    assert_eq!(line, Some(&*format!("{lower}\t{view}\t0\tread-write")));
    has(
        &place.ok("stack list --json"),
        &format!("\"mountpoint\": \"{view}\""),
    );

    let used = fs::File::open(place.path("view/file")).expect("open");
    refused(&place, &unmount, BUSY, "in use");
    drop(used);
    // Named in another way.
    place.ok(&format!("stack umount {view}/../view/"));
    refused(
        &place,
        &unmount,
        NOT_FOUND,
        "no encrypted directory is mounted",
    );
    assert!(fs::read_dir(&view).expect("listed").next().is_none());

    let mount = format!("stack mount -d {{DIR}}/key {lower} {view}");
    let remount = format!("{mount} -o remount,ro");
    refused(
        &place,
        &remount,
        NOT_FOUND,
        "no encrypted directory is mounted",
    );
    let strict = format!("{mount} -o strictatime");
    refused(&place, &strict, USAGE, "of the lower file system");
    place.ok(&format!("{mount} -o ro,noexec,noatime,nofail"));
    let kernels = fs::read_to_string("/proc/mounts").expect("a list");
    let line = kernels.lines().find(|line| line.contains(&view));
    has(line.expect("mounted"), " ro,noexec,noatime,");
    place.says("stack list -H", "read-only");
    let mut used = fs::File::open(place.path("view/file")).expect("open");
    place.ok(&format!("stack unmount -f {view}"));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut used, &mut text).expect("it goes on");
    assert_eq!(text, "text");
    assert!(!place.path("view/file").exists());
}

/// An ordinary user needs no root, and no terminal afterwards.
#[test]
fn a_mount_of_another_user() {
    needs!(can_mount() && is_installed("fusermount3"));
    let device = fs::metadata("/dev/fuse").expect("it can mount");
    if device.mode() & 0o006 != 0o006 {
        println!("skipped: /dev/fuse is closed to users");
        return;
    }
    let place = prepared();
    let own = place.path("own");
    for dir in ["own", "own/lower", "own/view"] {
        fs::create_dir(place.path(dir)).expect("a directory");
        std::os::unix::fs::chown(place.path(dir), Some(NOBODY), Some(NOBODY)).expect("root");
    }
    fs::copy(place.path("key"), own.join("key")).expect("copied");
    std::os::unix::fs::chown(own.join("key"), Some(NOBODY), Some(NOBODY)).expect("root");
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o755)).expect("root");
    let as_user = |line: &str| place.run_as((NOBODY, NOBODY), &place.socket(), line);
    let done = as_user("stack init -d {DIR}/own/key {DIR}/own/lower");
    assert_eq!(done.code, 0, "{done:?}");
    let done = as_user("stack mount -d {DIR}/own/key {DIR}/own/lower {DIR}/own/view");
    assert_eq!(done.code, 0, "{done:?}");
    has(&place.ok("stack list -H"), &format!("\t{NOBODY}\t"));
    let done = as_user("stack unmount {DIR}/own/view");
    assert_eq!(done.code, 0, "{done:?}");
}

/// More files than the process of the mount may have open: each inode that the kernel knows is one.
#[test]
fn few_descriptors_are_enough() {
    needs!(can_mount());
    let place = prepared();
    let (lower, view) = (place.arg("lower"), place.path("view"));
    let mount = "ulimit -n 2000 && exec \"$0\" stack mount -d \"$1\" \"$2\" \"$3\"";
    let done = Command::new("sh")
        .args(["-c", mount, PROGRAM, &place.arg("key"), &lower])
        .arg(&view)
        .output()
        .expect("a shell");
    assert!(done.status.success(), "{done:?}");
    const FILES: usize = 4000;
    let name = |number: usize| view.join(number.to_string());
    for number in 0..FILES {
        fs::write(name(number), number.to_string()).expect("written");
    }
    assert_eq!(fs::read_dir(&view).expect("listed").count(), FILES);
    for number in 0..FILES {
        let text = fs::read_to_string(name(number)).expect("read");
        assert_eq!(text, number.to_string());
    }
    place.ok(&format!("stack unmount -f {}", view.display()));
}
