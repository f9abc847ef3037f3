//! Writes: they are appended to the open object, and sealed objects are sent.

use std::sync::Arc;

use bytes::Bytes;

use super::line::{Line, LineLimits, LineRule, LineState, LineWriter, OpenObject};
use crate::line::log_object::{BatchPart, LineEntry, LogKind, RUNS_MAX, Run, RunKind, checksum};
use crate::{Error, Result};

/// A change of the device.
#[derive(Clone, Copy)]
pub(super) struct LineChange<'a> {
    pub(super) kind: RunKind,
    pub(super) offset: u64,
    pub(super) len: u64,
    /// The bytes that are written, if any.
    pub(super) bytes: &'a [u8],
}

impl<'a> LineChange<'a> {
    /// A write.
    pub(super) fn write(offset: u64, bytes: &'a [u8]) -> LineChange<'a> {
        LineChange {
            kind: RunKind::Bytes,
            offset,
            len: bytes.len() as u64,
            bytes,
        }
    }

    /// The change without its first bytes.
    fn skip(self, n: u64) -> LineChange<'a> {
        LineChange {
            offset: self.offset + n,
            len: self.len - n,
            bytes: self.bytes.get(n as usize..).unwrap_or_default(),
            ..self
        }
    }
}

/// The order in which a change counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CountRule {
    /// After the last order point.
    InOrder,
    /// By itself, whatever is on its way.
    Alone,
}

/// The part of the window that only durable writes use.
const RESERVED: u64 = 8;
/// A write of so many bytes begins a full object.
const LARGE: u64 = 256 << 10;
/// The runs and the footer of most objects.
const END_BYTES: usize = 4 << 10;

impl Line {
    /// Makes a change, and waits while too much is without an answer.
    ///
    /// # Errors
    /// The failure of the line.
    pub(super) async fn change(self: &Arc<Self>, mut change: LineChange<'_>) -> Result<()> {
        while change.len > 0 {
            let taken = self
                .when(|state| self.append(state, change, CountRule::InOrder))
                .await?;
            change = change.skip(taken);
        }
        Ok(())
    }

