//! What a snapshot is sent as: frames, each of which says that it is whole and follows the one before.
//!
//! A stream holds what is new in a snapshot, or new since an earlier one: the identities of its records
//! with their bytes, in the order of their slots, and which slots were emptied. Its first frame, the
//! [`Begin`], says what must come out of that: the identities of the roots of both arrays. So the
//! receiver can check, without a key, that it has what was sent. A stream *in the clear* holds what is in
//! the records instead, opened with the key by the sender, and the receiver seals them anew.
//! `docs/FORMAT.md` describes the bytes.

mod begin;
mod frame;
mod package;
mod position;
mod token;

pub(crate) use begin::{BEGIN_MAX, lineage};
pub use begin::{Begin, Lineage, Sender};
#[cfg(fuzzing)]
pub(crate) use frame::fuzzing::{made_to_fit, read_all, samples};
pub(crate) use frame::{FRAME_HEAD, Frame, FrameReader, FrameWriter};
pub use package::{Package, PackedDataset};
pub use position::Position;
pub use token::ResumeToken;
