//! SCSI commands: receiving them and their data.

use std::sync::Arc;
use std::time::Duration;

use block::TransferBuffer;

use super::task::{ScsiTask, TaskOrder};
use super::{Result, SessionConnection};
use crate::error::DisconnectCause;
use crate::scsi::cdb::{Request, ScsiCommand};
use crate::scsi::sense::{CommandRefusal, Sense};
use crate::scsi::unit::Port;
use crate::wire::link::PduBuffer;
use crate::wire::output::WINDOW;
use crate::wire::pdu::{
    FINAL, NO_TAG, PduHeader, ReceivedPdu, command, common, data, ready, response,
};

const READS: u8 = 0x40;
const WRITES: u8 = 0x20;
/// The number of commands that are asked for data at a time.
const ASKED_MAX: usize = 4;
/// A session that waits for nothing else waits so long for memory before it puts commands off. It does not answer pings
/// meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

impl SessionConnection<'_, '_> {
    /// Takes a command with the data that came along.
    pub(super) fn command(
        &mut self,
        head: &PduHeader,
        has_more: bool,
        data: &mut [u8],
    ) -> Result<()> {
        let agreed = self.shared.agreed;
        let expected = head.get(command::EXPECTED_LEN) as usize;
        let (writes, is_last) = (head.flags() & WRITES != 0, head.flags() & FINAL != 0);
        let waiting = self.shared.output.waiting();
        let is_twice = || {
            let tag = head.tag();
            self.tasks.contains_key(&tag) || waiting > 0 && self.shared.jobs.has(tag)
        };
        if waiting > WINDOW as usize || is_twice() {
            return Err(DisconnectCause::Protocol(
                "it has too many commands, or two with one tag",
            ));
        }
        let len = head.data_len();
        if len > 0 && (!agreed.immediate || !writes || len > expected) {
            return Err(DisconnectCause::Protocol(
                "it sent data that were not agreed on",
            ));
        }
        if !is_last && (agreed.initial_r2t || !writes) {
            return Err(DisconnectCause::Protocol(
                "it announced data that were not agreed on",
            ));
        }
        let begun = match len > agreed.first_burst {
            true => Err(Sense::TOO_MUCH_DATA.into()),
            false => self.begin(head, has_more),
        };
        let shared = self.shared;
        let (request, need) = match begun {
            Ok(begun) => begun,
            Err(refused) => return shared.fail(&mut self.out, head, refused),
        };
        // Half a command is not carried out, nor one that may mean another.
        let is_exact = matches!(request.operation, ScsiCommand::WriteSame { .. });
        let sent = if writes { expected } else { 0 };
        if matches!(request.operation, ScsiCommand::CompareAndWrite { .. }) && sent != need {
            // Its blocks and its data disagree.
            return shared.fail_after(&mut self.out, head, Sense::FIELD_IN_CDB, need, 0);
        }
        if sent < need || is_exact && sent != need {
            return shared.fail_after(&mut self.out, head, Sense::INFORMATION_UNIT, need, 0);
        }
        self.count += 1;
        let task = ScsiTask {
            head: head.clone(),
            request,
            number: self.count,
            place: { self.seen(head.lun()) }.map(|seen| seen.place(self.units.version)),
            luns: Arc::clone(&self.units.numbers),
            need,
            data: TransferBuffer::default(),
            received: len,
            is_open: !is_last,
            asked: None,
            asks: 0,
            next_data: 0,
        };
        self.enter(task, data)
    }

    /// Has a command carried out, or wait.
    fn enter(&mut self, mut task: ScsiTask, data: &mut [u8]) -> Result<()> {
        let (tag, need) = (task.head.tag(), task.need);
        let starts = task.is_whole() && self.may_start(&task);
        if starts && !self.is_for_helper(&task) {
            return self.carry_out_now(&task, &mut data[..need]);
        }
        let came = data.len().min(need);
        // A command that waits for data has space for more of them when they are asked for.
        let len = match (task.is_whole(), task.is_open) {
            (true, _) => need,
            (false, true) => need.min(self.shared.agreed.first_burst),
            (false, false) => came,
        };
        let shared = self.shared;
        let Some(mut space) = shared.memory.buffer(len) else {
            return match starts {
                // Nothing more is received meanwhile.
                true => self.carry_out_now(&task, &mut data[..need]),
                false => shared.put_off(&mut self.out, &task.head),
            };
        };
        space[..came].copy_from_slice(&data[..came]);
        task.data = space;
        shared.output.wait_for(1);
        if starts {
            return self.hand_over(task);
        }
        if task.received < task.need && !task.is_open {
            self.unasked.push_back(tag);
        }
        self.tasks.insert(tag, task);
        self.ask()
    }

