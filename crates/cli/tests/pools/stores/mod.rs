//! Pools on object stores that are away, refuse, or were changed.

mod outage;
mod refusals;
mod requests;
