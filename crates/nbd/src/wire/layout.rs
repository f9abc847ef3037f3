//! The structures of fixed length, as in `doc/proto.md` of the NBD project. All numbers have their highest byte first.

use zerocopy::byteorder::big_endian::{U16, U32, U64};

/// The zeros after an [`ExportSize`] that `NBD_OPT_EXPORT_NAME` is answered with, unless both ends leave them out.
pub(crate) const ZEROES: usize = 124;

/// Declares structures with their sizes.
macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident: $size:literal { $($field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout, zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub(crate) struct $name { $(pub(crate) $field: $ty,)* }
        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}

layouts! {
    /// A server says this first.
    Greeting: 18 { magic: U64, option_magic: U64, flags: U16, }
    /// The beginning of an option. Data follow.
    OptionHead: 16 { magic: U64, option: U32, len: U32, }
    /// The beginning of an answer to an option. Data follow.
    OptionReplyHead: 20 { magic: U64, option: U32, kind: U32, len: U32, }
    /// The size and the flags of an export.
    ExportSize: 10 { size: U64, flags: U16, }
    /// The sizes of requests that an export takes, in bytes.
    BlockSizeLimits: 12 { minimum: U32, preferred: U32, maximum: U32, }
    /// A request. The data of a write follow.
    RequestHead: 28 { magic: U32, flags: U16, kind: U16, cookie: U64, offset: U64, len: U32, }
    /// A simple reply. The data of a read follow.
    SimpleReply: 16 { magic: U32, error: U32, cookie: U64, }
    /// The beginning of a chunk, up to the length of a simple reply.
    ChunkStart: 16 { magic: U32, flags: U16, kind: U16, cookie: U64, }
    /// The beginning of a chunk. Its data follow.
    ChunkHead: 20 { start: ChunkStart, len: U32, }
    /// The beginning of a chunk with data that was read.
    DataHead: 28 { head: ChunkHead, offset: U64, }
    /// A chunk with an error. The text follows.
    ErrorChunk: 26 { head: ChunkHead, error: U32, text_len: U16, }
    /// The data of a chunk about zeros.
    HoleRange: 12 { offset: U64, len: U32, }
    /// A range in a chunk about what is stored.
    StoredRange: 8 { len: U32, flags: U32, }
}
