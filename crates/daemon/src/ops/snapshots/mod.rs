//! Snapshots, and all that is made of them: clones, bookmarks, differences, anchors, schedules.

pub mod anchor_line;
mod anchors;
mod audit;
pub(crate) mod bookmarks;
pub(crate) mod clones;
pub(crate) mod commands;
pub(crate) mod deferral;
pub(crate) mod diff;
pub(crate) mod schedules;
