//! Rules that the help of every command keeps. Three whole pages are in `crates/cli/tests/help`.

use clap::{Command, CommandFactory};

use super::cli::Cli;

/// The width that help is made for.
const WIDTH: usize = 100;

type CheckResult = Result<(), String>;

fn ensure(holds: bool, what: impl Into<String>) -> CheckResult {
    match holds {
        true => Ok(()),
        false => Err(what.into()),
    }
}

/// Returns whether this is a sentence without its full stop. A word of the command line may begin it.
fn is_sentence(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_uppercase() || matches!(c, '`' | '-'));
    begins && text.contains(' ') && !text.ends_with(['.', ' ', ','])
}

/// The command and every option say in a sentence what they are; the command also explains itself.
fn explains(command: &Command) -> CheckResult {
    let text = |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string);
    let about = text(command.get_about()).unwrap_or_default();
    let fits = (10..=70).contains(&about.len()) && is_sentence(&about);
    ensure(fits, format!("its summary is {about:?}"))?;
    let long = text(command.get_long_about()).unwrap_or_default();
    ensure(long.len() > about.len() + 40, "it has no description")?;
    ensure(long.ends_with('.'), format!("its description is {long:?}"))?;
    for argument in command.get_arguments() {
        let help = text(argument.get_help()).unwrap_or_default();
        ensure(
            is_sentence(&help),
            format!("the help of {} is {help:?}", argument.get_id()),
        )?;
    }
    Ok(())
}

/// No line that is set by hand is too long for the page.
fn fits(command: &Command) -> CheckResult {
    let page = command.clone().term_width(WIDTH).render_long_help();
    let page = page.to_string();
    for line in after_help(command).lines() {
        ensure(
            page.lines().any(|shown| shown == line),
            format!("wraps: {line}"),
        )?;
    }
    Ok(())
}

fn after_help(command: &Command) -> String {
    let text = command.get_after_long_help().or(command.get_after_help());
    text.map(ToString::to_string).unwrap_or_default()
}

/// The commands in an example, as words: those in pipes, in `$(...)` and after `ssh HOST` too.
pub(super) fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut found, mut words, mut word) = (Vec::new(), Vec::new(), String::new());
    let mut is_quoted = false;
    for c in line.chars().chain([';']) {
        match c {
            '\'' => is_quoted = !is_quoted,
            _ if is_quoted => word.push(c),
            '"' => {}
            ' ' | '|' | ';' | '&' | '<' | '>' | '(' | ')' => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                if c != ' ' {
                    found.push(std::mem::take(&mut words));
                }
            }
            c => word.push(c),
        }
    }
    let program = |words: &Vec<String>| words.iter().position(|word| word == "strongroom");
    found.retain(|words| program(words).is_some());
    let from = |words: Vec<String>| words[program(&words).unwrap_or(0)..].to_vec();
    found.into_iter().map(from).collect()
}

/// The subcommands that a command line names.
pub(super) fn path_of(words: &[String]) -> Result<Vec<String>, clap::Error> {
    let matches = Cli::command().try_get_matches_from(words)?;
    let mut path = Vec::new();
    let mut at = &matches;
    while let Some((name, below)) = at.subcommand() {
        path.push(name.to_owned());
        at = below;
    }
    Ok(path)
}

/// Checks that the examples can be typed, and one of them is of this command. Counts them.
fn shows(command: &Command, path: &[String]) -> Result<usize, String> {
    let text = after_help(command).replace("\\\n", " ");
    let examples = text.lines().skip_while(|line| *line != "EXAMPLES");
    let examples = examples
        .skip(1)
        .take_while(|line| line.is_empty() || line.starts_with(' '));
    let (mut count, mut is_own) = (0, false);
    for line in examples.filter_map(|line| line.strip_prefix("    ")) {
        for words in commands(line) {
            let named = path_of(&words).map_err(|error| format!("{line}\n{error}"))?;
            is_own |= named.starts_with(path);
            count += 1;
        }
    }
    ensure(is_own, "no example shows it")?;
    Ok(count)
}

fn check(command: &Command, path: &[String]) -> Result<usize, String> {
    explains(command)?;
    fits(command)?;
    shows(command, path)
}

#[test]
fn every_command_and_option_is_explained_and_shown() {
    fn visit(command: &Command, path: &[String], count: &mut usize) {
        match check(command, path) {
            Ok(examples) => *count += examples,
            Err(why) => panic!("strongroom {}: {why}", path.join(" ")),
        }
        for below in command.get_subcommands() {
            let path = [path, &[below.get_name().to_owned()]].concat();
            visit(below, &path, count);
        }
    }
    let mut count = 0;
    visit(&Cli::command(), &[], &mut count);
    assert!(count > 250, "{count}");
}

/// The rules refuse what they are for.
#[test]
fn poor_help_is_found() {
    let good = || {
        Command::new("sync")
            .about("Make all writes durable")
            .long_about("Make all writes durable\n\nThe command returns when all of them are on the devices.")
            .arg(clap::Arg::new("pool").help("The pools"))
            .after_help("EXAMPLES\n  All pools:\n    strongroom pool sync")
    };
    let path = ["pool", "sync"].map(String::from);
    assert_eq!(check(&good(), &path), Ok(1));
    let option = |help| good().mut_arg("pool", |arg| arg.help(help));
    let after = |text: &str| good().after_help(text.to_owned());
    let long = format!(
        "EXAMPLES\n    strongroom pool sync {}",
        "a ".repeat(WIDTH / 2)
    );
    for (broken, why) in [
        (good().about("make all writes durable"), "its summary"),
        (good().about("Make all writes durable."), "its summary"),
        (
            good().long_about("Make all writes durable"),
            "no description",
        ),
        (option(""), "the help of pool"),
        (option("Pools"), "the help of pool"),
        (option("the pools"), "the help of pool"),
        (after(""), "no example"),
        (after("EXAMPLES\n    strongroom list"), "no example"),
        (after("EXAMPLES\n    strongroom pool sink"), "unrecognized"),
        (
            after("EXAMPLES\n    yes | strongroom pool sync -x"),
            "unexpected",
        ),
        (after(&long), "wraps"),
    ] {
        let found = check(&broken, &path).unwrap_err();
        assert!(found.contains(why), "{found}");
    }
}
