//! A readable tree, and its changes.

use std::collections::BTreeMap;

use super::step::TreeStep;

/// A tree that can be read: in its present state, or with the changes of an operation.
pub(crate) trait TreeView {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> TreeStep<Option<&[u8]>>;

    /// The last entry whose key is not above `key`.
    fn floor(&self, key: &[u8]) -> TreeStep<Option<(&[u8], &[u8])>>;

    /// Calls `each` with the entries from `from` on, in the order of keys, until it returns false. All pages with these
    /// entries must be in memory at once, so the caller must bound the number of entries.
    fn scan(&self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> TreeStep<()>;
}

/// New values by key; `None` removes a key.
pub(crate) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
