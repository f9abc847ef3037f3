//! A folder as a store of objects: each object is a file.
//!
//! - `name`: names of objects as paths;
//! - `files`: files that appear whole, and stay after a power failure;
//! - `listing`: lists of names;
//! - `client`: the requests of the line.

mod client;
mod files;
mod listing;
mod name;

pub(super) use client::Folder;
