//! Pages of the guide about faults, as they are in the book.
//!
//! The program prints them for readers who do not have the book. Their tables say which page belongs to an exit code, and
//! which to a message or a state: nothing of that is written a second time here.

use crate::api::FailureKind;

/// A page of the chapter "When things go wrong".
#[derive(Debug, PartialEq, Eq)]
pub struct GuidePage {
    /// The name of the page on the command line.
    pub name: &'static str,
    /// The file of the page in the book.
    file: &'static str,
    /// The text of the page, in Markdown.
    pub text: &'static str,
}

macro_rules! page {
    ($name:literal, $file:literal) => {
        GuidePage {
            name: $name,
            file: $file,
            text: include_str!(concat!("../../../docs/guide/src/wrong/", $file)),
        }
    };
}

/// All pages, in the order of the book. `scripts/documents` checks that none is missing.
pub const PAGES: &[GuidePage] = &[
    page!("errors", "README.md"),
    page!("daemon-down", "daemon-down.md"),
    page!("pool-suspended", "pool-suspended.md"),
    page!("pool-stalled", "pool-stalled.md"),
    page!("pool-degraded", "pool-degraded.md"),
    page!("pool-missing", "pool-missing.md"),
    page!("device-not-online", "device-not-online.md"),
    page!("device-incomplete", "device-incomplete.md"),
    page!("device-errors", "device-errors.md"),
    page!("mount-errors", "mount-errors.md"),
    page!("data-damaged", "data-damaged.md"),
    page!("scrub-too-old", "scrub-too-old.md"),
    page!("pool-full", "pool-full.md"),
    page!("keys-not-loaded", "keys-not-loaded.md"),
    page!("wrong-keys", "wrong-keys.md"),
    page!("work-waits", "work-waits.md"),
    page!("replication-behind", "replication-behind.md"),
    page!("copy-damaged", "copy-damaged.md"),
    page!("device-larger", "device-larger.md"),
    page!("exit-codes", "exit-codes.md"),
];

/// The folder of the pages in the repository.
pub const FOLDER: &str = "docs/guide/src/wrong/";

/// The address of the documents of the repository.
pub const DOCUMENTS: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

impl GuidePage {
    /// The page with this name, or of this alert or state: `pool-suspended`, `StrongroomPoolSuspended`, `SUSPENDED`.
    pub fn find(word: &str) -> Option<&'static GuidePage> {
        if let Some(page) = PAGES.iter().find(|page| page.name == word) {
            return Some(page);
        }
        if !word.starts_with(|c: char| c.is_ascii_uppercase()) {
            return None;
        }
        let quoted = format!("`{word}`");
        // A page begins with what it is about, and may name others after it.
        let place = |page: &'static GuidePage| Some((page.summary().find(&quoted)?, page));
        let found = PAGES.iter().filter_map(place);
        let found = found.min_by_key(|(place, _)| *place).map(|(_, page)| page);
        // States of devices share a page, and are in tables.
        let has_row = |page: &&GuidePage| rows(page.text).any(|cells| cells[0].contains(&quoted));
        found
            .or_else(|| GuidePage::about(word, None))
            .or_else(|| PAGES.iter().find(has_row))
    }

    /// The page to which a link of another page leads.
    pub fn linked(link: &str) -> Option<&'static GuidePage> {
        let file = link.split('#').next()?;
        PAGES.iter().find(|page| page.file == file)
    }

    /// The page about a pool in this state, of which a report says this.
    pub fn about(state: &str, message: Option<&str>) -> Option<&'static GuidePage> {
        let rows = || rows(PAGES[0].text).filter(|cells| cells.len() == 2);
        let says = |cell: &str| {
            message.is_some_and(|message| quotes(cell).any(|quote| is_in(quote, message)))
        };
        let is_state = |cell: &str| cell.contains(&format!("`{state}`"));
        let row = rows()
            .find(|cells| says(cells[0]))
            .or_else(|| rows().find(|cells| is_state(cells[0])))?;
        links(row[1]).find_map(GuidePage::linked)
    }

    /// The heading of the page.
    pub fn title(&self) -> &'static str {
        let line = self.text.lines().next().unwrap_or_default();
        line.trim_start_matches("# ")
    }

    /// The address of the page, for a reader with a browser.
    pub fn url(&self) -> String {
        format!("{DOCUMENTS}{FOLDER}{}", self.file)
    }

    /// The first paragraph of the page, which names alerts and states.
    fn summary(&self) -> &'static str {
        self.text.split("\n\n").nth(1).unwrap_or_default()
    }
}

/// The row of an exit code in the pages.
#[derive(Debug)]
pub struct ExitCode {
    /// The number.
    pub code: u8,
    /// The meaning of the exit code.
    pub meaning: &'static str,
    /// The advice, in Markdown: words, or links to pages and to a section.
    pub advice: &'static str,
}

impl ExitCode {
    /// The exit codes, in order.
    pub fn all() -> impl Iterator<Item = ExitCode> {
        rows(codes().text).filter_map(|cells| match cells[..] {
            [code, meaning, advice] => Some(ExitCode {
                code: code.parse().ok()?,
                meaning,
                advice,
            }),
            _ => None,
        })
    }

    /// An exit code.
    pub fn find(code: u8) -> Option<ExitCode> {
        ExitCode::all().find(|known| known.code == code)
    }

    /// Returns whether there is more to read than the row of the table.
    pub fn is_explained(&self) -> bool {
        self.section().is_some() || self.pages().next().is_some()
    }

