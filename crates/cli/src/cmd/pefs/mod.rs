//! Key chains of directories of pefs, by pefs' own words.

pub(super) mod args;
pub(super) mod run;
