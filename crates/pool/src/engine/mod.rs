//! The engine makes changes durable: transaction groups, commits, and the parts of the pool that commits write.

pub(crate) mod async_free;
pub(crate) mod closing;
pub(crate) mod commit;
pub(crate) mod context;
pub(crate) mod counts;
pub(crate) mod dataset;
pub(crate) mod deadlist;
pub(crate) mod dedup;
pub(crate) mod device_changes;
pub(crate) mod faults;
pub(crate) mod free_waits;
pub(crate) mod gate;
pub(crate) mod heart;
pub(crate) mod history;
pub(crate) mod keyarea;
pub(crate) mod log;
pub(crate) mod membership;
pub(crate) mod placed;
pub(crate) mod quota;
pub(crate) mod removal;
pub(crate) mod reseal;
pub(crate) mod reservation;
pub(crate) mod stored;
pub(crate) mod suspension;
pub(crate) mod table;
pub(crate) mod trim;
