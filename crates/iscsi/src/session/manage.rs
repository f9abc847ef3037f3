//! Task management.

use super::{Connection, Result};
use crate::pdu::{FINAL, Head, response};
use crate::scsi::execute::lun_of;

impl Connection<'_, '_> {
    pub(super) fn manage(&mut self, head: &Head) -> Result<()> {
        const DONE: u8 = 0;
        const NO_TASK: u8 = 1;
        const NO_UNIT: u8 = 2;
        const NOT_REASSIGNED: u8 = 4;
        const NOT_SUPPORTED: u8 = 5;
        let (function, lun) = (head.flags() & 0x7f, head.lun());
        self.look(lun);
        let unit = self.unit(lun);
        if (4..=6).contains(&function) {
            let target = self.shared.target().map(|it| it.name());
            let (initiator, lun) = (self.initiator, lun_of(lun));
            tracing::info!(
                target,
                lun,
                initiator,
                function,
                "an initiator resets a unit"
            );
        }
        let done = match function {
            ..6 if unit.is_none() => NO_UNIT,
            1 => match self.abort(head.u32(20)) {
                true => DONE,
                // It has been answered.
                false => NO_TASK,
            },
            2 => {
                self.forget(|_, of| of == lun);
                self.shared.jobs.wait_for(&|_, of| of == lun);
                DONE
            }
            // Those of all sessions; the unit.
            4 | 5 => {
                unit.inspect(|unit| unit.reset());
                self.look(lun);
                self.shared.jobs.wait_for(&|_, of| of == lun);
                DONE
            }
            // The target: what the initiator sees of it.
            6 => {
                self.reset_all();
                self.shared.jobs.wait_for(&|_, _| true);
                DONE
            }
            8 => NOT_REASSIGNED,
            _ => NOT_SUPPORTED,
        };
        let mut reply = Head::new(response::TASK, FINAL);
        reply.0[2] = done;
        reply.put32(16, head.tag());
        self.answer(&mut reply, true, &[])
    }

    /// Aborts a command; one that was begun is waited for, and answered before this is.
    fn abort(&mut self, tag: u32) -> bool {
        let is_it = |other, _: [u8; 8]| other == tag;
        let is_there = self.tasks.contains_key(&tag) || self.shared.jobs.has(tag);
        self.forget(is_it);
        self.shared.jobs.wait_for(&is_it);
        is_there
    }

    /// Forgets commands that were not begun.
    pub(super) fn forget(&mut self, is_one: impl Fn(u32, [u8; 8]) -> bool) {
        let before = self.tasks.len();
        self.tasks
            .retain(|tag, task| !is_one(*tag, task.head.lun()));
        let tasks = &self.tasks;
        self.unasked.retain(|tag| tasks.contains_key(tag));
        let fewer = before - self.tasks.len() + self.shared.jobs.forget(&is_one);
        self.shared.output.answered(fewer);
    }
}
