//! The formats of files and names in the lower directory: one folder for each format.

mod format;
pub mod fscrypt;
pub mod gocryptfs;
pub mod pefs;
#[cfg(test)]
mod tree;

pub use format::{
    DirectoryFormat, FileLayout, LongName, LongNames, LowerName, NodePlan, SizeIn, Sought,
};
