//! Manual pages, made from the definition of the command line.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use console::outcome::{Outcome, Result};
use console::show::page;
use protocol::api::{Failure, FailureKind};
use protocol::pages::PAGES;

use crate::cmd::service::args::Manual;

/// Writes the pages of a program.
pub(crate) fn run(args: &Manual, program: Command) -> Result {
    let mut command = program.disable_help_subcommand(true);
    command.build();
    let failed = |error| {
        let kind = FailureKind::of_system(&error);
        Failure::new(
            kind,
            format!("cannot write to {}: {error}", args.dir.display()),
        )
    };
    fs::create_dir_all(&args.dir)
        .and_then(|()| write_pages(&command, &args.dir))
        .map_err(failed)?;
    Ok(Outcome::done())
}

/// The section of `strongroom(1)` for a reader who wants to know more.
const GUIDE: &str = concat!(
    "The guide, with a chapter for each task and a page for each alert and exit code: ",
    env!("CARGO_PKG_REPOSITORY"),
    "/blob/main/docs/guide/src/SUMMARY.md"
);

/// The columns of its pages, which are indented.
const GUIDE_WIDTH: usize = 72;

fn write_pages(command: &Command, dir: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands() {
        write_pages(subcommand, dir)?;
    }
    let man = Man::new(command.clone())
        .source(concat!("strongroom ", env!("CARGO_PKG_VERSION")))
        .manual("Strongroom Manual");
    let mut page = Vec::new();
    render(command, &man, &mut page)?;
    fs::write(dir.join(man.get_filename()), page)
}

/// A page. The sections below the options (examples, exit codes) become sections of the page, and keep
/// their lines.
fn render(command: &Command, man: &Man, page: &mut Vec<u8>) -> io::Result<()> {
    man.render_title(page)?;
    man.render_name_section(page)?;
    page.write_all(synopsis(command).to_roff().as_bytes())?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    let after = command.get_after_long_help().or(command.get_after_help());
    let mut roff = Roff::new();
    for section in after
        .map(ToString::to_string)
        .unwrap_or_default()
        .split("\n\n")
    {
        match section.split_once('\n') {
            Some((title, body)) if is_title(title) => {
                roff.control("SH", [title]);
                verbatim(&mut roff, body);
            }
            _ => verbatim(&mut roff, section),
        }
    }
    if command.get_name() == "explain" {
        guide(&mut roff);
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(match command.get_name() {
        "strongroom" => GUIDE,
        _ => {
            "strongroom(1), which lists all exit codes; strongroom-explain(1), which explains them"
        }
    })]);
    page.write_all(roff.to_roff().as_bytes())
}

/// The pages of the guide that `explain` prints, each as a section.
fn guide(roff: &mut Roff) {
    for topic in PAGES {
        let title = topic.title().to_uppercase();
        roff.control("SH", [title.as_str()]);
        let (_, body) = topic.text.split_once('\n').unwrap_or_default();
        verbatim(roff, &page::plain(body, GUIDE_WIDTH));
    }
}

/// The usage lines of the command with its options written out, then those of its subcommands.
fn synopsis(command: &Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    let mut lines = Vec::new();
    for line in usage(command) {
        lines.push(line.replace("[OPTIONS]", &options(command)));
    }
    for subcommand in command.get_subcommands() {
        lines.extend(usage(subcommand));
    }
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            roff.control("br", []);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        roff.text(typeset(&words.join(" ")));
    }
    roff
}

/// The lines that help shows behind `Usage:`.
fn usage(command: &Command) -> Vec<String> {
    let text = command.clone().render_usage().to_string();
    let text = text.strip_prefix("Usage:").unwrap_or(&text);
    text.lines().map(|line| line.trim().to_owned()).collect()
}

