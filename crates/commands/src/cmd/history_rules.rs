//! Rules that the lines of the history keep: a person can type them.

use clap::CommandFactory;
use protocol::api::command::{FORMS, HistoryForm};

use super::cli::Cli;
use super::help_rules::{commands, path_of};

/// Lines that cannot be typed, each with the reason.
const NOT_TYPED: [(&str, &str); 8] = [
    ("login find --uid 12345 /nonexistent", "PAM starts it"),
    ("key backup fs", "the file is for the caller alone"),
    ("allow -l -s @set hold fs", "only a request can say -l here"),
    ("pool create pool", "the sample has no devices"),
    ("inspect", "the devices are left out"),
    ("whoami", "only the HTTP API asks"),
    ("metrics", "only the HTTP API asks"),
    (
        "luks /nonexistent/device",
        "several commands borrow a device",
    ),
];

/// The table of rights has the line of each sample request, and a test of the daemon keeps it complete.
#[test]
fn lines_of_the_history_can_be_typed() {
    let threats = include_str!("../../../../docs/THREATS.md");
    let rows = threats
        .lines()
        .skip_while(|line| !line.starts_with("| Command | A delegate needs "));
    let lines = rows
        .skip(2)
        .map_while(|row| row.strip_prefix("| `")?.split_once('`'));
    let mut count = 0;
    let mut wrong = Vec::new();
    for (line, _) in lines {
        count += 1;
        let words = commands(&format!("strongroom {line}")).remove(0);
        let typed = path_of(&words);
        let reason = NOT_TYPED.iter().find(|(known, _)| line == *known);
        match (typed, reason) {
            (Ok(_), None) | (Err(_), Some(_)) => {}
            (Ok(_), Some(_)) => wrong.push(format!("{line}: can be typed")),
            (Err(error), None) => wrong.push(format!("{line}\n{error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 100, "{count}");
}

/// The commands that the words of a form name: one, or those of a group whose word follows.
fn named(form: &HistoryForm) -> Vec<clap::Command> {
    let mut at = Cli::command();
    for word in form.command.split(' ').filter(|word| !word.is_empty()) {
        let flag = word.strip_prefix('-').and_then(|flag| flag.chars().next());
        let is_flag = |it: &clap::Command| flag.is_some() && it.get_short_flag() == flag;
        let mut below = at.get_subcommands();
        let found = below.find(|it| it.get_name() == word || is_flag(it));
        let Some(found) = found.cloned() else { break };
        drop(below);
        at = found;
    }
    let below: Vec<clap::Command> = at.get_subcommands().cloned().collect();
    match below.is_empty() {
        true => vec![at],
        false => below,
    }
}

fn has(command: &clap::Command, option: &str) -> bool {
    command.get_arguments().any(|it| {
        let short = it.get_short().map(|short| format!("-{short}"));
        let long = it.get_long().map(|long| format!("--{long}"));
        [short, long].into_iter().flatten().any(|it| it == option)
    })
}

/// A letter of the history is a letter of the command line.
#[test]
fn options_of_the_history_are_those_of_the_command() {
    let mut count = 0;
    for form in FORMS {
        let words = form.command.split(' ').chain(form.options.iter().copied());
        for option in words.filter(|word| word.starts_with('-')) {
            let option = option.split(' ').next().unwrap_or_default();
            let commands = named(form);
            let is_flag = |it: &clap::Command| {
                it.get_short_flag()
                    .map(|flag| format!("-{flag}"))
                    .as_deref()
                    == Some(option)
            };
            assert!(
                commands.iter().any(|it| has(it, option) || is_flag(it)),
                "strongroom {} has no option {option}",
                form.command
            );
            count += 1;
        }
    }
    assert!(count > 80, "{count}");
}
