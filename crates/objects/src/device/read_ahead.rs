//! Reads ahead: a reader that goes on where it ended gets larger and larger parts of an object at once.
//!
//! Objects never change, so what was read of one stays right. Random reads get exactly what they ask for, and are not kept.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Result;

/// The most bytes that are read at once.
const WINDOW_MAX: u64 = 8 << 20;
/// The most bytes that are kept.
const KEPT_MAX: usize = 64 << 20;
/// The most objects of which the end of the last read is known.
const STREAMS_MAX: usize = 1024;

/// The parts of objects that were read ahead, and those that are being read.
#[derive(Default)]
pub(super) struct ObjectReadAhead {
    parts: Mutex<KnownParts>,
    changed: Notify,
}

#[derive(Default)]
struct KnownParts {
    /// Parts by object and first byte.
    parts: BTreeMap<(u64, u64), ObjectPart>,
    /// The bytes kept.
    kept: usize,
    /// For each object where the last read ended, and the window of the reader.
    streams: BTreeMap<u64, (u64, u64)>,
    /// Counts uses.
    clock: u64,
}

struct ObjectPart {
    end: u64,
    /// The bytes. `None` while they are read.
    bytes: Option<Bytes>,
    /// The last use.
    used: u64,
}

/// The next step of a read.
enum ReadAheadStep {
    /// The bytes are here.
    Known(Bytes),
    /// Another reader gets them.
    Wait,
    /// The range that this reader gets.
    Fetch(Range<u64>),
}

/// The right to fetch a part. Others wait for it; when this is dropped without a result they go on.
struct FetchRight<'a> {
    ahead: &'a ObjectReadAhead,
    key: (u64, u64),
}

impl Drop for FetchRight<'_> {
    fn drop(&mut self) {
        let mut known = self.ahead.parts.lock();
        if known
            .parts
            .get(&self.key)
            .is_some_and(|part| part.bytes.is_none())
        {
            known.parts.remove(&self.key);
        }
        drop(known);
        self.ahead.changed.notify_waiters();
    }
}

impl ObjectReadAhead {
    /// Returns a range of an object of `size` bytes. `fetch` reads from the store.
    ///
    /// # Errors
    /// The error of `fetch`.
    pub(super) async fn read<F>(
        &self,
        object: u64,
        range: Range<u64>,
        size: u64,
        fetch: impl Fn(Range<u64>) -> F,
    ) -> Result<Bytes>
    where
        F: Future<Output = Result<Bytes>>,
    {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let step = self.parts.lock().step(object, &range, size);
            match step {
                ReadAheadStep::Known(bytes) => return Ok(bytes),
                ReadAheadStep::Wait => changed.await,
                ReadAheadStep::Fetch(wanted) => {
                    let key = (object, wanted.start);
                    let right = FetchRight { ahead: self, key };
                    let bytes = fetch(wanted.clone()).await?;
                    let len = (range.end - range.start) as usize;
                    if wanted != range {
                        self.parts.lock().keep(key, &bytes);
                    }
                    drop(right);
                    return Ok(bytes.slice(..len.min(bytes.len())));
                }
            }
        }
    }
}

impl KnownParts {
    fn step(&mut self, object: u64, range: &Range<u64>, size: u64) -> ReadAheadStep {
        self.clock += 1;
        let clock = self.clock;
        let before = self.parts.range_mut(..=(object, range.start)).next_back();
        if let Some(((of, start), part)) = before
            && *of == object
            && range.end <= part.end
        {
            let Some(bytes) = &part.bytes else {
                return ReadAheadStep::Wait;
            };
            part.used = clock;
            let skip = (range.start - start) as usize;
            let known = bytes.slice(skip..skip + (range.end - range.start) as usize);
            self.note_end(object, range);
            return ReadAheadStep::Known(known);
        }
        let window = self.note_end(object, range);
        let end = (range.start + window)
            .max(range.end)
            .min(size.max(range.end));
        let part = ObjectPart {
            end,
            bytes: None,
            used: clock,
        };
        if let Some(old) = self.parts.insert((object, range.start), part) {
            self.kept -= old.bytes.map_or(0, |bytes| bytes.len());
        }
        ReadAheadStep::Fetch(range.start..end)
    }

    /// Notes the end of a read. Returns the window: twice the last one for a reader that goes on where it ended, else 0.
    fn note_end(&mut self, object: u64, range: &Range<u64>) -> u64 {
        if self.streams.len() >= STREAMS_MAX {
            self.streams.clear();
        }
        let len = range.end - range.start;
        let stream = self.streams.entry(object).or_default();
        stream.1 = match stream.0 == range.start && range.start > 0 {
            true => (stream.1.max(len) * 2).min(WINDOW_MAX),
            false => 0,
        };
        stream.0 = range.end;
        stream.1
    }

    /// Keeps the bytes of a part that was fetched, and forgets those that were not used for longest.
    fn keep(&mut self, key: (u64, u64), bytes: &Bytes) {
        let Some(part) = self.parts.get_mut(&key) else {
            return;
        };
        part.bytes = Some(bytes.clone());
        self.kept += bytes.len();
        while self.kept > KEPT_MAX {
            let known = self.parts.iter().filter(|(_, part)| part.bytes.is_some());
            let Some(oldest) = known.min_by_key(|(_, part)| part.used).map(|(key, _)| *key) else {
                return;
            };
            let gone = self.parts.remove(&oldest).and_then(|part| part.bytes);
            self.kept -= gone.map_or(0, |bytes| bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Runs a future that waits for nothing.
    fn run<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn a_reader_in_order_gets_more_and_more_at_once_and_a_random_one_does_not() {
        let object: Vec<u8> = (0..100_000_u32).map(|i| (i / 7) as u8).collect();
        let object = Bytes::from(object);
        let fetched = RefCell::new(Vec::new());
        let ahead = ObjectReadAhead::default();
        let read = |of: u64, start: u64, len: u64| {
            let fetch = |range: Range<u64>| {
                fetched.borrow_mut().push(range.clone());
                let bytes = object.slice(range.start as usize..range.end as usize);
                async move { Ok(bytes) }
            };
            let size = object.len() as u64;
            let bytes = run(ahead.read(of, start..start + len, size, fetch)).unwrap();
            assert_eq!(bytes, object.slice(start as usize..(start + len) as usize));
        };
        for i in 0..40 {
            read(7, i * 1000, 1000);
        }
        let in_order = fetched.take();
        assert!(in_order.len() < 8, "{in_order:?}");
        assert_eq!(in_order[0], 0..1000);
        for i in [90_000, 70_000, 95_000, 60_000] {
            read(8, i, 100);
        }
        let exact = [90_000, 70_000, 95_000, 60_000].map(|i| i..i + 100);
        assert_eq!(fetched.take(), exact);
        assert!(ahead.parts.lock().kept <= KEPT_MAX);
    }

    #[test]
    fn a_failed_read_leaves_nothing_that_others_wait_for() {
        let ahead = ObjectReadAhead::default();
        let error = || crate::Error::NoRandom;
        let failed = run(ahead.read(1, 0..10, 100, |_| async { Err(error()) }));
        assert!(failed.is_err());
        let read = run(ahead.read(1, 0..10, 100, |_| async {
            Ok(Bytes::from_static(&[7; 10]))
        }));
        assert_eq!(read.unwrap(), Bytes::from_static(&[7; 10]));
    }
}
