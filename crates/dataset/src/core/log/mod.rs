//! The intent log: with it `fsync` makes changes durable without a commit.
//!
//! While a log is in use, the [`journal`] notes every change: of the metadata tree the new keys and values, of contents
//! the changed range. `fsync` of a file appends an entry to the log (`write`). The entry has all changes of names,
//! owners and so on since the last commit or entry, in order. Of contents and sizes it has only those of this file. The
//! journal drops changes when a commit makes them durable.
//!
//! A served volume logs each change before it answers, without a flush ([`rounds`]). The next flush is for these entries
//! too.
//!
//! When a dataset is opened after a crash, the entries are applied in their order ([`replay`]), except entries of
//! transaction groups that the arrays already contain. Values are absolute, so a replay can be repeated. After a crash
//! during a replay, it begins again.
//!
//! The log cannot express all changes: a change of names that concerns a file with unlogged contents, a large extended
//! attribute, too many changes at once. In these cases `fsync` commits.

pub(crate) mod journal;
mod replay;
pub(crate) mod rounds;
pub(crate) mod steps;
mod write;
pub(crate) mod writer;

use vfs::Ino;

/// The time at which changes are durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// Changes are durable when a program asks for it.
    #[default]
    Standard,
    /// Before each change returns.
    Always,
    /// With the next commit, whatever a program asks for.
    Disabled,
}

/// The way of a change of the tree into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// With the next entry, whichever file that is for.
    Names,
    /// With the contents of this file.
    Contents(Ino),
    /// The change is not logged: if it is lost, the program makes it again.
    Upkeep,
    /// The change is not logged. Until the next commit, later changes are not logged either.
    Unlogged,
}
