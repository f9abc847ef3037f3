//! A line that is typed, read byte by byte to where it stays.

use std::os::fd::AsFd;

use keys::PASSPHRASE_MAX;
use protocol::api::{Failure, FailureKind};
use rustix::io::Errno;
use secret::Secret;

/// A line that is being read.
pub(super) struct SecretLine {
    /// The line, and the space for one byte more.
    bytes: Secret,
    pub(super) len: usize,
}

pub(super) enum ReadStep {
    More,
    Whole,
    End,
}

impl SecretLine {
    pub(super) fn new() -> Result<SecretLine, Failure> {
        // What is longer than a passphrase may be is refused later. The rest of the line is not kept.
        let bytes = Secret::zeroed(PASSPHRASE_MAX + 2).map_err(other)?;
        Ok(SecretLine { bytes, len: 0 })
    }

    /// Reads a byte to where it stays.
    pub(super) fn read(&mut self, input: impl AsFd) -> Result<ReadStep, Errno> {
        let place = &mut self.bytes.expose_mut()[self.len..][..1];
        if rustix::io::read(input, &mut *place)? == 0 {
            return Ok(ReadStep::End);
        }
        if place[0] == b'\n' {
            return Ok(ReadStep::Whole);
        }
        self.len = (self.len + 1).min(PASSPHRASE_MAX + 1);
        Ok(ReadStep::More)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.expose_mut().fill(0);
        self.len = 0;
    }

    pub(super) fn take(mut self) -> Secret {
        self.bytes.truncate(self.len);
        self.bytes
    }
}

pub(super) fn other(error: impl ToString) -> Failure {
    Failure {
        kind: FailureKind::Other,
        message: error.to_string(),
    }
}
