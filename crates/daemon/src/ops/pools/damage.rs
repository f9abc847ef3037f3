//! The names of what is damaged.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

use dataset::{FoundFiles, RecordFile, RecordSearch};
use pool::{ArrayKind, Damage};

use crate::failure::Result;
use crate::state::pools::active_pool::ActivePool;

/// The time for the names of files in one report.
const TIME_MAX: Duration = Duration::from_secs(5);
/// The pages of metadata of one dataset that are read for the names of its files.
const PAGES_MAX: u64 = 1 << 14;
/// The files of one dataset that are named.
const FILES_MAX: usize = 100;

/// The places of damage. With `files` they are the paths of files, as far as the keys of the datasets are loaded.
pub(super) fn names(active: &ActivePool, found: &[&Damage], files: bool) -> Vec<String> {
    let known = match files {
        true => search(active, found),
        false => BTreeMap::new(),
    };
    let mut names: Vec<String> = Vec::new();
    let mut tell = |name: String| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    for damage in found {
        let in_dataset = known.get(&damage.dataset).filter(|_| has_files(damage));
        let of_files = in_dataset.map_or(Vec::new(), |known| known.files_in(&slots(damage)));
        if of_files.is_empty() || damage.level > 0 {
            let hint = in_dataset.and_then(DamagedFiles::hint).unwrap_or_default();
            tell(describe(active, damage) + &hint);
        }
        of_files
            .into_iter()
            .for_each(|file| tell(file + why(damage)));
    }
    names
}

/// The files with damaged records of a dataset, as far as they are known.
enum DamagedFiles {
    Found {
        /// The name of the dataset.
        name: String,
        /// The directory where the dataset is mounted.
        dir: Vec<u8>,
        ranges: Vec<Range<u64>>,
        found: FoundFiles,
    },
    /// The key of this dataset is not loaded.
    Locked(String),
}

impl DamagedFiles {
    /// The files with records in these slots.
    fn files_in(&self, slots: &Range<u64>) -> Vec<String> {
        let DamagedFiles::Found {
            name,
            dir,
            ranges,
            found,
        } = self
        else {
            return Vec::new();
        };
        let here = |file: &&RecordFile| ranges.get(file.range) == Some(slots);
        let shown = |file: &RecordFile| match (&file.path, dir.is_empty()) {
            (Some(path), _) => format!("{name}: {}", shown(&[dir, path.as_slice()].concat())),
            (None, true) => format!("{name}: inode {}", file.ino),
            (None, false) => format!(
                "{name}: inode {}; to look for its name: find {} -xdev -inum {}",
                file.ino,
                shown(dir),
                file.ino
            ),
        };
        found.files.iter().filter(here).map(shown).collect()
    }

    /// The reason why no file is named.
    fn hint(&self) -> Option<String> {
        match self {
            DamagedFiles::Locked(root) => Some(format!(
                "; its name is encrypted; to see it: strongroom key load {root}"
            )),
            DamagedFiles::Found { found, .. } if !found.is_whole => {
                Some("; not all metadata was searched for its name".into())
            }
            DamagedFiles::Found { .. } => None,
        }
    }
}

/// Searches the datasets with damaged records for the files that have them.
fn search(active: &ActivePool, found: &[&Damage]) -> BTreeMap<u64, DamagedFiles> {
    let until = Instant::now() + TIME_MAX;
    let mut records: BTreeMap<u64, Vec<Range<u64>>> = BTreeMap::new();
    for damage in found.iter().filter(|damage| has_files(damage)) {
        let ranges = records.entry(damage.dataset).or_default();
        if !ranges.contains(&slots(damage)) {
            ranges.push(slots(damage));
        }
    }
    let mut known = BTreeMap::new();
    for (id, ranges) in records {
        let of_pages = |damage: &&&Damage| {
            damage.dataset == id
                && damage.array == Some(ArrayKind::Pages)
                && damage.in_checkpoint.is_none()
        };
        let pages: Vec<_> = found.iter().filter(of_pages).map(|it| slots(it)).collect();
        match files_of(active, id, ranges, &pages, until) {
            Ok(Some(files)) => drop(known.insert(id, files)),
            Ok(None) => {}
            Err(failure) => {
                let reason = failure.message;
                tracing::info!(reason, id, "damaged files could not be named");
            }
        }
    }
    known
}

