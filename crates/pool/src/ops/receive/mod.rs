//! Receiving a stream: without any key, unless the stream is in the clear and its records are sealed here.
//!
//! What comes is put into a hidden dataset, a new one or a clone of the snapshot that the stream
//! goes on from, as it is: sealed. When all of it is there its roots must be what the stream said at the
//! beginning; then one commit makes it a snapshot. What is interrupted before is thrown away, or kept to
//! go on later; how far it came is in the arrays themselves, since records come in their order. What came in the clear is
//! kept under a seal of the receiver's keys.

mod allowance;
mod dry_run;
mod finish;
mod kept;
mod partial;
mod plan;
mod policy;
mod streams;

pub use dry_run::DryRun;
pub(crate) use partial::discard_broken;
pub use policy::{ReceiveInto, ReceivePolicy, SealRecords, SealedRecord, Sealing};
pub use streams::Incoming;
