//! Questions before a command destroys something.

use std::io::{self, IsTerminal, Write};

use protocol::api::{Failure, Result};

use crate::show::text;

/// Returns whether there is a terminal to ask at.
pub fn is_interactive() -> bool {
    io::stdin().is_terminal()
}

/// Asks a question that is answered with `y` or, which is the default, `n`.
pub fn confirm(question: &str) -> bool {
    let answer = ask(&format!("{question} (y/N) "));
    is_yes(&answer)
}

/// Asks whether a command is meant, unless its option says so already.
pub fn be_sure(is_sure: bool, option: &str, what: &str) -> Result<()> {
    match is_sure {
        true => Ok(()),
        false if !is_interactive() => Err(Failure::usage(format!("{what}; {option}"))),
        false if confirm(&format!("{what}. Go on?")) => Ok(()),
        false => Err(Failure::other("nothing was changed")),
    }
}

/// Asks for a name to be typed.
pub fn confirm_by_name(question: &str, name: &str) -> bool {
    ask(question) == name
}

/// Asks for a line. Returns it without spaces around it; nothing at the end of the input.
pub fn ask_line(question: &str) -> Option<String> {
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
