//! What is made from the definition of the command line: completion scripts and manual pages.

use std::fs;
use std::io::Write;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::{Outcome, Result};
use crate::args::{Cli, Completion, Manual, Shell};
use crate::session::other;

pub(super) fn completion(args: &Completion) -> Result {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "strongroom", &mut script);
    Ok(Outcome::text(String::from_utf8_lossy(&script)))
}

pub(super) fn manual(args: &Manual) -> Result {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let failed = |error| other(format!("cannot write to {}: {error}", args.dir.display()));
    fs::create_dir_all(&args.dir)
        .and_then(|()| write_pages(&command, &args.dir))
        .map_err(failed)?;
    Ok(Outcome::done())
}

fn write_pages(command: &Command, dir: &Path) -> std::io::Result<()> {
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

/// One page. The sections below the options (examples, exit codes) become sections of the page, and keep
/// their lines.
fn render(command: &Command, man: &Man, page: &mut Vec<u8>) -> std::io::Result<()> {
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
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
    if command.get_name() != "strongroom" {
        roff.control("SH", ["SEE ALSO"]);
        roff.text([roman("strongroom(1), which lists all exit codes")]);
    }
    page.write_all(roff.to_roff().as_bytes())
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
