//! Reads ahead: for a reader in order, what follows is read before it is asked for.
//!
//! Objects never change, so what was read of one stays right. Random reads get exactly what they ask for, and are not kept.
//!
//! Readers are followed in the log, not on the device. A program that writes in order fills one object after the other. On the
//! device its bytes are apart: the pool fills one empty segment after the other, and a segment has neighbours of another time.

use std::collections::{BTreeMap, VecDeque, btree_map};
use std::ops::Range;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Result;
use crate::line::log_object::DATA_MAX;
use crate::line::ranges::NumberSet;

/// The most bytes that are read before they are asked for, for all readers in order together: eight objects, because one
/// request after the other leaves the line idle.
const WINDOW_MAX: u64 = 64 << 20;
/// The most bytes that are kept: those that are read ahead, and those that are being used.
const KEPT_MAX: usize = 96 << 20;
/// The most bytes that are on their way before they are asked for. What does not fit is read when it is asked for.
const ON_WAY_MAX: u64 = 128 << 20;
/// With more readers nothing is read ahead: together they have enough requests on their way, and their objects would push
/// each other out of the memory.
const READERS_MAX: u64 = 3;
/// The most readers that are known.
const STREAMS_MAX: usize = 16;
/// A reader has ended when others have read so many bytes since its last read.
const IDLE: u64 = WINDOW_MAX;
/// Readers in order have several requests on their way, and several threads seal what a program writes. So they come in any
/// order within so many bytes.
const SLACK: u64 = 2 * OBJECT;
/// The bytes of the log that belong to an object.
const OBJECT: u64 = DATA_MAX as u64;

/// The readers of a device.
#[derive(Default)]
pub(super) struct ReadStreams {
    streams: VecDeque<ReadStream>,
    /// The bytes that were read.
    read: u64,
}

/// A reader that perhaps goes on where it ended.
struct ReadStream {
    /// The bytes that all readers had read after its last read.
    used: u64,
    /// The end of its reads in the log.
    end: u64,
    /// The bytes to read ahead. 0 for a reader that has not gone on yet.
    window: u64,
    /// The number of the object behind those that were read ahead.
    ahead: u64,
}

/// The objects to read ahead for a reader.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadAheadPlan {
    /// The number of the first object.
    pub(super) from: u64,
    /// The bytes that follow the read, or are in the same object.
    pub(super) window: u64,
    /// Objects below this number were read ahead before.
    pub(super) ahead: u64,
}

impl ReadStreams {
    /// Notes a read of `len` bytes at a byte of an object. Returns the objects to read ahead, if the reader goes on where it
    /// ended. [`ReadStreams::reached`] has to follow.
    pub(super) fn note(&mut self, object: u64, at: u64, len: u64) -> Option<ReadAheadPlan> {
        let start = object.saturating_mul(OBJECT).saturating_add(at);
        let end = start.saturating_add(len);
        self.read += len;
        let goes_on = |stream: &ReadStream| match stream.window {
            0 => stream.end == start,
            _ => {
                let ahead = stream.ahead.saturating_mul(OBJECT);
                start <= stream.end.max(ahead).saturating_add(SLACK)
                    && stream.end <= start.saturating_add(SLACK)
            }
        };
        let Some(nth) = self.streams.iter().position(goes_on) else {
            self.streams.truncate(STREAMS_MAX - 1);
            self.streams.push_front(ReadStream {
                used: self.read,
                end,
                window: 0,
                ahead: 0,
            });
            return None;
        };
        let mut stream = self.streams.remove(nth)?;
        let is_active = |it: &&ReadStream| it.window > 0 && self.read - it.used <= IDLE;
        let readers = 1 + self.streams.iter().filter(is_active).count() as u64;
        stream.used = self.read;
        stream.end = stream.end.max(end);
        // The kernel has two requests of a reader on their way. A window that grows slowly leaves the line idle.
        stream.window = (stream.window * 4).max(4 * len).min(WINDOW_MAX / readers);
        let plan = ReadAheadPlan {
            from: object,
            window: stream.window,
            ahead: stream.ahead,
        };
        self.streams.push_front(stream);
        (readers <= READERS_MAX).then_some(plan)
    }

