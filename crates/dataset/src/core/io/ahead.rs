//! Reads ahead of sequential readers of a volume. For files the kernel does this.
//!
//! Blocks that are read ahead go into the record cache. The sealing threads read them when they have no other work. No
//! request waits for this. An error is returned only when a reader requests the block.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::core::io::blocks::VOLUME_INO;
use crate::core::io::workers::RunningJobs;
use crate::core::{Dataset, PrimaryCache};

/// The number of sequential readers at different places that are followed at a time.
const STREAMS: usize = 4;
/// Requests of one reader overtake each other by at most this many bytes.
const SLACK: u64 = 1 << 20;
/// Reading ahead begins after a reader has read this many bytes.
const PROVEN: u64 = 256 << 10;
/// At most this many bytes are read ahead, and at most an eighth of the cache.
const WINDOW: u64 = 4 << 20;
/// A thread reads this many bytes at a time.
const BATCH: u64 = 256 << 10;

/// The state of reading ahead for one volume.
#[derive(Default)]
pub(crate) struct ReadAhead {
    streams: Mutex<Streams>,
    now: Arc<RunningReads>,
}

/// The blocks that are being read ahead.
#[derive(Default)]
struct RunningReads {
    running: RunningJobs,
    is_over: AtomicBool,
}

impl ReadAhead {
    /// Notes a read, and starts reading the blocks that are expected next.
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

    /// Reads blocks on a sealing thread, if one is free.
    fn read(&self, dataset: &Arc<Dataset>, blocks: Range<u64>) {
        let (weak, now) = (Arc::downgrade(dataset), Arc::clone(&self.now));
        let pool = dataset.pool.guid();
        dataset
            .engine
            .workers
            .offer(pool, move || now.read(&weak, blocks));
    }

    /// Stops reading ahead, and waits for running reads.
    pub(crate) fn end(&self) {
        self.now.is_over.store(true, Ordering::SeqCst);
        self.now.running.wait();
    }
}

impl RunningReads {
    fn read(&self, dataset: &Weak<Dataset>, blocks: Range<u64>) {
        // Either [`ReadAhead::end`] waits for this read, or this read sees the end. So no read keeps a closed dataset.
        let _running = self.running.begin();
        let is_over = || self.is_over.load(Ordering::SeqCst);
        if is_over() {
            return;
        }
        // A job in the queue does not keep a dataset open.
        let Some(dataset) = dataset.upgrade() else {
            return;
        };
        for block in blocks {
            if is_over() {
                return;
            }
            // The reader gets the error if it asks for the block.
            let _ = dataset.record(VOLUME_INO, block, true);
        }
    }
}

/// The readers that are followed, the most recent first.
#[derive(Default)]
struct Streams([SequentialReader; STREAMS]);

/// A sequential reader. All are offsets in bytes.
#[derive(Clone, Copy, Default)]
struct SequentialReader {
    start: u64,
    /// The end of its last read.
    at: u64,
    /// The bytes between `start` and `at` that it has read.
    read: u64,
    /// The end of the range that was read ahead.
    ahead: u64,
}

impl Streams {
    /// Notes a read. Returns the range to read ahead now.
    fn note(&mut self, read: Range<u64>, window: u64) -> Option<Range<u64>> {
        let follows = |stream: &SequentialReader| stream.is_followed_by(&read);
        let place = self.0.iter().position(follows);
        self.0[..=place.unwrap_or(STREAMS - 1)].rotate_right(1);
        let stream = &mut self.0[0];
        match place {
            Some(_) => stream.go_on(read, window),
            None => {
                *stream = SequentialReader {
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

impl SequentialReader {
    fn is_followed_by(&self, read: &Range<u64>) -> bool {
        self.read > 0 && read.start <= self.at + SLACK && read.end + SLACK >= self.at
    }

    fn go_on(&mut self, read: Range<u64>, window: u64) -> Option<Range<u64>> {
        if read.end <= self.at {
            // A later request overtook this one.
            return None;
        }
        self.read += (read.end - self.at).min(read.end - read.start);
        self.at = read.end;
        self.ahead = self.ahead.max(self.at);
        let is_dense = self.read >= (self.at - self.start) / 2;
        if !is_dense {
            // It jumps: it has to read on from here before anything is read ahead for it.
            (self.start, self.read) = (read.start, read.end - read.start);
        }
        let window = window.min(self.read);
        // Not farther than the reader has shown that it reads.
        let end = self.at + window;
        // While the reader continues, one batch at a time.
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
