//! Answers on their way: each thread collects its own, and they get their numbers when they are sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};

use block::{TransferBuffer, TransferShare};
use parking_lot::Mutex;

use crate::error::DisconnectCause;
use crate::scsi::sense::status::TASK_SET_FULL;
use crate::scsi::unit::ScsiUnit;
use crate::wire::link::InitiatorLink;
use crate::wire::pdu::{
    Digests, FINAL, HEAD, NO_TAG, PduHeader, SEGMENT_MAX, answered, command_response, common,
    event, padding, response,
};

type Result<T> = std::result::Result<T, DisconnectCause>;

/// The number of commands that may wait.
pub(crate) const WINDOW: u32 = 64;
/// Answers are sent when there are so many bytes of them.
pub(crate) const KEPT_MAX: usize = 256 << 10;
/// The data of a response that need no memory of the pool, in bytes.
pub(crate) const DATA_LEAST: usize = 64 << 10;
/// An answer has at most so many bytes besides its data: a head, padding and digests.
const OVERHEAD: usize = HEAD + 12;
/// The space that a thread has for answers, and the space for many answers, which it takes from the pool.
const SPACE: usize = DATA_LEAST + OVERHEAD;
const SPACE_OF_MANY: usize = KEPT_MAX + SEGMENT_MAX + 2 * OVERHEAD;
/// The tag of a question for a sign of life.
const LIFE_TAG: u32 = NO_TAG - 1;
/// An initiator that is asked to log out has so many seconds.
pub(crate) const FAREWELL_SECONDS: u16 = 1;

/// Answers of a thread, without their numbers.
pub(crate) struct ResponseBuffer {
    /// Space; what is behind `used` has no meaning. It is not used while there is space for many answers.
    few: Vec<u8>,
    many: Option<TransferBuffer>,
    /// True if the last responses needed the space for many.
    were_many: bool,
    used: usize,
    /// The offsets of the headers. True for those that count as a status.
    heads: Vec<(usize, bool)>,
    /// The units with changes that are not settled, and where the answers are that say that a change is done.
    changes: Vec<(Arc<ScsiUnit>, usize)>,
    digests: Digests,
    memory: TransferShare,
}

impl ResponseBuffer {
    fn new(digests: Digests, memory: TransferShare) -> ResponseBuffer {
        ResponseBuffer {
            few: Vec::new(),
            many: None,
            were_many: false,
            used: 0,
            heads: Vec::new(),
            changes: Vec::new(),
            digests,
            memory,
        }
    }

    /// Returns the bytes of data that the next response can have, up to `wanted`. Takes more space if there is
    /// memory.
    fn room(&mut self, wanted: usize) -> usize {
        let end = self.used + OVERHEAD + wanted;
        if self.many.is_none() && (end > SPACE || self.used == 0 && self.were_many) {
            self.many = self.memory.buffer(SPACE_OF_MANY);
            if let Some(many) = &mut self.many {
                many[..self.used].copy_from_slice(&self.few[..self.used]);
            }
        }
        let space = self.many.as_ref().map_or(SPACE, |many| many.len());
        space.saturating_sub(self.used + OVERHEAD).min(wanted)
    }

