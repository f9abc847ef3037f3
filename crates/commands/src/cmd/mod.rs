//! The commands, by group: `args` defines the command line, `run` sends requests and prints replies.
//!
//! A command returns its output instead of printing it. So a command that fails prints nothing, and one
//! place handles a closed pipe.

/// Makes a request from arguments that have its fields: `request!(args, Promote: name)`.
macro_rules! request {
    ($args:expr, $command:ident: $($field:ident),*) => {{
        let args = $args;
        protocol::api::command::$command { $($field: args.$field,)* }
    }};
}

/// The function of a command that only sends the request with the fields of its arguments, and has nothing to show.
macro_rules! sends {
    ($command:ident: $($field:ident),*) => {
        |args, session| call_quiet(session, request!(args, $command: $($field),*))
    };
}

mod audit;
pub(crate) mod cli;
mod csi;
mod dataset;
mod doctor;
mod export;
mod generate;
mod ha;
#[cfg(test)]
mod help_rules;
#[cfg(test)]
mod history_rules;
mod key;
mod luks;
mod objects;
mod pool;
mod replicate;
mod send;
mod service;
mod snapshot;
mod sure;
mod web;
mod zone;

use console::outcome::Result;
use console::session::Session;

use crate::cmd::cli::Command;

/// Returns whether `help` explains this word as `explain` does.
pub(crate) fn is_topic(word: &str) -> bool {
    service::run::explain::is_topic(word)
}

/// Carries out a command line without a command, typed at a terminal.
pub(crate) fn welcome(session: &mut Session) -> Result {
    service::run::welcome::run(session)
}

/// Carries out a command.
pub(crate) fn run(command: Command, session: &mut Session) -> Result {
    let is_cipher_user = matches!(
        command,
        Command::Luks(_) | Command::Stack(_) | Command::Fscrypt(_) | Command::Pefs(_)
    );
    if is_cipher_user {
        bench::crypto::run::begin(session)?;
    }
    command.run(session)
}
