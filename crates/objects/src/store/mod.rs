//! Interfaces to a store and to time, as the line needs them, and the stores of providers.
//!
//! - `interface`: the traits;
//! - [`address`]: addresses of pools;
//! - `runtime`: tasks and time of the machine;

pub mod address;
mod interface;
mod runtime;

pub use interface::{Creation, Executor, ListedObject, ObjectStore, Part, RequestFuture};
pub use runtime::executor;
