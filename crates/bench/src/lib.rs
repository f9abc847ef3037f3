//! Measurements: `storage` is the command `bench` for pools, directories and devices; `crypto` shows, tests and measures
//! ciphers, and sets which program computes them.

pub mod crypto;
pub mod storage;
