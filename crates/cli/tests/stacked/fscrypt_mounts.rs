//! Mounts of fscrypt whose keys come and go.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;

use crate::common::{BUSY, EXISTS, OTHER, Place, USAGE, WRONG_KEY, can_mount, has, needs};

/// `ENOKEY` and `ENOENT`.
const NO_KEY: i32 = 126;
const NO_ENTRY: i32 = 2;

/// A directory with a key, mounted. Dropping it unmounts.
struct Mounted {
    place: Place,
}

impl Mounted {
    fn new(options: &str) -> Option<Mounted> {
        needs!(can_mount());
        let place = Place::without_daemon();
        for dir in ["lower", "view"] {
            fs::create_dir(place.path(dir)).expect("a directory");
        }
        fs::write(place.path("key"), [7; 64]).expect("written");
        fs::write(place.path("wrong"), [8; 64]).expect("written");
        place.ok("stack init -d {DIR}/key {DIR}/lower");
        place.ok(&format!(
            "stack mount {options} -d {{DIR}}/key {{DIR}}/lower {{DIR}}/view"
        ));
        Some(Mounted { place })
    }

    fn ok(&self, line: &str) -> String {
        self.place.ok(&format!("fscrypt {line}"))
    }

    fn refused(&self, line: &str, code: i32, why: &str) {
        has(&self.place.fails(&format!("fscrypt {line}"), code), why);
    }

    fn view(&self, name: &str) -> PathBuf {
        self.place.path("view").join(name)
    }

    fn listed(&self) -> Vec<String> {
        let names = fs::read_dir(self.view("")).expect("listed");
        let names = names.map(|entry| entry.expect("entry").file_name().into_string());
        let mut names: Vec<String> = names.map(|name| name.expect("UTF-8")).collect();
        names.sort();
        names
    }

    fn is_unlocked(&self, what: &str) {
        let status = self.ok("status {DIR}/view");
        has(&status, &format!("unlocked:  {what}\n"));
    }

    /// All as it was made.
    fn check(&self, contents: &[u8]) {
        assert_eq!(self.listed(), ["dir", "file", "link", "open"]);
        assert_eq!(fs::read(self.view("dir/below")).expect("read"), contents);
        let target = fs::read_link(self.view("link")).expect("read");
        assert_eq!(target, PathBuf::from("a target"));
        let meta = fs::symlink_metadata(self.view("link")).expect("there");
        assert_eq!(meta.len(), "a target".len() as u64);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let words = self.place.words("stack unmount -f {DIR}/view");
        let _ = self.place.run(&words);
    }
}

fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

fn locked_and_unlocked(options: &str) {
    let mounted = needs!(Mounted::new(options));
    fs::write(mounted.view("file"), "contents").expect("written");
    fs::create_dir(mounted.view("dir")).expect("made");
    fs::write(mounted.view("dir/below"), "below").expect("written");
    symlink("a target", mounted.view("link")).expect("linked");
    let mut open = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(mounted.view("open"))
        .expect("made");
    open.write_all(b"written").expect("written");
    mounted.check(b"below");
    mounted.is_unlocked("yes");
    let unlock = "unlock --key {DIR}/key {DIR}/view";
    mounted.refused(unlock, OTHER, "unlocked already");

    // What is open stays usable, and nothing else does.
    mounted.refused("lock {DIR}/view", BUSY, "files in it are open");
    mounted.is_unlocked("partially");
    let mut read = [0; 7];
    open.read_exact_at(&mut read, 0).expect("read");
    assert_eq!(&read, b"written");
    open.write_all_at(b"W", 0).expect("written");
    open.sync_all().expect("synced");
    assert_eq!(errno(File::open(mounted.view("file"))), Some(NO_ENTRY));
    let names = mounted.listed();
    assert!(
        names.len() == 4 && names.iter().all(|name| name.len() > 20),
        "{names:?}"
    );
    let made = errno(File::create(mounted.view("new")));
    assert_eq!(made, Some(NO_KEY));
    let mut refused = 0;
    for name in &names {
        let path = mounted.view(name);
        let meta = fs::symlink_metadata(&path).expect("there");
        if meta.is_symlink() {
            let target = fs::read_link(&path).expect("read");
            assert_ne!(target, PathBuf::from("a target"));
            assert_eq!(meta.len(), target.as_os_str().len() as u64);
        }
        if meta.is_file() {
            refused += i32::from(errno(File::open(&path)) == Some(NO_KEY));
        }
    }
    // Not the one that is open.
    assert_eq!(refused, 1);
    mounted.refused("lock {DIR}/view", BUSY, "files in it are open");
    drop(open);
    has(&mounted.ok("lock {DIR}/view"), "is locked");
    mounted.is_unlocked("no");
    mounted.refused("lock {DIR}/view", OTHER, "locked already");
    for name in &mounted.listed() {
        let path = mounted.view(name);
        if fs::symlink_metadata(&path).expect("there").is_file() {
            assert_eq!(errno(File::open(&path)), Some(NO_KEY));
        }
    }

    let wrong = "unlock --key {DIR}/wrong {DIR}/view";
    mounted.refused(wrong, WRONG_KEY, "not the one");
    mounted.refused("unlock {DIR}/view", USAGE, "--key");
    mounted.ok(unlock);
    mounted.is_unlocked("yes");
    mounted.check(b"below");
    assert_eq!(fs::read(mounted.view("open")).expect("read"), b"Written");
}

