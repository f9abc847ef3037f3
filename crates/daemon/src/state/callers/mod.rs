//! Callers of commands: connections, rights, budgets, and the channel for questions and answers.

pub(crate) mod budget;
pub(crate) mod channel;
pub(crate) mod command_connections;
pub(crate) mod connections;
pub(crate) mod context;
pub(crate) mod decision;
pub(crate) mod row_stream;
pub(crate) mod tokens;
pub(crate) mod verifications;
