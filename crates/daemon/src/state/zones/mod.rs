//! Zones: which there are, and how things are called in one.

pub(crate) mod rules;
pub(crate) mod view;
pub(crate) mod zone;