    /// Carries a command out on this thread. An ordered one waits for those that helpers carry out.
    fn carry_out_now(&mut self, task: &ScsiTask, data: &mut [u8]) -> Result<()> {
        if task.order() == TaskOrder::Ordered {
            self.shared.jobs.wait_for(&|_, _| true);
        }
        self.shared.carry_out(task, data, &mut self.out)
    }

    /// Returns whether no earlier command has to be carried out first. Helpers may still be at work.
    fn may_start(&self, task: &ScsiTask) -> bool {
        let mut earlier = self.tasks.values().filter(|it| it.number < task.number);
        match task.order() {
            TaskOrder::First => true,
            TaskOrder::Ordered => earlier.next().is_none(),
            TaskOrder::Simple => !earlier.any(|it| it.order() == TaskOrder::Ordered),
        }
    }

    fn is_for_helper(&self, task: &ScsiTask) -> bool {
        let is_long = task.takes_long()
            || task.moves().is_some() && (self.shared.is_slow() || task.would_wait());
        is_long && task.order() == TaskOrder::Simple
    }

    /// Gives a command space for all of its data. False if there is no memory for it within `patience`.
    fn grow(&mut self, tag: u32, patience: Duration) -> bool {
        let Some(task) = self.tasks.get_mut(&tag) else {
            return true;
        };
        if task.data.len() >= task.need {
            return true;
        }
        let memory = &self.shared.memory;
        let claim = match patience.is_zero() {
            true => memory.claim(task.need),
            false => memory.await_claim(task.need, patience),
        };
        let Some(claim) = claim else {
            return false;
        };
        let mut space = claim.into_buffer();
        space[..task.received].copy_from_slice(&task.data[..task.received]);
        task.data = space;
        true
    }

    /// Starts what has all its data, and waits for nothing else.
    fn start(&mut self) -> Result<()> {
        loop {
            let ready = self.tasks.values();
            let ready = ready.filter(|it| it.is_whole() && self.may_start(it));
            let Some(first) = ready.min_by_key(|it| it.number) else {
                return Ok(());
            };
            let tag = first.head.tag();
            let Some(task) = self.tasks.remove(&tag) else {
                return Ok(());
            };
            match self.is_for_helper(&task) {
                true => self.hand_over(task)?,
                false => self.carry_out_here(task)?,
            }
        }
    }

    /// Carries a command out that has waited.
    pub(super) fn carry_out_here(&mut self, mut task: ScsiTask) -> Result<()> {
        let mut data = std::mem::take(&mut task.data);
        self.shared.output.answered(1);
        self.carry_out_now(&task, &mut data)
    }

    /// Looks whether a command can be carried out, and how many bytes it needs.
    fn begin(
        &mut self,
        head: &PduHeader,
        has_more: bool,
    ) -> std::result::Result<(Request, usize), CommandRefusal> {
        let cdb = &head.get(command::CDB);
        let request = match has_more {
            false => Request::decode(cdb),
            true => Err(Sense::FIELD_IN_CDB),
        };
        self.look(head.lun());
        let seen = self.seen(head.lun());
        let tells = request.is_ok_and(|request| {
            use ScsiCommand as O;
            matches!(
                request.operation,
                O::Inquiry { .. } | O::ReportLuns { .. } | O::RequestSense { .. }
            )
        });
        if !tells && let Some(attention) = seen.and_then(|seen| seen.seat.attention()) {
            return Err(attention.into());
        }
        let request = request?;
        let seen = seen.and_then(|seen| Some((seen.unit.upgrade()?, seen)));
        let (Some((unit, seen)), Some(target)) = (seen, self.shared.target()) else {
            return Ok((request, 0));
        };
        let port = Port {
            target: target.name(),
            luns: &self.units.numbers,
            is_read_only: seen.is_read_only,
        };
        port.authorize(&request)?;
        unit.permit(&seen.seat, &request.operation)?;
        Ok((request, unit.check(&request.operation)?))
    }

