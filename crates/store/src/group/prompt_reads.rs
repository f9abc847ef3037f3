//! Reads that do without a device that does not answer, where others hold everything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use block::IoMode;

use crate::group::member::{Member, MemberFailure};
use crate::group::mirror::{Group, at};
use crate::group::pace::{self, ReadBuffer, Request};
use crate::group::parity::ReadWay;
use crate::{Error, Result, SegmentId};

/// A disk of this machine that usually answers faster is read by the caller. Another thread would cost too much of
/// that.
const WORTH_A_THREAD: Duration = Duration::from_millis(1);

impl Member {
    /// Does the same as [`Member::read`], for a caller that can do without this device.
    ///
    /// # Errors
    /// As [`Member::read`]. [`Error::Unanswered`] if the device takes much longer than usual; the late answer is thrown
    /// away.
    pub(crate) fn read_soon(&self, at: u64, buf: &mut [u8]) -> Result<()> {
        if !self.waits_on_write || self.is_stalled() {
            return self.read(at, buf);
        }
        let is_local = self.device.io_mode().is_some_and(IoMode::is_local);
        if is_local && self.pace().usual() < WORTH_A_THREAD {
            let begun = Instant::now();
            self.read(at, buf)?;
            self.pace().note(begun.elapsed());
            return Ok(());
        }
        let limit = self.pace().read_limit();
        let answered = pace::ask(self.pace(), limit, self.read_later(at, buf.len()));
        let bytes = answered.ok_or_else(|| self.unanswered(limit))?;
        let bytes = bytes.inspect_err(|_| self.count(MemberFailure::Read))?;
        buf.copy_from_slice(bytes.bytes());
        Ok(())
    }

    /// Does the same as [`Member::read_key_block`], if the device answers soon.
    pub(crate) fn read_key_block_soon(
        self: &Arc<Member>,
        index: u32,
    ) -> Option<Result<Option<Vec<u8>>>> {
        if self.pace().is_slow() {
            return None;
        }
        let own = Arc::clone(self);
        let read = move || own.read_key_block(index);
        pace::ask(self.pace(), self.pace().read_limit(), read)
    }

    /// A read for another thread, into memory of its own.
    pub(crate) fn read_later(
        &self,
        at: u64,
        len: usize,
    ) -> impl FnOnce() -> Result<ReadBuffer> + Send + 'static {
        let device = Arc::clone(&self.device);
        move || ReadBuffer::read(&*device, at, len)
    }

    /// Refuses a device that may still carry out a request from before.
    pub(crate) fn check_answered(&self) -> Result<()> {
        match self.pace().is_slow() {
            true => Err(Error::StillUnanswered {
                device: self.device.name(),
            }),
            false => Ok(()),
        }
    }
}

impl Group {
    /// Reads a place from members that answer, if others remain that hold everything. Says whether that is the way that
    /// is the first for this place. `None` if there is no such way: then a caller has to wait.
    pub(crate) fn read_prompt(
        &self,
        segment: SegmentId,
        offset: u32,
        buf: &mut [u8],
    ) -> Option<(bool, Result<()>)> {
        if self.members.len() < 2 {
            return None;
        }
        if self.shape().has_parity() {
            let way = self.prompt_way()?;
            let read = self.read_way(way, segment, offset, buf, Member::read_soon);
            return Some((way == ReadWay::default(), read));
        }
        let online = self.members_online();
        let readers = (0..online).filter_map(|nth| self.nth_reader(nth, segment, offset));
        let mut prompt = readers.enumerate().filter(|(_, m)| !m.pace().is_slow());
        let (nth, member) = prompt.next()?;
        let read = member.read_soon(at(member, segment, offset), buf);
        Some((nth == 0, read))
    }

    /// Asks all members that hold everything, and takes the first answer. `None` if all have too many requests already
    /// that they did not answer.
    pub(crate) fn read_any(
        &self,
        segment: SegmentId,
        offset: u32,
        buf: &mut [u8],
    ) -> Option<Result<()>> {
        let online = (0..self.members_online()).filter_map(|n| self.nth_reader(n, segment, offset));
        let (tell, told) = channel();
        let start = |member: &Member| {
            let (tell, guid) = (tell.clone(), member.guid());
            let read = member.read_later(at(member, segment, offset), buf.len());
            let pass_on = move |outcome| drop(tell.send((guid, outcome)));
            (guid, Request::start(member.pace(), read, pass_on))
        };
        let asked = online.filter(|member| !member.pace().is_full() && !member.is_stalled());
        let mut pending: BTreeMap<u64, Request> = asked.map(start).collect();
        drop(tell);
        let mut outcome = None;
        for (guid, read) in told {
            pending.remove(&guid);
            match read {
                Ok(bytes) => {
                    buf.copy_from_slice(bytes.bytes());
                    outcome = Some(Ok(()));
                    break;
                }
                Err(error) => outcome = Some(Err(error)),
            }
        }
        pending.values().for_each(Request::give_up);
        outcome
    }
}
