//! Bookmarks: the part of a snapshot that an incremental stream needs to start from it. They stay when the snapshot is
//! destroyed.
//!
//! They are stored among the properties of a dataset, under names that no property can have. A later snapshot is in a
//! line through the state of the bookmark. So each of its records that was born after the transaction group of the
//! bookmark is new since then. A rollback to an earlier state destroys the bookmarks of later states.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::{Origin, log_about};
use crate::error::{Error, Result};
use crate::format::datasets::bookmark::SnapshotBookmark;
use crate::format::datasets::entry::Entry;
use crate::format::superblock::features::FEATURE_BOOKMARKS;
use crate::names::{DatasetName, NAME_MAX, is_part};
use crate::ops::datasets::properties::check_props;
use crate::ops::pool::Pool;

/// The most bytes of a bookmark, without its name.
const TEXT: usize = 512;

/// A bookmark, with its name and dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedBookmark {
    /// The whole name, `dataset#bookmark`.
    pub name: String,
    /// The dataset.
    pub dataset: u64,
    /// The bookmark itself.
    pub bookmark: SnapshotBookmark,
}

impl Pool {
    /// Makes a bookmark of a snapshot, or of a bookmark, of the same dataset.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`] and [`Error::BadName`]; [`Error::Exists`]; [`Error::Refused`] for another dataset, or
    /// one with too many bookmarks; [`Error::NoSpace`]; as [`Pool::commit`].
    pub fn bookmark(&self, of: &str, name: &str, origin: &Origin) -> Result<()> {
        self.engine.commit_within_limits(|commit, state| {
            let (dataset, mark) = split(name)?;
            let head = Arc::clone(head(state, dataset)?);
            let (source, bookmark) = match of.contains('#') {
                true => {
                    let (source, mark) = split(of)?;
                    (source, find(state, source, mark)?.bookmark)
                }
                false => {
                    let snapshot = state.find(of)?;
                    if !snapshot.is_snapshot() {
                        return Err(Error::refused(of, "it is not a snapshot"));
                    }
                    let source = of.split_once('@').map_or(of, |(dataset, _)| dataset);
                    (source, SnapshotBookmark::of(snapshot))
                }
            };
            if source != dataset {
                return Err(Error::refused(
                    name,
                    format!("a bookmark belongs to the dataset of its snapshot, {source}"),
                ));
            }
            if head.bookmark(mark).is_some() {
                return Err(Error::Exists { name: name.into() });
            }
            let _reserved = commit.reserve_entries(1, TEXT + mark.len())?;
            log_about(commit, state, origin, head.guid);
            state.root.features_required |= FEATURE_BOOKMARKS;
            let head = state.edit(head.id)?;
            head.set_bookmark(mark, &bookmark);
            let props = head.props.clone();
            let full = |_| Error::refused(dataset, "it has as many bookmarks as fit; destroy some");
            check_props(dataset, &props).map_err(full)
        })
    }

    /// Destroys a bookmark.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`] and [`Error::BadName`]; [`Error::NoSpace`]; as [`Pool::commit`].
    pub fn destroy_bookmark(&self, name: &str, origin: &Origin) -> Result<()> {
        self.engine.commit_with(|commit, state| {
            let (dataset, mark) = split(name)?;
            let (head, guid) = { head(state, dataset) }.map(|head| (head.id, head.guid))?;
            let _reserved = commit.reserve_entries(1, 0)?;
            log_about(commit, state, origin, guid);
            match state.edit(head)?.remove_bookmark(mark) {
                true => Ok(()),
                false => Err(Error::NoSuchDataset { name: name.into() }),
            }
        })
    }

    /// The bookmark with a name.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`] and [`Error::BadName`].
    pub fn find_bookmark(&self, name: &str) -> Result<NamedBookmark> {
        let (dataset, mark) = split(name)?;
        find(&self.engine.state.read(), dataset, mark)
    }

    /// The bookmarks of a dataset, the oldest first.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`].
    pub fn bookmarks(&self, dataset: u64) -> Result<Vec<NamedBookmark>> {
        let state = self.engine.state.read();
        let head = state.entry(dataset)?;
        let own = state.name_of(head);
        let marked = |(name, bookmark)| NamedBookmark {
            name: format!("{own}#{name}"),
            dataset,
            bookmark,
        };
        let mut all: Vec<NamedBookmark> = head.bookmarks().map(marked).collect();
        all.sort_by_key(|marked| marked.bookmark.created_txg);
        Ok(all)
    }
}

fn head<'a>(state: &'a DatasetTable, dataset: &str) -> Result<&'a Arc<Entry>> {
    match dataset.contains('@') {
        true => Err(Error::BadName {
            name: dataset.into(),
            reason: "a snapshot has no bookmarks; write DATASET#BOOKMARK",
        }),
        false => state.find(dataset),
    }
}

/// The dataset and the last part of a bookmark's name.
fn split(name: &str) -> Result<(&str, &str)> {
    let bad = |reason| Error::BadName {
        name: name.into(),
        reason,
    };
    let (dataset, mark) = name
        .split_once('#')
        .ok_or_else(|| bad("a bookmark's name is dataset#bookmark"))?;
    DatasetName::parse(dataset)?;
    match is_part(mark) && name.len() <= NAME_MAX {
        true => Ok((dataset, mark)),
        false => Err(bad(
            "a part of it is empty or too long, or has a character that no name has",
        )),
    }
}

fn find(state: &DatasetTable, dataset: &str, mark: &str) -> Result<NamedBookmark> {
    let name = format!("{dataset}#{mark}");
    let head = head(state, dataset)?;
    match head.bookmark(mark) {
        Some(bookmark) => Ok(NamedBookmark {
            name,
            dataset: head.id,
            bookmark,
        }),
        None => Err(Error::NoSuchDataset { name }),
    }
}

/// Checks that the line of a snapshot goes through the state of a bookmark.
pub(crate) fn check_before(
    state: &DatasetTable,
    marked: &NamedBookmark,
    to: &Arc<Entry>,
) -> Result<()> {
    let line: BTreeSet<u64> = state
        .line(state.entry(marked.dataset)?)
        .iter()
        .map(|entry| entry.id)
        .collect();
    let own = [vec![Arc::clone(to)], state.line(to)].concat();
    let common = own.iter().find(|entry| line.contains(&entry.id));
    let txg = marked.bookmark.created_txg;
    match common {
        Some(common) if txg <= common.created_txg && txg < to.created_txg => Ok(()),
        _ => Err(Error::refused(
            marked.name.as_str(),
            format!("it is not of an earlier state of {}", state.name_of(to)),
        )),
    }
}

/// The bookmarks of states after the transaction group `txg`, for a message.
pub(crate) fn later(head: &Entry, txg: u64) -> Vec<String> {
    let later = head
        .bookmarks()
        .filter(|(_, bookmark)| bookmark.created_txg > txg);
    later.map(|(name, _)| format!("#{name}")).collect()
}
