//! The judge of a store: which of the guarantees hold that a pool needs.
//!
//! - `report`: guarantees and their outcomes;
//! - `scratch`: objects that are removed at the end;
//! - `race`: many writers of one name;
//! - `checks`: the other guarantees, and the order of all.

mod checks;
mod race;
mod report;
mod scratch;

pub use checks::probe;
pub use race::ProbeDepth;
pub use report::{GuaranteeCheck, GuaranteeOutcome, ProbeReport, StoreGuarantee};
