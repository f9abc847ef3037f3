//! The pages below `docs/articles`: sections, blocks of lines, and tables of items.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The pages, as files below `docs/articles`.
const PAGES: [&str; 5] = [
    "solaris-zfs",
    "dm-crypt",
    "pefs",
    "kcf-and-stmf-ha",
    "lustre",
];

/// A document of others, and the page that answers it.
pub(crate) struct Page {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

fn document(name: &str) -> &'static str {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = fs::read_to_string(docs.join(name));
    text.unwrap_or_else(|error| panic!("{name}: {error}"))
        .leak()
}

pub(crate) fn pages() -> [Page; 5] {
    PAGES.map(|name| Page {
        name,
        text: document(&format!("articles/{name}.md")),
    })
}

/// The page that has the table of counts and the table of verbs.
pub(crate) fn index() -> &'static str {
    document("ARTICLES.md")
}

/// The part of a page below one heading.
pub(crate) struct Section {
    pub(crate) page: &'static str,
    pub(crate) title: &'static str,
    text: &'static str,
}

/// Lines that are typed one after the other.
pub(crate) struct Block {
    /// The name of what the lines need; `None` goes on where the block before ended.
    pub(crate) setup: Option<&'static str>,
    pub(crate) text: &'static str,
}

/// A line, and what the page shows below it.
pub(crate) struct Line {
    /// The word before the `$`, `%` or `#`.
    pub(crate) prompt: &'static str,
    pub(crate) text: String,
    pub(crate) shown: Vec<&'static str>,
}

/// A row of a table of items.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) title: &'static str,
    pub(crate) answer: Answer,
    pub(crate) why: &'static str,
    pub(crate) tests: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Answer {
    Works,
    Refused,
    NotHere,
}

pub(crate) fn sections() -> impl Iterator<Item = Section> {
    pages().into_iter().flat_map(|page| {
        let parts = page.text.split("\n## ").skip(1);
        parts.map(move |part| {
            let (title, text) = part.split_once('\n').expect("a heading");
            let page = page.name;
            Section { page, title, text }
        })
    })
}

pub(crate) fn section(page: &str, title: &str) -> Section {
    sections()
        .find(|section| section.page == page && section.title == title)
        .unwrap_or_else(|| panic!("no section {title} in {page}"))
}

impl Section {
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let parts = self.text.split("```console").skip(1);
        parts
            .map(|part| {
                let (setup, text) = part.split_once('\n').expect("a block");
                let setup = Some(setup.trim()).filter(|name| !name.is_empty());
                let text = text.split("```").next().expect("a text");
                Block { setup, text }
            })
            .collect()
    }

    pub(crate) fn items(&self) -> Vec<Item> {
        self.text.lines().filter_map(item).collect()
    }
}

fn item(line: &'static str) -> Option<Item> {
    let row = line.strip_prefix('|')?.strip_suffix(" |")?;
    let cells: Vec<&str> = row.split(" |").map(str::trim).collect();
    let [title, answer, why, tests] = cells[..] else {
        return None;
    };
    let answer = match answer {
        "works" => Answer::Works,
        "refused" => Answer::Refused,
        "not here" => Answer::NotHere,
        _ => return None,
    };
    Some(Item {
        title,
        answer,
        why,
        tests,
    })
}

impl Block {
    pub(crate) fn lines(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for line in self.text.lines().filter(|line| !line.is_empty()) {
            let last = lines.last_mut();
            match (command(line), last) {
                (Some((prompt, text)), _) => lines.push(Line {
                    prompt,
                    text: text.into(),
                    shown: Vec::new(),
                }),
                (None, Some(last)) if last.text.ends_with('\\') => {
                    last.text.pop();
                    last.text += line.trim_start();
                }
                (None, Some(last)) => last.shown.push(line),
                (None, None) => panic!("no command before {line}"),
            }
        }
        lines
    }
}

/// The prompt of a command line, and the command.
fn command(line: &'static str) -> Option<(&'static str, &'static str)> {
    let (prompt, text) = line.split_once(' ')?;
    let word = prompt.strip_suffix(['$', '%', '#'])?;
    word.chars()
        .all(char::is_alphanumeric)
        .then_some((word, text.trim_start()))
}

impl Item {
    /// The reason why the row is not true of the tests, if so.
    pub(crate) fn fault(&self, blocks: &[Block]) -> Option<String> {
        if self.answer != Answer::Works && self.why.is_empty() {
            return Some("no reason".into());
        }
        if self.tests == "typed" {
            let is_refused = |block: &Block| block.lines().iter().any(|line| line.is_refused());
            let typed = match self.answer {
                Answer::Refused => blocks.iter().any(is_refused),
                _ => !blocks.is_empty(),
            };
            return (!typed).then(|| "nothing is typed".into());
        }
        match self.answer {
            Answer::Works if self.tests.is_empty() => Some("no test".into()),
            _ => self.tests.split(", ").find_map(missing_test),
        }
    }
}

/// Returns an error text if a test cannot be found. It is named as `` `FILE: FUNCTION` ``. FILE is the end of a path below
/// `crates`, from which folders may be left out: `zones` is `cli/tests/rights/zones.rs`.
fn missing_test(name: &str) -> Option<String> {
    if name.is_empty() {
        return None;
    }
    let Some((file, function)) = name.trim_matches('`').split_once(": ") else {
        return Some(format!("no test is called {name}"));
    };
    let is_there = sources()
        .iter()
        .any(|(path, text)| is_named(path, file) && text.contains(&format!("fn {function}(")));
    (!is_there).then(|| format!("there is no test {name}"))
}

/// Returns whether the folders and the file of `short` are in `path`, in their order.
fn is_named(path: &Path, short: &str) -> bool {
    let path = path.with_extension("");
    let mut parts = path.iter();
    short.split('/').all(|word| parts.any(|part| part == word)) && parts.next().is_none()
}

/// All sources below `crates`, and their texts.
fn sources() -> &'static [(PathBuf, String)] {
    static SOURCES: LazyLock<Vec<(PathBuf, String)>> = LazyLock::new(|| {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..")];
        let mut all = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "rs") {
                    let text = fs::read_to_string(&path).unwrap_or_default();
                    all.push((path, text));
                }
            }
        }
        all
    });
    &SOURCES
}

impl Line {
    pub(crate) fn is_refused(&self) -> bool {
        self.refusal().is_some()
    }

    /// The message of a refused command.
    pub(crate) fn refusal(&self) -> Option<&'static str> {
        let is_message = |line: &&&str| {
            ["strongroom: ", "error: "]
                .iter()
                .any(|start| line.starts_with(start))
        };
        self.shown.iter().find(is_message).copied()
    }

    /// The questions that the command asks.
    pub(crate) fn questions(&self) -> Vec<&'static str> {
        let shown = self.shown.iter().copied();
        shown.filter(|line| is_question(line)).collect()
    }

    /// The other lines that the page shows.
    pub(crate) fn output(&self) -> Vec<&'static str> {
        let shown = self.shown.iter().copied();
        shown
            .filter(|line| !is_question(line) && Some(*line) != self.refusal())
            .collect()
    }
}

fn is_question(line: &str) -> bool {
    line.starts_with("Enter ") || line.contains("(y/N) ")
}
