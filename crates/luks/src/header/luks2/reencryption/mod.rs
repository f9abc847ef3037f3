//! The re-encryption that a header describes. Encryption and decryption in place are two forms of it.
//!
//! The header has the segments `backup-previous` and `backup-final`: the encryption of all data before and after. It
//! may have `backup-moved-segment`: the first part of the data, which was moved to free space. The regular segments
//! show the progress: new data, at most one piece marked `in-reencryption` (the hot zone), and old data. A digest
//! over the keys, the backups and the slot of the re-encryption makes them authentic. It does not cover the regular
//! segments, so those have to follow from the backups.
//!
//! - `course` is the order in which parts are worked on, `resilience` what is kept of a hot zone, `refusal` why
//!   a re-encryption is not taken up;
//! - `state` is the re-encryption, `layout` its next part and what the header says then;
//! - `parser` reads all of it, and checks it.

mod course;
mod layout;
mod parser;
mod refusal;
mod resilience;
mod state;

pub(crate) use course::{Course, DataExtent, DataPart, State};
pub(super) use parser::{is_under_way, read};
pub(crate) use refusal::ReencryptionRefusal;
pub(super) use resilience::area_json;
pub(crate) use resilience::{HOT_ZONE_MAX, Resilience};
pub(super) use state::{FINAL, HOT, MOVED, PREVIOUS, REQUIREMENT, REQUIREMENT_SHIFT};
pub(crate) use state::{ReencryptionMode, ReencryptionState};
