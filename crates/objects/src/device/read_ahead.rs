//! Reads ahead: for a reader in order, what follows is read before it is asked for.
//!
//! Objects never change, so what was read of one stays right. Random reads get exactly what they ask for, and are not kept.

use std::collections::{BTreeMap, VecDeque, btree_map};
use std::ops::Range;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Result;

/// The most bytes that are read before they are asked for.
const WINDOW_MAX: u64 = 24 << 20;
/// The most bytes that are kept.
const KEPT_MAX: usize = 64 << 20;
/// The most readers that are known.
const STREAMS_MAX: usize = 16;
/// Readers in order have several requests on their way, which come in any order within so many bytes.
const SLACK: u64 = 8 << 20;

/// The readers of a device.
#[derive(Default)]
pub(super) struct ReadStreams(VecDeque<ReadStream>);

/// A reader that perhaps goes on where it ended.
struct ReadStream {
    /// The end of its reads.
    end: u64,
    /// The bytes that are read ahead. 0 for a reader that has not gone on yet.
    window: u64,
    /// The end of what was read ahead.
    ahead: u64,
}

impl ReadStreams {
    /// Notes a read. Returns the range to read ahead, if the reader goes on where it ended.
    pub(super) fn note(&mut self, offset: u64, len: u64) -> Option<Range<u64>> {
        let goes_on = |stream: &ReadStream| match stream.window {
            0 => stream.end == offset,
            _ => offset <= stream.end + SLACK && stream.end <= offset + SLACK,
        };
        let Some(at) = self.0.iter().position(goes_on) else {
            self.0.truncate(STREAMS_MAX - 1);
            self.0.push_front(ReadStream {
                end: offset + len,
                window: 0,
                ahead: 0,
            });
            return None;
        };
        let mut stream = self.0.remove(at)?;
        stream.end = stream.end.max(offset + len);
        stream.window = (stream.window * 2).max(2 * len).min(WINDOW_MAX);
        let range = stream.ahead.max(stream.end)..stream.end + stream.window;
        let is_worthwhile = range.end.saturating_sub(range.start) >= stream.window / 2;
        if is_worthwhile {
            stream.ahead = range.end;
        }
        self.0.push_front(stream);
        is_worthwhile.then_some(range)
    }

    /// Notes that more was read ahead than [`ReadStreams::note`] said, to the end of an object.
    pub(super) fn extend(&mut self, from: u64, to: u64) {
        if let Some(stream) = self.0.iter_mut().find(|stream| stream.ahead == from) {
            stream.ahead = to;
        }
    }
}

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
    /// The right to get them.
    Fetch,
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
    /// Returns a range of an object, which is kept if `is_ahead`. `fetch` reads from the store.
    ///
    /// # Errors
    /// The error of `fetch`.
    pub(super) async fn read<F>(
        &self,
        object: u64,
        range: Range<u64>,
        is_ahead: bool,
        fetch: impl Fn(Range<u64>) -> F,
    ) -> Result<Bytes>
    where
        F: Future<Output = Result<Bytes>>,
    {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let step = self.parts.lock().step(object, &range);
            match step {
                ReadAheadStep::Known(bytes) => return Ok(bytes),
                ReadAheadStep::Wait => changed.await,
                ReadAheadStep::Fetch => {
                    let key = (object, range.start);
                    let right = FetchRight { ahead: self, key };
                    let bytes = fetch(range.clone()).await?;
                    if is_ahead {
                        self.parts.lock().keep(key, &bytes);
                    }
                    drop(right);
                    return Ok(bytes);
                }
            }
        }
    }
}

impl ObjectReadAhead {
    /// Returns whether a range of an object is here, or on its way.
    pub(super) fn has(&self, object: u64, range: &Range<u64>) -> bool {
        let known = self.parts.lock();
        known.around(object, range).is_some()
    }

    /// Keeps the beginning of an object, or all of it.
    pub(super) fn put(&self, object: u64, bytes: &Bytes) {
        let mut known = self.parts.lock();
        known.clock += 1;
        let part = ObjectPart {
            end: bytes.len() as u64,
            bytes: None,
            used: known.clock,
        };
        if let btree_map::Entry::Vacant(vacant) = known.parts.entry((object, 0)) {
            vacant.insert(part);
            known.keep((object, 0), bytes);
        }
    }

