//! Mounts that a mount namespace holds: force ends them and wipes their keys, and no command waits for the holder. With and
//! without the control file system of FUSE.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::common::*;

const CONTROL: &str = "/sys/fs/fuse/connections";
/// Set for a test that was started again in a mount namespace of its own.
const WITHIN: &str = "STRONGROOM_TEST_WITHIN";
const DATASETS: usize = 4;

/// Runs the test of this name in two mount namespaces of its own: with the control file system of FUSE and without.
/// Returns whether this is one of them.
fn both_ways(test: &str) -> bool {
    if !can_mount() || !is_installed("unshare") {
        return false;
    }
    if !is_root() {
        eprintln!("skipped: only root makes mount namespaces");
        return false;
    }
    if std::env::var_os(WITHIN).is_some() {
        return true;
    }
    for kind in ["fusectl", "tmpfs"] {
        let prepare = format!("mount -t {kind} none {CONTROL} && exec \"$@\"");
        let status = Command::new("unshare")
            .args(["--mount", "sh", "-c", &prepare, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", &format!("held_mounts::{test}"), "--nocapture"])
            .env(WITHIN, kind)
            .status();
        assert!(status.unwrap().success(), "{kind}");
    }
    false
}

/// A shell that holds the mounts there are now, in a mount namespace of its own.
struct Holder {
    shell: Child,
    said: BufReader<ChildStdout>,
}

impl Holder {
    /// Root's, in its own user namespace or in another one.
    fn new(options: &[&str]) -> Holder {
        Holder::of(Command::new("unshare").args(options))
    }

    /// A user's. `None` where users may not make user namespaces.
    fn of_user(uid: u32) -> Option<Holder> {
        let mut holder = Holder::of(Command::new("unshare").arg("-Urm").uid(uid).gid(uid));
        holder.runs("true").then_some(holder)
    }

    fn of(command: &mut Command) -> Holder {
        let mut shell = command
            .args([
                "sh",
                "-c",
                "while read line; do eval \"$line\" && echo yes || echo no; done",
            ])
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(shell.stdout.take().unwrap());
        let mut holder = Holder { shell, said };
        holder.runs("true");
        holder
    }

    fn runs(&mut self, line: &str) -> bool {
        let _ = writeln!(self.shell.stdin.as_mut().unwrap(), "{line}");
        let mut answer = String::new();
        self.said.read_line(&mut answer).unwrap();
        answer == "yes\n"
    }

    /// The name of the holder in messages.
    fn shown(&self) -> String {
        format!("process {} (sh)", self.shell.id())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// A pool whose datasets `tank/0`, `tank/1` and so on are encrypted, and mounted at `0`, `1` and so on.
fn place() -> Place {
    let place = Place::new();
    place.ok("keygen {DIR}/k");
    place.ok("pool create -s 128M -m none tank {DIR}/tank.pool");
    for number in 0..DATASETS {
        place.ok(&format!(
            "create -o encryption=on -o keysource=raw,file://{} -o mountpoint={} tank/{number}",
            place.arg("k"),
            place.arg(&number.to_string())
        ));
        fs::write(place.path(&format!("{number}/file")), "secret").unwrap();
    }
    place
}

/// Waits until a daemon that has just started has mounted all datasets.
fn await_mounts(place: &Place) {
    while !(0..DATASETS).all(|number| place.ok("mount").contains(&format!("tank/{number}"))) {
        std::thread::yield_now();
    }
}

/// Holders of all kinds that this machine allows.
fn holders() -> Vec<Holder> {
    let own = [Holder::new(&["-m"]), Holder::new(&["-Urm"])];
    own.into_iter().chain(Holder::of_user(1000)).collect()
}

/// Returns, for each dataset, whether a holder reads its file. A user who may not enter the directory sees none.
fn are_read(place: &Place, holder: &mut Holder) -> Vec<bool> {
    let files = (0..DATASETS).map(|number| place.arg(&format!("{number}/file")));
    files
        .map(|file| holder.runs(&format!("cat {file} >/dev/null")))
        .collect()
}

#[test]
fn without_force_the_holder_is_named_and_nothing_waits() {
    if !both_ways("without_force_the_holder_is_named_and_nothing_waits") {
        return;
    }
    let place = place();
    let mut holder = Holder::new(&["-Urm"]);
    for number in 0..DATASETS {
        let said = place.fails(&format!("unmount tank/{number}"), BUSY);
        has(&said, &holder.shown());
        has(&said, "-f");
    }
    place.ok("create tank/new");
    for refused in ["key unload tank/0", "pool export tank", "daemon stop"] {
        place.fails(refused, BUSY);
    }
    place.refuses("mount tank/0", BUSY, &holder.shown());
    assert_eq!(are_read(&place, &mut holder), [true; DATASETS]);
    // Once nothing holds them, they are mounted as ever.
    drop(holder);
    place.ok("mount tank/0");
    assert_eq!(fs::read(place.path("0/file")).unwrap(), b"secret");
}

#[test]
fn force_unmounts_and_wipes_keys() {
    if !both_ways("force_unmounts_and_wipes_keys") {
        return;
    }
    let place = place();
    let mut holders = holders();
    let done = place.run(&place.words("unmount -f tank/0"));
    assert_eq!(done.code, 0, "{done:?}");
    has(&done.err, "the mount of 'tank/0'");
    has(&done.err, "was cut");
    has(&done.err, "process ");
    place.says("pool events tank", "mount_cut");
    let all: Vec<String> = (0..DATASETS)
        .map(|number| format!("tank/{number}"))
        .collect();
    place.ok(&format!("key unload -f {}", all.join(" ")));
    for name in &all {
        place.says(&format!("get -H -o value keystatus {name}"), "unavailable");
    }
    for holder in &mut holders {
        assert_eq!(are_read(&place, holder), [false; DATASETS]);
    }
    // All of it works again, although the namespaces still have the remains.
    place.ok("key load -a");
    place.ok("mount -a");
    for number in 0..DATASETS {
        let file = place.path(&format!("{number}/file"));
        assert_eq!(fs::read(file).unwrap(), b"secret");
    }
}

/// A program may have read the files that it has open: the kernel keeps their contents in memory.
#[test]
fn force_drops_what_was_read() {
    if !both_ways("force_drops_what_was_read") {
        return;
    }
    for how in [
        "unmount -f tank/0",
        "key unload -f tank/0",
        "pool export -f tank",
    ] {
        let place = place();
        place.ok("snapshot tank/0@s");
        let (file, kept) = (place.arg("0/file"), place.arg("0/.snapshot/s/file"));
        let mut holders = [Holder::new(&["-m"]), Holder::new(&["-Urm"])];
        for holder in &mut holders {
            assert!(holder.runs(&format!("exec 3<{file} 4<{file} 5<{kept} 6<{kept}")));
            // Now it is in memory.
            assert!(holder.runs("[ $(cat <&3) = secret ] && [ $(cat <&5) = secret ]"));
        }
        place.ok(how);
        for holder in &mut holders {
            assert!(!holder.runs("cat <&4 >/dev/null"), "{how}");
            assert!(!holder.runs("cat <&6 >/dev/null"), "{how}");
        }
    }
}

#[test]
fn force_exports_and_destroys_the_pool() {
    if !both_ways("force_exports_and_destroys_the_pool") {
        return;
    }
    let place = place();
    let mut first = holders();
    place.ok("pool export -f tank");
    place.ok("pool import -l -d {DIR} tank");
    let mut second = holders();
    place.ok("destroy -f tank/0");
    place.ok("pool destroy -f tank");
    for holder in first.iter_mut().chain(&mut second) {
        assert_eq!(are_read(&place, holder), [false; DATASETS]);
    }
    assert_eq!(place.ok("pool list -H"), "");
}

#[test]
fn the_daemon_ends_by_signal_and_by_force() {
    if !both_ways("the_daemon_ends_by_signal_and_by_force") {
        return;
    }
    let mut place = place();
    let mut first = holders();
    let done = place.run(&place.words("daemon stop -f"));
    assert_eq!(done.code, 0, "{done:?}");
    for number in 0..DATASETS {
        has(&done.err, &format!("the mount of 'tank/{number}'"));
    }
    place.wait_for_end();
    place.start();
    await_mounts(&place);
    let mut second = holders();
    assert!(place.terminate(), "it did not end");
    for holder in first.iter_mut().chain(&mut second) {
        assert_eq!(are_read(&place, holder), [false; DATASETS]);
    }
    place.start();
    await_mounts(&place);
    for number in 0..DATASETS {
        let file = place.path(&format!("{number}/file"));
        assert_eq!(fs::read(file).unwrap(), b"secret");
    }
}

/// An empty directory in the format of gocryptfs, and where it is mounted. None where that cannot be tested.
fn stacked_place() -> Option<Place> {
    needs!(
        can_mount() && is_installed("unshare") && is_root(),
        "only root makes mount namespaces"
    );
    let place = Place::without_daemon();
    for dir in ["lower", "view"] {
        fs::create_dir(place.path(dir)).unwrap();
    }
    fs::write(place.path("pass"), "a passphrase").unwrap();
    place.ok("stack init --format gocryptfs --passfile {DIR}/pass {DIR}/lower");
    Some(place)
}

#[test]
fn a_stacked_mount_that_is_held_says_so() {
    let place = needs!(stacked_place());
    let mount = ["--passfile", &place.arg("pass")];
    for force in ["", "-f "] {
        let mut mounted = stacked_directory::Mounted::new(&place, &mount);
        fs::write(mounted.view.join("file"), "secret").unwrap();
        let mut holder = Holder::new(&["-m"]);
        let said = place.fails(&format!("stack unmount {force}{{DIR}}/view"), BUSY);
        has(&said, &holder.shown());
        assert!(fs::read_dir(&mounted.view).unwrap().next().is_none());
        let read = format!("test \"$(cat {}/file)\" = secret", mounted.view.display());
        assert!(holder.runs(&read));
        drop(holder);
        // The last copy went with the namespace.
        assert!(mounted.process.wait().unwrap().success());
    }
    let mounted = stacked_directory::Mounted::new(&place, &mount);
    place.ok("stack unmount {DIR}/view");
    drop(mounted);
}

#[test]
fn a_stacked_mount_of_a_namespace() {
    let place = needs!(stacked_place());
    let mut inside = Holder::new(&["-Urm"]);
    let root = place.root().display();
    assert!(inside.runs(&format!(
        "{PROGRAM} stack mount --passfile {root}/pass {root}/lower {root}/view >&2"
    )));
    assert!(inside.runs(&format!(
        "echo secret > {root}/view/file && test -s {root}/view/file"
    )));
    assert!(!place.path("view/file").exists());
    assert!(inside.runs(&format!("{PROGRAM} stack unmount {root}/view >&2")));
    assert!(inside.runs(&format!("test ! -e {root}/view/file")));
    drop(inside);
    let mounted = stacked_directory::Mounted::new(&place, &["--passfile", &place.arg("pass")]);
    assert_eq!(
        fs::read_to_string(mounted.view.join("file")).unwrap(),
        "secret\n"
    );
    mounted.end();
}
