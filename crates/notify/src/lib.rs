//! The command `notify`: tells people of problems by mail, webhooks and programs.
//!
//! A timer of systemd starts it each minute. So it also tells that the daemon does not answer. It compares the problems
//! that there are now with those that each target was told of, and sends what differs in one message.
//!
//! Layers, the lowest first:
//! - `config`: the file `/etc/strongroom/notify.toml`; `problem`: the problems that the daemon reports;
//! - `record`: what each target was told; `message`: the words;
//! - `send`: a message on its way to a target; `webhook`: the requests of one;
//! - `run`: the command.

#[expect(missing_docs, reason = "a comment there is a help text")]
pub mod args;
mod config;
mod message;
mod problem;
mod record;
mod run;
mod send;
mod webhook;

pub use run::run;
