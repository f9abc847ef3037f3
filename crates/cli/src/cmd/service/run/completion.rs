//! Completion scripts, made from the definition of the command line.

use clap::CommandFactory;

use crate::cmd::cli::Cli;
use crate::cmd::service::args::{Completion, Shell};
use crate::outcome::{Outcome, Result};

pub(crate) fn run(args: &Completion) -> Result {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "strongroom", &mut script);
    Ok(Outcome::text(String::from_utf8_lossy(&script)))
}
