//! The lock of units, so that one client at a time changes them: the rest of a unit is read, and written
//! again with what is new.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc::{F_UNLCK, F_WRLCK, SEEK_SET, flock};
use vfs::{Error, Result};

/// A lock is held for some calls of the lower file system. Who may read a lower file can hold one for longer,
/// and must not stop the mount.
const WAIT_MAX: Duration = Duration::from_secs(20);

const PAUSE_MIN: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// A lock of bytes of a lower file, by its open file description. Dropping it ends it.
pub(crate) struct RangeLock {
    file: Arc<OwnedFd>,
    range: flock,
}

impl RangeLock {
    /// Waits until no other client has a lock in this range of the lower file; without an end it covers all
    /// that the file will have. Nothing if the lower file system has no locks.
    ///
    /// # Errors
    /// `Busy` if another client does not give it back; `Access` if the file is open only to read; `FileTooBig`, `Io`.
    pub(crate) fn take(
        file: &Arc<OwnedFd>,
        start: u64,
        end: Option<u64>,
    ) -> Result<Option<RangeLock>> {
        let number = |number: u64| i64::try_from(number).map_err(|_| Error::FileTooBig);
        let range = flock {
            l_type: F_WRLCK as i16,
            l_whence: SEEK_SET as i16,
            l_start: number(start)?,
            l_len: end.map_or(Ok(0), |end| number(end - start))?,
            l_pid: 0,
        };
        let mut pause = PAUSE_MIN;
        let mut since = None;
        loop {
            match fcntl(file, FcntlArg::F_OFD_SETLK(&range)) {
                Ok(_) => {
                    let file = Arc::clone(file);
                    return Ok(Some(RangeLock { file, range }));
                }
                Err(Errno::EAGAIN | Errno::EACCES) => {}
                Err(Errno::EINTR) => continue,
                Err(Errno::ENOLCK | Errno::ENOSYS | Errno::EOPNOTSUPP | Errno::EINVAL) => {
                    return Ok(None);
                }
                // It is open only to read.
                Err(Errno::EBADF) => return Err(Error::Access),
                Err(error) => return Err(Error::from_errno(error as i32).unwrap_or(Error::Io)),
            }
            if since.get_or_insert_with(Instant::now).elapsed() > WAIT_MAX {
                return Err(Error::Busy);
            }
            sleep(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}

impl Drop for RangeLock {
    fn drop(&mut self) {
        self.range.l_type = F_UNLCK as i16;
        let _ = fcntl(&self.file, FcntlArg::F_OFD_SETLK(&self.range));
    }
}
