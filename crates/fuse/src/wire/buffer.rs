//! The buffer for requests.
//!
//! A worker keeps its buffer from request to request: a new megabyte with every write would cost page faults. The
//! buffer is a mapping of its own. So pages that no request has touched take no memory, and memory that is given back
//! returns to the system. The data of a `WRITE` begins on a page; the first 80 bytes of the request come before it.

use std::os::fd::BorrowedFd;

use memmap2::{Advice, MmapMut};
use rustix::io::{self, Errno};

use crate::wire::abi::{InHeader, WriteIn};

/// The most one request carries, in pages: 1 MiB, the kernel's own limit (`max_pages_limit`).
pub(crate) const MAX_PAGES: u16 = 256;
/// The most one request carries, in bytes.
pub(crate) const MAX_WRITE: u32 = MAX_PAGES as u32 * 4096;

const PAGE: usize = 4096;
const BEFORE_DATA: usize = size_of::<InHeader>() + size_of::<WriteIn>();
/// The offset at which a request begins.
const START: usize = PAGE - BEFORE_DATA;
/// The kernel refuses to be read with less space than for its largest request.
const LEN: usize = MAX_WRITE as usize + 2 * PAGE;

/// Space for one request.
pub(crate) struct RequestBuffer {
    bytes: MmapMut,
    /// The longest request that was read into these pages.
    longest: usize,
}

impl RequestBuffer {
    /// A buffer that takes no memory yet.
    pub(crate) fn new() -> std::io::Result<RequestBuffer> {
        let bytes = MmapMut::map_anon(LEN)?;
        // Its neighbours are other buffers: together they would be given huge pages at the first touch. A
        // kernel without huge pages knows no such advice.
        let _ = bytes.advise(Advice::NoHugePage);
        Ok(RequestBuffer { bytes, longest: 0 })
    }

    /// Returns the memory that requests have made the buffer take, about.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Gives its memory back.
    pub(crate) fn give_back(&mut self) {
        match RequestBuffer::new() {
            Ok(new) => *self = new,
            Err(error) => tracing::debug!(%error, "a buffer keeps its memory"),
        }
    }

    /// Waits for a request.
    pub(crate) fn read(&mut self, device: BorrowedFd<'_>) -> io::Result<&[u8]> {
        let free = &mut self.bytes[START..];
        let mut again = true;
        loop {
            match io::read(device, &mut *free) {
                Ok(len) => {
                    self.longest = self.longest.max(len);
                    return Ok(&self.bytes[START..START + len]);
                }
                // A request that is read while the last user unmounts gets this error too. If the connection was cut
                // indeed, the answer stays the same.
                Err(Errno::CONNABORTED) if again => again = false,
                // The request was taken back while it was being read.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
