//! Differences between a snapshot and a later state: files by name, or, without a key, the number of records.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use dataset::{Difference, DifferenceKind};
use pool::{ArrayKind, Entry};
use protocol::api::{DiffReport, DiffRow, Reply};
use protocol::characters::is_hidden;
use vfs::Kind;

use crate::failure::{Failure, Result};
use crate::ops::datasets::volumes::refuse_volume;
use crate::state::callers::budget::Payer;
use crate::state::callers::context::CallerContext;
use crate::state::callers::row_stream::RowStream;
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;

/// The number of times that a comparison starts again because a dataset in use has freed a record that was being
/// compared.
const TRIES: usize = 10;

struct ComparisonResult {
    /// The differences, and the directory where the dataset is mounted. `None` if the key is not loaded.
    files: Option<(Vec<Difference>, Vec<u8>)>,
    /// The numbers for [`DiffReport::metadata`] and [`DiffReport::contents`].
    counts: [[u64; 2]; 2],
}

impl Daemon {
    /// Compares two states. The rows of files are sent, except the last ones, which are in the report.
    pub(crate) fn diff(
        &self,
        from: &str,
        to: Option<&str>,
        context: &mut CallerContext<'_>,
    ) -> Result<DiffReport> {
        let found = self.compared(from, to, context)?;
        let [metadata, contents] = found.counts;
        let report = |files| DiffReport {
            files,
            metadata,
            contents,
        };
        let Some((files, dir)) = found.files else {
            return Ok(report(None));
        };
        let (payer, channel) = (context.payer(), &mut *context.channel);
        let send = |files| channel.rows(Reply::Diff(report(Some(files))));
        let mut rows = RowStream::new(payer, send);
        for file in files {
            rows.push(row(&file, &dir))?;
        }
        let rest = rows.into_rest();
        Ok(report(Some(rest)))
    }

    fn compared(
        &self,
        from: &str,
        to: Option<&str>,
        context: &CallerContext<'_>,
    ) -> Result<ComparisonResult> {
        let payer = context.payer();
        let (active, older) = self.find(from)?;
        if !older.is_snapshot() {
            return Err(Failure::usage(format!(
                "'{from}' is not a snapshot; the first name is a snapshot: DATASET@SNAPSHOT"
            )));
        }
        let (dataset, _) = from.split_once('@').unwrap_or((from, ""));
        let to = match to {
            None => dataset.to_owned(),
            Some(to) if to.starts_with('@') => format!("{dataset}{to}"),
            Some(to) => to.to_owned(),
        };
        let newer = active.pool.find(&to)?;
        active.again(&older, from, context.decision)?;
        active.again(&newer, &to, context.decision)?;
        refuse_volume(&older, from, "compared file by file")?;
        if !active.pool.is_earlier(&older, &newer) {
            return Err(Failure::usage(format!(
                "'{from}' is not an earlier snapshot of '{to}'"
            )));
        }
        if !newer.is_snapshot() && !active.pool.is_read_only() {
            active.pool.commit()?;
        }
        for _ in 1..TRIES {
            let now = active.pool.entry(newer.id)?;
            let found = active.compare(&older, &now, payer);
            if found.is_ok() || active.pool.entry(now.id)?.roots == now.roots {
                return found;
            }
        }
        active.compare(&older, &*active.pool.entry(newer.id)?, payer)
    }
}

/// The failure of a comparison that would take more memory than the caller may use.
fn too_different(memory: u64) -> Failure {
    Failure::usage(format!(
        "the comparison needs more than {} MiB of memory; compare snapshots between which less has changed",
        memory >> 20
    ))
}

impl ActivePool {
    fn compare(&self, older: &Arc<Entry>, newer: &Entry, payer: Payer) -> Result<ComparisonResult> {
        let mut counts = [[0; 2]; 2];
        for array in ArrayKind::ALL {
            let [gone, new] = &mut counts[array as usize];
            let pool = &self.pool;
            pool.records_besides(newer, older, array, &mut |_, _| *gone += 1)?;
            pool.records_besides(older, newer, array, &mut |_, _| *new += 1)?;
        }
        let root = self.key_root(newer)?;
        let files = match root == 0 || self.has_key(root) {
            false => None,
            true => {
                let using = self.use_key(root, "a comparison", None);
                let keys = self.data_keys(newer)?;
                let (ended, memory) = (using.ended(), payer.comparison_max());
                let found = dataset::diff(&self.pool, older, newer, keys, &ended, memory);
                let found = found.map_err(|error| match error {
                    dataset::Error::Fs(vfs::Error::NoMemory) => too_different(memory),
                    error => using.explain(self.explain_foreign(newer, error.into())),
                });
                Some((found?, self.dir_of(newer)))
            }
        };
        Ok(ComparisonResult { files, counts })
    }

    /// The directory where the dataset is mounted; empty if it is not.
    pub(crate) fn dir_of(&self, entry: &Entry) -> Vec<u8> {
        let id = match entry.is_snapshot() {
            true => entry.parent,
            false => entry.id,
        };
        let mounts = self.mounts.lock();
        let dir = mounts.get(&id).map(|state| state.dir().into_os_string());
        dir.map_or_else(Vec::new, OsString::into_vec)
    }
}

fn row(found: &Difference, dir: &[u8]) -> DiffRow {
    let whole = |path: &Vec<u8>| escaped(&[dir, path].concat());
    DiffRow {
        change: match found.change {
            DifferenceKind::Added => "+",
            DifferenceKind::Removed => "-",
            DifferenceKind::Modified => "M",
            DifferenceKind::Renamed => "R",
        }
        .into(),
        kind: match found.kind {
            Kind::Directory => "/",
            Kind::Symlink => "@",
            Kind::Fifo => "|",
            Kind::Socket => "=",
            Kind::BlockDevice => "B",
            Kind::CharDevice => "C",
            Kind::File => "F",
        }
        .into(),
        path: whole(&found.path),
        new_path: found.new_path.as_ref().map(whole),
        time: found.ctime.secs,
        nanos: found.ctime.nanos,
    }
}

/// A path in one word: spaces, backslashes, hidden characters and bytes that are no text are in octal, as `zfs diff` writes
/// them.
fn escaped(path: &[u8]) -> String {
    let mut text = String::new();
    let octal = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            // Writes to a string do not fail.
            write!(text, "\\{byte:04o}").expect("into memory");
        }
    };
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c.is_whitespace() || c == '\\' || is_hidden(c) {
                false => text.push(c),
                true => octal(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        octal(&mut text, chunk.invalid());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_of_one_word() {
        assert_eq!(escaped(b"/a b/\\\n\xff~"), r"/a\0040b/\0134\0012\0377~");
        assert_eq!(escaped("/größe/漢字".as_bytes()), "/größe/漢字");
        assert_eq!(
            escaped("/a\u{202e}b\u{a0}\u{9b}".as_bytes()),
            r"/a\0342\0200\0256b\0302\0240\0302\0233"
        );
    }
}
