//! Reads: from memory what is on its way, otherwise from the store.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;

use super::line::{Line, LineState};
use super::read_ahead::PartUse;
use crate::line::names;
use crate::{Error, Result};

/// The number of ranges of one request that are read at the same time.
const READS: usize = 64;
/// A read follows what collection moves so often.
const MOVES: usize = 4;

/// An object of this size or less is read as a whole after the opening.
const WHOLE_MAX: u64 = 1 << 20;
/// An object of this size or less is kept in memory when it was written.
const SMALL: usize = 64 << 10;
/// The piece of a larger object.
const PIECE: u64 = 256 << 10;
/// The most objects that are looked at for what follows a read. Between those of a file may be others.
const LOOKED_AT: usize = 256;
/// The number of objects that are read before they are asked for.
const NEWEST: usize = 8;

/// Memory for bytes that are on their way for a reader in order.
struct OnWaySpace {
    line: Arc<Line>,
    len: u64,
}

impl Drop for OnWaySpace {
    fn drop(&mut self) {
        self.line.ahead.release(self.len);
    }
}

/// A part of a request that is read from the store.
struct StoredPart {
    object: u64,
    at: u64,
    /// The place in the buffer.
    start: usize,
    len: usize,
}

impl Line {
    /// Fills a buffer with the bytes of the device from `offset`.
    ///
    /// # Errors
    /// [`Error::Missing`], or a request was refused.
    pub(super) async fn read(self: &Arc<Self>, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut attempts = 0;
        loop {
            let parts = self.gather(offset, buf);
            if let Some(first) = parts.first().filter(|_| attempts == 0) {
                self.read_ahead((first.object, first.at), buf.len() as u64);
            }
            let reads = parts.into_iter().map(|part| self.read_part(part));
            let mut reads = stream::iter(reads).buffer_unordered(READS);
            let mut missing = None;
            while let Some(read) = reads.next().await {
                match read {
                    Ok((start, bytes)) => buf[start..start + bytes.len()].copy_from_slice(&bytes),
                    Err(error @ Error::Missing { .. }) => missing = Some(error),
                    Err(error) => return Err(error),
                }
            }
            drop(reads);
            match missing {
                None => return Ok(()),
                // Collection has moved it meanwhile.
                Some(_) if attempts < MOVES => attempts += 1,
                Some(error) => return Err(error),
            }
        }
    }

    /// Explains an error of a reader: an object that its writer removed is no damage.
    pub(super) async fn explain_missing(&self, error: Error) -> Error {
        let Error::Missing { object, store } = &error else {
            return error;
        };
        let outdated = Error::Outdated {
            store: store.clone(),
        };
        if self.state().is_outdated {
            return outdated;
        }
        let Some(number) = names::number(names::LOG, object) else {
            return error;
        };
        // Removed objects stand on the line before they are removed.
        match self.scan(None).await {
            Ok(scan) if scan.history.deleted.contains(number) => {
                self.state().is_outdated = true;
                outdated
            }
            Ok(_) => error,
            Err(reason) => reason,
        }
    }

    /// Copies what is in memory, and returns what the store has.
    fn gather(&self, offset: u64, buf: &mut [u8]) -> Vec<StoredPart> {
        let mut parts: Vec<StoredPart> = Vec::new();
        let state = self.state();
        for piece in state.history.map.pieces(offset..offset + buf.len() as u64) {
            let start = (piece.offset - offset) as usize;
            let into = &mut buf[start..start + piece.len as usize];
            let source = piece
                .source
                .and_then(|is| is.at.map(|at| (is.object, at as usize)));
            let Some((object, at)) = source else {
                into.fill(0);
                continue;
            };
            if let Some(bytes) = state.in_memory(object) {
                into.copy_from_slice(&bytes[at..at + into.len()]);
                continue;
            }
            match parts.last_mut() {
                Some(last)
                    if last.object == object
                        && last.at + last.len as u64 == at as u64
                        && last.start + last.len == start =>
                {
                    last.len += into.len();
                }
                _ => parts.push(StoredPart {
                    object,
                    at: at as u64,
                    start,
                    len: into.len(),
                }),
            }
        }
        parts
    }

    async fn read_part(&self, part: StoredPart) -> Result<(usize, Bytes)> {
        let range = part.at..part.at + part.len as u64;
        let bytes = self.read_kept(part.object, range).await?;
        Ok((part.start, bytes))
    }

    /// Reads a range of an object, if it is not in memory. The first reads after the opening take more.
    pub(super) async fn read_kept(&self, object: u64, range: Range<u64>) -> Result<Bytes> {
        let fetch = |range| self.read_range(object, range);
        let wide = match self.ahead.has(object, &range) {
            true => range.clone(),
            false => self.widen(object, &range),
        };
        let part_use = match wide == range {
            true => PartUse::Caller,
            false => PartUse::Any,
        };
        let bytes = self
            .ahead
            .read(object, wide.clone(), part_use, fetch)
            .await?;
        let skip = (range.start - wide.start) as usize;
        Ok(bytes.slice(skip..skip + (range.end - range.start) as usize))
    }

