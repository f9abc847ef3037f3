//! Properties of datasets, and the states of datasets that this machine has seen.

pub(crate) mod account_property;
pub(crate) mod changed_facts;
pub(crate) mod properties;
pub(crate) mod rollback_guard;
pub(crate) mod seen_states;
pub(crate) mod snapshot_schedule;
pub(crate) mod volume_state;
pub(crate) mod written_property;
