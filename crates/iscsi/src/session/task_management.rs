//! Task management. A function that other initiators notice needs the right to change the unit.

use super::units::VisibleUnit;
use super::{Result, SessionConnection};
use crate::scsi::execute::lun_of;
use crate::scsi::table::Right;
use crate::wire::pdu::{FINAL, PduHeader, response, task};

/// The responses to a task management request (RFC 7143, section 11.6.1).
mod answer {
    pub(super) const DONE: u8 = 0;
    pub(super) const NO_TASK: u8 = 1;
    pub(super) const NO_UNIT: u8 = 2;
    pub(super) const NOT_REASSIGNED: u8 = 4;
    pub(super) const NOT_SUPPORTED: u8 = 5;
    pub(super) const NOT_AUTHORIZED: u8 = 6;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskFunction {
    /// ABORT TASK, of this session.
    AbortTask,
    /// ABORT TASK SET: all tasks of this session for a unit.
    AbortTaskSet,
    /// CLEAR TASK SET and LOGICAL UNIT RESET: the tasks of all sessions for a unit.
    ResetUnit,
    /// TARGET WARM RESET: all units that the initiator sees.
    ResetTarget,
}

/// The functions with their codes. Each row says which right the function needs.
const FUNCTIONS: [(u8, TaskFunction, Right); 5] = [
    (1, TaskFunction::AbortTask, Right::Read),
    (2, TaskFunction::AbortTaskSet, Right::Read),
    (4, TaskFunction::ResetUnit, Right::Change),
    (5, TaskFunction::ResetUnit, Right::Change),
    (6, TaskFunction::ResetTarget, Right::Change),
];
const TASK_REASSIGN: u8 = 8;

impl SessionConnection<'_, '_> {
    pub(super) fn manage(&mut self, head: &PduHeader) -> Result<()> {
        let (code, lun) = (head.flags() & 0x7f, head.lun());
        self.look(lun);
        let row = FUNCTIONS.iter().find(|row| row.0 == code);
        let done = match row {
            Some((_, function, _)) if self.misses_unit(*function, lun) => answer::NO_UNIT,
            Some((_, function, right)) if !self.may_manage(*function, *right, lun) => {
                answer::NOT_AUTHORIZED
            }
            Some((_, function, _)) => self.carry_function_out(*function, head),
            None if code == TASK_REASSIGN => answer::NOT_REASSIGNED,
            None => answer::NOT_SUPPORTED,
        };
        let mut reply = head.response_by_tag(response::TASK, FINAL);
        reply.set(task::RESPONSE, done);
        self.answer(&mut reply, true, &[])
    }

    fn misses_unit(&self, function: TaskFunction, lun: [u8; 8]) -> bool {
        function != TaskFunction::ResetTarget && self.unit(lun).is_none()
    }

    /// True if the views of the initiator give it the right to a function, for each unit that the function concerns.
    fn may_manage(&self, function: TaskFunction, right: Right, lun: [u8; 8]) -> bool {
        let gives = |seen: &VisibleUnit| right == Right::Read || !seen.is_read_only;
        match function {
            TaskFunction::ResetTarget => self.units.all.values().all(gives),
            _ => self.seen(lun).is_some_and(gives),
        }
    }

    fn carry_function_out(&mut self, function: TaskFunction, head: &PduHeader) -> u8 {
        let lun = head.lun();
        match function {
            TaskFunction::AbortTask => match self.abort(head.get(task::REFERENCED_TAG)) {
                true => answer::DONE,
                // It has been answered.
                false => answer::NO_TASK,
            },
            TaskFunction::AbortTaskSet => {
                self.forget(|_, of| of == lun);
                self.shared.jobs.wait_for(&|_, of| of == lun);
                answer::DONE
            }
            TaskFunction::ResetUnit => {
                self.note_reset(Some(lun));
                self.unit(lun).inspect(|unit| unit.reset());
                self.look(lun);
                self.shared.jobs.wait_for(&|_, of| of == lun);
                answer::DONE
            }
            TaskFunction::ResetTarget => {
                self.note_reset(None);
                self.reset_all();
                self.shared.jobs.wait_for(&|_, _| true);
                answer::DONE
            }
        }
    }

    fn note_reset(&self, lun: Option<[u8; 8]>) {
        let target = self.shared.target().map(|it| it.name());
        let (initiator, lun) = (self.initiator, lun.and_then(lun_of));
        if let Some(resets) = self.shared.resets.next_line() {
            tracing::info!(target, lun, initiator, resets, "an initiator resets units");
        }
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
