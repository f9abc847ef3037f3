//! The engine: a [`vfs::FileSystem`] over a lower directory in some format.
//!
//! Layers, lowest first:
//! - `inode`: the inodes that the front end knows; `temporary`: names for what is not complete; `claim`: one
//!   client at a time;
//! - `stacked`: the file system, and finding names in it;
//! - `keys`: inodes when keys come and go;
//! - `sizes` and `contents`: bytes of files; `attributes`, `make`, `moves`: the rest;
//! - `serve`: all of it as a [`vfs::FileSystem`].

mod attributes;
mod claim;
mod contents;
mod inode;
mod keys;
mod make;
mod moves;
mod serve;
mod sizes;
mod stacked;
mod temporary;

pub use make::prepare;
pub use stacked::{Options, Stacked};
