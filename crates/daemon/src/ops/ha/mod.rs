//! What a pool serves by its `ha.toml`: reading the file (`file`), what it means for this pool (`plan`), and making that
//! so (`apply`).
//!
//! Nothing of this is remembered outside of the pool: `ha start` makes it, and the end of the daemon or of the import
//! ends it. A cluster decides which machine serves a pool.

mod apply;
mod file;
mod front_end;
mod plan;

pub(crate) use front_end::HaTargets;