    /// Notes the number behind the objects that are read ahead for the reader that was noted last.
    pub(super) fn reached(&mut self, ahead: u64) {
        if let Some(stream) = self.streams.front_mut() {
            stream.ahead = stream.ahead.max(ahead);
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
    /// Parts by object, first byte and end.
    parts: BTreeMap<PartKey, ObjectPart>,
    /// The bytes kept.
    kept: usize,
    /// The bytes that are on their way before they are asked for.
    on_way: u64,
    /// Counts uses.
    clock: u64,
}

/// An object, the first byte of a part of it, and its end.
type PartKey = (u64, u64, u64);

struct ObjectPart {
    /// For a part that a reader in order asks for once: the bytes that it needs, and what it has read.
    once: Option<(u64, NumberSet)>,
    /// The bytes. `None` while they are read.
    bytes: Option<Bytes>,
    /// The last use, or the request if a reader in order asks for it once: it goes after those that were requested before,
    /// because they are what the reader has read already.
    used: u64,
}

/// The use of what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartUse {
    /// The caller only.
    Caller,
    /// A reader in order: so many bytes are asked for, each once.
    Stream(u64),
    /// Any reader, until other parts need the memory.
    Any,
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
    key: PartKey,
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
    /// Returns a range of an object, which is kept for `part_use`. `fetch` reads from the store.
    ///
    /// # Errors
    /// The error of `fetch`.
    pub(super) async fn read<F>(
        &self,
        object: u64,
        range: Range<u64>,
        part_use: PartUse,
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
                    let key = (object, range.start, range.end);
                    let right = FetchRight { ahead: self, key };
                    let bytes = fetch(range.clone()).await?;
                    if part_use != PartUse::Caller {
                        self.parts.lock().keep(key, &bytes, part_use);
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

    /// Reserves memory for bytes to read ahead. False if too many are on their way.
    pub(super) fn reserve(&self, len: u64) -> bool {
        let mut known = self.parts.lock();
        let fits = known.on_way.saturating_add(len) <= ON_WAY_MAX;
        if fits {
            known.on_way += len;
        }
        fits
    }

    /// Ends a reservation: the bytes are kept, or could not be read.
    pub(super) fn release(&self, len: u64) {
        self.parts.lock().on_way -= len;
    }

    /// Keeps the beginning of an object, or all of it.
    pub(super) fn put(&self, object: u64, bytes: &Bytes) {
        let mut known = self.parts.lock();
        known.clock += 1;
        let part = ObjectPart {
            once: None,
            bytes: None,
            used: known.clock,
        };
        let key = (object, 0, bytes.len() as u64);
        if let btree_map::Entry::Vacant(vacant) = known.parts.entry(key) {
            vacant.insert(part);
            known.keep(key, bytes, PartUse::Any);
        }
    }

    /// Forgets what was read of an object.
    pub(super) fn forget(&self, object: u64) {
        let mut known = self.parts.lock();
        let range = (object, 0, 0)..=(object, u64::MAX, u64::MAX);
        let keys: Vec<_> = known.parts.range(range).map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| known.remove(key));
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
    fn around(&self, object: u64, range: &Range<u64>) -> Option<PartKey> {
        let before = (object, 0, 0)..=(object, range.start, u64::MAX);
        let mut before = self.parts.range(before).rev().map(|(key, _)| *key);
        before.find(|(_, _, end)| range.end <= *end)
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
            if part.once.is_none() {
                part.used = clock;
            }
            let skip = (range.start - key.1) as usize;
            let len = range.end - range.start;
            let known = bytes.slice(skip..skip + len as usize);
            if let Some((needed, read)) = &mut part.once {
                // Two readers may ask for the same.
                read.insert(range.clone());
                let sum: u64 = read.iter().map(|range| range.end - range.start).sum();
                if sum >= *needed {
                    self.remove(key);
                }
            }
            return ReadAheadStep::Known(known);
        }
        let part = ObjectPart {
            once: None,
            bytes: None,
            used: clock,
        };
        self.parts.insert((object, range.start, range.end), part);
        ReadAheadStep::Fetch
    }

    fn remove(&mut self, key: PartKey) {
        let gone = self.parts.remove(&key).and_then(|part| part.bytes);
        self.kept -= gone.map_or(0, |bytes| bytes.len());
    }

    /// Keeps the bytes of a part that was fetched, and forgets those that were not used for longest.
    fn keep(&mut self, key: PartKey, bytes: &Bytes, part_use: PartUse) {
        let Some(part) = self.parts.get_mut(&key) else {
            return;
        };
        part.bytes = Some(bytes.clone());
        part.once = match part_use {
            PartUse::Stream(bytes) => Some((bytes, NumberSet::default())),
            PartUse::Caller | PartUse::Any => None,
        };
        self.kept += bytes.len();
        while self.kept > KEPT_MAX {
            let known = self.parts.iter().filter(|(_, part)| part.bytes.is_some());
            let Some(oldest) = known.min_by_key(|(_, part)| part.used).map(|(key, _)| *key) else {
                return;
            };
            self.remove(oldest);
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
    fn the_bytes_on_their_way_have_a_limit() {
        let ahead = ObjectReadAhead::default();
        assert!(ahead.reserve(WINDOW_MAX) && ahead.reserve(ON_WAY_MAX - WINDOW_MAX));
        assert!(!ahead.reserve(1) && !ahead.reserve(u64::MAX));
        ahead.release(WINDOW_MAX);
        assert!(ahead.reserve(WINDOW_MAX) && !ahead.reserve(1));
    }

    /// The numbers of the objects to read ahead, in a log in which each has all its bytes. Notes that they are read.
    fn objects(streams: &mut ReadStreams, plan: Option<ReadAheadPlan>) -> Vec<u64> {
        let Some(plan) = plan else {
            return Vec::new();
        };
        let end = plan.from + 1 + plan.window.div_ceil(OBJECT);
        streams.reached(end);
        (plan.from.max(plan.ahead)..end).collect()
    }

    #[test]
    fn what_follows_is_read_ahead_for_a_reader_in_order_and_for_no_other() {
        let mut streams = ReadStreams::default();
        let mut ahead = Vec::new();
        // Two requests at a time, which come in the wrong order.
        for i in 0..200_u64 {
            let i = if i < 4 { i } else { i ^ 1 };
            let plan = streams.note(7 + i / 8, (i % 8) << 20, 1 << 20);
            ahead.extend(objects(&mut streams, plan));
            let last = ahead.last().copied().unwrap_or_default();
            assert!(i < 4 || last > 7 + i / 8, "it falls behind at {i}");
            assert!(i < 20 || last == 7 + i / 8 + 8, "{last} at {i}");
        }
        let expected: Vec<u64> = (7..7 + 25 + 8).collect();
        assert_eq!(ahead, expected, "each object once");
        assert_eq!(streams.streams.len(), 1);
        let mut random = ReadStreams::default();
        for i in 0..100 {
            assert_eq!(random.note(i * 37 % 100 * 9, 0, 4096), None);
        }
        assert!(random.streams.len() <= STREAMS_MAX);
    }

    #[test]
    fn a_reader_goes_on_behind_objects_that_have_nothing_of_it() {
        let mut streams = ReadStreams::default();
        // Between two objects of a file there are 30 of something else.
        for i in 0..400_u64 {
            let object = i / 8 * 31;
            if let Some(plan) = streams.note(object, (i % 8) << 20, 1 << 20) {
                streams.reached(plan.from + 1 + plan.window / OBJECT * 31);
            }
        }
        assert_eq!(streams.streams.len(), 1);
    }

    /// The bytes that each reader reads.
    const FILE: u64 = 20 * OBJECT;
    const READ: u64 = 1 << 20;

    /// Lets so many readers read in turn, after an import that keeps what it has read. Returns the bytes that were fetched.
    /// Each object has something else too, so nothing says that it was read whole.
    fn fetched_for(readers: u64) -> u64 {
        let zeros = Bytes::from(vec![0; OBJECT as usize]);
        let fetched = RefCell::new(0);
        let fetch = |range: Range<u64>| {
            *fetched.borrow_mut() += range.end - range.start;
            let bytes = zeros.slice(..(range.end - range.start) as usize);
            async move { Ok(bytes) }
        };
        let (mut streams, ahead) = (ReadStreams::default(), ObjectReadAhead::default());
        for object in 0..2 {
            run(ahead.read(u64::MAX - object, 0..OBJECT, PartUse::Any, fetch)).unwrap();
        }
        fetched.take();
        for at in (0..FILE).step_by(READ as usize) {
            for reader in 0..readers {
                let (object, begin) = ((reader << 20) + at / OBJECT, at % OBJECT);
                let plan = streams.note(object, begin, READ);
                for next in objects(&mut streams, plan) {
                    if !ahead.has(next, &(0..OBJECT)) {
                        let part_use = PartUse::Stream(OBJECT + 1);
                        run(ahead.read(next, 0..OBJECT, part_use, fetch)).unwrap();
                    }
                }
                run(ahead.read(object, begin..begin + READ, PartUse::Caller, fetch)).unwrap();
                assert!(ahead.parts.lock().kept <= KEPT_MAX);
            }
        }
        fetched.take()
    }

    #[test]
    fn readers_in_order_do_not_push_out_what_is_needed_next() {
        for readers in [1, 2, 3, 4, 5, 16] {
            let fetched = fetched_for(readers);
            // The first read of a reader is not known to be in order, and the last ones read ahead beyond the file. Readers
            // that come later find a smaller window.
            let most = readers * (FILE + 2 * READ + OBJECT) + 2 * WINDOW_MAX;
            assert!(
                fetched <= most,
                "{readers} readers fetch {fetched}, not {most}"
            );
        }
    }

    #[test]
    fn a_reader_that_has_ended_takes_no_part_of_the_memory() {
        let mut streams = ReadStreams::default();
        let mut read = |reader: u64, bytes: u64| {
            for at in (0..bytes).step_by(READ as usize) {
                streams.note((reader << 20) + at / OBJECT, at % OBJECT, READ);
            }
            streams.streams.front().map_or(0, |stream| stream.window)
        };
        assert_eq!(read(0, WINDOW_MAX), WINDOW_MAX);
        assert_eq!(read(1, IDLE / 2), WINDOW_MAX / 2);
        assert_eq!(read(2, 2 * IDLE), WINDOW_MAX);
    }

    #[test]
    fn what_a_reader_in_order_has_read_takes_no_memory() {
        let ahead = ObjectReadAhead::default();
        let object = Bytes::from_static(&[7; 100]);
        let fetch = |range: Range<u64>| {
            let bytes = object.slice(range.start as usize..range.end as usize);
            async move { Ok(bytes) }
        };
        run(ahead.read(1, 0..100, PartUse::Stream(80), fetch)).unwrap();
        for range in [40..80, 0..20, 40..80, 0..20] {
            run(ahead.read(1, range, PartUse::Caller, fetch)).unwrap();
            assert!(ahead.has(1, &(0..100)));
        }
        run(ahead.read(1, 20..40, PartUse::Caller, fetch)).unwrap();
        assert!(!ahead.has(1, &(0..100)));
        assert_eq!(ahead.parts.lock().kept, 0);
    }

    #[test]
    fn what_was_read_ahead_is_not_read_again_and_the_rest_is_not_kept() {
        let object: Vec<u8> = (0..100_000_u32).map(|i| (i / 7) as u8).collect();
        let object = Bytes::from(object);
        let fetched = RefCell::new(Vec::new());
        let ahead = ObjectReadAhead::default();
        let read = |range: Range<u64>, part_use: PartUse| {
            let fetch = |range: Range<u64>| {
                fetched.borrow_mut().push(range.clone());
                let bytes = object.slice(range.start as usize..range.end as usize);
                async move { Ok(bytes) }
            };
            let bytes = run(ahead.read(7, range.clone(), part_use, fetch)).unwrap();
            assert_eq!(
                bytes,
                object.slice(range.start as usize..range.end as usize)
            );
        };
        read(1000..50_000, PartUse::Any);
        read(1000..2000, PartUse::Caller);
        read(49_000..50_000, PartUse::Caller);
        let once = std::slice::from_ref(&(1000..50_000)).to_vec();
        assert_eq!(fetched.take(), once);
        for range in [49_000..50_001, 0..1001, 60_000..60_100, 60_000..60_100] {
            read(range.clone(), PartUse::Caller);
            assert_eq!(fetched.take(), std::slice::from_ref(&range));
        }
        assert!(ahead.parts.lock().kept <= KEPT_MAX);
    }

    #[test]
    fn a_failed_read_leaves_nothing_that_others_wait_for() {
        let ahead = ObjectReadAhead::default();
        let error = || crate::Error::NoRandom;
        let failed = run(ahead.read(1, 0..10, PartUse::Caller, |_| async { Err(error()) }));
        assert!(failed.is_err());
        let read = run(ahead.read(1, 0..10, PartUse::Caller, |_| async {
            Ok(Bytes::from_static(&[7; 10]))
        }));
        assert_eq!(read.unwrap(), Bytes::from_static(&[7; 10]));
    }
}
