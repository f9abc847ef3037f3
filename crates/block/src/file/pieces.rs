//! Writes of several pieces of memory.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

use rustix::io::{Errno, ReadWriteFlags};

use crate::total;

/// Writes all bytes of all pieces, one piece after the other.
pub(super) fn write_all_vectored(
    file: &File,
    mut offset: u64,
    pieces: &[IoSlice<'_>],
    how: ReadWriteFlags,
) -> io::Result<()> {
    if let ([piece], true) = (pieces, how.is_empty()) {
        return file.write_all_at(piece, offset);
    }
    // Linux takes 1,024 pieces at a time and may write fewer bytes than asked.
    for group in pieces.chunks(1024) {
        let len = total(group) as usize;
        let written = match write_pieces(file, group, offset, how) {
            Ok(n) => n,
            Err(Errno::INTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        if written < len {
            write_rest(file, offset, group, written)?;
            if !how.is_empty() {
                file.sync_data()?;
            }
        }
        offset += len as u64;
    }
    Ok(())
}

/// Writes pieces with one request, which may write fewer bytes than asked. Emulators and sandboxes may lack the request
/// with flags (`pwritev2`). There the data is made durable by a second request.
pub(super) fn write_pieces(
    file: &File,
    pieces: &[IoSlice<'_>],
    offset: u64,
    how: ReadWriteFlags,
) -> rustix::io::Result<usize> {
    if how.is_empty() {
        return rustix::io::pwritev(file, pieces, offset);
    }
    or_in_two_steps(
        || rustix::io::pwritev2(file, pieces, offset, how),
        || rustix::io::pwritev(file, pieces, offset),
        || rustix::fs::fdatasync(file),
    )
}

/// Makes a durable write by one request or, where the kernel has no such request, by a write and a sync.
fn or_in_two_steps(
    both: impl FnOnce() -> rustix::io::Result<usize>,
    write: impl FnOnce() -> rustix::io::Result<usize>,
    sync: impl FnOnce() -> rustix::io::Result<()>,
) -> rustix::io::Result<usize> {
    match both() {
        Err(Errno::NOSYS) => {
            let written = write()?;
            sync()?;
            Ok(written)
        }
        done => done,
    }
}

/// Writes the bytes of pieces that one request left.
pub(super) fn write_rest(
    file: &File,
    offset: u64,
    group: &[IoSlice<'_>],
    written: usize,
) -> io::Result<()> {
    let mut at = 0;
    for piece in group {
        let skip = written.saturating_sub(at).min(piece.len());
        file.write_all_at(&piece[skip..], offset + (at + skip) as u64)?;
        at += piece.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Emulators and sandboxes lack the request that writes and syncs.
    #[test]
    fn a_durable_write_syncs_where_the_system_lacks_one_request_for_it() {
        let done = std::cell::RefCell::new(Vec::new());
        let say = |word: &'static str| done.borrow_mut().push(word);
        let write = |both: rustix::io::Result<usize>, sync: rustix::io::Result<()>| {
            done.borrow_mut().clear();
            or_in_two_steps(
                || both,
                || {
                    say("write");
                    Ok(7)
                },
                || {
                    say("sync");
                    sync
                },
            )
        };
        assert_eq!(write(Err(Errno::NOSYS), Ok(())), Ok(7));
        assert_eq!(*done.borrow(), ["write", "sync"]);
        assert_eq!(write(Err(Errno::NOSYS), Err(Errno::IO)), Err(Errno::IO));
        // Whatever else happens to the one request is its result.
        for result in [Ok(5), Err(Errno::NOSPC), Err(Errno::INTR)] {
            assert_eq!(write(result, Ok(())), result);
            assert!(done.borrow().is_empty());
        }
    }
}
