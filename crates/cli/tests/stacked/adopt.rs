//! `adopt`: what rsync keeps is kept, a copy that was interrupted goes on, and what is left is named.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::stacked_directory::{Mounted, refused};
use crate::common::*;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, kill_process};

/// A place with a mounted dataset at `home`, and an empty directory `source`.
fn place() -> Option<Place> {
    can_mount().then(|| {
        let place = Place::new();
        place.ok("pool create -s 128M -m none tank {DIR}/tank.pool");
        place.ok("create -o mountpoint={DIR}/home tank/home");
        fs::create_dir(place.path("source")).unwrap();
        place
    })
}

fn shell(dir: &Path, script: &str) {
    let done = Command::new("sh")
        .args(["-euc", script])
        .current_dir(dir)
        .output();
    let done = done.expect("a shell");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{script}: {said}");
}

/// All that is to be kept of a tree, by path.
fn picture(root: &Path) -> BTreeMap<PathBuf, String> {
    let (mut found, mut first_names) = (BTreeMap::new(), HashMap::new());
    let mut open = vec![PathBuf::new()];
    while let Some(path) = open.pop() {
        let full = root.join(&path);
        let meta = fs::symlink_metadata(&full).unwrap();
        let mut contents = String::new();
        if meta.is_dir() {
            let names = fs::read_dir(&full).unwrap();
            let mut names: Vec<OsString> = names.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            open.extend(names.iter().rev().map(|name| path.join(name)));
        } else if meta.is_symlink() {
            contents = format!("{:?}", fs::read_link(&full).unwrap());
        } else if meta.is_file() {
            let bytes = fs::read(&full).unwrap();
            contents = format!("{} {}", bytes.len(), blake3::hash(&bytes));
        }
        let first = first_names
            .entry(meta.ino())
            .or_insert_with(|| path.clone());
        let line = format!(
            "{:o} {}:{} {}.{} {:x} {first:?} {contents} {:?}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.rdev(),
            attributes(&full)
        );
        found.insert(path, line);
    }
    found
}

fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 4096];
    let len = rustix::fs::llistxattr(path, &mut names[..]).unwrap();
    let names = names[..len].split(|byte| *byte == 0);
    names
        .filter(|name| !name.is_empty())
        .map(|name| {
            let mut value = vec![0; 4096];
            let len = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
            value.truncate(len);
            (String::from_utf8_lossy(name).into_owned(), value)
        })
        .collect()
}

fn no_leftovers(dir: &Path) {
    for path in picture(dir).keys() {
        lacks(&path.to_string_lossy(), ".strongroom-adopt-");
    }
}

#[test]
fn a_tree_keeps_all_that_belongs_to_it() {
    let place = needs!(place());
    let (source, home) = (place.path("source"), place.path("home"));
    shell(
        &source,
        "mkdir -p a/b/c empty; printf hello > a/file; ln a/file a/b/second; ln a/file third
         ln -s /etc/passwd a/outside; ln -s nowhere a/b/dangling; mkfifo a/fifo
         truncate -s 64M a/sparse; printf data | dd of=a/sparse bs=1M seek=9 conv=notrunc status=none
         printf x > \"$(printf 'line\\nend')\"; printf x > \"$(printf 'not \\377 utf')\"
         printf x > setuid; chmod 4711 setuid; chmod 0 a/b/c; chmod 1777 empty
         touch -h -d '2001-02-03 04:05:06.123456789' a/file a/outside a/fifo empty a/b",
    );
    if is_installed("setfattr") && is_installed("setfacl") {
        shell(
            &source,
            "setfattr -n user.k -v value a/file; setfattr -n user.k -v value empty
             setfacl -m u:12345:rwx,m::rx a/sparse; setfacl -d -m g:54321:rx a",
        );
    }
    if is_root() {
        shell(
            &source,
            "chown 12345:54321 a/b/second; chown -h 12345:54321 a/outside; mknod a/device c 1 3
             setfattr -n trusted.t -v t a/outside || true",
        );
    }
    let _socket = UnixListener::bind(source.join("a/socket")).unwrap();
    let before = picture(&source);
    place.ok("adopt -n {DIR}/source {DIR}/home");
    assert_eq!(picture(&home).len(), 1, "a dry run makes nothing");

    let said = place.ok("adopt {DIR}/source {DIR}/home");
    has(&said, "copied and verified 5 files (64.0M)");
    has(&said, "2 hard links, 2 symbolic links");
    assert_eq!(picture(&home), before);
    assert_eq!(picture(&source), before);
    let sparse = fs::metadata(home.join("a/sparse")).unwrap();
    assert!(sparse.blocks() < 4096, "{} blocks", sparse.blocks());

    let said = place.ok("adopt --json {DIR}/source {DIR}/home");
    for nothing in [
        "\"files\": 0",
        "\"links\": 0",
        "\"special\": 0",
        "\"left\": 0",
    ] {
        has(&said, nothing);
    }

    // A mode, and a second name less. Both are changes without a new time.
    shell(
        &source,
        "chmod 600 setuid; rm third; cp -p a/file third; chmod 700 a/b/c",
    );
    place.ok("adopt -c {DIR}/source {DIR}/home");
    assert_eq!(picture(&home), picture(&source));
}