    /// Takes data of a command, straight into its buffer.
    pub(super) fn data(
        &mut self,
        head: &PduHeader,
        received: &mut ReceivedPdu,
        input: &mut PduBuffer,
    ) -> Result<()> {
        let (tag, digests, len) = (head.tag(), self.shared.agreed.digests, head.data_len());
        if let Some(task) = self.tasks.get(&tag) {
            self.look(task.head.lun());
        }
        // Of a command that was refused, or aborted.
        let Some(task) = self.tasks.get_mut(&tag) else {
            return received.take_data(self.link, input, digests);
        };
        let end = task.received + len;
        let (is_asked, most) = match (head.get(common::TRANSFER_TAG), task.asked) {
            (NO_TAG, _) if task.is_open => {
                let first_burst = self.shared.agreed.first_burst;
                (true, task.expected().min(first_burst))
            }
            (transfer, Some((asked, end))) => (transfer == asked, end),
            _ => (false, 0),
        };
        let is_next = head.get(data::OFFSET) as usize == task.received
            && head.get(data::DATA_NUMBER) == task.next_data;
        let is_last = head.flags() & FINAL != 0;
        let is_short = is_last && !task.is_open && end != most;
        if !is_asked || !is_next || end > most || is_short {
            received.take_data(self.link, input, digests)?;
            return self.give_up(tag);
        }
        match task
            .data
            .get_mut(task.received..end)
            .filter(|_| end <= task.need)
        {
            Some(room) => received.take_data_into(self.link, input, digests, room)?,
            // More than it needs, which it said it would send.
            None => {
                let wanted = len.min(task.need.saturating_sub(task.received));
                let room = task.data.get_mut(task.received..task.received + wanted);
                received.take_data_into(self.link, input, digests, room.unwrap_or_default())?;
            }
        }
        (task.received, task.next_data) = (end, task.next_data.wrapping_add(1));
        if !is_last {
            return Ok(());
        }
        (task.is_open, task.asked, task.next_data) = (false, None, 0);
        match task.received < task.need {
            // One that has memory comes before those that wait for memory.
            true if task.data.len() >= task.need => self.unasked.push_front(tag),
            true => self.unasked.push_back(tag),
            false => self.start()?,
        }
        self.ask()
    }

    /// Puts off all commands that were not asked for their data: what they sent would keep others waiting.
    fn put_all_off(&mut self) -> Result<()> {
        let shared = self.shared;
        for tag in std::mem::take(&mut self.unasked) {
            if let Some(task) = self.tasks.remove(&tag) {
                shared.output.answered(1);
                shared.put_off(&mut self.out, &task.head)?;
            }
        }
        self.start()
    }

    /// Fails a command whose data are not what was asked for.
    fn give_up(&mut self, tag: u32) -> Result<()> {
        if let Some(task) = self.tasks.remove(&tag) {
            self.shared.output.answered(1);
            let shared = self.shared;
            shared.fail(&mut self.out, &task.head, Sense::TOO_MUCH_DATA)?;
        }
        self.start()?;
        self.ask()
    }

    /// Asks for data, of a few commands at a time, and of no more than there is memory for.
    fn ask(&mut self) -> Result<()> {
        let mut asked = { self.tasks.values() }
            .filter(|task| task.asked.is_some())
            .count();
        while asked < ASKED_MAX {
            let Some(tag) = self.unasked.front().copied() else {
                break;
            };
            if !self.grow(tag, Duration::ZERO) {
                if asked > 0 {
                    // Their end frees memory, and is a reason to look again.
                    break;
                }
                self.send()?;
                if !self.grow(tag, PATIENCE) {
                    return self.put_all_off();
                }
            }
            self.unasked.pop_front();
            asked += 1;
            let transfer = self.next_transfer;
            let Some(task) = self.tasks.get_mut(&tag) else {
                continue;
            };
            let len = (task.need - task.received).min(self.shared.agreed.burst);
            let mut reply = task.head.response(response::READY, FINAL);
            reply.set(common::TRANSFER_TAG, transfer);
            reply.set(ready::NUMBER, task.asks);
            reply.set(ready::OFFSET, task.received as u32);
            reply.set(ready::WANTED_LEN, len as u32);
            task.asked = Some((transfer, task.received + len));
            task.asks += 1;
            // The number that means none is left out.
            self.next_transfer = (transfer + 1) % NO_TAG;
            self.answer(&mut reply, false, &[])?;
        }
        Ok(())
    }
}

/// Returns the number of bytes that an initiator expects to receive.
pub(super) fn expected_back(head: &PduHeader) -> usize {
    match head.flags() & READS != 0 {
        true => head.get(command::EXPECTED_LEN) as usize,
        false => 0,
    }
}
