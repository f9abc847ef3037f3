//! The log. Each line has a limit (`output`), and so has each source of lines (`sources`). A file is rotated (`file`).

mod file;
mod output;
mod sources;
mod start;

pub(crate) use output::{cut, cut_to};
pub(crate) use sources::log_for;
pub(crate) use start::start_log;
