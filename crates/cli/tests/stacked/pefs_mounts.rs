//! Mounts of pefs whose keys come and go. The exit codes are those of pefs.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use crate::common::{ANN, Done, Place, STAFF, can_mount, has, is_installed, is_root, needs};

const PEFS_SYSTEM: i32 = 4;
const PEFS_NO_ENTRY: i32 = 5;
const PEFS_EXISTS: i32 = 6;
const PEFS_INVALID: i32 = 7;
const PEFS_NOT_ADDED: i32 = 255;

/// A user with a name: the helper asks for it.
const NOBODY: u32 = 65534;

const SOCKETS: &str = "/run/strongroom/stack";

/// `EROFS` and `ENOKEY`.
const READ_ONLY: i32 = 30;
const NO_KEY: i32 = 126;

/// A mounted directory without keys, and passphrases. Dropping it unmounts.
struct Mounted {
    place: Place,
}

impl Mounted {
    fn new() -> Option<Mounted> {
        needs!(can_mount() && is_root());
        let place = Place::without_daemon();
        for dir in ["lower", "view"] {
            fs::create_dir(place.path(dir)).expect("a directory");
        }
        symlink("aes256-xts:10", place.path("lower/.pefs.conf")).expect("linked");
        for name in ["first", "second", "wrong"] {
            fs::write(place.path(name), format!("the {name}\n")).expect("written");
        }
        place.ok("pefs mount {DIR}/lower {DIR}/view");
        Some(Mounted { place })
    }

    fn ok(&self, line: &str) -> String {
        self.place.ok(&format!("pefs {line}"))
    }

    fn refused(&self, line: &str, code: i32, why: &str) -> Done {
        let done = self.place.run(&self.place.words(&format!("pefs {line}")));
        assert_eq!(done.code, code, "{line}: {}", done.err);
        has(&done.err, why);
        done
    }

    fn view(&self, name: &str) -> PathBuf {
        self.place.path("view").join(name)
    }

    /// The identifier of the key that a passphrase adds.
    fn add(&self, name: &str) -> String {
        let said = self.ok(&format!("addkey -v -j {{DIR}}/{name} {{DIR}}/view"));
        let id = said.strip_prefix("Key added: ").expect("an identifier");
        id.trim_end().to_owned()
    }

    fn listed(&self) -> Vec<String> {
        let names = fs::read_dir(self.view("")).expect("listed");
        let names = names.map(|entry| entry.expect("entry").file_name().into_string());
        let mut names: Vec<String> = names.map(|name| name.expect("UTF-8")).collect();
        names.retain(|name| !name.starts_with(".pefs."));
        names.sort();
        names
    }

    fn socket(&self) -> PathBuf {
        let stat = rustix::fs::stat(self.view("")).expect("mounted");
        let device = rustix::fs::minor(stat.st_dev);
        Path::new(SOCKETS).join(format!("{device}.sock"))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self
            .place
            .run(&self.place.words("pefs unmount -f {DIR}/view"));
    }
}

fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn keys_come_and_go() {
    let mounted = needs!(Mounted::new());
    assert_eq!(mounted.ok("showkeys {DIR}/view"), "No keys specified\n");
    let silent = mounted.refused("status -t {DIR}/view", PEFS_INVALID, "");
    assert_eq!((&*silent.out, &*silent.err), ("", ""));
    assert_eq!(errno(fs::write(mounted.view("file"), "x")), Some(READ_ONLY));

    let first = mounted.add("first");
    let line = format!("Keys:\n0 {first} aes256-xts\n");
    assert_eq!(mounted.ok("showkeys {DIR}/view"), line);
    let keys: serde_json::Value =
        serde_json::from_str(&mounted.ok("showkeys --json {DIR}/view")).unwrap();
    assert_eq!(
        keys,
        serde_json::json!([{"id": first, "algorithm": "aes256-xts"}])
    );
    assert_eq!(mounted.ok("status -t {DIR}/view"), "");
    fs::write(mounted.view("file"), "of the first").expect("written");
    symlink("a target", mounted.view("link")).expect("linked");
    let second = mounted.add("second");
    let add = "addkey -j {DIR}/first {DIR}/view";
    mounted.refused(add, PEFS_NOT_ADDED, "already");
    let key_of_file = format!(
        "Key({}): {first} aes256-xts\n",
        mounted.view("file").display()
    );
    assert_eq!(mounted.ok("getkey {DIR}/view/file"), key_of_file);
    let top = mounted.ok("getkey {DIR}/view");
    has(&top, "): <not specified>\n");
    mounted.refused("getkey -t {DIR}/view", 1, "");

    // Deleted: also for what is open, mapped or kept by the kernel.
    let open = fs::File::options()
        .read(true)
        .write(true)
        .open(mounted.view("file"));
    let open = open.expect("open");
    open.write_all_at(b"OF", 0).expect("written");
    open.read_exact_at(&mut [0; 4], 0).expect("read");
    let deleted = mounted.ok("delkey -v -j {DIR}/first {DIR}/view");
    assert_eq!(deleted, format!("Key deleted: {first}\n"));
    assert_eq!(errno(open.read_at(&mut [0; 4], 0)), Some(NO_KEY));
    assert!(
        open.write_all_at(b"x", 0)
            .and_then(|()| open.sync_all())
            .is_err()
    );
    assert!(!mounted.view("file").exists());
    let stored = mounted.listed();
    assert!(
        stored.len() == 2 && stored.iter().all(|name| name.starts_with('.')),
        "{stored:?}"
    );
    for name in &stored {
        // By its stored name it is not for writing, and the old descriptor does not lead to it.
        if mounted.view(name).is_file() {
            assert_eq!(
                errno(fs::write(mounted.view(name), "clear")),
                Some(READ_ONLY)
            );
            assert!(open.read_at(&mut [0; 4], 0).is_err());
        }
    }
    let gone = "delkey -j {DIR}/first {DIR}/view";
    mounted.refused(gone, PEFS_NO_ENTRY, "does not have it");
    mounted.add("first");
    assert_eq!(
        fs::read(mounted.view("file")).expect("read"),
        b"OF the first"
    );
    assert_eq!(mounted.listed(), ["file", "link"]);

    has(
        &mounted.ok("showkeys {DIR}/view"),
        &format!("\n0 {second} "),
    );
    mounted.ok("flushkeys {DIR}/view");
    assert_eq!(mounted.ok("showkeys {DIR}/view"), "No keys specified\n");
    assert_eq!(mounted.listed(), stored);

    // The socket goes with the mount.
    drop(open);
    let socket = mounted.socket();
    // The next mount, of another test, may get one of the same name.
    let which = || fs::metadata(&socket).and_then(|it| Ok((it.ino(), it.modified()?)));
    let own = which().expect("it is there");
    let mut waiting = UnixStream::connect(&socket).expect("it listens");
    let said = mounted.ok("unmount -v {DIR}/view");
    has(&said, ": unmount from ");
    waiting.read_to_end(&mut Vec::new()).expect("it ends");
    assert!(which().ok() != Some(own));
    mounted.refused("showkeys {DIR}/view", PEFS_NO_ENTRY, "no mount");
    mounted.refused(
        "unmount {DIR}/view",
        PEFS_NO_ENTRY,
        "no encrypted directory",
    );
}

