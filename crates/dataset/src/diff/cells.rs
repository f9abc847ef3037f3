//! The entries in pages of the tree.

use std::collections::BTreeMap;

/// The entries in leaves of a metadata tree.
pub(super) type Cells = BTreeMap<Vec<u8>, Vec<u8>>;
