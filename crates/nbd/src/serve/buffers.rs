//! The buffers of a thread that serves a connection.

use std::time::Duration;

use block::{TransferBuffer, TransferClaim, TransferShare};

use crate::wire::proto::put_error;

/// A read or write of at most so many bytes is small: answers to such are sent together.
pub(crate) const SMALL_MAX: usize = 64 << 10;
/// A large request is carried out in pieces of so many bytes by the thread that has the input; they stay in
/// the cache of the processor.
pub(crate) const PIECE: usize = 256 << 10;
/// A helper thread carries out a large request in one piece, if it is not larger than this.
pub(crate) const LARGE: usize = 1 << 20;
/// Answers are kept until there are so many bytes of them.
const KEPT_BYTES: usize = 128 << 10;
/// Answers are kept until there are so many: then the client gets them, and continues.
const KEPT_MAX: usize = 16;
/// Before the data of a large piece there is space for the head of its answer; data begins on a page.
const HEADROOM: usize = 4096;

/// The largest piece without memory of the pool.
pub(crate) const PIECE_LEAST: usize = 128 << 10;
/// The memory of a thread, without large pieces.
pub(crate) const THREAD_MEMORY: usize = 256 << 10;

const _: () = assert!(HEADROOM + PIECE_LEAST <= KEPT_BYTES + SMALL_MAX);
const _: () = assert!(KEPT_BYTES + SMALL_MAX <= THREAD_MEMORY);

/// Answers that are kept, and space for one large piece.
pub(crate) struct ReplyBuffers {
    /// While no answer is kept, this is the space for a piece.
    kept: Box<[u8]>,
    len: usize,
    answers: usize,
    /// The offsets of the replies to changes.
    changes: Vec<usize>,
    large: Option<TransferBuffer>,
    memory: TransferShare,
}

impl ReplyBuffers {
    pub(crate) fn new(memory: TransferShare) -> ReplyBuffers {
        ReplyBuffers {
            kept: vec![0; KEPT_BYTES + SMALL_MAX].into(),
            len: 0,
            answers: 0,
            changes: Vec::new(),
            large: None,
            memory,
        }
    }

    /// Returns whether the replies have to be sent before there are more.
    pub(crate) fn is_full(&self) -> bool {
        self.len + 64 + SMALL_MAX > self.kept.len() || self.answers >= KEPT_MAX
    }

    /// The answers, one after the other.
    pub(crate) fn kept(&self) -> &[u8] {
        &self.kept[..self.len]
    }

    pub(crate) fn forget(&mut self) {
        (self.len, self.answers) = (0, 0);
        self.changes.clear();
    }

    /// Adds a reply. The caller has checked that there is space.
    pub(crate) fn keep(&mut self, answer: &[u8]) {
        self.kept[self.len..self.len + answer.len()].copy_from_slice(answer);
        self.len += answer.len();
        self.answers += 1;
    }

    /// Adds the reply to a change that is not settled. See [`ReplyBuffers::keep`].
    pub(crate) fn keep_change(&mut self, reply: &[u8; 16]) {
        self.changes.push(self.len);
        self.keep(reply);
    }

    /// Returns whether changes have to be settled before the replies are sent.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Makes errors of the answers to changes.
    pub(crate) fn fail_changes(&mut self, error: u32) {
        for at in self.changes.drain(..) {
            put_error(&mut self.kept[at..], error);
        }
    }

    /// Adds a reply of a head and `len` bytes, which `fill` writes. If `fill` fails, nothing is added.
    pub(crate) fn keep_with<E>(
        &mut self,
        head: &[u8],
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let data = self.len + head.len();
        self.kept[self.len..data].copy_from_slice(head);
        fill(&mut self.kept[data..data + len])?;
        self.len = data + len;
        self.answers += 1;
        Ok(())
    }

    /// Gets space for a piece of `wanted` bytes, while no answer is kept. Returns how many there are: [`PIECE_LEAST`] if
    /// there is no memory for more.
    pub(crate) fn reserve(&mut self, wanted: usize) -> usize {
        let has = |large: &TransferBuffer| large.len() >= HEADROOM + wanted;
        if wanted <= PIECE_LEAST || self.large.as_ref().is_some_and(has) {
            return wanted;
        }
        self.large = None;
        self.large = self.memory.buffer(HEADROOM + wanted);
        match self.large {
            Some(_) => wanted,
            None => PIECE_LEAST,
        }
    }

    /// Reserves memory for all of `wanted`. Waits for others to free memory; false if they do not within `patience`.
    pub(crate) fn reserve_all(&mut self, wanted: usize, patience: Duration) -> bool {
        if self.reserve(wanted) < wanted {
            let claim = self.memory.await_claim(HEADROOM + wanted, patience);
            self.large = claim.map(TransferClaim::into_buffer);
        }
        wanted <= PIECE_LEAST || self.large.is_some()
    }

    /// Gives the space for a large piece to others.
    pub(crate) fn release(&mut self) {
        self.large = None;
    }

    fn space(&mut self) -> &mut [u8] {
        match &mut self.large {
            Some(large) => large,
            None => &mut self.kept,
        }
    }

    /// The space for a piece, which was reserved.
    pub(crate) fn payload(&mut self, len: usize) -> &mut [u8] {
        debug_assert!(self.len == 0, "it would overwrite answers");
        &mut self.space()[HEADROOM..HEADROOM + len]
    }

    /// Returns the `len` bytes that were put there, with `head` before them.
    pub(crate) fn headed(&mut self, head: &[u8], len: usize) -> &[u8] {
        let start = HEADROOM - head.len();
        let space = self.space();
        space[start..HEADROOM].copy_from_slice(head);
        &space[start..HEADROOM + len]
    }
}
