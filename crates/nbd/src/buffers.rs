//! The buffers of a thread that serves a connection.

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

/// Answers that are kept, and space for one large piece. Memory is used up to what was needed at most.
pub(crate) struct Buffers {
    kept: Box<[u8]>,
    len: usize,
    answers: usize,
    large: Vec<u8>,
}

impl Buffers {
    pub(crate) fn new() -> Buffers {
        Buffers {
            kept: vec![0; KEPT_BYTES + SMALL_MAX].into(),
            len: 0,
            answers: 0,
            large: Vec::new(),
        }
    }

    /// Whether the answers are to be sent before there are more.
    pub(crate) fn is_full(&self) -> bool {
        self.len + 64 + SMALL_MAX > self.kept.len() || self.answers >= KEPT_MAX
    }

    /// The answers, one after the other.
    pub(crate) fn kept(&self) -> &[u8] {
        &self.kept[..self.len]
    }

    pub(crate) fn forget(&mut self) {
        (self.len, self.answers) = (0, 0);
    }

    /// One more answer, where there is space.
    pub(crate) fn keep(&mut self, answer: &[u8]) {
        self.kept[self.len..self.len + answer.len()].copy_from_slice(answer);
        self.len += answer.len();
        self.answers += 1;
    }

    /// One more answer: a head, and then `len` bytes that `fill` puts there. If it fails there is none.
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

    /// Space for what is to be written.
    pub(crate) fn payload(&mut self, len: usize) -> &mut [u8] {
        if self.large.len() < HEADROOM + len {
            self.large.resize(HEADROOM + len, 0);
        }
        &mut self.large[HEADROOM..HEADROOM + len]
    }

    /// What was put there with a head before it, which is put there now.
    pub(crate) fn headed(&mut self, head: &[u8], len: usize) -> &[u8] {
        let start = HEADROOM - head.len();
        self.large[start..HEADROOM].copy_from_slice(head);
        &self.large[start..HEADROOM + len]
    }
}
