//! Commands of root on trees that other users own, and users who make directories and sockets for others: no command
//! follows a link of another user, believes a mount of another user, or gives a secret to another user.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::terminal::Terminal;
use crate::common::{BOB, OTHER, PERMISSION, Place, can_mount, has, is_root, needs};

/// A user who has a name: `fusermount3` asks for it.
const ANN: u32 = 65534;

/// A place that others can enter, with a directory that Ann owns.
fn place_of_ann() -> Option<Place> {
    needs!(is_root(), "only root can be several users");
    needs!(can_mount());
    let place = Place::without_daemon();
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o755)).unwrap();
    for dir in ["lower", "view", "own", "own/lower", "own/view"] {
        fs::create_dir(place.path(dir)).unwrap();
    }
    for dir in ["own", "own/lower", "own/view"] {
        chown(place.path(dir), Some(ANN), Some(ANN)).unwrap();
    }
    Some(place)
}

/// A mount of root's with directories that have keys of their own, and in it `tree` of Ann's with `dir`.
fn tree_of_ann() -> Option<Place> {
    let place = place_of_ann()?;
    place.ok("stack init --by-directory {DIR}/lower");
    place.ok("stack mount --allow-other {DIR}/lower {DIR}/view");
    fs::create_dir_all(place.path("view/tree/dir")).unwrap();
    for dir in ["view/tree", "view/tree/dir"] {
        chown(place.path(dir), Some(ANN), Some(ANN)).unwrap();
    }
    fs::create_dir(place.path("etc")).unwrap();
    fs::set_permissions(place.path("etc"), fs::Permissions::from_mode(0o755)).unwrap();
    Some(place)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Runs a script of the shell as Ann.
fn as_ann(place: &Place, script: &str) {
    let done = Command::new("sh")
        .args(["-euc", script])
        .current_dir(place.root())
        .uid(ANN)
        .gid(ANN)
        .status();
    assert!(done.unwrap().success(), "{script}");
}

/// Runs a command as a user, with this runtime directory or none.
fn run_as(place: &Place, user: u32, runtime: Option<&str>, line: &str) -> (Option<i32>, String) {
    let mut command = place.command();
    match runtime {
        Some(dir) => command.env("XDG_RUNTIME_DIR", place.path(dir)),
        None => command.env_remove("XDG_RUNTIME_DIR"),
    };
    command
        .env_remove("STRONGROOM_SOCKET")
        .env("HOME", place.path("own"))
        .args(place.words(line))
        .uid(user)
        .gid(user)
        .current_dir("/");
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr) + String::from_utf8_lossy(&done.stdout);
    (done.status.code(), said.into_owned())
}

#[test]
fn fscrypt_encrypts_what_it_has_opened() {
    let place = needs!(tree_of_ann());
    let dir = place.arg("view/tree/dir");
    let line = ["fscrypt", "encrypt", "--source", "custom_passphrase"];
    let mut terminal = Terminal::run(&place, &[&line[..], &["--name", "mine", &dir]].concat());
    terminal.wait_for("mine");
    as_ann(&place, "cd view/tree; mv dir was; ln -s ../../etc dir");
    for _ in 0..2 {
        terminal.wait_for(":");
        terminal.types("passphrase\n");
    }
    let (status, said) = terminal.ends();
    assert!(status.success(), "{said}");
    assert_eq!(mode(&place.path("etc")), 0o755);
    assert_eq!(mode(&place.path("view/tree/was")), 0o700);
    place.says("fscrypt status {DIR}/view/tree/was", "unlocked:  yes");
}

/// A link that is there before root's command begins is not followed either.
#[test]
fn fscrypt_follows_no_link_of_another_user() {
    let place = needs!(tree_of_ann());
    as_ann(
        &place,
        "ln -s ../../etc view/tree/link; ln -s dir view/tree/to-dir; mkfifo view/tree/fifo",
    );
    let encrypt = "fscrypt encrypt --source custom_passphrase --name mine {DIR}/view/tree/";
    for link in ["link", "to-dir"] {
        let said = place.fails_with(&format!("{encrypt}{link}"), "passphrase\n", PERMISSION);
        has(&said, "symbolic link that another user can change");
        has(
            &place.fails(
                &format!("fscrypt status {{DIR}}/view/tree/{link}"),
                PERMISSION,
            ),
            "symbolic link",
        );
    }
    // Nothing waits for the other end.
    has(
        &place.fails(&format!("{encrypt}fifo"), OTHER),
        "neither a file nor a directory",
    );
    assert_eq!(mode(&place.path("etc")), 0o755);
    assert_eq!(mode(&place.path("view/tree/dir")), 0o755);
    // Root's own links are.
    symlink("tree/dir", place.path("view/own-link")).unwrap();
    place.ok_with(
        "fscrypt encrypt --source custom_passphrase --name mine {DIR}/view/own-link",
        "passphrase\n",
    );
    assert_eq!(mode(&place.path("view/tree/dir")), 0o700);
}

