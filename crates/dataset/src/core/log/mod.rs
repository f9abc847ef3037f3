//! The intent log: what `fsync` makes durable without a commit.
//!
//! While a log is in use, every change of the metadata tree is noted as the keys and values that it
//! leaves behind ([`journal`]), and every change of contents as the range that it concerns. `fsync`
//! of a file appends to the log what happened to names, owners and the like since the last commit or
//! entry, in order, and of contents and sizes that of this file only (`write`). What is noted is
//! dropped as commits make it durable.
//!
//! When a dataset is opened after a crash the entries are applied in their order, those of
//! transaction groups that the arrays have already left out ([`replay`]). Values are absolute: doing
//! it twice does no harm, so a crash in the middle is a reason to begin anew and no more.
//!
//! Not everything has to be expressible. When something is not (a change of names that concerns a
//! file whose contents are noted and unlogged, a large extended attribute, too much at once), `fsync`
//! commits instead, which it may always do.

pub(crate) mod journal;
mod replay;
pub(crate) mod steps;
mod write;
pub(crate) mod writer;

use vfs::Ino;

/// When changes are durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// When a program asks for it.
    #[default]
    Standard,
    /// Before each change returns.
    Always,
    /// With the next commit, whatever a program asks for.
    Disabled,
}

/// How a change of the tree reaches the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// With the next entry, whichever file that is for.
    Names,
    /// With the contents of this file.
    Contents(Ino),
    /// Not at all: it is done anew where it is missing.
    Upkeep,
    /// Not at all, and nothing after it either before a commit.
    Unlogged,
}
