//! Questions before a command destroys something.

use std::io::{self, IsTerminal, Write};

use crate::show::text;

/// Whether there is a terminal to ask at.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal()
}

/// Asks a question that is answered with `y` or, which is the default, `n`.
pub(crate) fn confirm(question: &str) -> bool {
    let answer = ask(&format!("{question} (y/N) "));
    is_yes(&answer)
}

/// Asks for a name to be typed.
pub(crate) fn confirm_by_name(question: &str, name: &str) -> bool {
    ask(question) == name
}

/// Asks for a line. Returns it without spaces around it; nothing at the end of the input.
pub(crate) fn ask_line(question: &str) -> Option<String> {
    eprint!("{}", text::printable(question));
    let _ = io::stderr().flush();
    let mut answer = String::new();
    match io::stdin().read_line(&mut answer) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(answer.trim().into()),
    }
}

/// The answer; empty if there is none.
fn ask(question: &str) -> String {
    ask_line(question).unwrap_or_default()
}

fn is_yes(answer: &str) -> bool {
    answer.eq_ignore_ascii_case("y") || answer.eq_ignore_ascii_case("yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        for answer in ["y", "Y", "yes", "YES"] {
            assert!(is_yes(answer));
        }
        for answer in ["", "n", "no", "yep", "ja"] {
            assert!(!is_yes(answer));
        }
    }
}
