//! The devices as the configuration lists them: members, failures and heartbeats.

pub(crate) mod device_changes;
pub(crate) mod faults;
pub(crate) mod heart;
pub(crate) mod membership;
pub(crate) mod removal;