/// The options that the usage line calls `[OPTIONS]`: those that are the command's own and not required.
fn options(command: &Command) -> String {
    let own = |arg: &&Arg| {
        let is_help = matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        );
        !arg.is_positional()
            && !arg.is_global_set()
            && !arg.is_hide_set()
            && !arg.is_required_set()
            && !is_help
    };
    let options: Vec<String> = command.get_arguments().filter(own).map(option).collect();
    options.join(" ")
}

/// `[-q | --batch-mode]`, `[-o PROPERTY=VALUE]...`, `[-d...]`.
fn option(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let mut text = match (short, long) {
        (Some(short), Some(long)) => format!("{short} | {long}"),
        (short, long) => short.or(long).unwrap_or_default(),
    };
    if arg.get_action().takes_values() {
        let names = arg.get_value_names().unwrap_or_default();
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        let is_optional = arg
            .get_num_args()
            .is_some_and(|range| range.min_values() == 0);
        let names = names.join(" ");
        text += &match is_optional {
            true => format!(" [{names}]"),
            false => format!(" {names}"),
        };
    }
    match arg.get_action() {
        ArgAction::Append => format!("[{text}]..."),
        ArgAction::Count => format!("[{text}...]"),
        _ => format!("[{text}]"),
    }
}

/// Formats a usage line: what is typed as it stands is bold, what stands for something else is italic.
fn typeset(line: &str) -> Vec<Inline> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let end = rest
            .find(|c| is_word(c) != is_word(first))
            .unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        let is_placeholder = part.chars().any(|c| c.is_ascii_uppercase())
            && !part.starts_with('-')
            && !part.chars().any(|c| c.is_ascii_lowercase());
        parts.push(match (is_word(first), is_placeholder) {
            (false, _) => roman(part),
            (true, true) => italic(part),
            (true, false) => bold(part),
        });
    }
    parts
}

fn is_title(line: &str) -> bool {
    !line.is_empty() && line.chars().all(|c| c.is_ascii_uppercase() || c == ' ')
}

/// Lines as they are.
fn verbatim(roff: &mut Roff, text: &str) {
    roff.control("PP", []);
    roff.control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cmd::cli::Cli;

    /// The synopsis of a page as it is read, without what sets it in bold and italic.
    fn synopsis_text(command: &Command) -> String {
        let text = synopsis(command).to_roff();
        ["\\fB", "\\fI", "\\fR", "\\"]
            .iter()
            .fold(text, |text, code| text.replace(code, ""))
    }

    /// Every argument and every subcommand of every command is in the synopsis of its page.
    #[test]
    fn no_synopsis_loses_an_argument() {
        fn visit(command: &Command, count: &mut usize) {
            let text = synopsis_text(command);
            let name = command.get_bin_name().unwrap_or(command.get_name());
            let has = |word: &str| assert!(text.contains(word), "{name}: no {word} in\n{text}");
            for arg in command.get_arguments().filter(|arg| {
                !arg.is_global_set()
                    && !arg.is_hide_set()
                    && !["help", "version"].contains(&arg.get_id().as_str())
            }) {
                *count += 1;
                let names = arg.get_value_names().unwrap_or_default();
                if arg.is_positional() {
                    names.iter().flat_map(|name| name.split('|')).for_each(has);
                }
                let takes_more = arg
                    .get_num_args()
                    .is_some_and(|range| range.max_values() > 1);
                if arg.is_positional() && takes_more {
                    has("...");
                }
                if let Some(short) = arg.get_short() {
                    has(&format!("-{short}"));
                }
                if let Some(long) = arg.get_long() {
                    has(&format!("--{long}"));
                }
            }
            for subcommand in command
                .get_subcommands()
                .filter(|command| command.get_name() != "help")
            {
                let (plain, choice) = (
                    format!("{name} {} ", subcommand.get_name()),
                    format!("{name} {{{}|", subcommand.get_name()),
                );
                assert!(
                    text.contains(&plain) || text.contains(&choice),
                    "{plain}: {text}"
                );
                visit(subcommand, count);
            }
        }
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        let mut count = 0;
        visit(&command, &mut count);
        assert!(count > 200, "{count}");
    }
}