    /// The first bytes of the space, of which there are so many.
    fn space(&mut self, end: usize) -> &mut [u8] {
        match &mut self.many {
            Some(many) => many,
            None => {
                if self.few.len() < end {
                    self.few.resize(end, 0);
                }
                &mut self.few
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        let space = self.many.as_deref().unwrap_or(&self.few);
        &space[..self.used]
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Adds a response with these data. The caller has made space ([`ResponseSender::make_room`]).
    pub(crate) fn put(&mut self, head: &mut PduHeader, has_status: bool, data: &[u8]) {
        let fill = |room: &mut [u8]| -> std::result::Result<(), std::convert::Infallible> {
            room.copy_from_slice(data);
            Ok(())
        };
        let Ok(()) = self.put_with(head, has_status, data.len(), fill);
    }

    /// Adds a response with `len` bytes of data, which `fill` writes. If `fill` fails, nothing is added.
    pub(crate) fn put_with<E>(
        &mut self,
        head: &mut PduHeader,
        has_status: bool,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        head.set_data_len(len);
        let start = self.used;
        let data = start + HEAD + if self.digests.head { 4 } else { 0 };
        let padded = data + len + padding(len);
        let end = padded + if self.digests.data && len > 0 { 4 } else { 0 };
        let bytes = self.space(end);
        bytes[start..start + HEAD].copy_from_slice(&head.0);
        fill(&mut bytes[data..data + len])?;
        bytes[data + len..padded].fill(0);
        if end > padded {
            let crc = crc32c::crc32c(&bytes[data..padded]);
            bytes[padded..end].copy_from_slice(&crc.to_le_bytes());
        }
        self.used = end;
        self.heads.push((start, has_status));
        Ok(())
    }

    /// Adds a response that reports a change of a unit as done.
    pub(crate) fn put_change(&mut self, head: &mut PduHeader, unit: &Arc<ScsiUnit>) {
        self.changes.push((Arc::clone(unit), self.used));
        self.put(head, true, &[]);
    }

    /// Settles the changes that the answers tell of. If that fails, the initiator has to send the commands again.
    fn settle(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.sort_by_key(|(unit, _)| Arc::as_ptr(unit));
        for of_unit in changes.chunk_by(|a, b| Arc::ptr_eq(&a.0, &b.0)) {
            if of_unit[0].0.settle().is_err() {
                let used = self.used;
                let bytes = self.space(used);
                of_unit.iter().for_each(|(_, start)| {
                    command_response::STATUS.set_in(&mut bytes[*start..], TASK_SET_FULL)
                });
            }
        }
        changes.clear();
        self.changes = changes;
    }

    fn clear(&mut self) {
        self.were_many = self.used > SPACE;
        self.many = None;
        self.used = 0;
        self.heads.clear();
    }
}

/// The sender of responses, which numbers them.
pub(crate) struct ResponseSender {
    link: Arc<dyn InitiatorLink>,
    digests: Digests,
    /// The number of the next status. Held while answers are sent.
    status: Mutex<u32>,
    /// The number of the next command.
    command: AtomicU32,
    /// Commands that have no answer yet.
    waiting: AtomicUsize,
    memory: TransferShare,
}

impl ResponseSender {
    pub(crate) fn new(
        link: &Arc<dyn InitiatorLink>,
        digests: Digests,
        (status, command): (u32, u32),
        memory: TransferShare,
    ) -> ResponseSender {
        ResponseSender {
            link: Arc::clone(link),
            digests,
            status: Mutex::new(status),
            command: AtomicU32::new(command),
            waiting: AtomicUsize::new(0),
            memory,
        }
    }

    /// Space for the answers of a thread.
    pub(crate) fn answers(&self) -> ResponseBuffer {
        ResponseBuffer::new(self.digests, self.memory.clone())
    }

    /// The number of the command that is expected.
    pub(crate) fn command(&self) -> u32 {
        self.command.load(SeqCst)
    }

    /// Notes the arrival of a command.
    pub(crate) fn next_command(&self) {
        self.command.fetch_add(1, SeqCst);
    }

    /// Returns the number of commands without a response.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    pub(crate) fn wait_for(&self, more: usize) {
        self.waiting.fetch_add(more, SeqCst);
    }

    pub(crate) fn answered(&self, fewer: usize) {
        self.waiting.fetch_sub(fewer, SeqCst);
    }

    /// Returns the bytes of data that the next response can have, up to `wanted`, and [`DATA_LEAST`] at least. Sends
    /// the responses that are there if that makes more space.
    pub(crate) fn make_room(&self, answers: &mut ResponseBuffer, wanted: usize) -> Result<usize> {
        let room = answers.room(wanted);
        if room == wanted || answers.used == 0 {
            return Ok(room);
        }
        self.send(answers)?;
        Ok(answers.room(wanted))
    }

    /// Numbers answers, and sends them.
    pub(crate) fn send(&self, answers: &mut ResponseBuffer) -> Result<()> {
        if answers.used == 0 {
            return Ok(());
        }
        answers.settle();
        let mut status = self.status.lock();
        let waiting = u32::try_from(self.waiting()).unwrap_or(WINDOW);
        let expected = self.command();
        let most = expected.wrapping_add(WINDOW.saturating_sub(waiting));
        let heads = std::mem::take(&mut answers.heads);
        let used = answers.used;
        let bytes = &mut answers.space(used)[..used];
        for (start, has_status) in &heads {
            let head = &mut bytes[*start..];
            answered::STATUS_NUMBER.set_in(head, *status);
            answered::EXPECTED_COMMAND.set_in(head, expected);
            answered::MAX_COMMAND.set_in(head, most.wrapping_sub(1));
            if self.digests.head {
                let crc = crc32c::crc32c(&head[..HEAD]);
                head[HEAD..HEAD + 4].copy_from_slice(&crc.to_le_bytes());
            }
            *status = status.wrapping_add(u32::from(*has_status));
        }
        answers.heads = heads;
        self.link.send(answers.bytes())?;
        answers.clear();
        Ok(())
    }

    /// Asks the initiator for a sign of life.
    pub(crate) fn ask_for_life(&self) -> Result<()> {
        let mut head = PduHeader::new(response::NOP, FINAL);
        head.set(common::TAG, NO_TAG);
        // The initiator repeats this tag in its answer.
        head.set(common::TRANSFER_TAG, LIFE_TAG);
        let mut answers = self.answers();
        answers.put(&mut head, false, &[]);
        self.send(&mut answers)
    }

    /// Asks the initiator to log out.
    pub(crate) fn ask_to_log_out(&self) -> Result<()> {
        const LOG_OUT: u8 = 1;
        let mut head = PduHeader::new(response::ASYNC, FINAL);
        head.set(common::TAG, NO_TAG);
        head.set(event::EVENT, LOG_OUT);
        head.set(event::SECONDS, FAREWELL_SECONDS);
        let mut answers = self.answers();
        answers.put(&mut head, true, &[]);
        self.send(&mut answers)
    }
}