    /// The pages about it.
    pub fn pages(&self) -> impl Iterator<Item = &'static GuidePage> {
        links(self.advice).filter_map(GuidePage::linked)
    }

    /// The section about it, without its heading.
    pub fn section(&self) -> Option<&'static str> {
        let head = format!("\n## {}: ", self.code);
        let (_, section) = codes().text.split_once(&head)?;
        let (_, body) = section.split_once('\n')?;
        Some(body.split("\n## ").next().unwrap_or(body).trim())
    }

    /// The address of what is said about it: of a page of its own, else of the page of all codes.
    pub fn url(&self) -> String {
        let own = self.pages().next();
        let section = links(self.advice).find(|link| link.starts_with('#'));
        own.unwrap_or_else(codes).url() + section.unwrap_or_default()
    }
}

/// The address of the page about failures of a kind, if there is more to say than a message does.
pub fn page_url(kind: FailureKind) -> Option<String> {
    let code = ExitCode::find(kind.exit_code())?;
    code.is_explained().then(|| code.url())
}

/// The page with the table of exit codes.
fn codes() -> &'static GuidePage {
    &PAGES[PAGES.len() - 1]
}

/// The rows of the tables in a page, as cells. Heads of tables are among them.
fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter_map(|line| {
        let cells = line.strip_prefix('|')?.strip_suffix('|')?;
        Some(cells.split('|').map(str::trim).collect())
    })
}

/// The targets of the links of a text.
fn links(text: &'static str) -> impl Iterator<Item = &'static str> {
    let parts = text.split("](").skip(1);
    parts.filter_map(|part| Some(part.split_once(')')?.0))
}

/// Messages of the program that a text quotes: `*...*`.
fn quotes(text: &str) -> impl Iterator<Item = &str> {
    text.split('*').skip(1).step_by(2)
}

/// Returns whether a message says what is quoted, in which `...` stands for anything.
fn is_in(quote: &str, message: &str) -> bool {
    let mut rest = message;
    quote.split("...").map(str::trim).all(|part| {
        let found = rest.split_once(part);
        rest = found.map_or(rest, |(_, after)| after);
        found.is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(page: Option<&GuidePage>) -> &str {
        page.map_or("none", |page| page.name)
    }

    #[test]
    fn words_find_their_page() {
        for (word, page) in [
            ("errors", "errors"),
            ("pool-suspended", "pool-suspended"),
            ("SUSPENDED", "pool-suspended"),
            ("StrongroomPoolFull", "pool-full"),
            ("StrongroomPoolDegraded", "pool-degraded"),
            ("ENOSPC", "pool-full"),
            ("FAULTED", "device-not-online"),
            ("MISSING", "device-not-online"),
            ("OFFLINE", "device-not-online"),
            ("RESILVERING", "pool-degraded"),
            ("REMOVING", "device-not-online"),
            ("AVAIL", "device-not-online"),
            ("ONLINE", "none"),
            ("pool", "none"),
            ("dmesg", "none"),
            ("", "none"),
        ] {
            assert_eq!(name_of(GuidePage::find(word)), page, "{word}");
        }
    }

    #[test]
    fn reports_on_pools_find_their_page() {
        #[rustfmt::skip]
        let rows = [
            ("SUSPENDED", None, "pool-suspended"),
            ("DEGRADED", Some("/dev/sdb failed and is not used any more"), "device-not-online"),
            ("DEGRADED", Some("something else"), "pool-degraded"),
            ("ONLINE", Some("the last scrub began 40 days ago"), "scrub-too-old"),
            ("ONLINE", Some("/dev/sdb had errors. They were repaired."), "device-errors"),
            ("ONLINE", Some("97 % of the space is in use. Programs will soon get ENOSPC."), "pool-full"),
            ("DEGRADED", Some("A device is being resilvered."), "none"),
            ("ONLINE", None, "none"),
        ];
        for (state, message, page) in rows {
            assert_eq!(
                name_of(GuidePage::about(state, message)),
                page,
                "{state} {message:?}"
            );
        }
    }

    /// Each kind of failure has a row. Those about data, keys and devices have more.
    #[test]
    fn every_exit_code_is_in_the_table() {
        let kinds = [
            FailureKind::Other,
            FailureKind::Usage,
            FailureKind::NotFound,
            FailureKind::Exists,
            FailureKind::Busy,
            FailureKind::Permission,
            FailureKind::WrongKey,
            FailureKind::NoKey,
            FailureKind::Damaged,
            FailureKind::TooNew,
            FailureKind::NoSpace,
            FailureKind::Device,
            FailureKind::NoDaemon,
            FailureKind::ForeignLog,
        ];
        for kind in kinds {
            let code = ExitCode::find(kind.exit_code()).expect("a row");
            assert!(!code.advice.is_empty(), "{kind:?}");
            let is_plain = matches!(
                kind,
                FailureKind::Other | FailureKind::Usage | FailureKind::Exists
            );
            assert_eq!(code.is_explained(), !is_plain, "{kind:?}");
            assert_eq!(page_url(kind).is_some(), !is_plain, "{kind:?}");
        }
        assert_eq!(ExitCode::all().count(), kinds.len() + 1);
        assert!(
            ExitCode::find(5)
                .unwrap()
                .section()
                .unwrap()
                .contains("fuser")
        );
        let names = |code| {
            ExitCode::find(code)
                .unwrap()
                .pages()
                .map(|page| page.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(9), ["data-damaged"]);
        assert_eq!(names(12), ["pool-suspended", "device-errors"]);
    }

    #[test]
    fn addresses_lead_to_a_page_or_a_section() {
        let url = |kind: FailureKind| page_url(kind).unwrap_or_default();
        assert!(url(FailureKind::Damaged).ends_with("/docs/guide/src/wrong/data-damaged.md"));
        assert!(url(FailureKind::Busy).ends_with("/exit-codes.md#5-it-is-in-use"));
    }
}
