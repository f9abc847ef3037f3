//! Mappings: requests, suspension, and sectors with tags.

#[path = "../common/mod.rs"]
mod common;

mod integrity;
mod requests;
mod suspension;
