//! File-by-file encryption of a *lower* directory, whose files and names are ciphertext one by one.
//!
//! [`Stacked`] is a [`vfs::FileSystem`] that shows the files of a lower directory in clear,
//! [`ReverseView`] one that shows the ciphertext of plain files.
//!
//! What it guarantees:
//! - The lower directory is opened once and used by descriptor: nothing outside can redirect it.
//! - A new file has its context before it has its name, in the sight of every client.
//! - A lower directory that is damaged or hostile gives errors, and no panic.
//!
//! Layers, lowest first:
//! - `lower`: the lower directory, by descriptor;
//! - [`formats`]: what files and names of each format look like;
//! - `engine`: the file system, for any format.

mod engine;
pub mod formats;
mod lower;

pub use engine::{Options, ReverseView, Stacked, add, prepare, replace};
pub use lower::Entry;
