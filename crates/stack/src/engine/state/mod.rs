//! The state that the engine keeps for a view, and the files by which several clients of a lower directory agree.
//!
//! Layers, lowest first: `temporary`; `names`, `inode`; `claim`, `lock`; `client`, `format_file`.

pub(super) mod claim;
pub(super) mod client;
pub(super) mod format_file;
pub(super) mod inode;
pub(super) mod lock;
pub(super) mod names;
pub(super) mod temporary;
