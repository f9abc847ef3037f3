//! Lets one client at a time create names in a directory, if the lower directory cannot refuse a name that
//! exists: there, one name of the view can have several forms, or a rename replaces the entry.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags};
use vfs::{Error, Result};

use super::temporary;
use crate::lower::Entry;

/// A claim is held for some calls of the lower file system. A client that holds one for longer has died.
const DEAD_AFTER: Duration = Duration::from_secs(5);

const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// A file that only one client can make. Dropping the claim removes it.
///
/// Locks would need no file, but some network file systems have none for directories, or grant them to
/// several clients.
pub(crate) struct NameLock<'a> {
    dir: &'a Entry,
}

impl NameLock<'_> {
    /// Waits for the claim of a directory.
    ///
    /// # Errors
    /// Those of making a file.
    pub(crate) fn take(dir: &Entry) -> Result<NameLock<'_>> {
        let name = temporary::claim();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        let mut held = None;
        let mut pause = PAUSE_MIN;
        loop {
            match dir.open(name, flags, Mode::empty()) {
                Ok(_) => return Ok(NameLock { dir }),
                Err(Error::Exists) => {}
                Err(error) => return Err(error),
            }
            let Ok(holder) = dir.entry(name).and_then(|entry| entry.stat()) else {
                continue;
            };
            // The number alone may be that of another file by now.
            let time = holder.stx_ctime;
            let holder = (holder.stx_ino, time.tv_sec, time.tv_nsec);
            match held {
                Some((known, since)) if known == holder => {
                    let since: Instant = since;
                    if since.elapsed() > DEAD_AFTER {
                        let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
                    }
                }
                _ => held = Some((holder, Instant::now())),
            }
            sleep(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}

impl Drop for NameLock<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(self.dir, temporary::claim(), AtFlags::empty());
    }
}
