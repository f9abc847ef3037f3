//! The intent log of a dataset: changes that its key holder made durable before the next commit.
//!
//! A log is a ring of *chunks*: runs of units that commits have allocated to the dataset. The dataset's entry has
//! the *head* of the log: the place of the first entry, its sequence number, and the last transaction group whose
//! changes the arrays hold (the *base*). Entries follow one after the other. An entry has a clear header, and a
//! sealed payload that this crate cannot read. The log ends where no complete entry with the next sequence number
//! follows.
//!
//! Chunks are in the bitmaps before anything is written to them. So a log survives imports and exports, until the
//! dataset is opened with its key and the log is replayed. Large records are not in the log. They are written to their
//! final place, and the clear header of the entry has this place, so that an import can claim it ([`claims`]). A commit
//! moves the head of the log past all entries whose changes the commit makes durable. Chunks before the head move to
//! the end of the ring.

mod claims;
mod groups;
mod open;
mod ring;
mod scan;

pub(crate) use claims::Claims;
pub(crate) use groups::{GroupBar, copy_log};
pub use open::Durability;
pub(crate) use ring::Ring;
pub(crate) use scan::RawEntry;
pub use scan::{LogEnd, LogEntry, LogReader};
