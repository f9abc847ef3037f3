//! Space: quotas, full pools, and what deletes give back.

#[path = "../common/mod.rs"]
mod common;

mod full_pool;
mod owners;
mod promised_space;
mod space;
mod throttle;
