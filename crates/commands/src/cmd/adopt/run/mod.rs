//! `adopt`. Lowest first: `trouble` is why a file is left; `node` is a file by its descriptor; `contents` and
//! `attributes` copy one file and check the copy; `place` says where is copied; `tally` counts; `temporary` has the
//! names of unfinished files; `copier` copies one entry of a directory; `walk` goes through the directories; `source`
//! opens encrypted ones. `take_in` moves entries, and `comparison` tells what was copied.

mod attributes;
mod begin;
mod comparison;
mod contents;
mod copier;
mod node;
mod place;
mod source;
mod take_in;
mod tally;
mod temporary;
mod trouble;
mod walk;

pub(crate) use begin::run;
pub(crate) use take_in::{has_entries, take_in};