#[test]
fn what_is_newer_or_in_the_way_is_left_and_named() {
    let place = needs!(place());
    let (source, home) = (place.path("source"), place.path("home"));
    shell(
        &source,
        "mkdir d link; printf old > d/file; printf x > link/file; printf x > f; printf y > z",
    );
    shell(&source, "touch -d '2001-01-01' d/file f");
    place.ok("adopt {DIR}/source {DIR}/home");
    let outside = place.path("outside");
    fs::create_dir(&outside).unwrap();
    // In the way: a link where a directory goes, and a directory where a file goes.
    fs::remove_dir_all(home.join("link")).unwrap();
    symlink(&outside, home.join("link")).unwrap();
    fs::remove_file(home.join("f")).unwrap();
    fs::create_dir(home.join("f")).unwrap();
    fs::write(home.join("d/file"), "work of today").unwrap();
    fs::write(home.join("z"), "Z").unwrap();
    fs::write(source.join("z"), "newer than the target").unwrap();
    shell(&source, "touch -d 'now + 1 day' z");

    let done = place.run(&place.words("adopt {DIR}/source {DIR}/home"));
    assert_eq!(done.code, OTHER, "{done:?}");
    assert_eq!(done.err.lines().count(), 3, "{}", done.err);
    has(
        &done.err,
        "source/d/file': the target is newer; -f replaces it",
    );
    has(
        &done.err,
        "source/link': something else has the name of this directory",
    );
    has(&done.err, "source/f': a directory has this name");
    has(&done.out, "3 entries are left");
    assert_eq!(fs::read(home.join("d/file")).unwrap(), b"work of today");
    assert_eq!(fs::read(home.join("z")).unwrap(), b"newer than the target");
    assert!(fs::read_dir(&outside).unwrap().next().is_none());

    fs::remove_file(home.join("link")).unwrap();
    fs::remove_dir(home.join("f")).unwrap();
    place.ok("adopt -f {DIR}/source {DIR}/home");
    assert_eq!(picture(&home), picture(&source));

    // The same size and time, and other contents.
    let time = fs::metadata(source.join("f")).unwrap().modified().unwrap();
    let file = File::options().write(true).open(home.join("f")).unwrap();
    file.write_all_at(b"!", 0).unwrap();
    file.set_modified(time).unwrap();
    drop(file);
    place.ok("adopt {DIR}/source {DIR}/home");
    assert_eq!(fs::read(home.join("f")).unwrap(), b"!");
    place.ok("adopt --checksum {DIR}/source {DIR}/home");
    assert_eq!(picture(&home), picture(&source));
}