/// The same for a lower directory, and for the metadata in it.
#[test]
fn no_link_of_another_user_leads_to_a_lower_directory() {
    let place = needs!(place_of_ann());
    place.ok("stack init --by-directory {DIR}/lower");
    fs::write(place.path("key"), [7; 64]).unwrap();
    fs::create_dir(place.path("empty")).unwrap();
    as_ann(
        &place,
        "ln -s ../empty own/link; ln -s ../lower/.fscrypt own/.fscrypt",
    );
    let why = "symbolic link that another user can change";
    for line in [
        "stack init -d {DIR}/key {DIR}/own/link",
        "stack init --by-directory {DIR}/own/link",
        "stack mount -d {DIR}/key {DIR}/own/link {DIR}/view",
        "stack status {DIR}/own/link",
        "fscrypt status {DIR}/own/link",
        "fscrypt purge --force {DIR}/own/link",
    ] {
        has(&place.fails(line, PERMISSION), why);
    }
    let done = place.run(&place.words("pefs addchain -f -Z -j {DIR}/key {DIR}/own/link"));
    has(&done.err, why);
    assert!(fs::read_dir(place.path("empty")).unwrap().next().is_none());
    for line in [
        "fscrypt status {DIR}/own",
        "fscrypt metadata destroy --force {DIR}/own",
    ] {
        let done = place.run(&place.words(line));
        assert_ne!(done.code, 0, "{line}");
        has(&done.err, "is a link of another user");
    }
    place.ok("fscrypt status {DIR}/lower");
}

/// Returns whether users other than root can mount here.
fn users_can_mount() -> bool {
    let device = fs::metadata("/dev/fuse").map(|found| found.permissions().mode());
    let can = device.is_ok_and(|mode| mode & 0o006 == 0o006)
        && Path::new("/usr/bin/fusermount3").exists();
    if !can {
        eprintln!("skipped: users cannot mount");
    }
    can
}

/// A user mounts the same lower directory as root. Root's command means root's mount.
#[test]
fn a_mount_of_another_user_has_no_keys_of_root() {
    needs!(users_can_mount());
    let place = needs!(place_of_ann());
    place.ok_with("stack init {DIR}/lower", "passphrase\n");
    fs::set_permissions(place.path("lower"), fs::Permissions::from_mode(0o755)).unwrap();
    place.ok_with("stack mount {DIR}/lower {DIR}/view", "passphrase\n");
    let done = run_as(
        &place,
        ANN,
        Some("own"),
        "stack mount --locked {DIR}/lower {DIR}/own/view",
    );
    assert_eq!(done.0, Some(0), "{done:?}");
    place.says("fscrypt status {DIR}/lower", "  yes  ");
    // The mount itself does not count: it shows a directory of root.
    for line in [
        "fscrypt status {DIR}/own/view",
        "fscrypt purge --force {DIR}/own/view",
    ] {
        place.refuses(line, PERMISSION, "of the user 65534");
    }
    place.ok("fscrypt purge --force {DIR}/lower");
    place.says("fscrypt status {DIR}/view", "unlocked:  no");
    let done = run_as(&place, ANN, Some("own"), "stack unmount {DIR}/own/view");
    assert_eq!(done.0, Some(0), "{done:?}");
    place.ok("stack unmount -f {DIR}/view");
}

/// A user exchanges the lower directory of a mount by a link to one of root.
#[test]
fn a_mount_does_not_lead_to_a_directory_of_another_user() {
    needs!(users_can_mount());
    let place = needs!(place_of_ann());
    fs::write(place.path("key"), [7; 64]).unwrap();
    fs::set_permissions(place.path("key"), fs::Permissions::from_mode(0o644)).unwrap();
    let done = run_as(
        &place,
        ANN,
        Some("own"),
        "pefs mount {DIR}/own/lower {DIR}/own/view",
    );
    assert_eq!(done.0, Some(0), "{done:?}");
    let add = "pefs addchain -Z -j {DIR}/key {DIR}/own/view";
    place.ok(add);
    assert!(place.path("own/lower/.pefs.db").exists());
    as_ann(
        &place,
        "rm own/lower/.pefs.db; mv own/lower own/was; ln -s ../lower own/lower",
    );
    let done = place.run(&place.words(add));
    assert_ne!(done.code, 0);
    has(&done.err, "is a mount of the user 65534");
    assert!(!place.path("lower/.pefs.db").exists());
    let done = run_as(&place, ANN, Some("own"), "pefs unmount {DIR}/own/view");
    assert_eq!(done.0, Some(0), "{done:?}");
}

/// A directory that is removed with this.
struct Squatted(PathBuf);

impl Drop for Squatted {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The directory `/tmp/strongroom-UID` of Ann, made by Bob before, with sockets of Bob's in it: Ann's commands and
/// processes refuse it.
#[test]
fn a_directory_in_tmp_that_another_user_made_is_refused() {
    let place = needs!(place_of_ann());
    const CARL: u32 = 12_399;
    let squatted = Squatted(format!("/tmp/strongroom-{CARL}").into());
    fs::create_dir(&squatted.0).unwrap();
    let socket = squatted.0.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    for path in [&squatted.0, &socket] {
        chown(path, Some(BOB), Some(BOB)).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    // A process of Bob's listens: its number is asked of the kernel when it begins to listen.
    drop(listener);
    fs::remove_file(&socket).unwrap();
    let script = "import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(flush=True)
c, _ = s.accept(); print(len(c.recv(1)))";
    let mut server = Command::new("python3")
        .args(["-c", script])
        .arg(&socket)
        .stdout(std::process::Stdio::piped())
        .uid(BOB)
        .gid(BOB)
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
    let (code, refusal) = run_as(&place, CARL, None, "key load tank/a");
    assert_eq!(code, Some(PERMISSION), "{refusal}");
    has(&refusal, "belongs to another user");
    // Bob's process got nothing, not even the command.
    std::io::Read::read_to_string(&mut said, &mut line).unwrap();
    assert_eq!(line.trim(), "0");
    assert!(server.wait().unwrap().success());
    // No daemon of Carl's listens there.
    let (code, refusal) = run_as(&place, CARL, None, "daemon --state-dir {DIR}/own/state");
    assert_eq!(code, Some(PERMISSION), "{refusal}");
    has(
        &refusal,
        "belongs to someone else; say where else to listen: --socket",
    );
}
