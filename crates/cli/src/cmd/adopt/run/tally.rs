//! What was copied, and what was left.

use std::path::Path;

use protocol::api::{Failure, FailureKind};
use serde::Serialize;

use super::trouble::Trouble;
use crate::outcome::Outcome;
use crate::show::size::human;
use crate::show::{json, text};

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    File(u64),
    Directory,
    Link,
    Symlink,
    Special,
    /// It was there already.
    Equal,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Tally {
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
    lines: String,
    #[serde(skip)]
    failures: Vec<Failure>,
    #[serde(skip)]
    is_verbose: bool,
}

impl Tally {
    pub(super) fn new(dry_run: bool, is_verbose: bool) -> Tally {
        Tally {
            dry_run,
            is_verbose,
            ..Tally::default()
        }
    }

    pub(super) fn add(&mut self, path: &Path, done: Done) {
        let what = match done {
            Done::File(bytes) => {
                self.files += 1;
                self.bytes += bytes;
                "file"
            }
            Done::Directory => {
                self.directories += 1;
                "directory"
            }
            Done::Link => {
                self.links += 1;
                "hard link"
            }
            Done::Symlink => {
                self.symlinks += 1;
                "symbolic link"
            }
            Done::Special => {
                self.special += 1;
                "special file"
            }
            Done::Equal => {
                self.equal += 1;
                return;
            }
        };
        if self.is_verbose {
            let path = path.to_string_lossy();
            self.lines += &format!("{what:13}  {}\n", text::in_a_cell(&path));
        }
    }

    /// Something is left.
    pub(super) fn leave(&mut self, path: &Path, trouble: Trouble) {
        self.left += 1;
        let message = format!("'{}': {}", path.display(), trouble.why);
        self.failures.push(Failure::new(trouble.kind, message));
    }

    pub(super) fn outcome(self, as_json: bool) -> Outcome {
        let text = match as_json {
            true => json::show(&self),
            false => self.text(),
        };
        let mut kinds = self.failures.iter().map(|failure| failure.kind);
        let exit_code = match kinds.any(|kind| kind == FailureKind::NoSpace) {
            true => FailureKind::NoSpace.exit_code(),
            false => FailureKind::Other.exit_code(),
        };
        Outcome {
            text,
            exit_code: (!self.failures.is_empty()).then_some(exit_code),
            failures: self.failures,
        }
    }

    fn text(&self) -> String {
        let (copied, made) = match self.dry_run {
            true => ("would copy", "would make"),
            false => ("copied and verified", "made"),
        };
        let mut text = self.lines.clone();
        let size = human(self.bytes);
        text += &format!("{copied} {} ({size})\n", count(self.files, "file", "files"));
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
