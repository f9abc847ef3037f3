//! Completion scripts.

use console::outcome::{Outcome, Result};
use console::session::other;

use crate::cmd::service::args::{Completion, Shell};
use crate::completion;

pub(crate) fn run(args: &Completion) -> Result {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let script = completion::script(shell).map_err(|error| other(error.to_string()))?;
    Ok(Outcome::text(script))
}
