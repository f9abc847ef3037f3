//! The steps of a login, for everything that the user has.
//!
//! Layers, lowest first:
//! - `passphrases`; `sessions`: who is logged in, and what was opened;
//! - `worker`: a process with the rights of the user;
//! - `dataset`, `pefs`, `fscrypt`: kinds of homes; `parts`: all of them behind one interface;
//! - `steps`.

mod dataset;
mod fscrypt;
mod parts;
mod passphrases;
mod pefs;
mod sessions;
mod steps;
mod worker;

pub use steps::run;
