//! The process of a stacked mount is killed while a program writes. The next mount shows each file with the
//! bytes that were written, as far as its size goes.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::common::{PROGRAM, Place, can_mount, needs};

/// The size of a write: many units, the last one in part.
const CHUNK: usize = 300_007;

/// The size of a file that replaces another one.
const WHOLE: usize = 50_001;

/// The size of a unit: with gocryptfs the kill can tear the last one.
const UNIT: usize = 4096;

/// The bytes of every file.
fn bytes(from: usize, len: usize) -> Vec<u8> {
    (from..from + len)
        .map(|at| (at ^ at >> 8).wrapping_mul(31) as u8)
        .collect()
}

fn prepare(format: &str) -> Place {
    let place = Place::without_daemon();
    for dir in ["lower", "view"] {
        fs::create_dir(place.path(dir)).expect("a directory");
    }
    fs::write(place.path("pass"), "correct horse\n").expect("written");
    match format {
        // Without a database each passphrase is a key.
        "pefs" => std::os::unix::fs::symlink("aes256-xts:1", place.path("lower/.pefs.conf"))
            .expect("linked"),
        _ => {
            place.ok(&format!(
                "stack init --format {format} --passfile {{DIR}}/pass {{DIR}}/lower"
            ));
        }
    }
    place
}

fn mount(place: &Place) -> Child {
    let mut process = Command::new(PROGRAM)
        .args(["stack", "mount", "--foreground", "--passfile"])
        .args([place.path("pass"), place.path("lower"), place.path("view")])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut line = String::new();
    let output = process.stderr.as_mut().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert!(line.contains("mounted on"), "{line}");
    process
}

fn unmount(view: &Path) {
    let done = Command::new("fusermount3").arg("-uz").arg(view).status();
    assert!(done.expect("fusermount3").success());
}

/// Writes until the mount is gone. Says the size that `grows` has after each step.
fn write(view: PathBuf, said: &Sender<usize>) -> std::io::Result<()> {
    let mut grows = OpenOptions::new()
        .append(true)
        .create(true)
        .open(view.join("grows"))?;
    let long = "l".repeat(150);
    for step in 1.. {
        grows.write_all(&bytes((step - 1) * CHUNK, CHUNK))?;
        fs::write(view.join("new"), bytes(0, WHOLE))?;
        fs::rename(view.join("new"), view.join("replaced"))?;
        let dir = view.join("dir");
        fs::create_dir(&dir)?;
        fs::write(dir.join(&long), bytes(0, 10))?;
        fs::rename(dir.join(&long), dir.join("short"))?;
        fs::remove_dir_all(&dir)?;
        // The reader may have stopped.
        let _ = said.send(step * CHUNK);
    }
    Ok(())
}

/// Kills the mount after so many steps of the writer, and returns what `grows` had then at least.
fn kill_after(steps: usize, mut process: Child, view: PathBuf) -> usize {
    let (said, heard): (_, Receiver<usize>) = channel();
    let writer = std::thread::spawn({
        let view = view.clone();
        move || write(view, &said)
    });
    for _ in 0..steps {
        heard.recv().expect("a step");
    }
    process.kill().expect("killed");
    process.wait().expect("ended");
    assert!(writer.join().expect("no panic").is_err());
    unmount(&view);
    heard.try_iter().last().unwrap_or(steps * CHUNK)
}

/// The bytes of a file, but for a last unit that the kill has torn.
fn read(path: &Path, may_be_torn: bool) -> Vec<u8> {
    let mut file = File::open(path).expect("opened");
    let size = file.metadata().expect("attributes").len() as usize;
    let mut all = vec![0; size];
    let mut done = 0;
    while done < size {
        let end = size.min((done / UNIT + 1) * UNIT);
        match file.read_exact(&mut all[done..end]) {
            Ok(()) => done = end,
            Err(error) => {
                assert!(may_be_torn && end == size, "{path:?}, {done}: {error}");
                break;
            }
        }
    }
    all.truncate(done);
    all
}

#[test]
fn files_have_their_bytes_after_a_kill() {
    needs!(can_mount());
    for format in ["fscrypt", "gocryptfs", "pefs"] {
        for steps in [1, 5] {
            let place = prepare(format);
            let view = place.path("view");
            let acknowledged = kill_after(steps, mount(&place), view.clone());

            let mut process = mount(&place);
            let grows = read(&view.join("grows"), format == "gocryptfs");
            let what = format!("{format}, {steps} steps, {} bytes", grows.len());
            assert!(grows.len() + UNIT > acknowledged, "{what}");
            assert!(grows.len() <= acknowledged + 2 * CHUNK, "{what}");
            assert!(grows == bytes(0, grows.len()), "{what}");
            assert!(
                read(&view.join("replaced"), false) == bytes(0, WHOLE),
                "{what}"
            );
            // Nothing stands in the way of new ones.
            let again = OpenOptions::new().write(true).open(view.join("grows"));
            let written = again.and_then(|mut file| file.write_all(&bytes(0, CHUNK)));
            written.expect("written");
            let _ = fs::remove_dir_all(view.join("dir"));
            fs::create_dir(view.join("dir")).expect("made again");
            unmount(&view);
            process.wait().expect("ended");
        }
    }
}
