//! `objects`: object stores, without a pool on them.

pub(super) mod args;
pub(super) mod run;
