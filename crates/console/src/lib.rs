//! The conversation of a command with its user and with the daemon: questions, secrets, output.
//!
//! - `terminal` asks the user for secrets and confirmations;
//! - `show` prints sizes, times, tables and JSON;
//! - `session` is the connection to the daemon. It answers the daemon's questions and sends it the secrets;
//! - `outcome` is the result of a command;
//! - `key_file` reads key files, and asks for passphrases of containers and directories;
//! - `values`, `time_argument`, `mount_options` are arguments that several commands have;
//! - `mount_type` finds the type of a mounted file system.

pub mod key_file;

pub mod mount_options;
pub mod mount_type;
pub mod outcome;
pub mod session;
pub mod show;
pub mod terminal;
pub mod time_argument;
pub mod values;
