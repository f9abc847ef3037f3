//! The table of zones, and the names inside a zone.

pub(crate) mod rules;
pub(crate) mod view;
pub(crate) mod zone;
