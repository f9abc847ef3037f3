//! A stacked mount ends at each of its calls that change the lower directory: once it is killed, and once the
//! machine loses power, so that the lower ext4 has what its journal has. What was synced is there then, and of
//! what was under way there is the old state or the new one.
//!
//! STRONGROOM_CUTS=all tries each call, and not each seventh.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::tracer;
use crate::common::{PROGRAM, Place, can_mount, is_root, needs};

/// The calls that change a lower directory.
const LOWER_CHANGES: &[libc::c_long] = &[
    libc::SYS_pwrite64,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
];

/// In an ordinary run one call in so many is tried.
const STRIDE: usize = 7;

/// The unit of all formats, in bytes.
const UNIT: usize = 4096;

/// The file behind a name of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Dir,
    File(Vec<u8>),
    Link(String),
}

/// All names of the view.
type Tree = BTreeMap<String, Node>;

/// A change of the view.
enum Op {
    Create(&'static str),
    Write(&'static str, usize, Vec<u8>),
    Truncate(&'static str, usize),
    Rename(&'static str, &'static str),
    Link(&'static str, &'static str),
    Symlink(&'static str, &'static str),
    Mkdir(&'static str),
    Rmdir(&'static str),
    Unlink(&'static str),
    Sync(&'static str),
}

use Op::{Create, Link, Mkdir, Rename, Rmdir, Symlink, Sync, Truncate, Unlink, Write};

/// Names that are too long for the lower directory in clear, though not for pefs.
const LONG: &str = "d/lllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllll\
    llllllllllllllllllllllllllllllllllllllllllllllllllll";
const OTHER_LONG: &str = "d/mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm\
    mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm";

fn bytes(seed: u8, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at ^ at >> 8).wrapping_mul(31) as u8 ^ seed)
        .collect()
}

/// The changes of the test, in steps each of which ends synced.
fn steps() -> Vec<Vec<Op>> {
    vec![
        vec![
            Create("a"),
            Write("a", 0, bytes(1, 10_000)),
            Sync("a"),
            Sync(""),
        ],
        vec![Write("a", UNIT, bytes(2, UNIT)), Sync("a")],
        vec![Write("a", 10_000, bytes(3, 5_000)), Sync("a")],
        vec![Truncate("a", 6_000), Sync("a")],
        vec![Truncate("a", 9_000), Sync("a")],
        vec![
            Create("new"),
            Write("new", 0, bytes(4, 7_000)),
            Sync("new"),
            Rename("new", "a"),
            Sync(""),
        ],
        vec![
            Mkdir("d"),
            Create(LONG),
            Write(LONG, 0, bytes(5, 100)),
            Sync(LONG),
            Sync("d"),
            Sync(""),
        ],
        vec![Rename(LONG, OTHER_LONG), Sync("d")],
        vec![
            Link("a", "b"),
            Symlink("a target of some length", "link"),
            Sync(""),
        ],
        vec![Rename("d", "e"), Sync("")],
        vec![Unlink("a"), Mkdir("empty"), Rmdir("empty"), Sync("")],
    ]
}

impl Op {
    /// Makes the change.
    fn apply(&self, view: &Path) -> io::Result<()> {
        let at = |name: &str| view.join(name);
        match self {
            Create(name) => File::create_new(at(name)).map(drop),
            Write(name, offset, bytes) => {
                let file = OpenOptions::new().write(true).open(at(name))?;
                file.write_all_at(bytes, *offset as u64)
            }
            Truncate(name, len) => {
                let file = OpenOptions::new().write(true).open(at(name))?;
                file.set_len(*len as u64)
            }
            Rename(from, to) => fs::rename(at(from), at(to)),
            Link(from, to) => fs::hard_link(at(from), at(to)),
            Symlink(target, name) => symlink(target, at(name)),
            Mkdir(name) => fs::create_dir(at(name)),
            Rmdir(name) => fs::remove_dir(at(name)),
            Unlink(name) => fs::remove_file(at(name)),
            Sync(name) => File::open(at(name))?.sync_all(),
        }
    }

    /// The states that this leads through, from the one before it on. Where the size in the view is that of the lower
    /// file, a file that is cut or extended has whole units for a moment.
    fn states(&self, before: &Tree, by_units: bool) -> Vec<Tree> {
        let mut after = before.clone();
        let content = |name: &str| match &before[name] {
            Node::File(content) => content.clone(),
            other => panic!("{name} is {other:?}"),
        };
        let name = |name: &&str| (*name).to_owned();
        match self {
            Create(new) => drop(after.insert(name(new), Node::File(Vec::new()))),
            Write(file, offset, bytes) => {
                // The kernel may ask for each page by itself.
                let end = offset + bytes.len();
                let inner = (offset / UNIT + 1..end.div_ceil(UNIT)).map(|unit| unit * UNIT);
                let written = |end: usize| {
                    let mut all = content(file);
                    all.resize(all.len().max(end), 0);
                    all[*offset..end].copy_from_slice(&bytes[..end - offset]);
                    let mut state = before.clone();
                    state.insert(name(file), Node::File(all));
                    state
                };
                return inner.chain([end]).map(written).collect();
            }
            Truncate(file, len) => {
                let old = content(file);
                let between = match *len < old.len() {
                    true => len - len % UNIT,
                    false => old.len().next_multiple_of(UNIT),
                };
                let resized = |len: usize| {
                    let mut all = old.clone();
                    all.resize(len, 0);
                    let mut state = before.clone();
                    state.insert(name(file), Node::File(all));
                    state
                };
                let between = by_units.then_some(between);
                return between.into_iter().chain([*len]).map(resized).collect();
            }
            Rename(from, to) => {
                let prefix = format!("{from}/");
                let of = |path: &str| path == *from || path.starts_with(&prefix);
                let moved: Vec<String> = after.keys().filter(|path| of(path)).cloned().collect();
                for path in moved {
                    let node = after.remove(&path).expect("a node");
                    after.insert(format!("{to}{}", &path[from.len()..]), node);
                }
            }
            Link(from, to) => drop(after.insert(name(to), before[*from].clone())),
            Symlink(target, new) => drop(after.insert(name(new), Node::Link(name(target)))),
            Mkdir(new) => drop(after.insert(name(new), Node::Dir)),
            Rmdir(old) | Unlink(old) => drop(after.remove(*old)),
            Sync(_) => {}
        }
        vec![after]
    }
}

/// The states after each step, each with those on the way to the next one.
fn allowed(steps: &[Vec<Op>], by_units: bool) -> Vec<Vec<Tree>> {
    let mut now = Tree::new();
    let mut all = Vec::new();
    for step in steps {
        let mut on_the_way = vec![now.clone()];
        for op in step {
            on_the_way.extend(op.states(&now, by_units));
            now = on_the_way.last().expect("a state").clone();
        }
        all.push(on_the_way);
    }
    all.push(vec![now]);
    all
}

/// The tree that a view shows.
fn tree(view: &Path, below: &str) -> io::Result<Tree> {
    let mut found = Tree::new();
    for entry in fs::read_dir(view.join(below))? {
        let entry = entry?;
        let name = entry.file_name().into_string().expect("UTF-8");
        if name == ".pefs.conf" {
            continue;
        }
        let path = match below {
            "" => name,
            _ => format!("{below}/{name}"),
        };
        let kind = entry.file_type()?;
        let node = if kind.is_dir() {
            found.extend(tree(view, &path)?);
            Node::Dir
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path())?;
            Node::Link(target.into_os_string().into_string().expect("UTF-8"))
        } else {
            Node::File(fs::read(entry.path())?)
        };
        found.insert(path, node);
    }
    Ok(found)
}

/// An ext4 on a loop device, until this is dropped.
struct Ext4(PathBuf);

impl Ext4 {
    fn mount(image: &Path, at: &Path) -> Option<Ext4> {
        let mut mount = Command::new("mount");
        let done = mount.args(["-o", "loop"]).args([image, at]).status();
        (done.is_ok_and(|status| status.success())).then(|| Ext4(at.into()))
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let done = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(done.is_ok_and(|status| status.success()));
    }
}

/// A lower directory of a format on an image of a disk.
struct Disk {
    place: Place,
    format: &'static str,
}

impl Disk {
    /// `None` where nothing can be mounted.
    fn new(format: &'static str) -> Option<Disk> {
        needs!(
            is_root() && can_mount(),
            "only root mounts ext4, and stacked directories on it"
        );
        let place = Place::without_daemon();
        for dir in ["lower", "view"] {
            fs::create_dir(place.path(dir)).expect("a directory");
        }
        fs::write(place.path("pass"), "correct horse\n").expect("written");
        let image = File::create(place.path("image")).expect("a file");
        image.set_len(32 << 20).expect("a length");
        let made = Command::new("mkfs.ext4")
            .args(["-q", "-b", "4096"])
            .arg(place.path("image"))
            .status();
        assert!(made.expect("mkfs.ext4").success());
        let _lower = needs!(
            Ext4::mount(&place.path("image"), &place.path("lower")),
            "ext4 cannot be mounted from a loop device"
        );
        let at = place.path("lower/vault");
        fs::create_dir(&at).expect("a directory");
        match format {
            "pefs" => symlink("aes256-xts:1", at.join(".pefs.conf")).expect("linked"),
            // Its password hash is as cheap as it can be.
            "gocryptfs" => {
                let done = Command::new("gocryptfs")
                    .args(["-q", "-init", "-scryptn", "10", "-passfile"])
                    .args([place.path("pass"), at])
                    .stdout(Stdio::null())
                    .status();
                assert!(done.expect("gocryptfs").success());
            }
            _ => {
                fs::write(place.path("key"), bytes(9, 64)).expect("written");
                place.ok("stack init -d {DIR}/key {DIR}/lower/vault");
            }
        }
        Some(Disk { place, format })
    }

    /// Mounts the view, to end at a call; what it does is not known before it says that it is mounted.
    fn serve(&self, kill_at: Option<u64>) -> (bool, tracer::Watch) {
        let key = match self.format {
            "fscrypt" => "-d \"$DIR/key\"",
            _ => "--passfile \"$DIR/pass\"",
        };
        let script = format!(
            "exec \"$PROGRAM\" stack mount --foreground {key} \"$DIR/lower/vault\" \"$DIR/view\" 2>&1"
        );
        let mut command = Command::new("sh");
        command
            .args(["-c", &script])
            .env("PROGRAM", PROGRAM)
            .env("DIR", self.place.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let (stdout, watch) = tracer::start(command, LOWER_CHANGES, kill_at);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        (line.contains("mounted on"), watch)
    }

    /// Ends what [`Disk::serve`] mounted, and says how many calls it made.
    fn end(&self, watch: tracer::Watch) -> u64 {
        let done = Command::new("fusermount3")
            .arg("-uz")
            .arg(self.place.path("view"))
            .stderr(Stdio::null())
            .status();
        done.expect("fusermount3");
        watch.join().expect("the tracer")
    }

    /// Does the steps, to be killed at a call. Says how many steps were done, and how many calls made.
    fn run(&self, steps: &[Vec<Op>], kill_at: Option<u64>) -> (usize, u64) {
        let (is_mounted, watch) = self.serve(kill_at);
        let view = self.place.path("view");
        let works = |step: &&Vec<Op>| step.iter().all(|op| op.apply(&view).is_ok());
        let done = match is_mounted {
            true => steps.iter().take_while(works).count(),
            false => 0,
        };
        (done, self.end(watch))
    }

    /// Mounts the directory after a cut. Checks that its view has an allowed state, and can be used.
    fn check(&self, image: &str, allowed: &[Tree], what: &str) {
        let image = self.place.path(image);
        let _lower = Ext4::mount(&image, &self.place.path("lower")).expect(what);
        let (is_mounted, watch) = self.serve(None);
        assert!(is_mounted, "{what}");
        let view = self.place.path("view");
        let found = tree(&view, "").unwrap_or_else(|error| panic!("{what}: {error}"));
        let is_allowed = allowed.contains(&found);
        // A directory whose removal was under way can be removed.
        let _ = fs::remove_dir(view.join("empty"));
        let is_left = view.join("empty").exists();
        let again = fs::create_dir_all(view.join("again"))
            .and_then(|()| fs::write(view.join("again/file"), "new"));
        self.end(watch);
        assert!(is_allowed, "{what}: {}", differences(&found, allowed));
        again.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(!is_left, "{what}: 'empty' cannot be removed");
    }
}

/// The differences from the last of the states that were allowed.
fn differences(found: &Tree, allowed: &[Tree]) -> String {
    let short = |tree: &Tree| -> Vec<String> {
        let shown = |(name, node): (&String, &Node)| match node {
            Node::File(bytes) => format!("{:.12} {} bytes", name, bytes.len()),
            other => format!("{name:.12} {other:?}"),
        };
        tree.iter().map(shown).collect()
    };
    let wanted: Vec<_> = allowed.iter().map(short).collect();
    format!("{:?}, and not one of {wanted:?}", short(found))
}

/// Ends a mount of this format at its calls.
fn cut(format: &'static str) {
    let disk = needs!(Disk::new(format));
    let all = std::env::var("STRONGROOM_CUTS").is_ok_and(|value| value == "all");
    let steps = steps();
    let allowed = allowed(&steps, format != "fscrypt");
    let path = |name: &str| disk.place.path(name);
    let image = fs::read(path("image")).expect("read");
    // Without a cut, all is done; this counts the calls.
    let lower = Ext4::mount(&path("image"), &path("lower")).expect("mounted");
    let (done, calls) = disk.run(&steps, None);
    assert_eq!(done, steps.len());
    drop(lower);
    disk.check("image", &allowed[done], format);
    let start = calls as usize % STRIDE;
    for at in (1 + start..=calls as usize).step_by(if all { 1 } else { STRIDE }) {
        // Other files each time: a program of another test may keep the old mount for a moment.
        let (image_now, lost) = (format!("image-{at}"), format!("lost-power-{at}"));
        fs::write(path(&image_now), &image).expect("written");
        let lower = Ext4::mount(&path(&image_now), &path("lower")).expect("mounted");
        let (done, _) = disk.run(&steps, Some(at as u64));
        // What the disk has at this moment; the file system is still mounted.
        fs::copy(path(&image_now), path(&lost)).expect("copied");
        drop(lower);
        let what = format!("{format}, call {at} of {calls}, {done} steps done");
        disk.check(&image_now, &allowed[done], &format!("killed: {what}"));
        let what = format!("lost power: {what}");
        disk.check(&lost, &allowed[done], &what);
        for image in [image_now, lost] {
            fs::remove_file(path(&image)).expect("removed");
        }
    }
}

#[test]
fn fscrypt() {
    cut("fscrypt");
}

#[test]
fn gocryptfs() {
    cut("gocryptfs");
}

#[test]
fn pefs() {
    cut("pefs");
}
