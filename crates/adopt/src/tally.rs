//! Counts of what was copied and what was left out.

use std::path::Path;

use console::outcome::Outcome;
use console::show::size::human;
use console::show::{json, text};
use indicatif::ProgressBar;
use protocol::api::FailureKind;
use serde::Serialize;

use crate::trouble::Trouble;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryResult {
    File(u64),
    Directory,
    Link,
    Symlink,
    Special,
    /// The target had an equal entry already.
    Equal,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct CopyTally {
    files: u64,
    bytes: u64,
    directories: u64,
    links: u64,
    symlinks: u64,
    special: u64,
    equal: u64,
    left: u64,
    dry_run: bool,
    #[serde(skip)]
    is_full: bool,
    #[serde(skip)]
    is_verbose: bool,
    #[serde(skip)]
    bar: Option<ProgressBar>,
}

impl CopyTally {
    pub(crate) fn new(dry_run: bool, is_verbose: bool, bar: Option<ProgressBar>) -> CopyTally {
        CopyTally {
            dry_run,
            is_verbose,
            bar,
            ..CopyTally::default()
        }
    }

    pub(crate) fn add(&mut self, path: &Path, done: EntryResult) {
        let what = match done {
            EntryResult::File(bytes) => {
                self.files += 1;
                self.bytes += bytes;
                "file"
            }
            EntryResult::Directory => {
                self.directories += 1;
                "directory"
            }
            EntryResult::Link => {
                self.links += 1;
                "hard link"
            }
            EntryResult::Symlink => {
                self.symlinks += 1;
                "symbolic link"
            }
            EntryResult::Special => {
                self.special += 1;
                "special file"
            }
            EntryResult::Equal => {
                self.equal += 1;
                return;
            }
        };
        if self.is_verbose {
            let path = path.to_string_lossy();
            let line = format!("{what:13}  {}\n", text::in_a_cell(&path));
            // The last lines say whether the standard output can be written.
            self.say(|| drop(text::print(&line)));
        }
    }

    /// Says something at once: what a copy has to say may be longer than the memory.
    fn say(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Counts an entry that is left out.
    pub(crate) fn leave(&mut self, path: &Path, trouble: &Trouble) {
        self.left += 1;
        self.is_full |= trouble.kind == FailureKind::NoSpace;
        let message = format!("'{}': {}", path.display(), trouble.why);
        self.say(|| text::complain(&message));
    }

    /// The kind of failure, if something is left.
    pub(crate) fn failure(&self) -> Option<FailureKind> {
        let kind = match self.is_full {
            true => FailureKind::NoSpace,
            false => FailureKind::Other,
        };
        (self.left > 0).then_some(kind)
    }

    pub(crate) fn outcome(self, as_json: bool) -> Outcome {
        let text = match as_json {
            true => json::show(&self),
            false => self.text(),
        };
        Outcome {
            text,
            exit_code: self.failure().map(FailureKind::exit_code),
            ..Outcome::done()
        }
    }

    fn text(&self) -> String {
        let (copied, made) = match self.dry_run {
            true => ("would copy", "would make"),
            false => ("copied and verified", "made"),
        };
        let (files, size) = (count(self.files, "file", "files"), human(self.bytes));
        let mut text = format!("{copied} {files} ({size})\n");
        let others = [
            (self.directories, "directory", "directories"),
            (self.links, "hard link", "hard links"),
            (self.symlinks, "symbolic link", "symbolic links"),
            (self.special, "special file", "special files"),
        ];
        let others = others.into_iter().filter(|(number, ..)| *number > 0);
        let others: Vec<String> = others
            .map(|(number, one, many)| count(number, one, many))
            .collect();
        if !others.is_empty() {
            text += &format!("{made} {}\n", others.join(", "));
        }
        if self.equal > 0 {
            let equal = count(self.equal, "entry was", "entries were");
            text += &format!("{equal} there already\n");
        }
        if self.left > 0 {
            let left = count(self.left, "entry is", "entries are");
            text += &format!("{left} left: see the errors\n");
        }
        text
    }
}

fn count(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}
