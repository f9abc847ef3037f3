//! Password hashes: their parameters and cost, and the queue and memory that all hashes of a process share.
//!
//! Layers, lowest first: `queue`; `budget`; `argon2_fit`; `argon2`, `pbkdf2`; `guess_cost`.

pub(crate) mod argon2;
pub(crate) mod argon2_fit;
pub(crate) mod budget;
pub(crate) mod guess_cost;
pub(crate) mod pbkdf2;
pub(crate) mod queue;
