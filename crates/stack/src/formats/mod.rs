//! What files and names look like in the lower directory: one folder for each format.

mod format;
pub mod fscrypt;
pub mod gocryptfs;
pub mod pefs;
#[cfg(test)]
mod tree;

pub use format::{Format, Layout, LongName, LongNames, LowerName, NewNode, SizeIn, Sought};
