//! The copy of one entry of a directory: `node` is a file by its descriptor; `contents` and `attributes` copy and check
//! it; `temporary` names unfinished files; `copier` does all of this; `comparison` tells files that were copied before.

pub(crate) mod attributes;
pub(crate) mod comparison;
pub(crate) mod contents;
pub(crate) mod copier;
pub(crate) mod node;
pub(crate) mod temporary;
