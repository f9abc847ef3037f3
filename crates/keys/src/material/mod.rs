//! Key material: the passphrase or the key that opens a slot, and the sources that give it.
//!
//! Layers, lowest first: `key_material`; `key_file`, `https`, `provider`; `deadline`, which limits the wait for any
//! of them.

pub(crate) mod deadline;
pub(crate) mod https;
pub(crate) mod key_file;
pub(crate) mod key_material;
pub(crate) mod provider;
