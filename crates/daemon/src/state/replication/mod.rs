//! Jobs that copy datasets again and again: their definitions, and their states.

pub(crate) mod checks;
pub(crate) mod job;
pub(crate) mod progress;
pub(crate) mod table;
pub(crate) mod target;
pub(crate) mod window;
