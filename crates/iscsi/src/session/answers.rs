//! SCSI commands: sending their answers and data.

use super::tasks::expected_back;
use super::{Connection, KEPT_MAX, Result};
use crate::pdu::{FINAL, Head, NO_TAG, append_with, response};
use crate::scsi::sense::{Sense, status};
use crate::scsi::unit::Unit;

const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;
const HAS_STATUS: u8 = 0x01;

/// Says that another number of bytes was expected.
fn residual(reply: &mut Head, expected: usize, actual: usize) {
    if actual != expected {
        reply.0[1] |= if actual > expected {
            OVERFLOW
        } else {
            UNDERFLOW
        };
        reply.put32(44, actual.abs_diff(expected) as u32);
    }
}

fn response_to(head: &Head, status: u8) -> Head {
    let mut reply = Head::new(response::COMMAND, FINAL);
    reply.0[3] = status;
    reply.put32(16, head.tag());
    reply
}

impl Connection<'_> {
    /// Answers a command that was carried out, with `actual` bytes.
    pub(super) fn good(&mut self, head: &Head, actual: usize, sent: u32) -> Result<()> {
        let mut reply = response_to(head, status::GOOD);
        residual(&mut reply, head.u32(20) as usize, actual);
        reply.put32(36, sent);
        self.answer(&mut reply, true, &[])
    }

    /// Answers a command that failed.
    pub(super) fn fail(&mut self, head: &Head, sense: Sense) -> Result<()> {
        self.fail_after(head, sense, 0, 0)
    }

    /// Answers a command that failed after `done` bytes, or that needs so many.
    pub(super) fn fail_after(
        &mut self,
        head: &Head,
        sense: Sense,
        done: usize,
        sent: u32,
    ) -> Result<()> {
        let mut reply = response_to(head, status::CHECK_CONDITION);
        residual(&mut reply, head.u32(20) as usize, done);
        reply.put32(36, sent);
        let mut data = vec![0, 18];
        data.extend(sense.fixed());
        self.answer(&mut reply, true, &data)
    }

    /// Answers with data, as many as are expected.
    pub(super) fn send_data(&mut self, head: &Head, data: &[u8]) -> Result<()> {
        let fill = |_: &Self, at: usize, out: &mut [u8]| {
            out.copy_from_slice(&data[at..at + out.len()]);
            Ok(())
        };
        self.send_pieces(head, data.len(), self.session.agreed.send_max, fill)
    }

    /// Answers with what the device has.
    pub(super) fn send_blocks(
        &mut self,
        head: &Head,
        unit: &Unit,
        offset: u64,
        len: usize,
    ) -> Result<()> {
        let block = unit.block() as usize;
        let send_max = self.session.agreed.send_max;
        let piece = send_max - send_max % block;
        let total = len.min(expected_back(head));
        let is_whole = [total, self.session.agreed.burst]
            .iter()
            .all(|len| len.is_multiple_of(block));
        if piece > 0 && is_whole {
            let fill = |_: &Self, at: usize, out: &mut [u8]| unit.read(offset + at as u64, out);
            return self.send_pieces(head, len, piece, fill);
        }
        // A part of a block is wanted: the device does not read such.
        let mut data = vec![0; len];
        match unit.read(offset, &mut data) {
            Ok(()) => self.send_data(head, &data),
            Err(sense) => self.fail(head, sense),
        }
    }

    fn send_pieces(
        &mut self,
        head: &Head,
        len: usize,
        piece: usize,
        fill: impl Fn(&Self, usize, &mut [u8]) -> std::result::Result<(), Sense>,
    ) -> Result<()> {
        let total = len.min(expected_back(head));
        if total == 0 {
            return self.good(head, len, 0);
        }
        let (mut done, mut burst, mut sent) = (0, 0, 0);
        while done < total {
            let n = piece
                .min(total - done)
                .min(self.session.agreed.burst - burst);
            let is_last = done + n == total;
            (burst, done) = (burst + n, done + n);
            // A sequence is not longer than was agreed on.
            let ends = is_last || burst == self.session.agreed.burst;
            if ends {
                burst = 0;
            }
            let mut reply = Head::new(response::DATA, if ends { FINAL } else { 0 });
            reply.put(8, &head.0[8..20]);
            reply.put32(20, NO_TAG);
            reply.put32(36, sent);
            reply.put32(40, (done - n) as u32);
            let mut out = std::mem::take(&mut self.out);
            let mut numbered = reply;
            let status = self.session.status;
            if is_last {
                numbered.0[1] |= HAS_STATUS;
                residual(&mut numbered, head.u32(20) as usize, len);
            }
            self.number(&mut numbered, is_last);
            let digests = self.session.agreed.digests;
            let filled = append_with(&mut out, &mut numbered, digests, n, |room| {
                fill(self, done - n, room)
            });
            self.out = out;
            if let Err(sense) = filled {
                self.session.status = status;
                return self.fail_after(head, sense, done - n, sent);
            }
            sent += 1;
            if self.out.len() >= KEPT_MAX {
                self.send()?;
            }
        }
        Ok(())
    }
}
