//! Records and states that get new seals: in streams, in other datasets, and under newer keys.

pub(crate) mod reencrypt;
pub(crate) mod resealer;
pub(crate) mod transfer;
