//! Reading ahead of sequential readers of a volume. For files the kernel does that.
//!
//! What is read ahead goes into the record cache, and is there when it is asked for. It is read by the
//! threads that seal, as far as they have nothing else to do: nothing waits for it, and an error is returned
//! only to the reader that asks for the block.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::blocks::VOLUME_INO;
use super::workers::Pending;
use crate::core::{Dataset, PrimaryCache};

/// So many are followed at a time who read at different places.
const STREAMS: usize = 4;
/// Requests of one of them overtake each other by at most so many bytes.
const SLACK: u64 = 1 << 20;
/// Nothing is read ahead before so much was read.
const PROVEN: u64 = 256 << 10;
/// No more than this is read ahead, and no more than an eighth of the cache.
const WINDOW: u64 = 4 << 20;
/// A thread reads so much, then the next.
const BATCH: u64 = 256 << 10;

/// What is known of the readers of one volume.
#[derive(Default)]
pub(crate) struct ReadAhead {
    streams: Mutex<Streams>,
    now: Arc<Now>,
}

/// What is being read ahead.
#[derive(Default)]
struct Now {
    running: Pending,
    is_over: AtomicBool,
}

impl ReadAhead {
    /// Notes a read here, and starts reading what is expected next.
    pub(crate) fn note(
        &self,
        dataset: &Arc<Dataset>,
        block_size: u64,
        size: u64,
        read: Range<u64>,
    ) {
        let window = WINDOW.min(dataset.engine.cache_capacity() / 8);
        let cached = dataset.settings().primary_cache == PrimaryCache::All;
        if !cached || window < BATCH || dataset.engine.workers.count() == 0 {
            return;
        }
        let Some(wanted) = self.streams.lock().note(read, window) else {
            return;
        };
        let mut at = wanted.start;
        while at < wanted.end.min(size) {
            let end = (at + BATCH).min(size);
            self.read(dataset, at / block_size..end.div_ceil(block_size));
            at = end;
        }
    }

    /// Has blocks read, if a thread has time.
    fn read(&self, dataset: &Arc<Dataset>, blocks: Range<u64>) {
        let (weak, now) = (Arc::downgrade(dataset), Arc::clone(&self.now));
        let pool = dataset.pool.guid();
        dataset
            .engine
            .workers
            .offer(pool, move || now.read(&weak, blocks));
    }

    /// Ends it, and waits for what is being read.
    pub(crate) fn end(&self) {
        self.now.is_over.store(true, Ordering::SeqCst);
        self.now.running.wait();
    }
}

impl Now {
    fn read(&self, dataset: &Weak<Dataset>, blocks: Range<u64>) {
        // Either [`ReadAhead::end`] waits for this read, or this read sees the end: a closed dataset is not held.
        let _running = self.running.begin();
        let is_over = || self.is_over.load(Ordering::SeqCst);
        if is_over() {
            return;
        }
        let Some(dataset) = dataset.upgrade() else {
            return;
        };
        for block in blocks {
            if is_over() {
                return;
            }
            let _ = dataset.record(VOLUME_INO, block, true);
        }
    }
}

/// The readers that are followed, the one that read last first.
#[derive(Default)]
struct Streams([Stream; STREAMS]);

/// A sequential reader. All are offsets in bytes.
#[derive(Clone, Copy, Default)]
struct Stream {
    start: u64,
    /// Where it is.
    at: u64,
    /// How much of what lies between it has read, in bytes.
    read: u64,
    /// Up to where it was read ahead.
    ahead: u64,
}

impl Streams {
    /// Notes a read; what is to be read ahead now.
    fn note(&mut self, read: Range<u64>, window: u64) -> Option<Range<u64>> {
        let follows = |stream: &Stream| stream.is_followed_by(&read);
        let place = self.0.iter().position(follows);
        self.0[..=place.unwrap_or(STREAMS - 1)].rotate_right(1);
        let stream = &mut self.0[0];
        match place {
            Some(_) => stream.go_on(read, window),
            None => {
                *stream = Stream {
                    start: read.start,
                    at: read.end,
                    read: read.end - read.start,
                    ahead: read.end,
                };
                None
            }
        }
    }
}

impl Stream {
    fn is_followed_by(&self, read: &Range<u64>) -> bool {
        self.read > 0 && read.start <= self.at + SLACK && read.end + SLACK >= self.at
    }

    fn go_on(&mut self, read: Range<u64>, window: u64) -> Option<Range<u64>> {
        if read.end <= self.at {
            // It was overtaken.
            return None;
        }
        self.read += (read.end - self.at).min(read.end - read.start);
        self.at = read.end;
        self.ahead = self.ahead.max(self.at);
        let is_dense = self.read >= (self.at - self.start) / 2;
        if !is_dense {
            (self.start, self.read) = (read.start, read.end - read.start);
        }
        let window = window.min(self.read);
        let end = self.at + window;
        // As it goes on, a batch at a time.
        if self.read < PROVEN || end < self.ahead + BATCH.min(window) {
            return None;
        }
        Some(std::mem::replace(&mut self.ahead, end)..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = 64 << 10;

    #[test]
    fn sequential_reads_are_read_ahead_once() {
        let mut streams = Streams::default();
        let mut reached = 0;
        for n in 0..1000u64 {
            let Some(ahead) = streams.note(n * STEP..(n + 1) * STEP, WINDOW) else {
                continue;
            };
            assert!(n * STEP >= PROVEN - STEP);
            assert!(ahead.start >= reached, "nothing twice");
            assert!(ahead.end <= (n + 1) * STEP + WINDOW && ahead.start >= (n + 1) * STEP);
            reached = ahead.end;
        }
        assert!(reached >= 1000 * STEP + WINDOW - BATCH);
    }

    #[test]
    fn requests_may_overtake_each_other_and_others_may_read_elsewhere() {
        let mut streams = Streams::default();
        let mut reached = [0; 3];
        for n in 0..64u64 {
            for (reader, reached) in reached.iter_mut().enumerate() {
                let at = ((reader as u64) << 30) + (n ^ 1) * STEP;
                if let Some(ahead) = streams.note(at..at + STEP, WINDOW) {
                    assert!(ahead.start >= *reached);
                    *reached = ahead.end;
                }
            }
        }
        for (reader, reached) in reached.into_iter().enumerate() {
            assert!(reached > ((reader as u64) << 30) + 64 * STEP);
        }
    }

    #[test]
    fn nothing_is_read_ahead_of_who_jumps() {
        let mut streams = Streams::default();
        let mut place = 1u64;
        for _ in 0..10_000 {
            place = place.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
            let at = (place >> 16) % (1 << 40);
            assert_eq!(streams.note(at..at + 4096, WINDOW), None);
        }
        // Forward too, a little of each megabyte.
        for n in 0..1000u64 {
            let at = (1 << 41) + n * (512 << 10);
            assert_eq!(streams.note(at..at + 4096, WINDOW), None);
        }
    }
}
