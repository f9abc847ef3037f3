//! The metadata tree of a dataset.
//!
//! Layers, lowest first: `page`, `seal_runs` and `header` (bytes), `step`, `view`, `owners` (accounts of users and groups),
//! `state` (pages in memory), `reader`, `change`, `metadata` (the tree itself), `recount`.

mod change;
mod header;
mod metadata;
pub(crate) mod owners;
mod page;
mod reader;
mod recount;
mod seal_runs;
mod state;
mod step;
mod view;

pub(crate) use header::{HEADER_SIZE, Header};
pub(crate) use metadata::{MetadataTree, PageSource};
pub(crate) use page::{CELL_MAX, PAGE, PageKind, TreePage};
pub(crate) use reader::{TreeReader, TreeWriter};
pub(crate) use seal_runs::SealRuns;
pub(crate) use step::{TreeAttempt, TreeStep};
pub(crate) use view::{Changes, TreeView};

#[cfg(test)]
mod tests;
