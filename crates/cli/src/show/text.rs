//! Text that is safe to print.
//!
//! Names, hosts and user properties come from devices that somebody else may have written. A terminal
//! obeys control characters, so none of theirs reaches one.

use std::borrow::Cow;

/// The text with control characters spelled out, but for the line ends and tabs of this program.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escape(text, |c| c.is_control() && c != '\n' && c != '\t')
}

/// The text in one line and one column: without any control character.
pub(crate) fn in_a_cell(text: &str) -> Cow<'_, str> {
    escape(text, char::is_control)
}

fn escape(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_bad) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match is_bad(c) {
            true => safe.extend(c.escape_default()),
            false => safe.push(c),
        }
    }
    safe.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(printable("tank\t1\n"), "tank\t1\n");
        assert_eq!(printable("a\x1b[2Jb\u{9b}c\r"), r"a\u{1b}[2Jb\u{9b}c\r");
        assert_eq!(in_a_cell("a\tb\nc"), r"a\tb\nc");
        assert_eq!(in_a_cell("größe"), "größe");
    }
}
