//! The files that have certain records, for a report on damage.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use keys::DataKeys;
use pool::{Entry, Pool};
use vfs::Ino;

use super::view::StateView;
use crate::error::Result;
use crate::layout::{KeyKind, ROOT_SLOT, RecordExtent, XattrValue};
use crate::seal::Sealer;
use crate::tree::{PageKind, PageSource, TreePage};

/// The records to search, and the limits of the search.
pub struct RecordSearch<'a> {
    /// Ranges of slots of records.
    pub records: &'a [Range<u64>],
    /// Slots of pages that are known to be damaged. They are not read.
    pub damaged_pages: &'a [Range<u64>],
    /// The number of pages to read, for the records and again for the paths.
    pub pages_max: u64,
    /// The number of files to find.
    pub files_max: usize,
    /// True if there is time to go on.
    pub has_time: &'a dyn Fn() -> bool,
}

/// A file with a record that was searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFile {
    /// The position of the range in [`RecordSearch::records`].
    pub range: usize,
    /// The inode.
    pub ino: Ino,
    /// A path from the root of the dataset, with a slash before each name. `None` if it was not found within the
    /// limits, or if the file has no name.
    pub path: Option<Vec<u8>>,
}

/// The files that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundFiles {
    /// The files, by range and inode.
    pub files: Vec<RecordFile>,
    /// True if the whole dataset was searched.
    pub is_whole: bool,
}

/// Finds the files that have these records, in their contents or extended attributes. Skips what cannot be read.
///
/// # Errors
/// [`crate::Error::Damaged`] if the key holder did not make the seal of the state, or its header cannot be read.
pub fn files_with(
    pool: &Pool,
    entry: &Entry,
    keys: Option<Vec<DataKeys>>,
    wanted: &RecordSearch<'_>,
    ended: &Arc<AtomicBool>,
) -> Result<FoundFiles> {
    let sealer = Arc::new(Sealer::of(entry.family, keys)?);
    let unlimited = Arc::new(AtomicU64::new(u64::MAX));
    let view = StateView::open(pool, entry, &sealer, ended, &unlimited)?;
    view.allow(wanted.pages_max);
    let (owners, is_whole) = owners(&view, wanted);
    view.allow(wanted.pages_max);
    let mut paths: BTreeMap<Ino, Option<Vec<u8>>> = BTreeMap::new();
    let mut file = |(range, ino): (usize, Ino)| {
        let path = paths.entry(ino).or_insert_with(|| {
            let path = (wanted.has_time)().then(|| view.path(ino).ok().flatten());
            path.flatten()
        });
        RecordFile {
            range,
            ino,
            path: path.clone(),
        }
    };
    Ok(FoundFiles {
        files: owners.into_iter().map(&mut file).collect(),
        is_whole,
    })
}

/// The ranges and the inodes that have records there, and whether all pages were searched.
fn owners(view: &StateView, wanted: &RecordSearch<'_>) -> (BTreeSet<(usize, Ino)>, bool) {
    let mut found = BTreeSet::new();
    let mut is_whole = true;
    let mut pages = vec![ROOT_SLOT];
    while let Some(slot) = pages.pop() {
        if found.len() >= wanted.files_max || !(wanted.has_time)() {
            return (found, false);
        }
        let is_damaged = wanted
            .damaged_pages
            .iter()
            .any(|range| range.contains(&slot));
        let page = match is_damaged {
            true => None,
            false => view.load(slot).ok(),
        };
        let Some(page) = page else {
            is_whole = false;
            continue;
        };
        match page.kind() {
            PageKind::Leaf => (0..page.len()).for_each(|at| note(&page, at, wanted, &mut found)),
            PageKind::Inner => pages.extend((0..page.len()).map(|at| page.child(at))),
        }
    }
    (found, is_whole)
}

/// Notes the inode of a cell that leads to one of the records.
fn note(page: &TreePage, at: usize, wanted: &RecordSearch<'_>, found: &mut BTreeSet<(usize, Ino)>) {
    let Some((slots, ino)) = slots_of(page.key(at), page.value(at)) else {
        return;
    };
    let ranges = wanted.records.iter().enumerate();
    let hit = ranges.filter(|(_, range)| slots.start < range.end && range.start < slots.end);
    found.extend(hit.map(|(range, _)| (range, ino)));
}

/// The slots of records in a cell of the tree, and its inode.
fn slots_of(key: &[u8], value: &[u8]) -> Option<(Range<u64>, Ino)> {
    let (ino, rest) = key.split_first_chunk::<8>()?;
    let (kind, rest) = rest.split_first()?;
    let ino = Ino::from_be_bytes(*ino);
    if *kind == KeyKind::Extent as u8 {
        let record = u64::from_be_bytes(rest.try_into().ok()?);
        let extent = RecordExtent::decode(record, value)?;
        let end = extent.slot.saturating_add(extent.count);
        return Some((extent.slot..end, ino));
    }
    if *kind != KeyKind::Xattr as u8 {
        return None;
    }
    match XattrValue::decode(value)? {
        XattrValue::Record { slot, .. } => Some((slot..slot.saturating_add(1), ino)),
        XattrValue::Here(_) => None,
    }
}
