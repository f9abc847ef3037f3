//! Where requests are read to.
//!
//! Each worker has one buffer for ever: a megabyte that is allocated and given back with every
//! write would cost page faults. The buffer begins so that the data of a `WRITE`, which is all but
//! the first 80 bytes, begins on a page.

use std::os::fd::BorrowedFd;

use rustix::io::{self, Errno};

use crate::abi::{InHeader, WriteIn};
use crate::handshake::MAX_WRITE;

const PAGE: usize = 4096;
const BEFORE_DATA: usize = size_of::<InHeader>() + size_of::<WriteIn>();

/// Room for one request.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    pub(crate) fn new() -> Buffer {
        let bytes = vec![0; MAX_WRITE as usize + 2 * PAGE];
        let to_page = bytes.as_ptr().align_offset(PAGE);
        // `align_offset` may decline to answer; alignment is only a matter of speed.
        let start = if to_page < PAGE {
            to_page + PAGE - BEFORE_DATA
        } else {
            0
        };
        Buffer { bytes, start }
    }

    /// Waits for a request.
    pub(crate) fn read(&mut self, device: BorrowedFd<'_>) -> io::Result<&[u8]> {
        let room = &mut self.bytes[self.start..];
        let mut again = true;
        loop {
            match io::read(device, &mut *room) {
                Ok(len) => return Ok(&room[..len]),
                // Also what a request gets that is being read while the last user unmounts; if the
                // connection was cut indeed, the answer stays the same.
                Err(Errno::CONNABORTED) if again => again = false,
                // The request was taken back while it was being read.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
