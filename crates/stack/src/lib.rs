//! Encrypts a *lower* directory file by file: each file and each name there is ciphertext on its own.
//!
//! [`StackedDirectory`] is a [`vfs::FileSystem`] that shows the files of a lower directory decrypted. [`ReverseView`]
//! shows plain files encrypted.
//!
//! What it guarantees:
//! - The lower directory is opened once and used by descriptor. So no other process can redirect it by a rename.
//! - A new file gets its context before its name. So no client sees a file without a context.
//! - A damaged or hostile lower directory causes errors, and no panic.
//!
//! Layers, lowest first:
//! - `lower`: the lower directory, by descriptor;
//! - [`formats`]: the encoding of files and names in each format;
//! - `engine`: the file system, for any format.

mod engine;
pub mod formats;
mod lower;

pub use engine::{
    ClientRefusal, DirectoryClient, Options, ReverseView, StackedDirectory, StackedView, add,
    prepare, replace,
};
pub use lower::Entry;
