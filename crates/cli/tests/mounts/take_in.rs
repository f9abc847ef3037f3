//! Files that were written into the directory of a dataset while it was not mounted: a mount names them, and `--take-in`
//! moves them into the dataset. Whatever ends the command, no file is lost.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Stdio;

use crate::common::tracer::{self, CHANGES};
use crate::common::user::User;
use crate::common::*;

const PASSPHRASE: &str = "correct horse battery staple";

/// A dataset `tank/home` at the directory `home`, which root made, not mounted; none without mounts.
fn place() -> Option<Place> {
    needs!(can_mount() && is_root(), "not root");
    let place = Place::new();
    place.pool("tank");
    fs::create_dir(place.path("home")).unwrap();
    place.ok_with(
        "create -o encryption=on -o mountpoint={DIR}/home tank/home",
        PASSPHRASE,
    );
    fs::write(place.path("home/own"), b"of the dataset").unwrap();
    place.ok("key unload -f tank/home");
    Some(place)
}

/// Fills a directory with files of all kinds.
fn fill(dir: &Path) {
    fs::create_dir_all(dir.join("docs/deep")).unwrap();
    fs::write(dir.join("docs/deep/letter"), contents(3, 300_000)).unwrap();
    fs::write(dir.join("note"), b"a note").unwrap();
    fs::hard_link(dir.join("note"), dir.join("docs/same")).unwrap();
    symlink("/etc/passwd", dir.join("link")).unwrap();
    fs::set_permissions(dir.join("docs"), fs::Permissions::from_mode(0o2750)).unwrap();
    if is_root() {
        chown(dir.join("docs/deep"), Some(ANN), Some(STAFF)).unwrap();
    }
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(dir.join("note"), "user.k", b"value", flags).unwrap();
}

/// All that is kept of a tree but `skip`, by path.
fn picture(root: &Path, skip: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![String::new()];
    while let Some(path) = open.pop() {
        let full = root.join(&path);
        let meta = fs::symlink_metadata(&full).unwrap();
        let text = if meta.is_dir() {
            let names = fs::read_dir(&full).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            open.extend(names.map(|name| match path.is_empty() {
                true => name,
                false => format!("{path}/{name}"),
            }));
            String::new()
        } else if meta.is_symlink() {
            format!("{:?}", fs::read_link(&full).unwrap())
        } else {
            let mut value = [0; 64];
            let has = rustix::fs::getxattr(&full, "user.k", &mut value[..]);
            format!("{has:?} {}", blake3::hash(&fs::read(&full).unwrap()))
        };
        let facts = format!(
            "{:o} {}:{} {} {text}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime_nsec()
        );
        if !path.is_empty() && path != skip && path != ".snapshot" {
            found.insert(path, facts);
        }
    }
    found
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

/// Asserts that the mount is all that is left of the command.
fn is_tidy(place: &Place, home: &Path) {
    let names = fs::read_dir(place.root()).unwrap();
    for entry in names.chain(fs::read_dir(home).unwrap()) {
        lacks(&entry.unwrap().file_name().to_string_lossy(), "take-in");
    }
}

#[test]
fn a_mount_names_what_it_would_hide_and_takes_it_in() {
    let place = needs!(place());
    let home = place.path("home");
    fill(&home);
    fs::write(home.join("zoo\u{1b}[2J"), b"").unwrap();
    fs::remove_file(home.join("zoo\u{1b}[2J")).unwrap();
    for name in ["p", "q"] {
        fs::write(home.join(name), b"").unwrap();
    }
    let said = place.fails_with("mount -l tank/home", PASSPHRASE, BUSY);
    has(&said, "'docs', 'link', 'note' and 2 others, of root");
    has(&said, "--take-in");
    let before = picture(&home, "");
    let done = place.ok_with("mount -l --take-in tank/home", PASSPHRASE);
    assert_eq!(done, "moved 5 entries into tank/home\n");
    assert_eq!(picture(&home, "own"), before);
    assert_eq!(fs::read(home.join("own")).unwrap(), b"of the dataset");
    let inode = |path: &str| fs::metadata(home.join(path)).unwrap().ino();
    assert_eq!(inode("note"), inode("docs/same"));
    is_tidy(&place, &home);
    place.ok("unmount tank/home");
    assert!(is_empty(&home), "it is still there in the clear");
    // Nothing to take in.
    place.says("mount --take-in tank/home", "moved 0 entries");
    place.refuses("mount --take-in tank/home", BUSY, "is mounted already");
}

#[test]
fn a_refused_command_moves_nothing() {
    let place = needs!(place());
    let home = place.path("home");
    fill(&home);
    place.ok_with("key load tank/home", PASSPHRASE);
    let refused = |line: &str, code: i32, why: &str| {
        let before = picture(&home, "");
        has(&place.fails(line, code), why);
        assert_eq!(picture(&home, ""), before, "{why}");
        place.ok("mount -O tank/home");
        let names = fs::read_dir(&home).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["own"], "{why}");
        is_tidy(&place, &home);
        place.ok("unmount tank/home");
    };
    let line = "mount --take-in tank/home";
    // The same name, and the same file but for its owner.
    fs::write(home.join("own"), b"another").unwrap();
    refused(line, EXISTS, "something else of the name 'own'");
    fs::remove_file(home.join("own")).unwrap();
    // Another mount, which is not crossed: of another file system, and of the same one.
    let inner = home.join("docs/inner");
    fs::create_dir(&inner).unwrap();
    let nothing = rustix::mount::MountFlags::empty();
    rustix::mount::mount("none", &inner, "tmpfs", nothing, None).unwrap();
    refused(line, BUSY, "something is mounted at");
    rustix::mount::unmount(&inner, rustix::mount::UnmountFlags::DETACH).unwrap();
    rustix::mount::mount_bind(place.path("home/docs/deep"), &inner).unwrap();
    refused(line, BUSY, "something is mounted at");
    rustix::mount::unmount(&inner, rustix::mount::UnmountFlags::DETACH).unwrap();
    fs::remove_dir(&inner).unwrap();
    // There is no space for it.
    place.ok("set quota=1M tank/home");
    fs::write(home.join("large"), contents(5, 3 << 20)).unwrap();
    refused_without_space(&place, &home);
    fs::remove_file(home.join("large")).unwrap();
    for wrong in [
        "mount --take-in -O tank/home",
        "mount --take-in -a",
        "mount --take-in",
    ] {
        assert_eq!(place.run(&place.words(wrong)).code, USAGE, "{wrong}");
    }
    place.ok("snapshot tank/home@s");
    place.fails("mount --take-in tank/home@s {DIR}/s", USAGE);
    place.ok("inherit quota tank/home");
    place.ok(line);
}