#[test]
fn what_another_user_has_in_the_target_is_not_given_away() {
    let place = needs!(place());
    needs!(is_root());
    let (source, home) = (place.path("source"), place.path("home"));
    place.ok("create tank/home/dataset");
    shell(
        &source,
        "mkdir private dataset; printf data > private/x; chmod 777 private; printf 12345 > file
         touch -d 2001-01-01 file; chown -R 12345:12345 .",
    );
    shell(
        &home,
        "mkdir private; chmod 700 private; printf admin > file; chmod 600 file; touch -d 2001-01-01 file",
    );
    let secret = File::open(home.join("file")).unwrap();

    let done = place.run(&place.words("adopt {DIR}/source {DIR}/home"));
    assert_eq!(done.code, OTHER, "{done:?}");
    assert_eq!(done.err.lines().count(), 1, "{}", done.err);
    has(
        &done.err,
        "source/private': the directory in the target belongs to the user 0, and this one to 12345",
    );
    let owner_and_mode = |path: &str| {
        let meta = fs::metadata(home.join(path)).unwrap();
        (meta.uid(), meta.mode() & 0o7777)
    };
    assert_eq!(owner_and_mode("private"), (0, 0o700));
    assert!(!home.join("private/x").exists());
    assert_eq!(secret.metadata().unwrap().uid(), 0, "a copy takes its name");
    assert_eq!(fs::read(home.join("file")).unwrap(), b"12345");
    assert_eq!(owner_and_mode("dataset").0, 12345, "a new dataset is empty");

    shell(
        &source,
        "printf new > own; chown 12345:12345 own; chmod 4755 own",
    );
    place.ok("adopt --no-owner {DIR}/source {DIR}/home");
    assert_eq!(owner_and_mode("private"), (0, 0o700));
    assert_eq!(owner_and_mode("own"), (0, 0o755), "not root's rights");
    fs::remove_file(home.join("own")).unwrap();

    // What an interrupted run made is root's too, but has a mark.
    let mark = "trusted.strongroom.unfinished";
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(home.join("private"), mark, b"1", flags).unwrap();
    place.ok("adopt {DIR}/source {DIR}/home");
    let private = |dir: &Path| picture(&dir.join("private"));
    assert_eq!(private(&home), private(&source));
}

#[test]
fn a_copy_that_ended_early_goes_on() {
    let place = needs!(place());
    let (source, home) = (place.path("source"), place.path("home"));
    let mut bytes = contents(5, 12 << 20);
    // A hole, of which the first run has not come to the end.
    bytes[4 << 20..6 << 20].fill(0);
    let large = File::create(source.join("large")).unwrap();
    large.write_all_at(&bytes[..4 << 20], 0).unwrap();
    large.write_all_at(&bytes[6 << 20..], 6 << 20).unwrap();
    fs::write(source.join("a"), "before it").unwrap();
    place.ok("set quota=9M tank/home");
    let done = place.run(&place.words("adopt {DIR}/source {DIR}/home"));
    assert_eq!(done.code, NO_SPACE, "{done:?}");
    has(&done.err, "source/large': cannot be written");
    assert!(
        !home.join("large").exists(),
        "only what is whole has the name"
    );
    let begun = fs::read_dir(&home)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let begun: Vec<PathBuf> = begun
        .filter(|path| path.to_string_lossy().contains(".strongroom-adopt-"))
        .collect();
    assert_eq!(begun.len(), 1, "{begun:?}");
    place.ok("set quota=none tank/home");
    // What is wrong in it is not believed: neither in the data nor in the hole.
    let file = File::options().write(true).open(&begun[0]).unwrap();
    file.write_all_at(b"wrong", 1 << 20).unwrap();
    file.write_all_at(b"wrong", 5 << 20).unwrap();
    // Another command has it, which copies into a directory above.
    file.lock().unwrap();
    let done = place.run(&place.words("adopt {DIR}/source {DIR}/home"));
    assert_eq!(done.code, OTHER, "{done:?}");
    has(&done.err, "another command copies it");
    assert!(begun[0].exists());
    drop(file);
    let said = place.ok("adopt {DIR}/source {DIR}/home");
    has(&said, "copied and verified 1 file (12M)");
    has(&said, "1 entry was there already");
    assert_eq!(picture(&home), picture(&source));
    no_leftovers(&home);
}

/// Many files whose lines are long, `000-…` to `059-…`, in the directory `d` of the source.
fn many_files(source: &Path) -> Vec<PathBuf> {
    let dir = source.join("d");
    fs::create_dir(&dir).unwrap();
    let paths = (0..60).map(|number| dir.join(format!("{number:03}-{}", "x".repeat(200))));
    let paths: Vec<PathBuf> = paths.collect();
    for (number, path) in paths.iter().enumerate() {
        fs::write(path, contents(number, 3000)).unwrap();
    }
    paths
}

/// Starts a copy that prints its lines into a pipe of one page: it gets twenty of [`many_files`] ahead of the reader at most.
fn begin(place: &Place) -> (Child, BufReader<File>) {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let size = rustix::pipe::fcntl_setpipe_size(&write, 4096).unwrap();
    assert_eq!(size, 4096, "a page");
    let mut command = place.command();
    command
        .args(place.words("adopt -v {DIR}/source {DIR}/home"))
        .stdout(write)
        .stderr(Stdio::piped());
    (command.spawn().unwrap(), BufReader::new(read.into()))
}

