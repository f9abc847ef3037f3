//! Answers on their way: each thread collects its own, and they get their numbers when they are sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};

use parking_lot::Mutex;

use crate::error::Gone;
use crate::link::Link;
use crate::pdu::{Digests, FINAL, HEAD, Head, NO_TAG, padding, response};

type Result<T> = std::result::Result<T, Gone>;

/// So many commands may wait.
pub(crate) const WINDOW: u32 = 64;
/// Answers are sent when there are so many bytes of them.
pub(crate) const KEPT_MAX: usize = 256 << 10;
/// Space that a thread keeps for answers.
const SPACE_MAX: usize = 1 << 20;
/// An initiator that is asked to log out has so many seconds.
pub(crate) const FAREWELL_SECONDS: u16 = 1;

/// Answers of a thread, without their numbers.
pub(crate) struct Answers {
    /// Space; what is behind `used` has no meaning.
    bytes: Vec<u8>,
    used: usize,
    /// Where the heads are, and which of them count as a status.
    heads: Vec<(usize, bool)>,
    digests: Digests,
}

impl Answers {
    pub(crate) fn new(digests: Digests) -> Answers {
        Answers {
            bytes: Vec::new(),
            used: 0,
            heads: Vec::new(),
            digests,
        }
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// One more, with these data.
    pub(crate) fn put(&mut self, head: &mut Head, has_status: bool, data: &[u8]) {
        let fill = |room: &mut [u8]| -> std::result::Result<(), std::convert::Infallible> {
            room.copy_from_slice(data);
            Ok(())
        };
        let Ok(()) = self.put_with(head, has_status, data.len(), fill);
    }

    /// One more, whose data are what `fill` puts into `len` bytes. If that fails there is none.
    pub(crate) fn put_with<E>(
        &mut self,
        head: &mut Head,
        has_status: bool,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        head.put32(4, len as u32);
        let start = self.used;
        let data = start + HEAD + if self.digests.head { 4 } else { 0 };
        let padded = data + len + padding(len);
        let end = padded + if self.digests.data && len > 0 { 4 } else { 0 };
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..start + HEAD].copy_from_slice(&head.0);
        fill(&mut self.bytes[data..data + len])?;
        self.bytes[data + len..padded].fill(0);
        if end > padded {
            let crc = crc32c::crc32c(&self.bytes[data..padded]);
            self.bytes[padded..end].copy_from_slice(&crc.to_le_bytes());
        }
        self.used = end;
        self.heads.push((start, has_status));
        Ok(())
    }

    fn clear(&mut self) {
        self.used = 0;
        self.heads.clear();
        if self.bytes.len() > SPACE_MAX {
            self.bytes = Vec::new();
        }
    }
}

/// What sends answers, and numbers them.
pub(crate) struct Output {
    link: Arc<dyn Link>,
    digests: Digests,
    /// The number of the next status. Held while answers are sent.
    status: Mutex<u32>,
    /// The number of the next command.
    command: AtomicU32,
    /// Commands that have no answer yet.
    waiting: AtomicUsize,
}

impl Output {
    pub(crate) fn new(link: &Arc<dyn Link>, digests: Digests, status: u32, command: u32) -> Output {
        Output {
            link: Arc::clone(link),
            digests,
            status: Mutex::new(status),
            command: AtomicU32::new(command),
            waiting: AtomicUsize::new(0),
        }
    }

    /// The number of the command that is expected.
    pub(crate) fn command(&self) -> u32 {
        self.command.load(SeqCst)
    }

    /// It has come.
    pub(crate) fn next_command(&self) {
        self.command.fetch_add(1, SeqCst);
    }

    /// How many commands have no answer yet.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    pub(crate) fn wait_for(&self, more: usize) {
        self.waiting.fetch_add(more, SeqCst);
    }

    pub(crate) fn answered(&self, fewer: usize) {
        self.waiting.fetch_sub(fewer, SeqCst);
    }

    /// Numbers answers, and sends them.
    pub(crate) fn send(&self, answers: &mut Answers) -> Result<()> {
        if answers.used == 0 {
            return Ok(());
        }
        let mut status = self.status.lock();
        let waiting = u32::try_from(self.waiting()).unwrap_or(WINDOW);
        let expected = self.command();
        let most = expected.wrapping_add(WINDOW.saturating_sub(waiting));
        for (start, has_status) in &answers.heads {
            let head = &mut answers.bytes[*start..];
            head[24..28].copy_from_slice(&status.to_be_bytes());
            head[28..32].copy_from_slice(&expected.to_be_bytes());
            head[32..36].copy_from_slice(&most.wrapping_sub(1).to_be_bytes());
            if self.digests.head {
                let crc = crc32c::crc32c(&head[..HEAD]);
                head[HEAD..HEAD + 4].copy_from_slice(&crc.to_le_bytes());
            }
            *status = status.wrapping_add(u32::from(*has_status));
        }
        self.link.send(&answers.bytes[..answers.used])?;
        answers.clear();
        Ok(())
    }

    /// Asks the initiator to log out.
    pub(crate) fn ask_to_log_out(&self) -> Result<()> {
        const LOG_OUT: u8 = 1;
        let mut head = Head::new(response::ASYNC, FINAL);
        head.put32(16, NO_TAG);
        head.0[36] = LOG_OUT;
        head.put(42, &FAREWELL_SECONDS.to_be_bytes());
        let mut answers = Answers::new(self.digests);
        answers.put(&mut head, true, &[]);
        self.send(&mut answers)
    }
}
