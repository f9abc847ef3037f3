//! The reverse mode: a view that shows plain files encrypted.

mod serve;
pub(super) mod view;
