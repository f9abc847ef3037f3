//! The targets that a pool serves by its `ha.toml`: `file` reads the file, `identities` and `plan` apply it to the
//! volumes of the pool, `apply` changes the targets, and `waiting` makes events of units that wait.
//!
//! The daemon does not remember this state. `ha start` starts the targets, and an export of the pool or the end of the
//! daemon ends them. A cluster decides which machine serves a pool.

mod apply;
mod check;
mod file;
mod front_end;
mod identities;
mod plan;
mod unit_events;
mod volume;

pub(crate) use front_end::HaTargets;
