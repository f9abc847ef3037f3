//! The properties of datasets: one table, from which parsing, help, columns, completion and rights follow.
//!
//! A new property is a new row in [`PROPERTIES`] (`table.rs`). What it does is beside the code that does it: a setting that an
//! open dataset follows in `daemon::state::datasets::properties::settings`, a computed value in `daemon::ops::datasets::list`.

mod find;
mod reference;
mod row;
mod table;
#[cfg(test)]
mod tests;

pub use find::{is_of_pools, of_pools};
pub use reference::PropertyFacts;
pub use row::{Applies, Property, ReceiveTreatment, Settable, Tenant, Values};
pub use table::PROPERTIES;