#[test]
fn keys_go_when_files_are_closed() {
    locked_and_unlocked("");
}

#[test]
fn keys_go_where_the_kernel_keeps_files() {
    locked_and_unlocked("--private");
    locked_and_unlocked("--private --writeback");
}

/// A key that comes back while files are open is there as before.
#[test]
fn a_key_comes_back() {
    let mounted = needs!(Mounted::new(""));
    fs::write(mounted.view("file"), "contents").expect("written");
    let open = File::open(mounted.view("file")).expect("open");
    mounted.refused("lock {DIR}/view", BUSY, "open");
    mounted.ok("unlock --key {DIR}/key {DIR}/view");
    mounted.is_unlocked("yes");
    drop(open);
    assert_eq!(fs::read(mounted.view("file")).expect("read"), b"contents");
    mounted.ok("lock {DIR}/view");
    mounted.is_unlocked("no");
}

/// A file that is only held, and not open, keeps no key.
#[test]
fn what_is_held_is_locked() {
    let mounted = needs!(Mounted::new(""));
    fs::write(mounted.view("file"), "contents").expect("written");
    let flags = rustix::fs::OFlags::PATH;
    let held = rustix::fs::open(mounted.view("file"), flags, rustix::fs::Mode::empty());
    let held = held.expect("held");
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    assert_eq!(fs::read(&path).expect("read"), b"contents");
    mounted.ok("lock {DIR}/view");
    assert_eq!(errno(File::open(&path)), Some(NO_KEY));
    mounted.ok("unlock --key {DIR}/key {DIR}/view");
    assert_eq!(fs::read(&path).expect("read"), b"contents");
}

/// With a passphrase: the metadata is in the lower directory.
#[test]
fn a_passphrase_unlocks() {
    needs!(can_mount());
    let place = Place::without_daemon();
    for dir in ["lower", "view"] {
        fs::create_dir(place.path(dir)).expect("a directory");
    }
    place.ok_with("stack init {DIR}/lower", "passphrase\n");
    place.ok("stack mount --locked {DIR}/lower {DIR}/view");
    let mounted = Mounted { place };
    let place = &mounted.place;
    mounted.is_unlocked("no");
    has(&mounted.ok("status {DIR}/lower"), "  no  ");
    has(
        &place.fails_with("fscrypt unlock {DIR}/view", "another\n", WRONG_KEY),
        "wrong",
    );
    place.ok_with("fscrypt unlock {DIR}/view", "passphrase\n");
    fs::write(mounted.view("file"), "contents").expect("written");
    mounted.is_unlocked("yes");
    has(&mounted.ok("status {DIR}/lower"), "  yes  ");
    mounted.ok("purge --force {DIR}/view");
    mounted.is_unlocked("no");
    place.ok_with("fscrypt unlock {DIR}/view/.", "passphrase\n");
    assert_eq!(fs::read(mounted.view("file")).expect("read"), b"contents");
}

