//! Pages of the guide as plain text: the part of Markdown that they use.
//!
//! A link to another page becomes the command that prints it, any other link a number, with the addresses below the text.

use protocol::pages::{DOCUMENTS, FOLDER, GuidePage};

/// A page in lines of so many columns. Blocks of commands keep their lines.
pub fn plain(markdown: &str, width: usize) -> String {
    let mut out = Plain {
        width,
        ..Plain::default()
    };
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if text.starts_with("```") {
            out.end_paragraph();
            for line in lines
                .by_ref()
                .take_while(|line| !line.trim_start().starts_with("```"))
            {
                out.line(&format!("    {line}"));
            }
        } else if text.starts_with('|') {
            out.end_paragraph();
            let mut rows = vec![cells(text)];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(row));
            }
            out.table(rows);
        } else if let Some((level, title)) = heading(text) {
            out.heading(level, title);
        } else if text.is_empty() {
            out.end_paragraph();
            out.empty_line();
        } else if let Some(mark) = mark(text) {
            out.end_paragraph();
            out.begin(indent, &text[..mark]);
            out.add(&text[mark..]);
        } else {
            out.add(text);
        }
    }
    out.end_paragraph();
    out.addresses();
    out.text
}

#[derive(Default)]
struct Plain {
    width: usize,
    text: String,
    /// The words of the paragraph that is read, and what stands before its first line.
    paragraph: String,
    before: String,
    /// Addresses of other documents, in the order of their numbers.
    addresses: Vec<String>,
}

impl Plain {
    fn line(&mut self, line: &str) {
        self.text += line.trim_end();
        self.text.push('\n');
    }

    fn empty_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn heading(&mut self, level: usize, title: &str) {
        self.end_paragraph();
        self.empty_line();
        let title = self.inline(title);
        let line = if level == 1 { "=" } else { "-" };
        self.line(&title);
        self.line(&line.repeat(title.chars().count()));
    }

    /// Begins the item of a list.
    fn begin(&mut self, indent: usize, mark: &str) {
        self.before = format!("{}{mark}", " ".repeat(indent));
    }

    fn add(&mut self, text: &str) {
        if !self.paragraph.is_empty() {
            self.paragraph.push(' ');
        }
        self.paragraph += text;
    }

    fn end_paragraph(&mut self) {
        let (paragraph, before) = (
            std::mem::take(&mut self.paragraph),
            std::mem::take(&mut self.before),
        );
        if paragraph.is_empty() {
            return;
        }
        let text = self.inline(&paragraph);
        let margin = " ".repeat(before.chars().count());
        for (n, line) in wrap(&text, self.width - margin.len()).iter().enumerate() {
            let start = if n == 0 { &before } else { &margin };
            self.line(&format!("{start}{line}"));
        }
    }

    /// A table; its second row is the line below the heads.
    fn table(&mut self, mut rows: Vec<Vec<&str>>) {
        rows.remove(1);
        let rows: Vec<Vec<String>> = rows
            .into_iter()
            .map(|row| row.into_iter().map(|cell| self.inline(cell)).collect())
            .collect();
        let widths = self.widths(&rows);
        for (n, row) in rows.iter().enumerate() {
            let cells: Vec<Vec<String>> = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| wrap(cell, *width))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for at in 0..height {
                let parts = cells.iter().zip(&widths).map(|(lines, width)| {
                    let part = lines.get(at).map_or("", String::as_str);
                    format!("{part:width$}")
                });
                self.line(&parts.collect::<Vec<_>>().join("  "));
            }
            if n == 0 {
                let line = widths.iter().map(|width| "-".repeat(*width));
                self.line(&line.collect::<Vec<_>>().join("  "));
            }
        }
    }

    /// The widths of columns: what they need, and where that is too much, less of the widest.
    fn widths(&self, rows: &[Vec<String>]) -> Vec<usize> {
        let count = rows.iter().map(Vec::len).max().unwrap_or(0);
        let need = |at: usize| {
            let cells = rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..count).map(need).collect();
        while widths.iter().sum::<usize>() + 2 * count.saturating_sub(1) > self.width {
            match widths.iter_mut().max() {
                Some(widest) if *widest > 10 => *widest -= 1,
                _ => break,
            }
        }
        widths
    }

    /// Text without marks: code keeps its quotes, messages get some.
    fn inline(&mut self, text: &str) -> String {
        let mut plain = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['`', '*', '[']) {
            plain += &rest[..at];
            rest = &rest[at..];
            if let Some((code, after)) =
                rest.strip_prefix('`').and_then(|code| code.split_once('`'))
            {
                plain += &format!("`{code}`");
                rest = after;
            } else if let Some(after) = rest.strip_prefix("**") {
                rest = after;
            } else if let Some(after) = rest.strip_prefix('*') {
                plain.push('"');
                rest = after;
            } else if let Some((words, target, after)) = link(rest) {
                let words = self.inline(words);
                plain += &self.link(words, target);
                rest = after;
            } else {
                plain += &rest[..1];
                rest = &rest[1..];
            }
        }
        plain + rest
    }

    /// A link with these words. A part of the same page needs no more, and the title of a page becomes the command.
    fn link(&mut self, words: String, target: &str) -> String {
        if target.starts_with('#') {
            return words;
        }
        if let Some(page) = GuidePage::linked(target) {
            let command = format!("strongroom help {}", page.name);
            return match words == page.title() {
                true => format!("`{command}`"),
                false => format!("{words} (`{command}`)"),
            };
        }
        let address = address(target);
        let known = self.addresses.iter().position(|other| *other == address);
        let number = known.unwrap_or_else(|| {
            self.addresses.push(address);
            self.addresses.len() - 1
        });
        format!("{words} [{}]", number + 1)
    }

    fn addresses(&mut self) {
        if self.addresses.is_empty() {
            return;
        }
        self.empty_line();
        for (n, address) in std::mem::take(&mut self.addresses).iter().enumerate() {
            self.line(&format!("[{}] {address}", n + 1));
        }
    }
}