/// The files of a dataset or snapshot that have these records; `None` of a volume.
fn files_of(
    active: &ActivePool,
    id: u64,
    ranges: Vec<Range<u64>>,
    damaged_pages: &[Range<u64>],
    until: Instant,
) -> Result<Option<DamagedFiles>> {
    let entry = active.pool.entry(id)?;
    if entry.volume().is_some() {
        return Ok(None);
    }
    let root = active.key_root(&entry)?;
    if root != 0 && !active.has_key(root) {
        return Ok(Some(DamagedFiles::Locked(active.pool.name_of(root)?)));
    }
    let using = active.use_key(root, "a report on damaged files", None);
    let keys = active.data_keys(&entry)?;
    let wanted = RecordSearch {
        records: &ranges,
        damaged_pages,
        pages_max: PAGES_MAX,
        files_max: FILES_MAX,
        has_time: &|| Instant::now() < until && !using.is_ended(),
    };
    let found = dataset::files_with(&active.pool, &entry, keys, &wanted, &using.ended())?;
    // The paths in a snapshot are not those in the mount.
    let dir = match entry.is_snapshot() {
        true => Vec::new(),
        false => active.dir_of(&entry),
    };
    Ok(Some(DamagedFiles::Found {
        name: active.pool.name_of(id)?,
        dir,
        ranges,
        found,
    }))
}

/// Returns whether damage is in records of a dataset that is there now.
fn has_files(damage: &Damage) -> bool {
    damage.array == Some(ArrayKind::Data) && damage.in_checkpoint.is_none()
}

/// The slots that are lost.
fn slots(damage: &Damage) -> Range<u64> {
    let fanout = pool::FANOUT as u64;
    let count = fanout.checked_pow(damage.level.into()).unwrap_or(u64::MAX);
    damage.slot..damage.slot.saturating_add(count)
}

/// A path as text: bytes that are not valid as `\xNN`. The command line escapes control characters.
fn shown(path: &[u8]) -> String {
    let mut text = String::new();
    for chunk in path.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writes to a string do not fail.
            write!(text, "\\x{byte:02x}").expect("into memory");
        }
    }
    text
}

fn why(damage: &Damage) -> &'static str {
    match damage.is_unreadable {
        true => ", which a device fails to read",
        false => "",
    }
}

/// The place of damage, by names as far as they are known without a key.
fn describe(active: &ActivePool, damage: &Damage) -> String {
    let Some(array) = damage.array else {
        return match damage.in_checkpoint {
            Some(_) => "the checkpoint's own records".into(),
            None => "the pool's own records".into(),
        };
    };
    let dataset = match &damage.in_checkpoint {
        // The name at the time of the checkpoint. It may now belong to another dataset, or to none.
        Some(name) => format!("{name} in the checkpoint"),
        None => {
            let name = active.pool.name_of(damage.dataset);
            name.unwrap_or_else(|_| format!("dataset {}", damage.dataset))
        }
    };
    let what = match (array, damage.level) {
        (ArrayKind::Data, 0) => "a record of a file",
        (ArrayKind::Data, _) => "many records of files",
        (ArrayKind::Pages, 0) => "a page of metadata",
        (ArrayKind::Pages, _) => "many pages of metadata",
    };
    format!("{dataset}: {what}, slot {}{}", damage.slot, why(damage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_names_that_are_no_text() {
        assert_eq!(shown(b"/a b/\xff\n"), "/a b/\\xff\n");
    }
}
