//! Programs that use files and volumes.

pub mod files;
pub mod volumes;
