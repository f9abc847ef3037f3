//! Snapshots, holds, bookmarks, and what is written since them.

#[path = "../common/mod.rs"]
mod common;

mod bookmarks;
mod deferral;
mod key_holders;
mod many_snapshots;
mod prune;
mod retention;
mod rollback;
mod written_space;
