//! The structures of SCSI as initiators send and receive them, with the fields of SPC-4 and SBC-3.
//!
//! All numbers have their highest byte first. `zerocopy` proves that the structures have no padding, and reads none from
//! fewer bytes than it has. `tests/answers.txt` has bytes of each of them.

/// A structure whose bytes are its fields.
pub(super) trait WireLayout {
    /// All fields are zero.
    const ZERO: Self;
}

/// Declares structures with their sizes.
macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident: $size:literal { $($field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout, zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub(in crate::scsi) struct $name { $(pub(in crate::scsi) $field: $ty,)* }

        impl crate::scsi::layout::WireLayout for $name {
            // It has this size, or this is an error of the compiler.
            const ZERO: $name = zerocopy::transmute!([0u8; $size]);
        }
    )*};
}

pub(super) mod cdb;
pub(super) mod inquiry;
pub(super) mod lists;
pub(super) mod mode;
pub(super) mod reservation;
pub(super) mod sense;
