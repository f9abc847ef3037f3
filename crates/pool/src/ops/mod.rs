//! What can be done with a pool: each file adds one kind of request to [`Pool`](crate::Pool).

pub(crate) mod bookmarks;
pub(crate) mod check;
pub(crate) mod clones;
pub(crate) mod compare;
pub(crate) mod create;
pub(crate) mod destroy;
pub(crate) mod devices;
pub(crate) mod freeing;
pub(crate) mod holds;
pub(crate) mod import;
pub(crate) mod info;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod multihost;
pub(crate) mod named;
pub(crate) mod pool;
pub(crate) mod prune;
pub(crate) mod receive;
pub(crate) mod removal;
pub(crate) mod resilver;
pub(crate) mod resume;
pub(crate) mod scrub;
pub(crate) mod send;
pub(crate) mod snapshot;
pub(crate) mod trim;
pub(crate) mod volume;
