//! Directories of pefs, with the commands and options of pefs.

pub mod args;
pub mod run;
