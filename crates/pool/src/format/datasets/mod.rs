//! The dataset table: entries, their properties, bookmarks and seals.

pub(crate) mod bookmark;
pub(crate) mod entry;
pub(crate) mod entry_flags;
pub(crate) mod hold_mark;
pub(crate) mod past_seal;
pub(crate) mod seal_input;
pub(crate) mod sealed_facts;
pub(crate) mod volume_shape;
