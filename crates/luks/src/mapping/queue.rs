//! The pool of threads that serves requests in the queued form.
//!
//! What travels between threads is owned: a buffer and where to send it when it is done. The buffers come from a pool
//! and go back to it. Each calling thread has one channel for its answers, so that a request allocates nothing once
//! it runs. Buffers in which plaintext was are wiped before they go back.

use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, SendError, Sender, bounded, unbounded};

use super::sectors::{Gather, PIECE};
use super::serving::Serving;

/// Places in the queue for each thread. A caller that finds the queue full waits.
const PLACES: usize = 4;

/// The number of pieces that are sorted at a time.
const BATCH_MAX: usize = 64;

/// The form of a queued write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueuedWrite {
    /// The pool of threads encrypts and writes.
    Unsorted,
    /// The pool of threads encrypts, and one thread writes, sorted.
    Sorted,
    /// The thread that asks encrypts, and one thread writes, sorted.
    SortedOnly,
}

pub(super) struct PieceQueue {
    /// `None` when it ends.
    jobs: Option<Sender<PieceJob>>,
    /// Encrypted pieces for the thread that sorts. `None` when it ends.
    sorter: Option<Sender<PieceJob>>,
    spare: (Sender<Vec<u8>>, Receiver<Vec<u8>>),
    threads: Vec<JoinHandle<()>>,
}

struct PieceJob {
    /// The server of the piece. It is dropped before the answer: the caller may then replace it, and its key must be
    /// gone.
    serving: Arc<Serving>,
    work: PieceWork,
    offset: u64,
    buffer: Vec<u8>,
    answer: Sender<PieceAnswer>,
}

/// The operation of a thread of the queue on a piece.
#[derive(Clone, Copy)]
enum PieceWork {
    Read,
    Write,
    /// Encrypt it, and give it to the thread that sorts.
    Encrypt,
    /// Write it as it is.
    Store,
}

struct PieceAnswer {
    offset: u64,
    buffer: Vec<u8>,
    result: block::Result<()>,
}

thread_local! {
    /// The channel of this thread for its answers. A thread waits for all answers to a request before it makes the
    /// next one.
    static ANSWERS: (Sender<PieceAnswer>, Receiver<PieceAnswer>) = unbounded();
}

impl PieceQueue {
    /// Starts a thread for each processor.
    pub(super) fn start() -> PieceQueue {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let (jobs, waiting) = bounded(PLACES * count);
        let (sorter, encrypted) = bounded(PLACES * count);
        let spawn = |n| {
            let (waiting, sorter): (Receiver<PieceJob>, _) = (waiting.clone(), sorter.clone());
            threads::start(format!("luks-{n}"), move || serve(&waiting, &sorter)).ok()
        };
        let mut threads: Vec<_> = (0..count).filter_map(spawn).collect();
        threads.extend(threads::start("luks-write", move || write_sorted(&encrypted)).ok());
        PieceQueue {
            jobs: Some(jobs),
            sorter: Some(sorter),
            spare: bounded(2 * PLACES * count),
            threads,
        }
    }

    pub(super) fn read(
        &self,
        serving: &Arc<Serving>,
        offset: u64,
        buf: &mut [u8],
    ) -> block::Result<()> {
        ANSWERS.with(|(answer, answers)| {
            let mut sent = 0;
            for (n, piece) in buf.chunks(PIECE).enumerate() {
                let mut buffer = self.buffer();
                buffer.resize(piece.len(), 0);
                let at = offset + (n * PIECE) as u64;
                sent += usize::from(self.send(serving, PieceWork::Read, at, buffer, answer));
            }
            self.collect(sent, buf.len().div_ceil(PIECE), answers, |answer| {
                let at = (answer.offset - offset) as usize;
                buf[at..at + answer.buffer.len()].copy_from_slice(&answer.buffer);
                answer.buffer.fill(0);
            })
        })
    }

