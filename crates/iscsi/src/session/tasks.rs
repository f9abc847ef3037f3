//! SCSI commands: receiving them and their data.

use super::task::Task;
use super::{Connection, Result, WINDOW};
use crate::error::Gone;
use crate::pdu::{FINAL, Head, NO_TAG, response};
use crate::scsi::cdb::{Operation, Request};
use crate::scsi::execute;
use crate::scsi::sense::Sense;

const READS: u8 = 0x40;
const WRITES: u8 = 0x20;
/// So many commands are asked for data at a time.
const ASKED_MAX: usize = 4;

impl Connection<'_> {
    /// Takes a command with the data that came along.
    pub(super) fn command(&mut self, head: &Head, has_more: bool, data: &mut [u8]) -> Result<()> {
        let agreed = self.session.agreed;
        let expected = head.u32(20) as usize;
        let (writes, is_last) = (head.flags() & WRITES != 0, head.flags() & FINAL != 0);
        if self.tasks.contains_key(&head.tag()) || self.tasks.len() > WINDOW as usize {
            return Err(Gone::Protocol(
                "it has too many commands, or two with one tag",
            ));
        }
        if !data.is_empty() && (!agreed.immediate || !writes || data.len() > expected) {
            return Err(Gone::Protocol("it sent data that were not agreed on"));
        }
        if !is_last && (agreed.initial_r2t || !writes) {
            return Err(Gone::Protocol("it announced data that were not agreed on"));
        }
        let begun = match data.len() > agreed.first_burst {
            true => Err(Sense::TOO_MUCH_DATA),
            false => self.begin(head, has_more),
        };
        let (request, need) = match begun {
            Ok(begun) => begun,
            Err(sense) => return self.fail(head, sense),
        };
        // Half a command is not carried out, nor one that may mean another.
        let is_exact = matches!(request.operation, Operation::WriteSame { .. });
        let sent = if writes { expected } else { 0 };
        if matches!(request.operation, Operation::CompareAndWrite { .. }) && sent != need {
            // Its blocks and its data disagree.
            return self.fail_after(head, Sense::FIELD_IN_CDB, need, 0);
        }
        if sent < need || is_exact && sent != need {
            return self.fail_after(head, Sense::INFORMATION_UNIT, need, 0);
        }
        let mut task = Task {
            head: head.clone(),
            request,
            need,
            data: Vec::new(),
            received: data.len(),
            is_open: !is_last,
            asked: None,
            asks: 0,
            next_data: 0,
        };
        if data.len() >= need && is_last {
            return self.carry_out(&task, &mut data[..need]);
        }
        task.data.extend_from_slice(&data[..data.len().min(need)]);
        self.tasks.insert(head.tag(), task);
        if is_last {
            self.unasked.push_back(head.tag());
        }
        self.ask()
    }

    /// Looks whether a command can be carried out, and how many bytes it needs.
    fn begin(
        &mut self,
        head: &Head,
        has_more: bool,
    ) -> std::result::Result<(Request, usize), Sense> {
        let cdb = head.0[32..].first_chunk().expect("16 bytes");
        let request = match has_more {
            false => Request::decode(cdb),
            true => Err(Sense::FIELD_IN_CDB),
        };
        self.look(head.lun());
        let unit = self.unit(head.lun());
        let tells = request.is_ok_and(|request| {
            use Operation as O;
            matches!(
                request.operation,
                O::Inquiry { .. } | O::ReportLuns { .. } | O::RequestSense { .. }
            )
        });
        if !tells && let Some(attention) = self.attention(head.lun()) {
            return Err(attention);
        }
        let request = request?;
        match unit {
            Some(unit) => {
                let port = self.port(head.lun());
                Ok((request, unit.check(&request.operation, &port)?))
            }
            None => Ok((request, 0)),
        }
    }

    /// Takes data of a command.
    pub(super) fn data(&mut self, head: &Head, data: &[u8]) -> Result<()> {
        let tag = head.tag();
        if let Some(task) = self.tasks.get(&tag) {
            self.look(task.head.lun());
        }
        // Of a command that was refused, or aborted.
        let Some(task) = self.tasks.get_mut(&tag) else {
            return Ok(());
        };
        let end = task.received + data.len();
        let (is_asked, most) = match (head.u32(20), task.asked) {
            (NO_TAG, _) if task.is_open => {
                (true, task.expected().min(self.session.agreed.first_burst))
            }
            (transfer, Some((asked, end))) => (transfer == asked, end),
            _ => (false, 0),
        };
        let is_next = head.u32(40) as usize == task.received && head.u32(36) == task.next_data;
        let is_last = head.flags() & FINAL != 0;
        let is_short = is_last && !task.is_open && end != most;
        if !is_asked || !is_next || end > most || is_short {
            return self.give_up(tag);
        }
        let wanted = data.len().min(task.need - task.data.len());
        task.data.extend_from_slice(&data[..wanted]);
        (task.received, task.next_data) = (end, task.next_data.wrapping_add(1));
        if !is_last {
            return Ok(());
        }
        (task.is_open, task.asked, task.next_data) = (false, None, 0);
        if task.received < task.need {
            self.unasked.push_back(tag);
        } else if let Some(mut task) = self.tasks.remove(&tag) {
            let mut data = std::mem::take(&mut task.data);
            self.carry_out(&task, &mut data)?;
        }
        self.ask()
    }

    /// Fails a command whose data are not what was asked for.
    fn give_up(&mut self, tag: u32) -> Result<()> {
        if let Some(task) = self.tasks.remove(&tag) {
            self.fail(&task.head, Sense::TOO_MUCH_DATA)?;
        }
        self.ask()
    }

    /// Asks for data, of a few commands at a time.
    fn ask(&mut self) -> Result<()> {
        let asked = self.tasks.values().filter(|task| task.asked.is_some());
        for _ in asked.count()..ASKED_MAX {
            let Some(tag) = self.unasked.pop_front() else {
                break;
            };
            let transfer = self.next_transfer;
            let Some(task) = self.tasks.get_mut(&tag) else {
                continue;
            };
            let len = (task.need - task.received).min(self.session.agreed.burst);
            let mut ready = Head::new(response::READY, FINAL);
            ready.put(8, &task.head.0[8..20]);
            ready.put32(20, transfer);
            ready.put32(36, task.asks);
            ready.put32(40, task.received as u32);
            ready.put32(44, len as u32);
            task.data.reserve_exact(task.need - task.data.len());
            task.asked = Some((transfer, task.received + len));
            task.asks += 1;
            // The number that means none is left out.
            self.next_transfer = (transfer + 1) % NO_TAG;
            self.answer(&mut ready, false, &[])?;
        }
        Ok(())
    }

    /// Forgets commands that wait for data.
    pub(super) fn forget(&mut self, is_one: impl Fn(u32, &Task) -> bool) {
        self.tasks.retain(|tag, task| !is_one(*tag, task));
        let tasks = &self.tasks;
        self.unasked.retain(|tag| tasks.contains_key(tag));
    }

    /// Carries a command out, and answers it.
    fn carry_out(&mut self, task: &Task, data: &mut [u8]) -> Result<()> {
        use crate::scsi::unit::Answer;
        let lun = task.head.lun();
        let unit = self.unit(lun);
        let is_sense = matches!(task.request.operation, Operation::RequestSense { .. });
        let attention = match is_sense {
            true => self.attention(lun),
            false => None,
        };
        let port = self.port(lun);
        let outcome = match (attention, &unit) {
            (Some(attention), _) => {
                let mut data = attention.fixed().to_vec();
                data.truncate(task.request.room);
                Ok(Answer::Data(data))
            }
            (None, None) => execute::absent(&task.request, port.luns),
            (None, Some(unit)) => unit.execute(&task.request, data, &port),
        };
        match outcome {
            Ok(Answer::Nothing) => self.good(&task.head, task.need, task.asks),
            Ok(Answer::Data(data)) => self.send_data(&task.head, &data),
            Ok(Answer::Read(offset, len)) => match unit {
                Some(unit) => self.send_blocks(&task.head, &unit, offset, len as usize),
                None => self.fail(&task.head, Sense::NO_UNIT),
            },
            Err(sense) => self.fail(&task.head, sense),
        }
    }
}

/// How many bytes an initiator expects to be sent.
pub(super) fn expected_back(head: &Head) -> usize {
    match head.flags() & READS != 0 {
        true => head.u32(20) as usize,
        false => 0,
    }
}