#[test]
fn what_changes_during_a_copy_is_named_and_copied_next_time() {
    let place = needs!(place());
    let (source, home) = (place.path("source"), place.path("home"));
    let files = many_files(&source);
    let (last, gone) = (files.len() - 1, files.len() - 2);
    fs::remove_file(&files[last]).unwrap();
    fs::hard_link(&files[0], &files[last]).unwrap();

    let (mut child, mut lines) = begin(&place);
    let mut line = String::new();
    while !line.contains("000-") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended");
    }
    // The first name is copied, and the last one is not: it is no link to what the file was.
    fs::write(&files[last], "other contents").unwrap();
    fs::remove_file(&files[gone]).unwrap();
    fs::write(source.join("d/new"), "new").unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    let mut errors = String::new();
    let said = child.stderr.as_mut().unwrap();
    said.read_to_string(&mut errors).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(OTHER), "{errors}");
    has(&errors, "': went away while SOURCE was copied");
    has(&errors, "source/d': changed while it was copied");
    assert_eq!(errors.lines().count(), 2, "{errors}");
    let copy = |number: usize| home.join(files[number].strip_prefix(&source).unwrap());
    assert_eq!(fs::read(copy(0)).unwrap(), contents(0, 3000));
    assert_eq!(fs::read(copy(last)).unwrap(), b"other contents");

    place.ok("adopt {DIR}/source {DIR}/home");
    assert_eq!(picture(&home), picture(&source));
}

#[test]
fn a_copy_that_is_killed_at_any_file_goes_on() {
    let place = needs!(place());
    let (source, home) = (place.path("source"), place.path("home"));
    let files = many_files(&source);
    shell(
        &source,
        "ln d/000-* linked; ln -s d to; mkfifo d/fifo; chmod 750 d",
    );
    let is_ended = |signal: Signal| {
        let (mut child, mut lines) = begin(&place);
        let mut line = String::new();
        // Ten lines, so that it is not ended sixty times.
        let is_ended = (0..10).any(|_| lines.read_line(&mut line).unwrap() == 0);
        if !is_ended {
            kill_process(Pid::from_child(&child), signal).unwrap();
        }
        let _ = lines.read_to_string(&mut line);
        let code = child.wait().unwrap().code();
        // What has its name is whole.
        for path in &files {
            let copy = home.join(path.strip_prefix(&source).unwrap());
            if let Ok(bytes) = fs::read(copy) {
                assert!(bytes == fs::read(path).unwrap(), "{path:?}");
            }
        }
        is_ended.then(|| assert_eq!(code, Some(0))).is_some()
    };
    while !is_ended(Signal::KILL) && !is_ended(Signal::INT) {}
    assert_eq!(picture(&home), picture(&source));
    no_leftovers(&home);
}

#[test]
fn a_wrong_place_is_refused_before_anything_is_copied() {
    let place = needs!(place());
    fs::write(place.path("source/file"), "text").unwrap();
    fs::create_dir(place.path("plain")).unwrap();
    fs::create_dir(place.path("home/inner")).unwrap();
    let why = place.fails("adopt {DIR}/source {DIR}/plain", USAGE);
    has(&why, "not in a mounted dataset or stacked directory");
    for line in [
        "adopt {DIR}/home {DIR}/home",
        "adopt {DIR}/home/inner {DIR}/home",
        "adopt {DIR}/home {DIR}/home/inner",
        "adopt {DIR} {DIR}/home",
    ] {
        place.refuses(line, USAGE, "inside of it");
    }
    place.fails("adopt {DIR}/nothing {DIR}/home", NOT_FOUND);
    place.fails("adopt {DIR}/source {DIR}/nothing", USAGE);
    place.fails("adopt {DIR}/source {DIR}/nothing/below", NOT_FOUND);
    place.fails("adopt {DIR}/source/file {DIR}/home", USAGE);
    has(
        &place.fails("adopt --passfile {DIR}/p {DIR}/source {DIR}/home", USAGE),
        "not a directory of gocryptfs",
    );
    fs::create_dir(place.path("lower")).unwrap();
    place.ok("stack init --by-directory {DIR}/lower");
    has(
        &place.fails("adopt {DIR}/lower {DIR}/home", USAGE),
        "is encrypted by fscrypt",
    );
    let other = File::open(place.path("home")).unwrap();
    other.lock().unwrap();
    has(
        &place.fails("adopt {DIR}/source {DIR}/home", BUSY),
        "another command copies",
    );
    drop(other);
    assert!(!place.path("plain/file").exists());
    assert!(!place.path("home/file").exists());
}