    pub(super) fn write(
        &self,
        serving: &Arc<Serving>,
        how: QueuedWrite,
        (offset, len): (u64, usize),
        pieces: &[IoSlice<'_>],
    ) -> block::Result<()> {
        let mut rest = Gather::new(pieces);
        let queued = match how {
            QueuedWrite::Unsorted => PieceWork::Write,
            QueuedWrite::Sorted | QueuedWrite::SortedOnly => PieceWork::Encrypt,
        };
        ANSWERS.with(|(answer, answers)| {
            let (mut sent, mut failed) = (0, None);
            for at in (0..len).step_by(PIECE) {
                let mut buffer = self.buffer();
                buffer.clear();
                rest.take(PIECE.min(len - at), &mut buffer);
                let at = offset + at as u64;
                let encrypted = match how {
                    QueuedWrite::SortedOnly => serving.encrypt_piece(at, &mut buffer),
                    QueuedWrite::Sorted | QueuedWrite::Unsorted => Ok(false),
                };
                let work = match encrypted {
                    Ok(true) => PieceWork::Store,
                    Ok(false) => queued,
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                };
                sent += usize::from(self.send(serving, work, at, buffer, answer));
            }
            let done = self.collect(sent, len.div_ceil(PIECE), answers, |_| {});
            failed.map_or(done, Err)
        })
    }

    fn buffer(&self) -> Vec<u8> {
        self.spare
            .1
            .try_recv()
            .unwrap_or_else(|_| Vec::with_capacity(PIECE))
    }

    fn send(
        &self,
        serving: &Arc<Serving>,
        work: PieceWork,
        offset: u64,
        buffer: Vec<u8>,
        answer: &Sender<PieceAnswer>,
    ) -> bool {
        let job = PieceJob {
            serving: Arc::clone(serving),
            work,
            offset,
            buffer,
            answer: answer.clone(),
        };
        let to = match work {
            PieceWork::Store => &self.sorter,
            PieceWork::Read | PieceWork::Write | PieceWork::Encrypt => &self.jobs,
        };
        // Without a thread (none could be started) a request would never be answered.
        !self.threads.is_empty() && to.as_ref().is_some_and(|to| to.send(job).is_ok())
    }

    /// Waits for all answers, also after one that is an error: the next request shall not get them.
    fn collect(
        &self,
        sent: usize,
        wanted: usize,
        answers: &Receiver<PieceAnswer>,
        mut take: impl FnMut(&mut PieceAnswer),
    ) -> block::Result<()> {
        let mut result = Ok(());
        for _ in 0..sent {
            let Ok(mut answer) = answers.recv() else {
                break;
            };
            match std::mem::replace(&mut answer.result, Ok(())) {
                Ok(()) => take(&mut answer),
                error if result.is_ok() => result = error,
                _ => {}
            }
            let _ = self.spare.0.try_send(answer.buffer);
        }
        match sent == wanted {
            true => result,
            false => Err(no_threads()),
        }
    }
}

impl Drop for PieceQueue {
    fn drop(&mut self) {
        (self.jobs, self.sorter) = (None, None);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(waiting: &Receiver<PieceJob>, sorter: &Sender<PieceJob>) {
    for mut job in waiting {
        let encrypted = match job.work {
            PieceWork::Encrypt => caught(|| job.serving.encrypt_piece(job.offset, &mut job.buffer)),
            PieceWork::Read | PieceWork::Write | PieceWork::Store => Ok(false),
        };
        match encrypted {
            Ok(true) => {
                job.work = PieceWork::Store;
                // Without the thread that sorts, it is written here.
                if let Err(SendError(job)) = sorter.send(job) {
                    job.carry_out();
                }
            }
            Ok(false) => job.carry_out(),
            Err(error) => job.answer(Err(error)),
        }
    }
}

/// Writes encrypted pieces, of those that wait the one with the lowest offset first.
fn write_sorted(encrypted: &Receiver<PieceJob>) {
    let mut batch = Vec::new();
    while let Ok(first) = encrypted.recv() {
        batch.push(first);
        batch.extend(encrypted.try_iter().take(BATCH_MAX - 1));
        batch.sort_by_key(|job| job.offset);
        batch.drain(..).for_each(PieceJob::carry_out);
    }
}

impl PieceJob {
    fn carry_out(mut self) {
        let (serving, offset, buffer) = (&self.serving, self.offset, &mut self.buffer);
        let result = caught(|| match self.work {
            PieceWork::Read => serving.read_piece(offset, buffer),
            PieceWork::Write | PieceWork::Encrypt => serving.write_piece(offset, buffer, false),
            PieceWork::Store => serving.store_piece(offset, buffer),
        });
        self.answer(result);
    }

    fn answer(self, result: block::Result<()>) {
        drop(self.serving);
        let answer = PieceAnswer {
            offset: self.offset,
            buffer: self.buffer,
            result,
        };
        let _ = self.answer.send(answer);
    }
}

/// Turns a panic into an error: the thread that asks waits, and must not do so for ever.
fn caught<T>(act: impl FnOnce() -> block::Result<T>) -> block::Result<T> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err(no_threads()))
}

fn no_threads() -> block::Error {
    block::Error::Io {
        device: "the mapping".into(),
        operation: "queue",
        offset: 0,
        len: 0,
        source: io::Error::other("a thread of its queue could not be started, or ended"),
    }
}

#[cfg(test)]
mod tests {
    use block::{BlockDevice, MemoryDevice};
    use parking_lot::Mutex;
    use secret::Secret;

    use super::*;
    use crate::integrity::TagMode;
    use crate::mapping::sectors::SectorCore;
    use crate::model::Segment;

    /// A device that notes where it is written.
    struct Noted {
        memory: MemoryDevice,
        writes: Mutex<Vec<u64>>,
    }

    impl BlockDevice for Noted {
        block::delegate!(self => self.memory; size refresh_size sector_sizes name read_at flush drop_cached begin_anew discard waits_on_write would_wait io_mode settle);
        block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

        fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
            self.writes.lock().push(offset);
            self.memory.write_at(offset, pieces)
        }
    }

    #[test]
    fn pieces_that_wait_are_written_in_the_order_of_their_offsets() {
        let noted = Arc::new(Noted {
            memory: MemoryDevice::new(1 << 20),
            writes: Mutex::default(),
        });
        let segment = Segment {
            offset: 4096,
            len: None,
            iv_offset: 0,
            cipher: "aes-xts-plain64".into(),
            sector_size: 512,
            integrity: None,
        };
        let device = Arc::clone(&noted) as Arc<dyn BlockDevice>;
        let key = Secret::from_slice(&[7; 64]).unwrap();
        let core = SectorCore::new(&segment, device, &key, TagMode::Journal).unwrap();
        let serving = Arc::new(Serving::All(core));
        let ((sorter, encrypted), (answer, answers)) = (unbounded(), unbounded());
        for offset in [8192, 512, 65536, 0, 4096] {
            let job = PieceJob {
                serving: Arc::clone(&serving),
                work: PieceWork::Store,
                offset,
                buffer: vec![1; 512],
                answer: answer.clone(),
            };
            sorter.send(job).unwrap();
        }
        drop((sorter, answer));
        write_sorted(&encrypted);
        assert_eq!(*noted.writes.lock(), [4096, 4608, 8192, 12288, 69632]);
        assert!(answers.iter().all(|answer| answer.result.is_ok()));
    }
}
