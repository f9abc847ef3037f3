//! Names of pefs, which only a listing finds: what is remembered of listings is never wrong.

mod common;

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;

use cipher::SystemRandom;
use common::changes::Numbers;
use common::{create, file_with, mkdir, names, refused};
use rustix::fs::inotify;
use secret::Secret;
use stack::formats::pefs::{Algorithm, PefsFormat, PefsKey, PefsMasterKey};
use stack::{Entry, Options, StackedDirectory};
use vfs::{Error, FileSystem, Ino, ROOT, RenameMode};

fn key(byte: u8) -> PefsKey {
    let master = Secret::from_slice(&[byte; 64]).expect("memory");
    let master = PefsMasterKey::new(master).expect("64 bytes");
    PefsKey::new(&master, Algorithm::default()).expect("key")
}

fn view(lower: &Path, shared: bool) -> StackedDirectory<PefsFormat> {
    let options = Options {
        shared,
        ..Options::default()
    };
    view_with(lower, options)
}

fn view_with(lower: &Path, options: Options) -> StackedDirectory<PefsFormat> {
    let format = PefsFormat::new(Arc::new(SystemRandom));
    format.add_key(key(1)).expect("another");
    let lower = Entry::root(lower).expect("opened");
    StackedDirectory::new(lower, format, options).expect("a view")
}

/// Random changes by these views of one directory, in which each name is looked up by all of them after each change.
fn change(views: &[StackedDirectory<PefsFormat>], seed: u64) {
    let mut numbers = Numbers(seed);
    let dirs: Vec<[Ino; 2]> = {
        mkdir(&views[0], ROOT, "dir").expect("made");
        let dir =
            |view: &StackedDirectory<PefsFormat>| view.lookup(ROOT, b"dir").expect("found").ino;
        views.iter().map(|view| [ROOT, dir(view)]).collect()
    };
    let mut model: BTreeMap<(usize, String), Ino> = BTreeMap::new();
    for _ in 0..400 {
        let by = numbers.below(views.len() as u64) as usize;
        let (fs, dirs_of) = (&views[by], dirs[by]);
        let mut some = || {
            let at = numbers.below(2) as usize;
            (at, format!("name {}", numbers.below(8)))
        };
        let (from, to) = (some(), some());
        let place = |(at, name): &(usize, String)| (dirs_of[*at], name.clone());
        let ((dir, name), (new_dir, new_name)) = (place(&from), place(&to));
        let (name, new_name) = (name.as_bytes(), new_name.as_bytes());
        match numbers.below(5) {
            0 | 1 => match model.contains_key(&from) {
                true => refused(create(fs, dir, &from.1), Error::Exists),
                false => {
                    let ino = create(fs, dir, &from.1).expect("created").ino;
                    model.insert(from, ino);
                }
            },
            2 => match model.remove(&from) {
                Some(_) => fs.unlink(dir, name).expect("removed"),
                None => refused(fs.unlink(dir, name), Error::NotFound),
            },
            3 => match (model.get(&from).copied(), model.contains_key(&to)) {
                (None, _) => {}
                (_, true) => {
                    let ino = fs.lookup(dir, name).expect("found").ino;
                    refused(fs.link(ino, new_dir, new_name), Error::Exists);
                }
                (Some(_), false) => {
                    let ino = fs.lookup(dir, name).expect("found").ino;
                    fs.link(ino, new_dir, new_name).expect("linked");
                    model.insert(to, ino);
                }
            },
            _ => {
                let renamed = fs.rename(dir, name, new_dir, new_name, RenameMode::Replace);
                match model.get(&from).copied() {
                    None => refused(renamed, Error::NotFound),
                    Some(ino) => {
                        renamed.expect("renamed");
                        // Two names of one file both stay.
                        if model.get(&to) != Some(&ino) {
                            model.remove(&from);
                            model.insert(to, ino);
                        }
                    }
                }
            }
        }
        for (fs, dirs) in views.iter().zip(&dirs) {
            for number in 0..16 {
                let (at, name) = (number / 8, format!("name {}", number % 8));
                let found = fs.lookup(dirs[at], name.as_bytes()).map(|attr| attr.ino);
                let expected = model.get(&(at, name)).copied().ok_or(Error::NotFound);
                assert_eq!(found, expected, "seed {seed}");
            }
        }
    }
    for (fs, dirs) in views.iter().zip(&dirs) {
        let expected = model.keys().filter(|(at, _)| *at == 1);
        let expected: Vec<_> = expected.map(|(_, name)| name.clone()).collect();
        assert_eq!(names(fs, dirs[1]), expected);
    }
}

#[test]
fn one_view() {
    for seed in 1..4 {
        let lower = tempfile::tempdir().expect("a directory");
        change(&[view(lower.path(), false)], seed);
    }
}

#[test]
fn two_views_of_one_directory() {
    for seed in 1..4 {
        let lower = tempfile::tempdir().expect("a directory");
        let views = [0, 1].map(|_| view(lower.path(), true));
        change(&views, seed);
    }
}

