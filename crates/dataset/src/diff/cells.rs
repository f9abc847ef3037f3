//! The entries in pages of the tree.

use std::collections::BTreeMap;

/// What leaves of a metadata tree hold.
pub(super) type Cells = BTreeMap<Vec<u8>, Vec<u8>>;