    /// Forgets what was read of an object.
    pub(super) fn forget(&self, object: u64) {
        let mut known = self.parts.lock();
        let range = (object, 0)..=(object, u64::MAX);
        let keys: Vec<_> = known.parts.range(range).map(|(key, _)| *key).collect();
        for key in keys {
            let gone = known.parts.remove(&key).and_then(|part| part.bytes);
            known.kept -= gone.map_or(0, |bytes| bytes.len());
        }
    }

    /// Forgets what was read.
    pub(super) fn clear(&self) {
        let mut known = self.parts.lock();
        known.parts.retain(|_, part| part.bytes.is_none());
        known.kept = 0;
    }
}

impl KnownParts {
    /// The part in which a range lies.
    fn around(&self, object: u64, range: &Range<u64>) -> Option<(u64, u64)> {
        let before = self.parts.range((object, 0)..=(object, range.start));
        let mut around = before.rev().filter(|(_, part)| range.end <= part.end);
        around.next().map(|(key, _)| *key)
    }

    fn step(&mut self, object: u64, range: &Range<u64>) -> ReadAheadStep {
        self.clock += 1;
        let clock = self.clock;
        let around = self.around(object, range);
        if let Some(key) = around
            && let Some(part) = self.parts.get_mut(&key)
        {
            let Some(bytes) = &part.bytes else {
                return ReadAheadStep::Wait;
            };
            part.used = clock;
            let skip = (range.start - key.1) as usize;
            let known = bytes.slice(skip..skip + (range.end - range.start) as usize);
            return ReadAheadStep::Known(known);
        }
        let part = ObjectPart {
            end: range.end,
            bytes: None,
            used: clock,
        };
        if let Some(old) = self.parts.insert((object, range.start), part) {
            self.kept -= old.bytes.map_or(0, |bytes| bytes.len());
        }
        ReadAheadStep::Fetch
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
    fn what_follows_is_read_ahead_for_a_reader_in_order_and_for_no_other() {
        let mut streams = ReadStreams::default();
        let mut ahead = 0;
        let mut requests = 0;
        // Two requests at a time, which come in the wrong order.
        for i in 0..200_u64 {
            let i = if i < 4 { i } else { i ^ 1 };
            if let Some(range) = streams.note(i << 20, 1 << 20) {
                assert!(range.start >= ahead && range.end > range.start, "{range:?}");
                assert!(range.end - range.start <= WINDOW_MAX);
                ahead = range.end;
                requests += 1;
            }
            assert!(i < 4 || ahead > (i + 1) << 20, "it falls behind at {i}");
        }
        assert!(requests < 40, "{requests} requests");
        let mut random = ReadStreams::default();
        for i in 0..100 {
            assert_eq!(random.note((i * 37 % 100) << 30, 4096), None);
        }
        assert!(random.0.len() <= STREAMS_MAX);
    }

    #[test]
    fn what_was_read_ahead_is_not_read_again_and_the_rest_is_not_kept() {
        let object: Vec<u8> = (0..100_000_u32).map(|i| (i / 7) as u8).collect();
        let object = Bytes::from(object);
        let fetched = RefCell::new(Vec::new());
        let ahead = ObjectReadAhead::default();
        let read = |range: Range<u64>, is_ahead: bool| {
            let fetch = |range: Range<u64>| {
                fetched.borrow_mut().push(range.clone());
                let bytes = object.slice(range.start as usize..range.end as usize);
                async move { Ok(bytes) }
            };
            let bytes = run(ahead.read(7, range.clone(), is_ahead, fetch)).unwrap();
            assert_eq!(
                bytes,
                object.slice(range.start as usize..range.end as usize)
            );
        };
        read(1000..50_000, true);
        read(1000..2000, false);
        read(49_000..50_000, false);
        let once = std::slice::from_ref(&(1000..50_000)).to_vec();
        assert_eq!(fetched.take(), once);
        for range in [49_000..50_001, 0..1001, 60_000..60_100, 60_000..60_100] {
            read(range.clone(), false);
            assert_eq!(fetched.take(), std::slice::from_ref(&range));
        }
        assert!(ahead.parts.lock().kept <= KEPT_MAX);
    }

    #[test]
    fn a_failed_read_leaves_nothing_that_others_wait_for() {
        let ahead = ObjectReadAhead::default();
        let error = || crate::Error::NoRandom;
        let failed = run(ahead.read(1, 0..10, false, |_| async { Err(error()) }));
        assert!(failed.is_err());
        let read = run(ahead.read(1, 0..10, false, |_| async {
            Ok(Bytes::from_static(&[7; 10]))
        }));
        assert_eq!(read.unwrap(), Bytes::from_static(&[7; 10]));
    }
}