#[test]
fn keys_by_their_chains() {
    let mounted = needs!(Mounted::new());
    let must = "addkey -c -j {DIR}/second {DIR}/view";
    mounted.refused(must, PEFS_INVALID, "no record");
    mounted.ok("addchain -f -Z -j {DIR}/first {DIR}/lower");
    mounted.ok("addchain -f -j {DIR}/second -J {DIR}/first {DIR}/lower");
    let added = mounted.ok("addkey -c -v -j {DIR}/second {DIR}/view");
    let ids: Vec<&str> = added
        .lines()
        .map(|line| &line["Key added: ".len()..])
        .collect();
    assert_eq!(ids.len(), 2);
    let shown = mounted.ok("showkeys {DIR}/view");
    has(&shown, &format!("\n0 {} ", ids[0]));
    has(&shown, &format!("\n1 {} ", ids[1]));
    assert_eq!(
        mounted
            .ok("delkey -v -j {DIR}/second {DIR}/view")
            .lines()
            .count(),
        2
    );
    assert_eq!(
        mounted
            .ok("addkey -C -v -j {DIR}/second {DIR}/view")
            .lines()
            .count(),
        1
    );
    mounted.ok("flushkeys {DIR}/view");

    // The rest of a chain is not tried.
    mounted.add("first");
    let done = mounted.refused(
        "addkey -v -j {DIR}/second {DIR}/view",
        PEFS_NOT_ADDED,
        "already",
    );
    assert_eq!(done.out, format!("Key added: {}\n", ids[0]));
    mounted.ok("flushkeys {DIR}/view");

    // A damaged chain is left out, unless it has to be there.
    fs::write(mounted.place.path("lower/.pefs.db"), "no database").expect("written");
    mounted.refused(must, PEFS_INVALID, ".pefs.db");
    let done = mounted.place.run(
        &mounted
            .place
            .words("pefs addkey -j {DIR}/second {DIR}/view"),
    );
    assert_eq!(done.code, 0);
    has(&done.err, "used alone");
}

#[test]
fn a_directory_gets_a_key_of_its_own() {
    let mounted = needs!(Mounted::new());
    let first = mounted.add("first");
    fs::create_dir(mounted.view("dir")).expect("made");
    fs::write(mounted.view("dir/old"), "old").expect("written");
    let set = "setkey -v -j {DIR}/second {DIR}/view/dir";
    mounted.refused(set, PEFS_NO_ENTRY, "does not have it");
    let said = mounted.ok("setkey -x -v -j {DIR}/second {DIR}/view/dir");
    has(&said, &format!("Key({}): ", mounted.view("dir").display()));
    mounted.refused(set, PEFS_INVALID, "has this one already");
    let top = "setkey -j {DIR}/second {DIR}/view";
    mounted.refused(top, PEFS_INVALID, "the top directory");
    fs::write(mounted.view("dir/new"), "new").expect("written");
    has(&mounted.ok("getkey {DIR}/view/dir/old"), &first);
    let of_new = mounted.ok("getkey {DIR}/view/dir/new");
    has(&said, of_new.split("): ").nth(1).expect("a key"));
    assert_eq!(fs::read(mounted.view("dir/old")).expect("read"), b"old");
}

#[test]
fn other_users_are_refused() {
    let mounted = needs!(Mounted::new());
    mounted.add("first");
    let place = &mounted.place;
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o755)).expect("root");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    let (dir, socket) = (Path::new(SOCKETS), mounted.socket());
    assert_eq!((mode(dir), mode(&socket)), (0o700, 0o600));
    for line in ["flushkeys {DIR}/view", "showkeys {DIR}/view"] {
        let done = place.run_as((ANN, STAFF), &place.socket(), &format!("pefs {line}"));
        assert_eq!(done.code, PEFS_SYSTEM, "{line}: {}", done.err);
        has(&done.err, "view: only root and the user who mounted it");
    }
    has(&mounted.ok("showkeys {DIR}/view"), "aes256-xts");
}

