//! Rings of `io_uring`: one for a request to the driver, and one for each queue. The only `unsafe` code of this crate.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::cqueue::Entry as Completion;
use io_uring::squeue::{Entry, Entry128};
use io_uring::{IoUring, opcode, types};
use memmap2::{MmapMut, MmapOptions, MmapRaw};
use rustix::event::PollFlags;
use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::wire::abi::{ControlCommand, DEPTH_MAX, QueueCommand, RequestDescriptor, queue};

/// The mark of an entry that watches the wake-up of a queue. Tags are smaller.
const WAKE: u64 = u64::MAX;
/// The time until the kernel is asked again that was short of memory.
const PAUSE: Duration = Duration::from_millis(10);

/// Sends a request to the driver, and waits until it is done. `buffer` is what the driver reads or fills.
pub(crate) fn control(
    file: BorrowedFd<'_>,
    code: u32,
    mut command: ControlCommand,
    buffer: &mut [u8],
) -> io::Result<i32> {
    let mut ring = IoUring::<Entry128, Completion>::builder().build(1)?;
    command.len = u16::try_from(buffer.len()).map_err(io::Error::other)?;
    command.address = buffer.as_mut_ptr() as u64;
    let mut bytes = [0; 80];
    bytes[..size_of::<ControlCommand>()].copy_from_slice(command.as_bytes());
    let entry = opcode::UringCmd80::new(types::Fd(file.as_raw_fd()), code).cmd(bytes);
    // SAFETY: the descriptor and the buffer live until the completion is there, for which the loop waits.
    unsafe { ring.submission().push(&entry.build()) }.map_err(io::Error::other)?;
    loop {
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        if let Some(done) = ring.completion().next() {
            return match done.result() {
                error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
                result => Ok(result),
            };
        }
    }
}

/// The memory of a request: at most so many bytes are read or written at once.
pub(crate) struct TagBuffer(MmapMut);

impl TagBuffer {
    /// Memory that takes no space until it is used.
    pub(crate) fn new(len: usize) -> io::Result<TagBuffer> {
        MmapMut::map_anon(len).map(TagBuffer)
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }
}

/// An event of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueEvent {
    /// Another thread has woken the queue.
    Wake,
    /// The driver has a request with this tag.
    Request(u16),
    /// The driver has no more requests with this tag: the device ends, or the command was refused.
    End(u16, i32),
}

/// The ring of a queue, with the memory in which the driver describes requests.
pub(crate) struct QueueRing {
    ring: IoUring,
    descriptors: MmapRaw,
    file: Arc<OwnedFd>,
    number: u16,
    depth: u16,
}

impl QueueRing {
    /// Makes the ring of a queue. Only the calling thread may use it.
    pub(crate) fn new(file: Arc<OwnedFd>, number: u16, depth: u16) -> io::Result<QueueRing> {
        let page = rustix::param::page_size();
        let queue_len = (DEPTH_MAX * size_of::<RequestDescriptor>()).next_multiple_of(page);
        let len = (usize::from(depth) * size_of::<RequestDescriptor>()).next_multiple_of(page);
        let descriptors = MmapOptions::new()
            .offset(u64::from(number) * queue_len as u64)
            .len(len)
            .map_raw_read_only(&*file)?;
        // An entry for each tag, and one for the wake-up. Without interrupts: the thread waits in the ring.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(u32::from(depth) + 1)?;
        Ok(QueueRing {
            ring,
            descriptors,
            file,
            number,
            depth,
        })
    }

    /// Waits for a first request with a tag. The driver copies the data of writes into the buffer, and that of reads out
    /// of it.
    pub(crate) fn fetch(&mut self, tag: u16, buffer: &TagBuffer) -> io::Result<()> {
        self.push_command(queue::FETCH, tag, 0, buffer)
    }

    /// Answers a request, and waits for the next one with this tag.
    pub(crate) fn commit(&mut self, tag: u16, result: i32, buffer: &TagBuffer) -> io::Result<()> {
        self.push_command(queue::COMMIT_AND_FETCH, tag, result, buffer)
    }

    fn push_command(
        &mut self,
        code: u32,
        tag: u16,
        result: i32,
        buffer: &TagBuffer,
    ) -> io::Result<()> {
        let command = QueueCommand {
            queue: self.number,
            tag,
            result,
            address: buffer.address(),
        };
        let mut bytes = [0; 16];
        bytes.copy_from_slice(command.as_bytes());
        let entry = opcode::UringCmd16::new(types::Fd(self.file.as_raw_fd()), code).cmd(bytes);
        self.push(&entry.build().user_data(tag.into()))
    }

    /// Watches for a wake-up, once.
    pub(crate) fn watch(&mut self, wake: BorrowedFd<'_>) -> io::Result<()> {
        let flags = PollFlags::IN.bits().into();
        let entry = opcode::PollAdd::new(types::Fd(wake.as_raw_fd()), flags);
        self.push(&entry.build().user_data(WAKE))
    }

    fn push(&mut self, entry: &Entry) -> io::Result<()> {
        // SAFETY: the queue owns the ring, the descriptors of files and the buffers, and drops the ring first. While the
        // driver has a buffer, the queue does not touch it.
        unsafe { self.ring.submission().push(entry) }.map_err(io::Error::other)
    }

    /// Gives the driver what was pushed.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        self.ring.submit().map(drop)
    }

    /// Gives the driver what was pushed, and waits for an event.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        let Err(error) = self.ring.submit_and_wait(1) else {
            return Ok(());
        };
        match Errno::from_io_error(&error) {
            Some(Errno::INTR | Errno::BUSY) => Ok(()),
            // Memory is short. A lost queue would lose the device.
            Some(Errno::AGAIN | Errno::NOMEM) => {
                std::thread::sleep(PAUSE);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Takes the events that are there.
    pub(crate) fn take_events(&mut self, into: &mut Vec<QueueEvent>) {
        into.extend(self.ring.completion().map(|done| match done.user_data() {
            WAKE => QueueEvent::Wake,
            tag if done.result() == 0 => QueueEvent::Request(tag as u16),
            tag => QueueEvent::End(tag as u16, done.result()),
        }));
    }

    /// The request that the driver has for a tag.
    pub(crate) fn request(&self, tag: u16) -> RequestDescriptor {
        assert!(tag < self.depth, "a tag of the queue");
        let all = self.descriptors.as_ptr().cast::<RequestDescriptor>();
        // SAFETY: the memory has a descriptor for each tag of the queue. The driver does not change it between the event
        // of a request and its answer.
        unsafe { all.add(tag.into()).read_volatile() }
    }
}
