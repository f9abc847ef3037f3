//! The two arrays of a dataset.

use crate::format::records::extent::Class;

/// The two arrays of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ArrayKind {
    /// Pages of the metadata tree.
    Pages = 0,
    /// File contents, or a volume's blocks.
    Data = 1,
}

impl ArrayKind {
    /// The two kinds, pages first.
    pub const ALL: [ArrayKind; 2] = [ArrayKind::Pages, ArrayKind::Data];

    pub(crate) fn class(self) -> Class {
        match self {
            ArrayKind::Pages => Class::Meta,
            ArrayKind::Data => Class::Data,
        }
    }

    /// Metadata is kept twice: little of it, and much lost with it.
    pub(crate) fn copies(self) -> usize {
        match self {
            ArrayKind::Pages => 2,
            ArrayKind::Data => 1,
        }
    }
}
