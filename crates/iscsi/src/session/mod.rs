//! The second phase of a connection: commands and answers.
//!
//! One thread serves a connection. It carries a command out when all its data are here, and keeps answers until
//! nothing waits any more. Commands that wait for data are kept in a table; others overtake them.

mod answers;
mod task;
mod tasks;
mod text;
mod units;
mod views;

use std::collections::{BTreeMap, VecDeque};

use crate::error::Gone;
use crate::link::{Input, Link};
use crate::login::{Purpose, Session};
use crate::pdu::{FINAL, Head, NO_TAG, Received, SEGMENT_MAX, append, request, response};
use crate::target::{Target, Targets};
use task::Task;
use units::Units;

pub(crate) type Result<T> = std::result::Result<T, Gone>;

/// So many commands may wait.
const WINDOW: u32 = 64;
/// Answers are sent when there are so many bytes of them.
const KEPT_MAX: usize = 256 << 10;

/// Why a PDU is rejected.
mod reason {
    pub(super) const PROTOCOL: u8 = 0x04;
    pub(super) const NOT_SUPPORTED: u8 = 0x05;
    pub(super) const INVALID_FIELD: u8 = 0x09;
}

/// A connection that has logged in.
struct Connection<'a> {
    link: &'a dyn Link,
    targets: &'a Targets,
    session: Session,
    /// Answers that are not sent yet.
    out: Vec<u8>,
    /// Commands that wait for data, by tag.
    tasks: BTreeMap<u32, Task>,
    /// Those that were not asked for their data yet.
    unasked: VecDeque<u32>,
    next_transfer: u32,
    /// The units that the initiator sees.
    units: Units,
    /// The rest of a long text.
    more_text: Vec<u8>,
}

/// Whether a connection goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Go,
    End,
}

/// Serves a connection until the initiator ends it.
pub(crate) fn serve(
    link: &dyn Link,
    input: &mut Input,
    session: Session,
    targets: &Targets,
) -> Result<()> {
    let units = match &session.purpose {
        Purpose::Discovery(_) => Units::default(),
        Purpose::Use(attached) => Units::of(&attached.target, &session.initiator),
    };
    let mut connection = Connection {
        link,
        targets,
        session,
        out: Vec::new(),
        tasks: BTreeMap::new(),
        unasked: VecDeque::new(),
        next_transfer: 0,
        units,
        more_text: Vec::new(),
    };
    let mut received = Received::new();
    loop {
        if input.is_empty() {
            connection.send()?;
        }
        let digests = connection.session.agreed.digests;
        if !received.next(link, input, digests, SEGMENT_MAX)? {
            return Ok(());
        }
        if connection.take(&mut received)? == Next::End {
            return connection.send();
        }
    }
}

impl Connection<'_> {
    fn target(&self) -> Option<&Target> {
        match &self.session.purpose {
            Purpose::Discovery(_) => None,
            Purpose::Use(attached) => Some(&attached.target),
        }
    }

    fn send(&mut self) -> Result<()> {
        if !self.out.is_empty() {
            self.link.send(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    /// Appends a PDU to the answers. `has_status` are those that count as one.
    fn answer(&mut self, head: &mut Head, has_status: bool, data: &[u8]) -> Result<()> {
        self.number(head, has_status);
        append(&mut self.out, head, self.session.agreed.digests, data);
        match self.out.len() >= KEPT_MAX {
            true => self.send(),
            false => Ok(()),
        }
    }

    fn number(&mut self, head: &mut Head, has_status: bool) {
        head.put32(24, self.session.status);
        if has_status {
            self.session.status = self.session.status.wrapping_add(1);
        }
        let waiting = u32::try_from(self.tasks.len()).unwrap_or(WINDOW);
        let last = self.session.command.wrapping_sub(1);
        head.put32(28, self.session.command);
        head.put32(32, last.wrapping_add(WINDOW.saturating_sub(waiting)));
    }

    /// Takes one PDU.
    fn take(&mut self, received: &mut Received) -> Result<Next> {
        let head = received.head.clone();
        self.follow_views();
        let opcode = head.opcode();
        if opcode == request::DATA {
            self.data(&head, received.data())?;
            return Ok(Next::Go);
        }
        if !head.is_immediate() {
            // Another one was lost, or this one came before.
            if head.u32(24) != self.session.command {
                return Ok(Next::Go);
            }
            self.session.command = self.session.command.wrapping_add(1);
        }
        match (opcode, self.target().is_some()) {
            (request::COMMAND, true) => self.command(&head, received.has_more, received.data())?,
            (request::TASK, true) => self.manage(&head)?,
            (request::NOP, _) => self.nop(&head, received.data())?,
            (request::TEXT, _) => self.text(&head, received.data())?,
            (request::LOGOUT, _) => return self.log_out(&head),
            _ => self.reject(&head, reason::NOT_SUPPORTED)?,
        }
        Ok(Next::Go)
    }

    fn nop(&mut self, head: &Head, data: &[u8]) -> Result<()> {
        if head.tag() == NO_TAG {
            return Ok(());
        }
        let mut reply = Head::new(response::NOP, FINAL);
        reply.put(8, &head.0[8..20]);
        reply.put32(20, NO_TAG);
        let len = data.len().min(self.session.agreed.send_max);
        self.answer(&mut reply, true, &data[..len])
    }

    /// Task management.
    fn manage(&mut self, head: &Head) -> Result<()> {
        const DONE: u8 = 0;
        const NO_TASK: u8 = 1;
        const NO_UNIT: u8 = 2;
        const NOT_REASSIGNED: u8 = 4;
        const NOT_SUPPORTED: u8 = 5;
        let (function, lun) = (head.flags() & 0x7f, head.lun());
        let unit = self.unit(lun);
        let done = match function {
            ..6 if unit.is_none() => NO_UNIT,
            // What is not waiting for data has been answered.
            1 if self.tasks.contains_key(&head.u32(20)) => {
                self.forget(|tag, _| tag == head.u32(20));
                DONE
            }
            1 => NO_TASK,
            2 => {
                self.forget(|_, task| task.head.lun() == lun);
                DONE
            }
            // Those of all sessions; the unit.
            4 | 5 => {
                unit.inspect(|unit| unit.reset());
                self.look(lun);
                DONE
            }
            // The target: what the initiator sees of it.
            6 => {
                self.reset_all();
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

    fn log_out(&mut self, head: &Head) -> Result<Next> {
        let is_own = head.0[20..22] == self.session.cid;
        let done = match head.flags() & 0x7f {
            0 => 0,
            1 if is_own => 0,
            1 => 1,
            _ => 2,
        };
        let mut reply = Head::new(response::LOGOUT, FINAL);
        reply.0[2] = done;
        reply.put32(16, head.tag());
        self.answer(&mut reply, true, &[])?;
        Ok(if done == 0 { Next::End } else { Next::Go })
    }

    /// Says that a PDU has no effect.
    fn reject(&mut self, head: &Head, reason: u8) -> Result<()> {
        let mut reply = Head::new(response::REJECT, FINAL);
        reply.0[2] = reason;
        reply.put32(16, NO_TAG);
        self.answer(&mut reply, true, &head.0)
    }
}
