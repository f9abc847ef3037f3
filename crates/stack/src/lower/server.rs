//! A lower file as its server has it: reads that pass the page cache of this machine, and writes that have left it.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use vfs::{Error, Result};

use super::posix;

/// The alignment of direct reads, in the file and in memory: no file system asks for more.
const ALIGN: u64 = 4096;

/// The range of direct reads and of whole pages that has these bytes.
pub(crate) fn aligned(start: u64, end: u64) -> (u64, u64) {
    let page = ALIGN.max(rustix::param::page_size() as u64);
    (start - start % page, end.next_multiple_of(page))
}

/// Fills `bytes` from this place of a file that was opened with `O_DIRECT`.
///
/// # Errors
/// `Io` if the file is shorter; those of reading.
pub(crate) fn read_direct(file: &OwnedFd, offset: u64, bytes: &mut [u8]) -> Result<()> {
    let end = offset + bytes.len() as u64;
    let start = offset - offset % ALIGN;
    let len = (end.next_multiple_of(ALIGN) - start) as usize;
    let mut buffer = vec![0; len + ALIGN as usize];
    let skip = buffer.as_ptr().align_offset(ALIGN as usize);
    let buffer = &mut buffer[skip..skip + len];
    let wanted = (end - start) as usize;
    let mut done = 0;
    while done < wanted {
        // What ends inside a block ends the file, or was interrupted: then the next read has more.
        let from = done - done % ALIGN as usize;
        match rustix::io::pread(file, &mut buffer[from..], start + from as u64) {
            Ok(read) if from + read > done => done = from + read,
            Ok(_) => return Err(Error::Io),
            Err(Errno::INTR) => {}
            Err(error) => return Err(posix(error)),
        }
    }
    let first = (offset - start) as usize;
    bytes.copy_from_slice(&buffer[first..wanted]);
    Ok(())
}

/// Has the server know of all that was written to a file. It need not be on a disk.
///
/// # Errors
/// Those of writing.
pub(crate) fn settle(file: &OwnedFd) -> Result<()> {
    let last = rustix::io::fcntl_dupfd_cloexec(file, 0).map_err(posix)?;
    close(last)
}

/// Closes a file, which writes what other clients of a network file system are to see.
///
/// # Errors
/// Those of writing.
pub(crate) fn close(file: OwnedFd) -> Result<()> {
    let closed = nix::unistd::close(file);
    closed.map_err(|error| posix(Errno::from_raw_os_error(error as i32)))
}
