//! Interfaces to a store and to time, as the line needs them, and the stores of providers.
//!
//! - `interface`: the traits;
//! - [`address`]: addresses of pools;
//! - `runtime`: tasks and time of the machine;
//! - `cloud`: stores that are reached by HTTP;
//! - `folder`: a folder as a store;
//! - `connect`: the store of an address;
//! - `meter`: counters of requests;
//! - `probe`: the judge of a store;
//! - `waits`: requests without an answer, and the patience with them.

pub mod address;
mod cloud;
mod connect;
mod folder;
mod interface;
mod meter;
mod probe;
mod runtime;
pub(crate) mod waits;

pub use cloud::Variables;
pub use connect::{connect, connect_with};
pub use interface::{Creation, Executor, ListedObject, ObjectStore, Part, RequestFuture};
pub use meter::{MeteredStore, StoreTotals};
pub use probe::{GuaranteeCheck, GuaranteeOutcome, ProbeDepth, ProbeReport, StoreGuarantee, probe};
pub use runtime::executor;
