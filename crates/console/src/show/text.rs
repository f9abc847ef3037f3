//! Text that is safe to print.
//!
//! Names, hosts and user properties come from devices that another user may have written. A terminal
//! obeys control characters and bidirectional marks, so none of theirs reaches one.

use std::borrow::Cow;
use std::io::{self, Write};

use protocol::characters::escaped;

/// The text with hidden characters spelled out, but for the line ends and tabs of this program.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c == '\n' || c == '\t')
}

/// The text in one line and one column: without any hidden character.
pub fn in_a_cell(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// An error in one line, without the numbers that the standard library puts behind the system's words.
pub fn message(text: &str) -> String {
    const BEFORE: &str = " (os error ";
    let text = in_a_cell(text);
    let mut pieces = text.split(BEFORE);
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit());
        match rest.strip_prefix(')') {
            Some(rest) if rest.len() + 1 < piece.len() => plain += rest,
            _ => plain = plain + BEFORE + piece,
        }
    }
    plain
}

/// Prints a text, whole.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(printable(text).as_bytes())?;
    out.flush()
}

/// Says on the standard error what failed.
pub fn complain(why: &str) {
    eprintln!("strongroom: {}", message(why));
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
        assert_eq!(printable("a\u{202e}b\u{200b}"), r"a\u{202e}b\u{200b}");
    }
    #[test]
    fn errors_have_no_numbers_of_the_system() {
        let error = std::io::Error::from_raw_os_error(2);
        assert_eq!(
            message(&format!("cannot open a\n: {error}; make it")),
            r"cannot open a\n: No such file or directory; make it"
        );
        for name in ["x (os error 2", "x (os error )", "x (os error b)"] {
            assert_eq!(message(name), name);
        }
    }
}
