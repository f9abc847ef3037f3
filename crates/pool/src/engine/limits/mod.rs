//! The limits of datasets: counters, quotas and reservations.

pub(crate) mod counts;
pub(crate) mod quota;
pub(crate) mod reservation;
