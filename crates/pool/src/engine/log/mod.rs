//! The intent log of a dataset: changes that its key holder made durable before the next commit.
//!
//! A log is a ring of *chunks*, runs of units that commits have allocated to the dataset. Its *head*,
//! in the dataset's entry, says where in the ring the log begins, with which sequence, and up to
//! which transaction group the arrays hold everything (the *base*). Entries lie one behind the other
//! from there on: a clear header and a sealed payload that this crate cannot read. The log ends where
//! no whole entry of the next sequence follows.
//!
//! All chunks are in the bitmaps before anything is written to them: a log stays where it is, through
//! any number of imports and exports, until the dataset is opened with its key, which replays the log.
//! Large records are not in the log but where they stay, and their entry says in the clear where that
//! is, so that import can take it ([`claims`]). A commit moves the beginning of the log past everything that
//! it makes durable itself; chunks that lie wholly before it come to the end of the ring.

mod claims;
mod groups;
mod open;
mod ring;
mod scan;

pub(crate) use claims::Claims;
pub(crate) use groups::{Barred, copy_log};
pub(crate) use ring::Ring;
pub(crate) use scan::RawEntry;
pub use scan::{LogEnd, LogEntry, LogReader};
