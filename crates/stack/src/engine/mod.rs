//! The engine: a [`vfs::FileSystem`] over a lower directory in some format.
//!
//! Layers, lowest first:
//! - `names`: names that were listed; `inode`: the inodes that the front end knows; `temporary`: names for what is not
//!   complete; `claim` and `lock`: one client at a time; `client`: who uses the directory; `own`: small files of the format;
//! - `stacked`: the file system, and finding names in it;
//! - `keys`: inodes when keys come and go;
//! - `sizes` and `contents`: bytes of files; `attributes`, `make`, `moves`: the rest;
//! - `serve`: all of it as a [`vfs::FileSystem`];
//! - `reverse` and `serve_reverse`: the file system of the reverse mode;
//! - `view`: both for a front end.

mod attributes;
mod claim;
mod client;
mod contents;
mod inode;
mod keys;
mod lock;
mod make;
mod moves;
mod names;
mod own;
mod reverse;
mod serve;
mod serve_reverse;
mod sizes;
mod stacked;
mod temporary;
mod view;

pub use client::{Client, Refusal};
pub use inode::Options;
pub use own::{add, prepare, replace};
pub use reverse::ReverseView;
pub use stacked::Stacked;
pub use view::View;