#[test]
fn keys_change_what_is_known() {
    let lower = tempfile::tempdir().expect("a directory");
    let fs = view(lower.path(), false);
    file_with(&fs, "file", b"contents");
    assert!(fs.lookup(ROOT, b"file").is_ok());
    refused(fs.lookup(ROOT, b"other"), Error::NotFound);
    let stored = std::fs::read_dir(lower.path()).expect("listed").next();
    let stored = stored.expect("one").expect("an entry").file_name();
    let stored = stored.as_encoded_bytes();
    fs.format().remove_key(key(1).id()).expect("removed");
    refused(fs.lookup(ROOT, b"file"), Error::NotFound);
    assert!(fs.lookup(ROOT, stored).is_ok());
    fs.format().add_key(key(1)).expect("added");
    assert!(fs.lookup(ROOT, b"file").is_ok());
    refused(fs.lookup(ROOT, stored), Error::NotFound);
}

/// A known name whose entry cannot be opened is not free: a second entry would get the same name.
#[test]
fn an_error_of_a_known_name_is_not_taken_for_its_absence() {
    let lower = tempfile::tempdir().expect("a directory");
    let fs = view(lower.path(), true);
    mkdir(&fs, ROOT, "dir").expect("made");
    fs.lookup(ROOT, b"dir").expect("found");
    let entry = std::fs::read_dir(lower.path()).expect("listed").next();
    let entry = entry.expect("one").expect("an entry").path();
    // What is mounted there is not entered.
    let flags = rustix::mount::MountFlags::empty();
    if let Err(error) = rustix::mount::mount("tmpfs", &entry, "tmpfs", flags, None) {
        return eprintln!("skipped: nothing can be mounted here: {error}");
    }
    let (found, made) = (fs.lookup(ROOT, b"dir"), mkdir(&fs, ROOT, "dir"));
    rustix::mount::unmount(&entry, rustix::mount::UnmountFlags::DETACH).expect("unmounted");
    refused(found, Error::CrossDevice);
    refused(made, Error::CrossDevice);
    assert!(fs.lookup(ROOT, b"dir").is_ok());
    let entries = std::fs::read_dir(lower.path()).expect("listed");
    assert_eq!(entries.count(), 1);
}

/// Counts the listings of a directory by the kernel's events of reading it.
struct Listings(rustix::fd::OwnedFd);

impl Listings {
    fn of(dir: &Path) -> Listings {
        let events = inotify::init(inotify::CreateFlags::NONBLOCK).expect("inotify");
        inotify::add_watch(&events, dir, inotify::WatchFlags::ACCESS).expect("watched");
        Listings(events)
    }

    /// The events since the last call: one, or a few, if the directory was listed.
    fn take(&self) -> usize {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.0, &mut buffer);
        let mut count = 0;
        while let Ok(event) = events.next() {
            let is_directory = event.events().contains(inotify::ReadFlags::ISDIR);
            count += usize::from(is_directory && event.file_name().is_none());
        }
        count
    }
}

/// The number of listings of a directory while so many files are made, looked up and removed, one after the other.
fn listings_of(files: usize, options: Options) -> usize {
    let lower = tempfile::tempdir().expect("a directory");
    let fs = view_with(lower.path(), options);
    let listings = Listings::of(lower.path());
    let mut count = 0;
    for number in 0..files {
        let name = format!("test-{number}");
        refused(fs.lookup(ROOT, name.as_bytes()), Error::NotFound);
        count += listings.take();
        create(&fs, ROOT, &name).expect("created");
        count += listings.take();
    }
    for number in 0..files {
        let name = format!("test-{number}");
        fs.unlink(ROOT, name.as_bytes()).expect("removed");
        count += listings.take();
    }
    count
}

/// The time of many files in one directory grows with their number and not with its square: no file needs a listing.
#[test]
fn files_are_made_without_listing_the_directory() {
    let shared = Options {
        shared: true,
        ..Options::default()
    };
    let (few, many) = (listings_of(50, shared), listings_of(200, shared));
    assert_eq!(few, many);
    let without_index = Options {
        nodircache: true,
        ..shared
    };
    assert!(listings_of(50, without_index) >= 50);
}

/// Changes by another program in the lower directory are seen at once, also where the index has all names.
#[test]
fn names_of_other_programs_are_seen_at_once() {
    let lower = tempfile::tempdir().expect("a directory");
    let other = tempfile::tempdir().expect("a directory");
    let fs = view(lower.path(), true);
    let elsewhere = view(other.path(), true);
    file_with(&fs, "mine", b"1");
    refused(fs.lookup(ROOT, b"theirs"), Error::NotFound);
    file_with(&elsewhere, "theirs", b"2");
    let stored = std::fs::read_dir(other.path()).expect("listed").next();
    let stored = stored.expect("one").expect("an entry").path();
    let copy = lower.path().join(stored.file_name().expect("a name"));
    std::fs::copy(&stored, &copy).expect("copied");
    assert!(fs.lookup(ROOT, b"theirs").is_ok());
    refused(create(&fs, ROOT, "theirs"), Error::Exists);
    std::fs::remove_file(&copy).expect("removed");
    refused(fs.lookup(ROOT, b"theirs"), Error::NotFound);
    // What is made and renamed away was there.
    std::fs::copy(&stored, &copy).expect("copied");
    std::fs::rename(&copy, other.path().join("away")).expect("renamed");
    refused(fs.lookup(ROOT, b"theirs"), Error::NotFound);
    std::fs::rename(other.path().join("away"), &copy).expect("renamed");
    assert!(fs.lookup(ROOT, b"theirs").is_ok());
}
