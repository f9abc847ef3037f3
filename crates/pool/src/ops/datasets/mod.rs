//! Operations on datasets: creating, cloning, changing and destroying them, and the space that they take.

pub(crate) mod clones;
pub(crate) mod create;
pub(crate) mod destroy;
pub(crate) mod facts;
pub(crate) mod keyrings;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod properties;
pub(crate) mod renames;
pub(crate) mod used_space;
pub(crate) mod volume;
pub(crate) mod written_space;