#[test]
fn a_user_copies_with_the_rights_of_the_user() {
    needs!(can_mount());
    let place = needs!(shared_place());
    place.ok("pool create -s 64M -m none tank {DIR}/tank.pool");
    place.ok("create -o mountpoint={DIR}/home tank/home");
    fs::create_dir(place.path("source")).unwrap();
    let source = place.path("source");
    shell(
        &source,
        "printf a > own; printf b > readable; printf c > secret; chmod 600 secret; chmod 4755 readable
         chown 12345:12345 . own ../home",
    );
    let socket = place.socket();
    let ann = |options: &str| {
        let line = format!("adopt {options} {{DIR}}/source {{DIR}}/home");
        place.run_as((ANN, ANN), &socket, &line)
    };
    let done = ann("");
    assert_eq!(done.code, OTHER, "{done:?}");
    has(
        &done.err,
        "source/secret': cannot be read: Permission denied",
    );
    has(
        &done.err,
        "source/readable': copied, but its owner 0:0 cannot be kept",
    );
    assert_eq!(done.err.lines().count(), 2, "{}", done.err);
    let readable = fs::metadata(place.path("home/readable")).unwrap();
    assert_eq!((readable.uid(), readable.mode() & 0o7777), (ANN, 0o755));
    assert_eq!(fs::read(place.path("home/own")).unwrap(), b"a");
    let done = ann("--no-owner");
    assert_eq!(done.err.lines().count(), 1, "{done:?}");
}

#[test]
fn a_directory_of_gocryptfs_is_opened_for_the_copy_only() {
    let place = needs!(place());
    for dir in ["lower", "view"] {
        fs::create_dir(place.path(dir)).unwrap();
    }
    fs::write(place.path("pass"), "a passphrase\n").unwrap();
    fs::write(place.path("wrong"), "another\n").unwrap();
    place.ok("stack init --format gocryptfs --passfile {DIR}/pass {DIR}/lower");
    let mounted = Mounted::new(&place, &["--passfile", &place.arg("pass")]);
    mounted.shell("mkdir d; seq 50000 > d/numbers; ln d/numbers again; ln -s d link; chmod 750 d");
    let wanted = picture(&mounted.view);
    if is_installed("setfattr") && is_root() {
        // Who can write the encrypted directory could give a program rights.
        mounted.shell("setfattr -n security.other -v label again");
        assert_ne!(picture(&mounted.view), wanted);
    }
    mounted.end();
    let stored = picture(&place.path("lower"));

    let wrong = "adopt --passfile {DIR}/wrong {DIR}/lower {DIR}/home";
    refused(&place, wrong, WRONG_KEY, "passphrase is wrong");
    place.ok("adopt --passfile {DIR}/pass {DIR}/lower {DIR}/home");
    assert_eq!(picture(&place.path("home")), wanted);
    assert_eq!(picture(&place.path("lower")), stored);
    lacks(&place.ok("stack list"), &place.arg("lower"));
    no_leftovers(&place.path("home"));
}

/// A target that is missing is made, in a dataset only, with the attributes of its source.
#[test]
fn a_target_that_is_missing_is_made() {
    let place = needs!(place());
    shell(
        &place.path("source"),
        "echo words > file; mkdir dir; chmod 750 .",
    );
    let adopt = |options: &str, target: &str| {
        place.run(&place.words(&format!("adopt {options} {{DIR}}/source {{DIR}}/{target}")))
    };
    let would = adopt("--json -n", "home/new");
    assert_eq!(would.code, 0, "{would:?}");
    has(&would.out, "\"files\": 1");
    assert!(!place.path("home/new").exists());
    let done = adopt("", "home/new");
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(
        picture(&place.path("home/new")),
        picture(&place.path("source"))
    );
    let mode = fs::metadata(place.path("home/new")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o750);
    assert_eq!(adopt("", "elsewhere").code, USAGE, "it is in no dataset");
    assert_eq!(adopt("", "home/no/new").code, NOT_FOUND);
    assert_eq!(adopt("", "source/new").code, USAGE);
    for made in ["elsewhere", "home/no", "source/new"] {
        assert!(!place.path(made).exists());
    }
}