    /// Makes as much of a change as is possible without waiting. Returns the rest, if any.
    ///
    /// # Errors
    /// The failure of the line.
    pub(super) fn change_now<'a>(
        self: &Arc<Self>,
        mut change: LineChange<'a>,
    ) -> Result<Option<LineChange<'a>>> {
        let mut state = self.state();
        state.check()?;
        while change.len > 0 {
            match self.append(&mut state, change, CountRule::InOrder) {
                Some(taken) => change = change.skip(taken),
                None => return Ok(Some(change)),
            }
        }
        Ok(None)
    }

    /// Writes, and returns when that is durable, whatever else is on its way.
    ///
    /// # Errors
    /// The failure of the line.
    pub(super) async fn change_durably(self: &Arc<Self>, mut change: LineChange<'_>) -> Result<()> {
        let mut numbers = Vec::new();
        while change.len > 0 {
            let appended = self
                .when(|state| {
                    self.seal(state);
                    let taken = self.append(state, change, CountRule::Alone)?;
                    Some((taken, self.seal(state)))
                })
                .await?;
            change = change.skip(appended.0);
            numbers.extend(appended.1);
        }
        let is_pending =
            |writer: &LineWriter| numbers.iter().any(|n| writer.pending.contains_key(n));
        self.when(|state| {
            state
                .writer
                .as_ref()
                .is_none_or(|it| !is_pending(it))
                .then_some(())
        })
        .await
    }

    /// Returns when all that was written is durable.
    ///
    /// # Errors
    /// The failure of the line.
    pub(super) async fn flush(self: &Arc<Self>) -> Result<()> {
        let last = {
            let mut state = self.state();
            state.check()?;
            self.seal(&mut state);
            match &state.writer {
                Some(writer) => writer.next - 1,
                None => return Ok(()),
            }
        };
        self.when(|state| {
            let writer = state.writer.as_mut()?;
            let is_done = writer.pending.range(..=last).next().is_none();
            is_done.then(|| writer.after = writer.after.max(last))
        })
        .await?;
        let (has_purges, is_batch) = {
            let state = self.state();
            (!state.purges.is_empty(), state.batch.is_some())
        };
        // A state that perhaps never counts is no reason to remove anything.
        if is_batch {
            return Ok(());
        }
        if has_purges {
            return self.purge().await;
        }
        self.checkpoint_if_due();
        Ok(())
    }

    /// Sets an order point: what is written later counts only together with all that was written before.
    ///
    /// # Errors
    /// The failure of the line.
    pub(super) fn order(&self) -> Result<()> {
        let mut state = self.state();
        state.check()?;
        if let Some(writer) = &mut state.writer {
            match &mut writer.open {
                // An object counts as a whole, so its own runs are in order.
                Some(open) => {
                    open.after = open.number - 1;
                    writer.after = open.number;
                }
                None => writer.after = writer.next - 1,
            }
        }
        Ok(())
    }

    /// Takes a part of a change into the open object. `None` if it has to wait: the writer is none yet, or too much is
    /// without an answer.
    pub(super) fn append(
        self: &Arc<Self>,
        state: &mut LineState,
        change: LineChange<'_>,
        counting: CountRule,
    ) -> Option<u64> {
        let is_header = self.facts.is_header(change.offset);
        let open = state.writer.as_ref()?.open.as_ref();
        if open.is_some_and(|it| it.is_header != is_header || !self.has_space(it, change.kind)) {
            self.seal(state);
        }
        if state.writer.as_ref()?.open.is_none() {
            self.begin(state, is_header, counting)?;
        }
        let writer = state.writer.as_mut()?;
        let open = writer.open.as_mut()?;
        let mut taken = change
            .len
            .min(self.facts.end_of_part(change.offset) - change.offset);
        let at = open.data.len() as u32;
        if change.kind == RunKind::Bytes {
            taken = taken.min((self.limits.data - open.data.len()) as u64);
            if open.data.is_empty() && taken >= LARGE {
                // More follows, and a buffer that grows is copied again and again.
                open.data.reserve_exact(self.limits.data + END_BYTES);
            }
            open.data.extend_from_slice(&change.bytes[..taken as usize]);
        }
        let run = Run {
            kind: change.kind,
            offset: change.offset,
            len: taken,
            origin: open.number,
        };
        match open.runs.last_mut() {
            Some(last) if last.kind == run.kind && last.offset + last.len == run.offset => {
                last.len += run.len;
            }
            _ => open.runs.push(run),
        }
        let number = open.number;
        state.history.enter_run(number, is_header, &run, at);
        Some(taken)
    }

    fn has_space(&self, open: &OpenObject, kind: RunKind) -> bool {
        let is_full = kind == RunKind::Bytes && open.data.len() >= self.limits.data;
        !is_full && open.runs.len() < RUNS_MAX
    }

    /// Begins an object, if the window has a free number.
    fn begin(&self, state: &mut LineState, is_header: bool, counting: CountRule) -> Option<()> {
        let writer = state.writer.as_mut()?;
        let number = writer.take_number(&self.limits, counting)?;
        writer.open = Some(OpenObject {
            number,
            is_header,
            after: match counting {
                CountRule::InOrder => writer.after,
                CountRule::Alone => 0,
            },
            batch: match (state.batch.is_some(), counting) {
                (true, CountRule::InOrder) => BatchPart::Member,
                _ => BatchPart::None,
            },
            runs: Vec::new(),
            data: Vec::new(),
        });
        state.history.last = number;
        state.history.is_released = false;
        Some(())
    }

    /// Sends the open object. Returns its number.
    pub(super) fn seal(self: &Arc<Self>, state: &mut LineState) -> Option<u64> {
        let open = state.writer.as_mut()?.open.take()?;
        let number = open.number;
        let entry = LineEntry {
            kind: LogKind::Data,
            is_header: open.is_header,
            batch: match self.limits.keeps(LineRule::Batch) {
                true => open.batch,
                false => BatchPart::None,
            },
            after: match self.limits.keeps(LineRule::After) {
                true => open.after,
                false => 0,
            },
            runs: open.runs,
            ..self.entry(state, number, &open.data)
        };
        let mut object = open.data;
        entry.seal(&mut object);
        let record = state.history.objects.entry(number).or_default();
        record.size = object.len() as u64;
        record.batch = entry.batch;
        self.send(state, number, object.into());
        Some(number)
    }

    /// An entry of this writer, without runs.
    pub(super) fn entry(&self, state: &LineState, number: u64, data: &[u8]) -> LineEntry {
        LineEntry {
            kind: LogKind::Data,
            is_header: false,
            batch: BatchPart::None,
            device: self.facts.guid,
            writer: self.id,
            number,
            first: state.writer.as_ref().map_or(number, |writer| writer.first),
            after: number - 1,
            runs: Vec::new(),
            data_len: data.len() as u64,
            data_sum: checksum(data),
        }
    }

    /// Sends an object that is not filled by writes, and returns its number. `None` if the window is full.
    pub(super) fn send_mark(
        self: &Arc<Self>,
        state: &mut LineState,
        kind: LogKind,
        runs: Vec<Run>,
    ) -> Option<u64> {
        self.send_entry(state, (kind, BatchPart::None), runs)
    }

    /// Sends the end of the batch, and returns its number. It is the object that is being filled, or one without effect:
    /// an object of a header may have to be removed before the batch is dead. `None` if the window is full.
    pub(super) fn send_end(self: &Arc<Self>, state: &mut LineState) -> Option<u64> {
        let open = state.writer.as_mut()?.open.as_mut();
        match open.filter(|open| open.batch == BatchPart::Member && !open.is_header) {
            Some(open) => {
                open.batch = BatchPart::End;
                open.after = open.number - 1;
                self.seal(state)
            }
            None => self.send_entry(state, (LogKind::Data, BatchPart::End), Vec::new()),
        }
    }

    fn send_entry(
        self: &Arc<Self>,
        state: &mut LineState,
        (kind, batch): (LogKind, BatchPart),
        runs: Vec<Run>,
    ) -> Option<u64> {
        self.seal(state);
        let writer = state.writer.as_mut()?;
        let number = writer.take_number(&self.limits, CountRule::Alone)?;
        let own = self.entry(state, number, &[]);
        let entry = LineEntry {
            kind,
            batch,
            runs,
            // What is on a list of deletions was dead and durable before, so the list counts by itself.
            after: if kind == LogKind::Deletions {
                0
            } else {
                own.after
            },
            ..own
        };
        let mut object = Vec::new();
        entry.seal(&mut object);
        state.history.enter(&entry, object.len() as u64);
        self.send(state, number, object.into());
        Some(number)
    }

    /// Sends copies of older runs. `None` if the window is full.
    pub(super) fn send_copies(
        self: &Arc<Self>,
        state: &mut LineState,
        copied: &[Run],
        data: &[u8],
    ) -> Option<()> {
        self.seal(state);
        let writer = state.writer.as_mut()?;
        let number = writer.take_number(&self.limits, CountRule::InOrder)?;
        let entry = LineEntry {
            is_header: copied.iter().any(|run| self.facts.is_header(run.offset)),
            after: 0,
            runs: copied.to_vec(),
            ..self.entry(state, number, data)
        };
        let mut object = data.to_vec();
        entry.seal(&mut object);
        state.history.enter(&entry, object.len() as u64);
        self.send(state, number, object.into());
        Some(())
    }

    /// Tries again what the store refused. A line that another machine has taken stays so.
    pub(super) fn begin_anew(self: &Arc<Self>) {
        let mut state = self.state();
        if !matches!(state.failure, Some(Error::Refused { .. })) {
            return;
        }
        state.failure = None;
        self.waits.begin_anew();
        let pending = state.writer.iter().flat_map(|writer| &writer.pending);
        let again: Vec<(u64, Bytes)> = pending.map(|(n, object)| (*n, object.clone())).collect();
        drop(state);
        for (number, object) in again {
            let line = Arc::clone(self);
            self.executor
                .spawn(Box::pin(async move { line.upload(number, object).await }));
        }
    }

    fn send(self: &Arc<Self>, state: &mut LineState, number: u64, object: Bytes) {
        if let Some(writer) = &mut state.writer {
            writer.pending_bytes += object.len();
            writer.pending.insert(number, object.clone());
        }
        let line = Arc::clone(self);
        self.executor
            .spawn(Box::pin(async move { line.upload(number, object).await }));
    }
}

impl LineWriter {
    /// The first number that may be without an answer. All before it are durable.
    pub(super) fn first_pending(&self) -> u64 {
        let open = self.open.as_ref().map_or(self.next, |open| open.number);
        self.pending
            .keys()
            .next()
            .map_or(open, |first| open.min(*first))
    }

    /// Takes the next number, if it lies in the window of the first number that has no answer. What must be durable soon has
    /// a part of the window to itself, and does not wait until fewer bytes are on their way.
    fn take_number(&mut self, limits: &LineLimits, counting: CountRule) -> Option<u64> {
        let oldest = self.pending.keys().next().copied().unwrap_or(self.next);
        let (window, bytes) = match counting {
            CountRule::Alone => (limits.window, limits.pending + limits.pending / 2),
            CountRule::InOrder => (limits.window - limits.window / RESERVED, limits.pending),
        };
        let is_beyond = self.next >= oldest + window && limits.keeps(LineRule::Window);
        if is_beyond || self.pending_bytes >= bytes {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }
}
