//! Writing a reply: one `writev`. The pieces of a read go to the kernel from the cache of the engine, without a copy.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use bytes::Bytes;
use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::wire::abi::{self, OutHeader};

/// Pieces in one `writev` without allocating; more than this is rare.
const INLINE: usize = 32;
/// `IOV_MAX` of Linux.
const IOV_MAX: usize = 1024;

/// The way back to the caller of a request.
pub(crate) struct Replier<'a> {
    device: BorrowedFd<'a>,
    unique: u64,
}

impl<'a> Replier<'a> {
    pub(crate) fn new(device: BorrowedFd<'a>, unique: u64) -> Replier<'a> {
        Replier { device, unique }
    }

    /// Answers with an error number of Linux.
    pub(crate) fn error(&self, errno: i32) {
        let header = self.header(0, -errno);
        self.send(&[IoSlice::new(header.as_bytes())]);
    }

    /// Answers with what the operation asked for, which may be nothing.
    pub(crate) fn bytes(&self, body: &[u8]) {
        let header = self.header(body.len(), 0);
        self.send(&[IoSlice::new(header.as_bytes()), IoSlice::new(body)]);
    }

    /// Answers a read of up to `max` bytes.
    pub(crate) fn pieces(&self, pieces: &[Bytes], max: usize) {
        let total: usize = pieces.iter().map(Bytes::len).sum();
        let header = self.header(total.min(max), 0);
        if total > max || pieces.len() >= IOV_MAX {
            let mut whole = Vec::with_capacity(total);
            pieces
                .iter()
                .for_each(|piece| whole.extend_from_slice(piece));
            whole.truncate(max);
            return self.bytes(&whole);
        }
        let slices = std::iter::once(IoSlice::new(header.as_bytes()))
            .chain(pieces.iter().map(|piece| IoSlice::new(piece)));
        if pieces.len() < INLINE {
            let mut inline = [IoSlice::new(&[]); INLINE];
            inline
                .iter_mut()
                .zip(slices)
                .for_each(|(to, from)| *to = from);
            self.send(&inline[..=pieces.len()]);
        } else {
            self.send(&slices.collect::<Vec<_>>());
        }
    }

    fn header(&self, body: usize, error: i32) -> OutHeader {
        OutHeader {
            // A body is at most a few MiB: what the kernel asked for.
            len: u32::try_from(size_of::<OutHeader>() + body).unwrap_or(u32::MAX),
            error,
            unique: self.unique,
        }
    }

    fn send(&self, slices: &[IoSlice<'_>]) {
        match rustix::io::retry_on_intr(|| rustix::io::writev(self.device, slices)) {
            // Gone: the asker was killed, or the connection was ended meanwhile.
            Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::PERM) => {}
            Err(error) => tracing::debug!(unique = self.unique, %error, "reply not accepted"),
        }
    }
}

/// Has the kernel write back and forget its pages of `len` bytes of a file, or of all of it if `len` is 0.
pub(crate) fn notify_inval_inode(device: BorrowedFd<'_>, ino: u64, offset: u64, len: u64) {
    notify_inval(device, ino, offset.cast_signed(), len.cast_signed());
}

/// Has the kernel forget the attributes of an inode, and nothing of its contents.
pub(crate) fn notify_attributes(device: BorrowedFd<'_>, ino: u64) {
    notify_inval(device, ino, -1, 0);
}

fn notify_inval(device: BorrowedFd<'_>, ino: u64, off: i64, len: i64) {
    let body = abi::NotifyInvalInodeOut { ino, off, len };
    if let Err(error) = notify(device, abi::NOTIFY_INVAL_INODE, &[body.as_bytes()]) {
        tracing::debug!(ino, %error, "not written back or forgotten");
    }
}

/// Has the kernel drop a name, and forget what has no other name unless it is in use.
pub(crate) fn notify_inval_entry(device: BorrowedFd<'_>, parent: u64, name: &[u8]) {
    let body = abi::NotifyInvalEntryOut {
        parent,
        // Names are short.
        namelen: name.len() as u32,
        flags: 0,
    };
    // The kernel may have forgotten it by itself.
    let _ = notify(
        device,
        abi::NOTIFY_INVAL_ENTRY,
        &[body.as_bytes(), name, b"\0"],
    );
}

/// Has the kernel send a request for no bytes of this file, so that a worker which waits for one wakes up. The kernel
/// has to know the file; of a directory it sends nothing.
pub(crate) fn ping(device: BorrowedFd<'_>, file: u64) -> Result<(), Errno> {
    let body = abi::NotifyRetrieveOut {
        nodeid: file,
        ..Default::default()
    };
    notify(device, abi::NOTIFY_RETRIEVE, &[body.as_bytes()])
}

fn notify(device: BorrowedFd<'_>, code: i32, body: &[&[u8]]) -> Result<(), Errno> {
    let len: usize = body.iter().map(|part| part.len()).sum();
    let header = OutHeader {
        len: (size_of::<OutHeader>() + len) as u32,
        error: code,
        // No request has this number, which is what makes it a notification.
        unique: 0,
    };
    let mut slices = vec![IoSlice::new(header.as_bytes())];
    slices.extend(body.iter().map(|part| IoSlice::new(part)));
    rustix::io::retry_on_intr(|| rustix::io::writev(device, &slices)).map(drop)
}
