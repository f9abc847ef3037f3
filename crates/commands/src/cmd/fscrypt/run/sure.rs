//! Asks before something is lost.

use protocol::api::Failure;

use crate::outcome::Result;
use crate::terminal::{confirm, is_interactive};

/// Asks whether something is meant, unless the command says so itself.
pub(super) fn be_sure(force: bool, what: &str) -> Result<()> {
    match force {
        true => Ok(()),
        false if !is_interactive() => Err(Failure::usage(format!(
            "{what}; to do it without a question, use --force"
        ))),
        false if confirm(&format!("{what}. Go on?")) => Ok(()),
        false => Err(Failure::other("nothing was changed")),
    }
}
