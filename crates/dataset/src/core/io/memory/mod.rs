//! Records in memory: those of inodes that are not in the pool yet, those of a closed transaction group, and the cache.

pub(crate) mod cache;
pub(crate) mod frozen;
pub(crate) mod inode;
