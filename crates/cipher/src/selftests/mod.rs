//! Known-answer tests that a program can run: of the mechanisms that pools need, and of all.

mod kat;
pub(crate) mod selftest;

pub use kat::{MechanismTest, test_mechanisms};
pub use selftest::{SelfTest, selftest};
