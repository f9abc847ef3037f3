//! Deduplication: equal records are stored once.
//!
//! With `dedup=on` a key holder seals equal contents into equal bytes: the nonce is a keyed hash of the contents.
//! This crate only knows that records with the same nonce and checksum are equal. The *dedup table* has the place
//! of each shared record and the number of pointers to it. A pointer to a shared record is marked, and has the
//! first bytes of the nonce. So the record is found in the table without a key, and freed with its last pointer.
//!
//! Between commits, new shared records and new pointers are in memory. A record that is placed but in no array yet is
//! *pinned*. A pointer that was put into an array counts as *added* in its transaction group. A commit writes pinned
//! records, added pointers and freed pointers into the table.

mod sharing;
mod table;

pub(crate) use sharing::Dedup;
pub use sharing::SPACE;
pub(crate) use table::each;
#[cfg(fuzzing)]
pub(crate) use table::fuzzing::{decode_for_fuzzing, sample_bucket};