/// The address of a document that a page links: the pages are two folders below those of the guide.
fn address(target: &str) -> String {
    let mut folder = FOLDER.trim_end_matches('/');
    let mut rest = target;
    while let Some(above) = rest.strip_prefix("../") {
        folder = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
        rest = above;
    }
    format!("{DOCUMENTS}{folder}/{rest}")
}

fn heading(text: &str) -> Option<(usize, &str)> {
    let title = text.trim_start_matches('#');
    let level = text.len() - title.len();
    let title = title.strip_prefix(' ')?;
    (level > 0).then_some((level, title))
}

/// The length of `- ` or `1. ` at the begin of an item.
fn mark(text: &str) -> Option<usize> {
    if text.starts_with("- ") {
        return Some(2);
    }
    let (number, _) = text.split_once(". ")?;
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    is_number.then_some(number.len() + 2)
}

/// The words, the target and what follows of a link at the begin of a text.
fn link(text: &str) -> Option<(&str, &str, &str)> {
    let (words, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (target, after) = rest.split_once(')')?;
    Some((words, target, after))
}

fn cells(row: &str) -> Vec<&str> {
    row.trim()
        .trim_matches('|')
        .split('|')
        .map(str::trim)
        .collect()
}

/// The text in lines of at most so many columns, if its words allow it.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("it has a line");
        let length = line.chars().count();
        if length > 0 && length + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if length > 0 {
                line.push(' ');
            }
            *line += word;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use protocol::pages::PAGES;

    use super::*;

    #[test]
    fn marks_become_plain_text() {
        let page = "# A *title*\n\nSome **words**, `code *x*` and a\n[page](pool-full.md#a), [A pool is almost full](pool-full.md) or [other\ntext](../keys.md#b).\n\n\
            1. First\n   line\n\n   ```sh\n   run it\n   ```\n\n- [here](#there)\n";
        let text = "A \"title\"\n=========\n\nSome words, `code *x*` and a page (`strongroom\nhelp pool-full`), `strongroom help pool-full`\nor other text [1].\n\n\
            1. First line\n\n       run it\n\n- here\n\n[1] ";
        let shown = plain(page, 46);
        assert!(shown.starts_with(text), "{shown}");
        assert!(
            shown.ends_with("/blob/main/docs/guide/src/keys.md#b\n"),
            "{shown}"
        );
    }

    #[test]
    fn tables_fit_into_the_width() {
        let page = "| a | b |\n|---|---|\n| one | two three four five six seven |\n";
        let text = "a    b\n---  ---------------\none  two three four\n     five six seven\n";
        assert_eq!(plain(page, 20), text);
    }

    /// Only words that cannot be broken, addresses and commands are wider than the page.
    #[test]
    fn every_page_is_readable() {
        for page in PAGES {
            let shown = plain(page.text, 80);
            for line in shown.lines() {
                let is_fixed = line.starts_with("    ") || line.starts_with('[');
                assert!(
                    is_fixed || line.chars().count() <= 80,
                    "{}: {line}",
                    page.name
                );
                assert!(
                    !line.contains("](") && !line.contains("**"),
                    "{}: {line}",
                    page.name
                );
            }
        }
    }
}
