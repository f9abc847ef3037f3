//! SCSI commands: their answers and data.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::task::ScsiTask;
use super::tasks::expected_back;
use super::{Result, SessionContext};
use crate::scsi::reading::Reading;
use crate::scsi::sense::{CommandRefusal, Sense, status};
use crate::scsi::unit::ScsiUnit;
use crate::wire::output::{DATA_LEAST, KEPT_MAX, ResponseBuffer};
use crate::wire::pdu::{
    FINAL, NO_TAG, PduHeader, command, command_response, common, data, response,
};

const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;
const HAS_STATUS: u8 = 0x01;

/// Says that another number of bytes was expected.
fn residual(reply: &mut PduHeader, expected: usize, actual: usize) {
    if actual != expected {
        reply.add_flags(match actual > expected {
            true => OVERFLOW,
            false => UNDERFLOW,
        });
        reply.set(command_response::RESIDUAL, actual.abs_diff(expected) as u32);
    }
}

fn response_to(head: &PduHeader, status: u8) -> PduHeader {
    let mut reply = head.response_by_tag(response::COMMAND, FINAL);
    reply.set(command_response::STATUS, status);
    reply
}

impl SessionContext {
    /// Answers a command that was carried out, with `actual` bytes.
    pub(super) fn good(
        &self,
        out: &mut ResponseBuffer,
        head: &PduHeader,
        actual: usize,
        sent: u32,
    ) -> Result<()> {
        let mut reply = response_to(head, status::GOOD);
        residual(&mut reply, head.get(command::EXPECTED_LEN) as usize, actual);
        reply.set(command_response::DATA_COUNT, sent);
        self.answer(out, &mut reply, &[])
    }

    /// Responds with success to a change of a unit that is not settled. See [`SessionContext::good`].
    pub(super) fn changed(
        &self,
        out: &mut ResponseBuffer,
        task: &ScsiTask,
        unit: &Arc<ScsiUnit>,
    ) -> Result<()> {
        let mut reply = response_to(&task.head, status::GOOD);
        residual(
            &mut reply,
            task.head.get(command::EXPECTED_LEN) as usize,
            task.need,
        );
        reply.set(command_response::DATA_COUNT, task.asks);
        self.output.make_room(out, 0)?;
        out.put_change(&mut reply, unit);
        self.send_many(out)
    }

    fn answer(&self, out: &mut ResponseBuffer, reply: &mut PduHeader, data: &[u8]) -> Result<()> {
        self.output.make_room(out, data.len())?;
        out.put(reply, true, data);
        self.send_many(out)
    }

    /// Sends answers, if there are many bytes of them.
    fn send_many(&self, out: &mut ResponseBuffer) -> Result<()> {
        match out.len() >= KEPT_MAX {
            true => self.output.send(out),
            false => Ok(()),
        }
    }

    /// Answers that a command has to be sent again later: there is no memory for its data.
    pub(super) fn put_off(&self, out: &mut ResponseBuffer, head: &PduHeader) -> Result<()> {
        let mut reply = response_to(head, status::TASK_SET_FULL);
        residual(&mut reply, head.get(command::EXPECTED_LEN) as usize, 0);
        self.answer(out, &mut reply, &[])
    }

    /// Answers a command that failed.
    pub(super) fn fail(
        &self,
        out: &mut ResponseBuffer,
        head: &PduHeader,
        refused: impl Into<CommandRefusal>,
    ) -> Result<()> {
        match refused.into() {
            CommandRefusal::Check(sense) => self.fail_after(out, head, sense, 0, 0),
            CommandRefusal::Conflict => {
                if let Some(target) = self.target() {
                    target.conflicts.fetch_add(1, Relaxed);
                }
                let mut reply = response_to(head, status::RESERVATION_CONFLICT);
                residual(&mut reply, head.get(command::EXPECTED_LEN) as usize, 0);
                self.answer(out, &mut reply, &[])
            }
        }
    }

    /// Answers a command that failed after `done` bytes, or that needs so many.
    pub(super) fn fail_after(
        &self,
        out: &mut ResponseBuffer,
        head: &PduHeader,
        sense: Sense,
        done: usize,
        sent: u32,
    ) -> Result<()> {
        let mut reply = response_to(head, status::CHECK_CONDITION);
        residual(&mut reply, head.get(command::EXPECTED_LEN) as usize, done);
        reply.set(command_response::DATA_COUNT, sent);
        let mut data = vec![0, 18];
        data.extend(sense.fixed());
        self.answer(out, &mut reply, &data)
    }

    /// Answers with data, as many as are expected.
    pub(super) fn send_data(
        &self,
        out: &mut ResponseBuffer,
        head: &PduHeader,
        data: &[u8],
    ) -> Result<()> {
        let mut rest = data;
        let fill = |room: &mut [u8]| {
            let (next, later) = rest.split_at(room.len());
            room.copy_from_slice(next);
            rest = later;
            Ok(())
        };
        self.send_pieces(out, head, data.len(), self.agreed.send_max, fill)
    }

    /// Answers with what the device has.
    pub(super) fn send_blocks(
        &self,
        out: &mut ResponseBuffer,
        head: &PduHeader,
        unit: &ScsiUnit,
        (offset, len): (u64, usize),
    ) -> Result<()> {
        let send_max = self.agreed.send_max;
        let piece = match send_max - send_max % unit.block() as usize {
            0 => send_max,
            whole => whole,
        };
        let mut reading = Reading::new(unit, offset);
        self.send_pieces(out, head, len, piece, |room| reading.read(room))
    }

    fn send_pieces(
        &self,
        out: &mut ResponseBuffer,
        head: &PduHeader,
        len: usize,
        piece: usize,
        mut fill: impl FnMut(&mut [u8]) -> std::result::Result<(), Sense>,
    ) -> Result<()> {
        let total = len.min(expected_back(head));
        if total == 0 {
            return self.good(out, head, len, 0);
        }
        let (mut done, mut burst, mut sent) = (0, 0, 0);
        while done < total {
            let wanted = piece.min(total - done).min(self.agreed.burst - burst);
            let n = match self.output.make_room(out, wanted)? {
                room if room < wanted => DATA_LEAST,
                _ => wanted,
            };
            let is_last = done + n == total;
            (burst, done) = (burst + n, done + n);
            // A sequence is not longer than was agreed on.
            let ends = is_last || burst == self.agreed.burst;
            if ends {
                burst = 0;
            }
            let mut reply = head.response(response::DATA, if ends { FINAL } else { 0 });
            reply.set(common::TRANSFER_TAG, NO_TAG);
            reply.set(data::DATA_NUMBER, sent);
            reply.set(data::OFFSET, (done - n) as u32);
            if is_last {
                reply.add_flags(HAS_STATUS);
                residual(&mut reply, head.get(command::EXPECTED_LEN) as usize, len);
            }
            let filled = out.put_with(&mut reply, is_last, n, &mut fill);
            if let Err(sense) = filled {
                return self.fail_after(out, head, sense, done - n, sent);
            }
            sent += 1;
            self.send_many(out)?;
        }
        Ok(())
    }
}