    /// The range to read instead of a part of it. A pool that is opened follows pointers, from one small read to the next, in
    /// few objects. Each is a round trip, so the first reads take whole objects, or a piece of a large one.
    fn widen(&self, object: u64, range: &Range<u64>) -> Range<u64> {
        let mut state = self.state();
        let size = state.history.objects.get(&object).map_or(0, |is| is.size);
        let wide = match size <= WHOLE_MAX {
            true => 0..size,
            false => {
                let end = range.end.next_multiple_of(PIECE).min(size);
                range.start / PIECE * PIECE..end
            }
        };
        let len = wide.end.saturating_sub(wide.start);
        match len <= state.opening_bytes && wide.end >= range.end {
            true => {
                state.opening_bytes -= len;
                wide
            }
            false => range.clone(),
        }
    }

    /// Keeps an object in memory if it is small. Checkpoints and imports read many small ones.
    pub(super) fn keep_small(&self, number: u64, object: &Bytes) {
        if object.len() <= SMALL && self.limits.opening > 0 {
            self.ahead.put(number, object);
        }
    }

    /// Begins to read the newest objects: a pool that is opened reads its last commit first.
    pub(super) fn read_newest(self: &Arc<Self>) {
        let newest: Vec<(u64, Range<u64>)> = {
            let state = self.state();
            let data = state.history.objects.iter().rev();
            let needed = data.filter(|(_, is)| is.live > 0 && is.size <= WHOLE_MAX);
            needed
                .take(NEWEST)
                .map(|(number, is)| (*number, 0..is.size))
                .collect()
        };
        for (object, range) in newest {
            self.begin_read(object, range, PartUse::Any);
        }
    }

    /// Begins to read a range of an object that will be asked for, if there is memory for it.
    fn begin_read(self: &Arc<Self>, object: u64, range: Range<u64>, part_use: PartUse) {
        let len = range.end - range.start;
        if !self.ahead.reserve(len) {
            return;
        }
        let line = Arc::clone(self);
        let space = OnWaySpace {
            line: Arc::clone(self),
            len,
        };
        self.executor.spawn(Box::pin(async move {
            let fetch = |range| line.read_range(object, range);
            // The reader itself meets an error, if it stays.
            let _ = line.ahead.read(object, range, part_use, fetch).await;
            drop(space);
        }));
    }

    /// Begins to read the objects that follow, if a reader goes on where it ended. Objects of which less than half is needed
    /// are left out.
    fn read_ahead(self: &Arc<Self>, first: (u64, u64), len: u64) {
        let mut streams = self.streams.lock();
        let Some(plan) = streams.note(first.0, first.1, len) else {
            return;
        };
        let mut wanted = Vec::new();
        {
            let state = self.state();
            let (mut found, mut next) = (0, plan.from);
            for (number, is) in state.history.objects.range(plan.from..).take(LOOKED_AT) {
                if found >= plan.window {
                    break;
                }
                next = number.saturating_add(1);
                if is.live * 2 < is.size || state.in_memory(*number).is_some() {
                    continue;
                }
                // The rest of the object in which the reader is comes on top.
                found += if *number > plan.from { is.live } else { 0 };
                if *number >= plan.ahead {
                    wanted.push((*number, is.size, is.live));
                }
            }
            streams.reached(next);
        }
        drop(streams);
        for (object, size, live) in wanted {
            if !self.ahead.has(object, &(0..size)) {
                self.begin_read(object, 0..size, PartUse::Stream(live));
            }
        }
    }

    async fn read_range(&self, object: u64, range: Range<u64>) -> Result<Bytes> {
        let len = (range.end - range.start) as usize;
        self.read_stored(object, range.start, len).await
    }

    /// Reads bytes of an object from the store.
    pub(super) async fn read_stored(&self, object: u64, at: u64, len: usize) -> Result<Bytes> {
        let name = names::log(object);
        let range = at..at + len as u64;
        let size = self.state().history.objects.get(&object).map(|is| is.size);
        let part = self
            .patiently(|| self.store.get(&name, range.clone()))
            .await?;
        // An object of another size was emptied.
        let Some(part) = part.filter(|part| Some(part.size) == size) else {
            return Err(Error::Missing {
                store: self.store.address(),
                object: name,
            });
        };
        match part.bytes.len() == len {
            true => Ok(part.bytes),
            false => Err(self.damaged(name, "it is shorter than it was")),
        }
    }
}

impl LineState {
    /// The data of an object that has no answer yet.
    fn in_memory(&self, object: u64) -> Option<&[u8]> {
        let writer = self.writer.as_ref()?;
        match &writer.open {
            Some(open) if open.number == object => Some(&open.data),
            _ => writer.pending.get(&object).map(Bytes::as_ref),
        }
    }
}
