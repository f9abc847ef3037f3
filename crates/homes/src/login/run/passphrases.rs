//! The passphrases of a step: lines of the standard input, in locked memory.

use std::collections::VecDeque;

use console::outcome::Result;
use protocol::api::{Failure, FailureKind};
use secret::Secret;

/// The most that is read: two passphrases of PAM.
const INPUT_MAX: usize = 2 * 513;

/// The lines.
pub(super) fn read() -> Result<VecDeque<Secret>> {
    secret::harden_process()?;
    let input = Secret::from_reader(&mut std::io::stdin().lock(), INPUT_MAX)?;
    let lines = input.expose().split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| Ok(Secret::from_slice(line)?))
        .collect::<Result<_>>()
}

pub(super) fn next(lines: &mut VecDeque<Secret>) -> Result<Secret> {
    lines.pop_front().ok_or_else(|| {
        let message = "no passphrase was given on the standard input";
        Failure::new(FailureKind::WrongKey, message)
    })
}
