//! Re-encryption: a change of the volume key or cipher in place; encryption and decryption in place are forms of it.
//!
//! - `begin` makes a container one in re-encryption, with two keys; `keys` has these;
//! - `encrypt` begins an encryption, with `stage`, which makes space for a header; `decrypt` begins a decryption;
//! - `zone` is the part of the data that is being written;
//! - `traffic` is who uses the data meanwhile;
//! - `run` goes on to the end; `recover` puts right what an interruption left.

mod begin;
mod decrypt;
mod encrypt;
mod keys;
mod lock;
mod recover;
mod run;
mod stage;
mod traffic;
mod zone;

pub use begin::{Protection, ReencryptionChoice};
pub use encrypt::{begin_encryption, begin_encryption_in_place};
pub use keys::BothKeys;
pub use lock::ReencryptionLock;
pub use run::{ReencryptionEnd, ReencryptionPace, ReencryptionProgress};
pub use stage::HeaderStage;
pub(crate) use traffic::{AllowedRequests, Traffic};
