//! The steps of a login, for everything that the user has.
//!
//! Layers, lowest first: `passphrases`; `sessions`: who is logged in, and what was opened; `dataset`; `parts`: all kinds
//! of encrypted homes behind one interface; this: the steps.

mod dataset;
mod parts;
mod passphrases;
mod sessions;
mod steps;

pub(crate) use steps::run;
