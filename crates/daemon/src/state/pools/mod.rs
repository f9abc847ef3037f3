//! Imported pools: their worker threads and events; and pools that were exported.

pub(crate) mod active_pool;
pub(crate) mod events;
pub(crate) mod exported_pools;
pub(crate) mod images;
pub(crate) mod last_end;
pub(crate) mod last_report;
pub(crate) mod late_imports;
pub(crate) mod pool_table;
pub(crate) mod pool_worker;
pub(crate) mod schedule;
pub(crate) mod store_reader;
pub(crate) mod watcher;
