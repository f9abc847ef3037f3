//! Operations on snapshots: making, holding, marking and destroying them, and rolling a dataset back.

pub(crate) mod bookmarks;
pub(crate) mod compare;
pub(crate) mod deferral;
pub(crate) mod holds;
pub(crate) mod name_ranges;
pub(crate) mod prune;
pub(crate) mod rollback;
pub(crate) mod snapshot;
