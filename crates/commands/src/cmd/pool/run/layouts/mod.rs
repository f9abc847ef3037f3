//! Devices of a pool: the words of a command line for them, changes, and the trees that are printed.

pub(super) mod device_words;
pub(super) mod devices;
pub(super) mod layout;
pub(super) mod sweep;
pub(super) mod tree;
