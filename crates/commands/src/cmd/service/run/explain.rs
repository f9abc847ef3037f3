//! Prints pages of the guide about exit codes, alerts and states.

use console::outcome::{Outcome, Result};
use console::show::{json, page};
use protocol::api::{Failure, FailureKind};
use protocol::pages::{ExitCode, GuidePage, PAGES};
use serde_json::json;

use crate::cmd::service::args::Explain;

/// A width that fits into a narrow terminal, too.
const WIDTH: usize = 80;

pub(crate) fn run(args: &Explain, is_json: bool) -> Result {
    let topic = match &args.topic {
        None => Topic::Page(&PAGES[0]),
        Some(word) => Topic::find(word).ok_or_else(|| unknown(word))?,
    };
    if is_json {
        let (name, title, text) = (topic.name(), topic.title(), topic.text());
        let page = json!({"name": name, "title": title, "text": text});
        return Ok(Outcome::text(json::show(&page)));
    }
    Ok(Outcome::text(page::plain(&topic.text(), WIDTH)))
}

/// Returns whether there is such a topic.
pub(crate) fn is_topic(word: &str) -> bool {
    Topic::find(word).is_some()
}

fn unknown(word: &str) -> Failure {
    Failure {
        kind: FailureKind::NotFound,
        message: format!("nothing is written about '{word}'; 'strongroom explain' lists the pages"),
    }
}

/// A topic that the guide explains.
enum Topic {
    Page(&'static GuidePage),
    Code(ExitCode),
}

impl Topic {
    fn find(word: &str) -> Option<Topic> {
        match word.parse() {
            Ok(code) => ExitCode::find(code).map(Topic::Code),
            Err(_) => GuidePage::find(word).map(Topic::Page),
        }
    }

    fn name(&self) -> String {
        match self {
            Topic::Page(page) => page.name.into(),
            Topic::Code(code) => code.code.to_string(),
        }
    }

    fn title(&self) -> String {
        match self {
            Topic::Page(page) => page.title().into(),
            Topic::Code(code) => format!("Exit code {}: {}", code.code, code.meaning),
        }
    }

    /// All that is said about it, in Markdown.
    fn text(&self) -> String {
        let code = match self {
            Topic::Page(page) => return page.text.into(),
            Topic::Code(code) => code,
        };
        let pages: Vec<&str> = code.pages().map(|page| page.text).collect();
        let body = match (code.section(), pages.is_empty()) {
            (Some(section), _) => section.to_owned(),
            (None, true) => code.advice.to_owned(),
            (None, false) => pages.join("\n"),
        };
        format!("# {}\n\n{body}", self.title())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cmd::cli::Cli;

    /// `help WORD` explains a topic only where there is no such command.
    #[test]
    fn no_topic_hides_a_command() {
        for command in Cli::command().get_subcommands() {
            assert!(!is_topic(command.get_name()), "{}", command.get_name());
        }
    }

    #[test]
    fn codes_have_a_section_pages_or_a_word_of_advice() {
        let text = |word: &str| {
            Topic::find(word)
                .map(|topic| topic.text())
                .unwrap_or_default()
        };
        for (word, title, says) in [
            ("5", "# Exit code 5: ", "fuser -vm"),
            ("12", "# Exit code 12: ", "# A device has errors"),
            ("4", "# Exit code 4: ", "choose another one"),
            ("STALLED", "# A device does not answer", "dmesg"),
        ] {
            assert!(text(word).starts_with(title), "{word}");
            assert!(text(word).contains(says), "{word}");
        }
        for word in ["15", "300", "-1", "list", ""] {
            assert!(!is_topic(word), "{word}");
        }
    }
}
