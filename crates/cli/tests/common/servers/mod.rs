//! Servers and devices that the tests start. `web.rs` and `cluster.rs` need libraries that only some programs of tests
//! use: those programs have each as a module of their own.

pub mod tang;
pub mod tpm;
