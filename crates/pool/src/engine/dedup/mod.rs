//! Dedup: records with the same contents are stored once.
//!
//! With `dedup=on` a key holder seals equal contents into equal bytes, with a nonce that is a keyed hash
//! of them; this crate knows no more than that records with the same nonce and checksum are the same.
//! The *dedup table* says where each of them is and how many pointers there are to it. A pointer to a
//! shared record says so, and with what nonce it begins, so that freeing finds the record in the table,
//! without any key: the record is freed with its last pointer.
//!
//! Between commits, what is about to be shared, or shared once more, is in memory: a record that was
//! placed and is in no array yet is *pinned*, and pointers that were put are *added*, each to its
//! transaction group. A commit works both, and what was freed, into the table.

mod sharing;
mod table;

pub(crate) use sharing::Dedup;
pub use sharing::SPACE;
pub(crate) use table::each;
#[cfg(fuzzing)]
pub(crate) use table::fuzzing::{decode_for_fuzzing, sample_bucket};
