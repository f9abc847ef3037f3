//! A tree as it is read, and what changes in it.

use std::collections::BTreeMap;

use super::step::Step;

/// A tree that can be read: as it is, or as an operation is about to leave it.
pub(crate) trait View {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Step<Option<&[u8]>>;

    /// The last entry whose key is not above `key`.
    fn floor(&self, key: &[u8]) -> Step<Option<(&[u8], &[u8])>>;

    /// Shows the entries from `from` on, in the order of keys, until `each` returns false. All pages
    /// that are shown must be in memory at once, so this is for a bounded number of entries.
    fn scan(&self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Step<()>;
}

/// New values by key; `None` removes.
pub(crate) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
