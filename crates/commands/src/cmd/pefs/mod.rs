//! Directories of pefs, with the commands and options of pefs.

pub(super) mod args;
pub(super) mod run;
