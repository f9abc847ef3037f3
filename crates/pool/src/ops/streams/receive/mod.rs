//! Receives a stream. This needs no key, unless the stream is in the clear and its records are sealed here.
//!
//! Records are stored, sealed as they come, in a hidden dataset: a new one, or a clone of the snapshot that the stream
//! starts from. At the end its roots must be those that the first frame names. Then one commit makes it a snapshot. The
//! part that an interrupted receive leaves is destroyed, or kept to continue later. The arrays show how far it is,
//! because records come in order. The part of a stream in the clear is kept under a seal by the receiver's keys.

mod allowance;
mod dry_run;
mod finish;
mod keyring_keeper;
mod partial;
mod plan;
mod policy;
mod streams;

pub use dry_run::DryRun;
pub(crate) use partial::discard_broken;
pub use policy::{ReceiveInto, ReceivePolicy, SealRecords, SealedRecord, StreamSealer};
pub use streams::IncomingStreams;
