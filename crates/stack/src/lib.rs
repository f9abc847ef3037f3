//! File-by-file encryption of a *lower* directory, whose files and names are ciphertext one by one.
//!
//! Layers, lowest first:
//! - `lower`: the lower directory, by descriptor;
//! - [`formats`]: what files and names of each format look like.

pub mod formats;
mod lower;

pub use lower::Entry;
