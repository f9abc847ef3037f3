//! The format of a stream: frames. Each frame shows that it is complete and follows the one before.
//!
//! A stream holds the records that are new in a snapshot, or new since an earlier one: their identities and bytes, in
//! the order of their slots. It also names the slots that became empty. The first frame, the [`Begin`], has the
//! identities of the roots of both arrays that must result. So the receiver can check, without a key, that it has
//! received the snapshot. A stream *in the clear* holds the content of the records instead: the sender opens them with
//! the key, and the receiver seals them again. `docs/FORMAT.md` describes the bytes.

mod begin;
mod frame;
mod package;
mod position;
mod token;

pub(crate) use begin::{BEGIN_MAX, lineage};
pub use begin::{Begin, Lineage, Sender};
#[cfg(fuzzing)]
pub(crate) use frame::fuzzing::{made_to_fit, read_all, samples};
pub(crate) use frame::{FRAME_HEAD, FrameReader, FrameWriter, StreamFrame};
pub use package::{Package, PackedDataset};
pub use position::StreamPosition;
pub use token::ResumeToken;
