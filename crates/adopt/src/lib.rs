//! The commands `adopt` and `versions`: copy or move files into a dataset or an encrypted directory, or bring them back
//! from a snapshot, and verify the copies.
//!
//! Layers, the lowest first:
//! - `trouble`: the reason why a file is left out;
//! - `copy`: one file, its contents and attributes;
//! - `place`: source and target; `tally`: the counts that are printed;
//! - `walk`: the directories, one after the other; `source`: directories that are encrypted;
//! - `drill`: comparisons of the files of a copy with those of its source;
//! - `begin`: the command `adopt`; `take_in`: files that are moved to a dataset at its mount; `versions`: files in the
//!   snapshots of a mounted dataset.

pub mod args;
mod begin;
mod copy;
pub mod drill;
mod place;
mod source;
mod take_in;
mod tally;
mod trouble;
pub mod versions;
mod walk;

pub use begin::run;
pub use take_in::{has_entries, take_in};