/// The user and root change the keys of a mount of that user. The process asks the kernel who connects, also where the
/// directory of its socket lets others pass.
#[test]
fn mounts_of_a_user() {
    let device = fs::metadata("/dev/fuse").map(|found| found.permissions().mode());
    needs!(
        is_installed("fusermount3") && device.is_ok_and(|mode| mode & 0o006 == 0o006),
        "users cannot mount"
    );
    let mounted = needs!(Mounted::new());
    let place = &mounted.place;
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o755)).expect("root");
    for dir in ["own", "own/lower", "own/view"] {
        fs::create_dir(place.path(dir)).expect("a directory");
        chown(place.path(dir), Some(NOBODY), Some(NOBODY)).expect("root");
    }
    let run_as = |user: u32, line: &str| {
        let mut command = place.command();
        command
            .env_remove("XDG_RUNTIME_DIR")
            .args(place.words(line));
        command.uid(user).gid(user).current_dir("/");
        let done = command.output().expect("the program");
        let err = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.code(), err)
    };
    let sockets = PathBuf::from(format!("/tmp/strongroom-{NOBODY}/stack"));
    let done = run_as(NOBODY, "pefs mount {DIR}/own/lower {DIR}/own/view");
    assert_eq!(done.0, Some(0), "{done:?}");
    let add = |name: &str| format!("pefs addkey -j {{DIR}}/{name} {{DIR}}/own/view");
    let done = run_as(NOBODY, &add("first"));
    assert_eq!(done.0, Some(0), "{done:?}");
    place.ok(&add("second"));
    let shown = place.ok("pefs showkeys {DIR}/own/view");
    assert_eq!(shown.lines().count(), 3);

    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    open(sockets.parent().expect("a directory"), 0o711).expect("root");
    open(&sockets, 0o711).expect("root");
    for socket in fs::read_dir(&sockets).expect("listed") {
        open(&socket.expect("entry").path(), 0o666).expect("root");
    }
    let done = run_as(ANN, "pefs flushkeys {DIR}/own/view");
    assert_eq!(done.0, Some(PEFS_SYSTEM), "{done:?}");
    // It is the process that says this, and names no path.
    has(&done.1, "strongroom: only root and the user who mounted it");
    assert_eq!(place.ok("pefs showkeys {DIR}/own/view"), shown);
    let done = run_as(NOBODY, "pefs unmount {DIR}/own/view");
    assert_eq!(done.0, Some(0), "{done:?}");
    for dir in [&*sockets, sockets.parent().expect("a directory")] {
        open(dir, 0o700).expect("root");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let mounted = needs!(Mounted::new());
    mounted.refused("addkey -p {DIR}/view", 2, "a key needs");
    mounted.refused("addkey -c -C -j {DIR}/first {DIR}/view", 2, "");
    mounted.refused("setkey -c -x -j {DIR}/first {DIR}/view", 2, "");
    mounted.refused(
        "addkey -j {DIR}/first {DIR}/lower",
        PEFS_NO_ENTRY,
        "no mount",
    );
    mounted.refused(
        "mount {DIR}/none {DIR}/view",
        PEFS_NO_ENTRY,
        "no such directory",
    );
    has(&mounted.ok("mount"), "lower");
    fs::create_dir(mounted.place.path("other")).expect("a directory");
    let init = "stack init --format gocryptfs --passfile {DIR}/first {DIR}/other";
    mounted.place.ok(init);
    mounted.refused(
        "mount {DIR}/other {DIR}/other",
        PEFS_EXISTS,
        "another format",
    );
}

/// An empty directory begins with AES-256, and says so for the time when it is not empty. One in which files are stored
/// and that says nothing keeps AES-128, with which older versions wrote them.
#[test]
fn an_empty_directory_gets_the_cipher_of_the_article() {
    let mounted = needs!(Mounted::new());
    let keys = |dir: &str| mounted.ok(&format!("showkeys {{DIR}}/{dir}"));
    for dir in ["new", "old"] {
        fs::create_dir(mounted.place.path(dir)).expect("a directory");
        mounted.ok(&format!("mount {{DIR}}/{dir} {{DIR}}/{dir}"));
    }
    let add = |dir: &str, option: &str| {
        let said = mounted.ok(&format!(
            "addkey -v -i 10 {option} -j {{DIR}}/first {{DIR}}/{dir}"
        ));
        said.strip_prefix("Key added: ")
            .expect("an identifier")
            .trim_end()
            .to_owned()
    };
    let id = add("new", "");
    assert_eq!(keys("new"), format!("Keys:\n0 {id} aes256-xts\n"));
    add("old", "-a aes128");
    for dir in ["new", "old"] {
        fs::write(mounted.place.path(dir).join("test"), "Hello WORLD\n").expect("written");
        mounted.ok(&format!("unmount {{DIR}}/{dir}"));
    }
    // As the article shows it: the same size, and a name of a dot and 32 characters.
    let stored = fs::read_dir(mounted.place.path("new")).expect("listed");
    let stored = stored.map(|entry| entry.expect("an entry"));
    let stored: Vec<_> = stored
        .filter(|entry| entry.file_name() != ".pefs.conf")
        .collect();
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].file_name().len(), 33);
    assert_eq!(stored[0].metadata().expect("its size").len(), 12);
    let link = |dir: &str| fs::read_link(mounted.place.path(dir).join(".pefs.conf"));
    assert_eq!(link("new").expect("a link"), Path::new("aes256-xts"));
    assert!(link("old").is_err());
    for (dir, cipher) in [("new", "aes256-xts"), ("old", "aes128-xts")] {
        mounted.ok(&format!("mount -o nodircache {{DIR}}/{dir} {{DIR}}/{dir}"));
        add(dir, "");
        has(&keys(dir), cipher);
        let file = mounted.place.path(dir).join("test");
        assert_eq!(fs::read_to_string(file).expect("read"), "Hello WORLD\n");
        mounted.ok(&format!("unmount {{DIR}}/{dir}"));
        assert_eq!(link(dir).is_ok(), dir == "new");
    }
}

