//! Watching directories for new names, on a file system that only this machine changes (inotify).
//!
//! The kernel queues an event for a new name before the call that made the name returns. So the names that are in the
//! queue, together with those of a listing that began after the watch, are all names of the directory.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::Entry;

/// The most new names of a directory that are kept; with more of them a listing is cheaper.
const NAMES_MAX: usize = 1024;

/// The watched directories of a mount.
pub(crate) struct Watches(Mutex<WatchQueue>);

struct WatchQueue {
    events: OwnedFd,
    mailboxes: HashMap<i32, Arc<Mutex<NewNames>>>,
}

/// A directory that is watched until this is dropped.
pub(crate) struct Watch {
    descriptor: i32,
    mailbox: Arc<Mutex<NewNames>>,
    watches: Arc<Watches>,
}

/// The names that a directory got since they were last taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NewNames {
    /// All of them.
    All(Vec<Vec<u8>>),
    /// Too many.
    Many,
    /// Unknown names, now and later: the kernel has ended the watch.
    Unknown,
}

impl Watches {
    /// Without directories. Nothing if the kernel refuses, as it does beyond a limit of each user.
    pub(crate) fn new() -> Option<Arc<Watches>> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let mailboxes = HashMap::new();
        Some(Arc::new(Watches(Mutex::new(WatchQueue {
            events,
            mailboxes,
        }))))
    }

    /// Watches a directory. Nothing if the kernel refuses, or another watch of it has not ended yet.
    pub(crate) fn add(self: &Arc<Watches>, dir: &Entry) -> Option<Watch> {
        let mut queue = self.0.lock();
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR
            | WatchFlags::MASK_CREATE;
        let descriptor = inotify::add_watch(&queue.events, dir.proc_path(), flags).ok()?;
        let mailbox = Arc::new(Mutex::new(NewNames::All(Vec::new())));
        queue.mailboxes.insert(descriptor, mailbox.clone());
        Some(Watch {
            descriptor,
            mailbox,
            watches: self.clone(),
        })
    }
}

impl Watch {
    /// The names that the directory got since the last call, those of this process among them.
    pub(crate) fn take(&self) -> NewNames {
        self.watches.0.lock().deliver();
        let mut names = self.mailbox.lock();
        let next = match *names {
            NewNames::Unknown => NewNames::Unknown,
            _ => NewNames::All(Vec::new()),
        };
        std::mem::replace(&mut *names, next)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut queue = self.watches.0.lock();
        let mailbox = queue.mailboxes.get(&self.descriptor);
        // The kernel may have ended it, and may use the number for another directory by now.
        if mailbox.is_some_and(|mailbox| Arc::ptr_eq(mailbox, &self.mailbox)) {
            queue.mailboxes.remove(&self.descriptor);
            let _ = inotify::remove_watch(&queue.events, self.descriptor);
        }
    }
}

impl WatchQueue {
    /// Gives all events that there are to their directories.
    fn deliver(&mut self) {
        let mut buffer = [const { MaybeUninit::uninit() }; 8 << 10];
        let mut reader = Reader::new(&self.events, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::WOULDBLOCK) => return,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                let mailboxes = self.mailboxes.values();
                mailboxes.for_each(|mailbox| mailbox.lock().lose());
            } else if event.events().contains(ReadFlags::IGNORED) {
                if let Some(mailbox) = self.mailboxes.remove(&event.wd()) {
                    *mailbox.lock() = NewNames::Unknown;
                }
            } else if let Some(mailbox) = self.mailboxes.get(&event.wd()) {
                match event.file_name() {
                    Some(name) => mailbox.lock().add(name.to_bytes()),
                    None => mailbox.lock().lose(),
                }
            }
        }
        // Events that cannot be read are lost.
        for (_, mailbox) in self.mailboxes.drain() {
            *mailbox.lock() = NewNames::Unknown;
        }
    }
}

impl NewNames {
    fn add(&mut self, name: &[u8]) {
        match self {
            NewNames::All(names) if names.len() < NAMES_MAX => names.push(name.to_vec()),
            NewNames::All(_) => *self = NewNames::Many,
            NewNames::Many | NewNames::Unknown => {}
        }
    }

    fn lose(&mut self) {
        if *self != NewNames::Unknown {
            *self = NewNames::Many;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(names: &[&[u8]]) -> NewNames {
        NewNames::All(names.iter().map(|name| name.to_vec()).collect())
    }

    #[test]
    fn new_names_are_told_once_and_removed_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("before"), b"").unwrap();
        let watches = Watches::new().unwrap();
        let entry = Entry::root(dir.path()).unwrap();
        let watch = watches.add(&entry).unwrap();
        std::fs::write(path("made"), b"").unwrap();
        std::fs::hard_link(path("made"), path("linked")).unwrap();
        std::fs::rename(path("before"), path("renamed")).unwrap();
        std::fs::remove_file(path("made")).unwrap();
        assert_eq!(watch.take(), all(&[b"made", b"linked", b"renamed"]));
        assert_eq!(watch.take(), all(&[]));
    }

    #[test]
    fn many_names_are_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let watches = Watches::new().unwrap();
        let watch = watches.add(&Entry::root(dir.path()).unwrap()).unwrap();
        for number in 0..=NAMES_MAX {
            std::fs::write(dir.path().join(number.to_string()), b"").unwrap();
        }
        assert_eq!(watch.take(), NewNames::Many);
        assert_eq!(watch.take(), all(&[]));
    }

    #[test]
    fn a_removed_directory_is_watched_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dir");
        std::fs::create_dir(&path).unwrap();
        let watches = Watches::new().unwrap();
        let watch = {
            let entry = Entry::root(&path).unwrap();
            watches.add(&entry).unwrap()
        };
        assert_eq!(watch.take(), all(&[]));
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(watch.take(), NewNames::Unknown);
        assert_eq!(watch.take(), NewNames::Unknown);
    }

    #[test]
    fn a_directory_is_watched_again_when_its_watch_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let watches = Watches::new().unwrap();
        let entry = Entry::root(dir.path()).unwrap();
        let watch = watches.add(&entry).unwrap();
        assert!(watches.add(&entry).is_none());
        drop(watch);
        assert!(watches.add(&entry).is_some());
    }
}