fn refused_without_space(place: &Place, home: &Path) {
    let before = picture(home, "");
    place.refuses("mount --take-in tank/home", NO_SPACE, "nothing was moved");
    assert_eq!(picture(home, ""), before);
    place.ok("mount -O tank/home");
    let names = fs::read_dir(home).unwrap();
    assert_eq!(names.count(), 1);
    place.ok("unmount tank/home");
}

/// A file is here or there, whichever call the command is killed at, and a second run moves it.
#[test]
fn a_command_that_is_killed_loses_nothing() {
    let mut place = needs!(place());
    place.ok_with("key load tank/home", PASSPHRASE);
    let home = place.path("home");
    let start = |place: &Place, kill_at| {
        let mut command = place.command();
        command
            .args(place.words("mount --take-in tank/home"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let (_stdout, watch) = tracer::start(command, CHANGES, kill_at);
        watch.join().unwrap()
    };
    let anew = |place: &Place| {
        place.ok("mount -O tank/home");
        for name in ["docs", "note", "link"] {
            let path = home.join(name);
            let _ = fs::remove_dir_all(&path);
            let _ = fs::remove_file(&path);
        }
        place.ok("unmount tank/home");
        fill(&home);
    };
    fill(&home);
    let calls = start(&place, None);
    assert!(home.join("own").exists() && home.join("docs/deep/letter").exists());
    assert!(calls > 30, "{calls}");
    place.ok("unmount tank/home");
    for kill_at in (1..=calls).step_by(usize::try_from(calls / 40 + 1).unwrap()) {
        anew(&place);
        let whole = picture(&home, "");
        start(&place, Some(kill_at));
        // The daemon too, after some.
        if kill_at % 5 == 0 {
            place.kill();
            place.start();
            place.ok_with("key load tank/home", PASSPHRASE);
        }
        let done = place.run(&place.words("mount --take-in tank/home"));
        if done.code != 0 {
            // It was complete before it was killed.
            assert_eq!(done.code, BUSY, "{kill_at}: {done:?}");
            has(
                &done.err,
                &format!("mounted already, at {}", place.arg("home")),
            );
        }
        let moved = picture(&home, "own");
        let differs = moved
            .iter()
            .filter(|(path, facts)| whole.get(*path) != Some(*facts));
        assert_eq!(moved.len(), whole.len(), "{kill_at}: {moved:?}");
        // A directory that was emptied before the command was killed again has a new time.
        assert_eq!(differs.count(), 0, "{kill_at}: {moved:?} {whole:?}");
        place.ok("unmount tank/home");
        assert!(is_empty(&home), "{kill_at}");
    }
}

/// A file that changes during the move stays where it is.
#[test]
fn files_that_appear_meanwhile_stay() {
    let place = needs!(place());
    let home = place.path("home");
    place.ok_with("key load tank/home", PASSPHRASE);
    place.ok("mount -O tank/home");
    fs::create_dir(home.join("docs")).unwrap();
    fs::write(home.join("docs/one"), b"1").unwrap();
    place.ok("unmount tank/home");
    // An earlier run has copied it; since then a second file was written.
    fs::create_dir(home.join("docs")).unwrap();
    for (name, text) in [("one", "1"), ("two", "2")] {
        fs::write(home.join("docs").join(name), text).unwrap();
    }
    has(
        &place.fails("mount --take-in tank/home", EXISTS),
        "something else of the name 'docs'",
    );
    assert_eq!(fs::read(home.join("docs/two")).unwrap(), b"2");
}

/// An ordinary user with a daemon of their own.
#[test]
fn a_user_takes_files_in() {
    let user = needs!(User::new());
    let ok = |words: &str| user.ok(words);
    ok("mkdir private; $P keygen k; $P pool create -s 64M -m none tank ~/tank.pool");
    ok(
        "$P create -o encryption=on -o keysource=raw,file://$HOME/k -o mountpoint=$HOME/private tank/p",
    );
    ok("echo old > private/old; $P unmount tank/p; mkdir private/d; echo new > private/d/new");
    let (done, said) = user.run("$P mount tank/p");
    assert!(!done);
    has(&said, "it has 'd', of nobody");
    has(&ok("$P mount --take-in tank/p"), "moved 1 entry");
    assert_eq!(ok("cat private/d/new private/old"), "new\nold\n");
    ok("$P unmount tank/p; test -z \"$(ls private run | grep take-in)\"; rmdir private");
}