/// Features that only FreeBSD has, or no longer has, are refused in one sentence.
#[test]
fn words_of_the_article_that_have_no_meaning_are_refused() {
    let mounted = needs!(Mounted::new());
    for algorithm in ["salsa20-256", "aes256-ctr"] {
        let line = format!("addkey -a {algorithm} -j {{DIR}}/first {{DIR}}/view");
        mounted.refused(&line, 2, "showalgs");
    }
    let line = "mount -o asyncreclaim {DIR}/lower {DIR}/view";
    mounted.refused(line, 2, "[no]dircache");
}

/// vfat has no hard links, no symbolic links, no owners, and names without case.
const ON_VFAT: &str = r#"
set -e
# Fails unless the command fails with these words.
refused() { words=$1; shift; if "$@" > /run/said 2>&1; then echo "not refused: $*"; exit 1; fi; grep -q "$words" /run/said || { cat /run/said; exit 1; }; }
mkdir -p /mnt /view
dd if=/dev/zero of=/run/image bs=1M count=0 seek=64 2>/dev/null
mkfs.vfat /run/image > /dev/null
mount -t vfat -o loop /run/image /mnt
echo passphrase > /run/pass
start() { strongroom pefs mount /mnt /view; strongroom pefs addkey -i 10 -j /run/pass /view; }
start
strongroom pefs showkeys /view | grep aes128-xts
cd /view
echo hello > File
mkdir dir
mv File dir/file
echo one > readme
echo two > README
test "$(cat readme README)" = "$(printf 'one\ntwo')"
for n in 1 2 3 4 5 6 7 8 9 10; do echo $n > test-$n; done
mv test-1 test-2
test "$(cat test-2)" = 1
rm test-3
mkdir gone; rmdir gone
truncate -s 100000 test-4
echo end >> test-4
refused 'not permitted' ln readme hard
refused 'not permitted' ln -s readme link
refused 'not permitted' mknod pipe p
refused 'not permitted' chown 1000 readme
cd /
strongroom pefs unmount /view
test "$(ls -A /mnt | grep -c '^\.')" = "$(ls -A /mnt | wc -l)"
umount /mnt
mount -t vfat -o loop /run/image /mnt
start
cd /view
test "$(cat dir/file readme README test-2)" = "$(printf 'hello\none\ntwo\n1')"
test "$(tail -c 4 test-4)" = end
test "$(ls | wc -l)" = 11
cd /
strongroom pefs unmount /view
echo all of it
"#;

#[test]
fn on_a_file_system_without_links_owners_and_case() {
    let modules = ["loop", "vfat", "nls_cp437", "nls_ascii", "fuse"];
    let told = crate::common::machine::run_in_machine(ON_VFAT, &["mkfs.vfat"], &[], &modules);
    if let Some(told) = told {
        has(&told, "all of it");
    }
}
