//! Re-encryption: a change of the volume key or cipher in place.
//!
//! - `begin` makes a container one in re-encryption, with two keys; `keys` has these;
//! - `zone` is the part of the data that is being written;
//! - `run` goes on to the end; `recover` puts right what an interruption left.

mod begin;
mod keys;
mod recover;
mod run;
mod zone;

pub use begin::{Protection, Reencrypt};
pub use keys::BothKeys;
pub use run::{Progress, Reencrypted};