/// Directories of several keys beside files in clear, as on ext4.
#[test]
fn directories_have_policies_of_their_own() {
    needs!(can_mount());
    let place = Place::without_daemon();
    for dir in ["lower", "view"] {
        fs::create_dir(place.path(dir)).expect("a directory");
    }
    place.ok("stack init --by-directory {DIR}/lower");
    place.fails("stack init --by-directory {DIR}/lower", EXISTS);
    place.says("stack status {DIR}/lower", "as the policy of each");
    for (name, byte) in [("first", 1), ("second", 2), ("raw", 3)] {
        fs::write(place.path(name), [byte; 32]).expect("written");
    }
    // One with a key of its own, made before.
    fs::create_dir(place.path("lower/third")).expect("a directory");
    place.ok("stack init -d {DIR}/raw {DIR}/lower/third");
    fs::create_dir(place.path("lower/fourth")).expect("a directory");
    place.ok("stack init -d {DIR}/first {DIR}/lower/fourth");
    place.ok("stack mount -d {DIR}/raw -d {DIR}/first {DIR}/lower {DIR}/view");
    let mounted = Mounted { place };
    let place = &mounted.place;
    let encrypt = |name: &str| {
        fs::create_dir(mounted.view(name)).expect("made");
        let source = format!("--source raw_key --key {{DIR}}/{name} --name {name}");
        mounted.ok(&format!("encrypt {source} {{DIR}}/view/{name}"))
    };
    has(&encrypt("first"), "encrypted and unlocked");
    has(&encrypt("second"), "encrypted and unlocked");
    let dirs = ["first", "second", "third", "fourth"];
    for dir in dirs {
        fs::write(mounted.view(dir).join("file"), dir).expect("written");
        symlink("a target", mounted.view(dir).join("link")).expect("linked");
    }
    // In clear.
    fs::write(mounted.view("clear"), "seen by all").expect("written");
    symlink("a target", mounted.view("link")).expect("linked");
    fs::create_dir(mounted.view("plain")).expect("made");
    fs::write(mounted.view("plain/below"), "seen").expect("written");
    let lower = |name: &str| place.path("lower").join(name);
    assert_eq!(fs::read(lower("clear")).expect("read"), b"seen by all");
    assert_eq!(fs::read(lower("plain/below")).expect("read"), b"seen");
    let target = fs::read_link(lower("link")).expect("read");
    assert_eq!(target, PathBuf::from("a target"));
    for dir in dirs {
        let names = fs::read_dir(lower(dir)).expect("listed");
        let names: Vec<_> = names
            .map(|entry| entry.expect("entry").file_name())
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names.iter().all(|name| name.len() > 20), "{names:?}");
    }

    // What is not empty or has a policy gets none.
    mounted.refused("status {DIR}/view/plain", OTHER, "not encrypted");
    let again = "encrypt --source raw_key --key {DIR}/raw --name raw {DIR}/view/";
    mounted.refused(&format!("{again}first"), EXISTS, "encrypted already");
    mounted.refused(&format!("{again}plain"), OTHER, "not empty");
    // Nothing of one policy enters another, or comes into it in clear.
    let moved = |from: &str, to: &str| errno(fs::rename(mounted.view(from), mounted.view(to)));
    const CROSS_DEVICE: i32 = 18;
    assert_eq!(moved("first/file", "second/moved"), Some(CROSS_DEVICE));
    assert_eq!(moved("clear", "first/moved"), Some(CROSS_DEVICE));
    assert_eq!(moved("plain", "first/moved"), Some(CROSS_DEVICE));
    let linked = fs::hard_link(mounted.view("clear"), mounted.view("first/clear"));
    assert_eq!(errno(linked), Some(CROSS_DEVICE));
    assert_eq!(moved("second", "plain/second"), None);
    let file = mounted.view("plain/second/file");
    assert_eq!(fs::read(&file).expect("read"), b"second");

    // Each is locked by itself.
    mounted.ok("lock {DIR}/view/plain/second");
    has(
        &mounted.ok("status {DIR}/view/plain/second"),
        "unlocked:  no",
    );
    has(&mounted.ok("status {DIR}/view/first"), "unlocked:  yes");
    assert!(!file.exists());
    assert_eq!(
        fs::read(mounted.view("first/file")).expect("read"),
        b"first"
    );
    mounted.ok("unlock --key {DIR}/second {DIR}/view/plain/second");
    assert_eq!(fs::read(&file).expect("read"), b"second");

    // Without keys only what is in clear can be read.
    place.ok("stack unmount -f {DIR}/view");
    place.ok("stack mount {DIR}/lower {DIR}/view");
    assert_eq!(
        fs::read(mounted.view("clear")).expect("read"),
        b"seen by all"
    );
    for dir in ["first", "third"] {
        has(
            &mounted.ok(&format!("status {{DIR}}/view/{dir}")),
            "unlocked:  no",
        );
        assert!(!mounted.view(dir).join("file").exists());
    }
    mounted.ok("unlock --key {DIR}/first {DIR}/view/first");
    assert_eq!(
        fs::read(mounted.view("first/file")).expect("read"),
        b"first"
    );
}

/// Policies of version 1, by a key and by a passphrase.
#[test]
fn policies_of_version_1() {
    needs!(can_mount());
    let place = Place::without_daemon();
    for dir in ["lower", "view", "other"] {
        fs::create_dir(place.path(dir)).expect("a directory");
    }
    fs::write(place.path("key"), [7; 64]).expect("written");
    fs::write(place.path("short"), [7; 32]).expect("written");
    let init = "stack init --policy-version 1";
    let other = format!("{init} --format gocryptfs {{DIR}}/lower");
    place.refuses(&other, USAGE, "for the format fscrypt");
    let short = format!("{init} -d {{DIR}}/short {{DIR}}/lower");
    place.refuses(&short, USAGE, "64 bytes");
    place.ok(&format!("{init} -d {{DIR}}/key {{DIR}}/lower"));
    place.ok_with(&format!("{init} {{DIR}}/other"), "passphrase\n");
    for dir in ["lower", "other"] {
        place.says(&format!("stack status {{DIR}}/{dir}"), "policy version 1");
    }
    place.ok("stack mount --locked {DIR}/lower {DIR}/view");
    let mounted = Mounted { place };
    mounted.ok("unlock --key {DIR}/key {DIR}/view");
    fs::write(mounted.view("file"), "contents").expect("written");
    mounted.ok("lock {DIR}/view");
    assert!(!mounted.view("file").exists());
    mounted.ok("unlock --key {DIR}/key {DIR}/view");
    assert_eq!(fs::read(mounted.view("file")).expect("read"), b"contents");
    let place = &mounted.place;
    place.ok("stack unmount -f {DIR}/view");
    let mount = "stack mount {DIR}/other {DIR}/view";
    place.ok_with(mount, "passphrase\n");
    fs::write(mounted.view("file"), "contents").expect("written");
    mounted.is_unlocked("yes");
}
