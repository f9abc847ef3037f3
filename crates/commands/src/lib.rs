//! The commands of `strongroom`. They turn the command line into requests to the daemon, and print the replies.
//!
//! - `cmd` has a folder for each group of commands: `args` defines the arguments and the help texts,
//!   `run` carries the command out;
//! - `completing` completes command lines for shells;
//! - `hwcap` switches features of the processor off;
//! - `helper` is the program that mount(8) and systemd call by other names.

mod cmd;
mod completion;
mod helper;
mod hwcap;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::CommandFactory;
use console::outcome::Outcome;
use console::session::Session;
use console::show::text;
use protocol::api::{Failure, FailureKind};

use crate::cmd::cli::Cli;

/// Carries out the command line of this process, and returns the exit code.
pub fn main() -> ExitCode {
    let line: Vec<OsString> = std::env::args_os().collect();
    let command = line.get(place_of_command(&line)..).unwrap_or_default();
    if let Err(message) = hwcap::switch_features_off(command) {
        eprintln!("strongroom: {}", text::message(&message));
        return ExitCode::from(FailureKind::Usage.exit_code());
    }
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == daemon::TOKEN_HELPER)
    {
        // The process that loads a PKCS#11 module. The exit of this process tells its parent what went wrong.
        return keys::serve_token().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    if completion::answer(Cli::command) {
        return ExitCode::SUCCESS;
    }
    let mut args = std::env::args_os();
    let mounts = args.next().and_then(|program| helper::called_as(&program));
    let is_helper = mounts.is_some();
    let parsed = match mounts {
        None => Cli::read(&other_help(helper::as_generator(std::env::args_os()))),
        Some(kind) => match helper::command_line(kind, args) {
            Ok(Some(line)) => Cli::read(&line),
            Ok(None) => return ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("mount.strongroom: {why}");
                return ExitCode::from(helper::WRONG_CALL);
            }
        },
    };
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) if is_helper => {
            let _ = error.print();
            return ExitCode::from(helper::WRONG_CALL);
        }
        Err(_) if is_bare_call() => return finish(welcome(), false),
        Err(error) => {
            // Help, a version or a usage error.
            let code = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
            let printed = error.print().and_then(|()| io::stdout().flush());
            return printed.map_or_else(|error| unprinted(&error).unwrap_or(code), |()| code);
        }
    };
    let is_json = cli.global.json;
    let outcome = Session::new(cli.global.socket, cli.global.json)
        .and_then(|mut session| cmd::run(cli.command, &mut session))
        .unwrap_or_else(Outcome::failed);
    let says_where = !is_json && !is_helper && io::stderr().is_terminal();
    let page = outcome.page().filter(|_| says_where);
    let code = finish(outcome, is_helper);
    if let Some(page) = page {
        eprintln!("see: strongroom help {page}");
    }
    code
}

/// Returns whether the command line is the name of the program and nothing else.
fn is_bare_call() -> bool {
    std::env::args_os().len() == 1
}

fn welcome() -> Outcome {
    Session::new(None, false)
        .and_then(|mut session| cmd::welcome(&mut session))
        .unwrap_or_else(Outcome::failed)
}

/// Prints what came of a command, and says it by the exit code.
fn finish(outcome: Outcome, is_helper: bool) -> ExitCode {
    if let Err(error) = text::print(&outcome.text)
        && let Some(code) = unprinted(&error)
    {
        return code;
    }
    for Failure { message, .. } in &outcome.failures {
        text::complain(message);
    }
    match outcome.failures.first() {
        Some(_) if is_helper => ExitCode::from(helper::MOUNT_FAILED),
        Some(failure) => {
            let code = outcome.exit_code;
            ExitCode::from(code.unwrap_or_else(|| failure.kind.exit_code()))
        }
        None => match outcome.exit_code {
            None | Some(0) => ExitCode::SUCCESS,
            Some(_) if is_helper => ExitCode::from(helper::MOUNT_FAILED),
            Some(code) => ExitCode::from(code),
        },
    }
}

/// Says that an output is not printed. A reader that has seen enough, like `head`, is no error.
fn unprinted(error: &io::Error) -> Option<ExitCode> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return None;
    }
    text::complain(&format!("cannot write to the standard output: {error}"));
    Some(ExitCode::from(FailureKind::of_system(error).exit_code()))
}

/// The index of the command: the options of every command may come before it.
fn place_of_command(args: &[OsString]) -> usize {
    let mut at = 1;
    while let Some(word) = args.get(at).and_then(|word| word.to_str()) {
        at += match word {
            "--json" => 1,
            "--socket" => 2,
            other if other.starts_with("--socket=") => 1,
            _ => break,
        };
    }
    at
}

/// `help property NAME` is `properties NAME`, and `help 9` is `explain 9`: these words are no subcommands.
fn other_help(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    let is_property = |word: &OsString| word == "property" || word == "properties";
    let is_topic = |word: &OsString| word.to_str().is_some_and(cmd::is_topic);
    let at = place_of_command(&args);
    match args.get(at..).unwrap_or_default() {
        [help, word, _, ..] if help == "help" && is_property(word) => {
            args.remove(at);
        }
        [help, word] if help == "help" && is_topic(word) => args[at] = "explain".into(),
        _ => {}
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_explains_what_is_no_command() {
        let read = |line: &str| {
            let args = other_help(line.split(' ').map(OsString::from));
            args.join(" ".as_ref()).into_string().unwrap()
        };
        for (line, becomes) in [
            ("s help 9", "s explain 9"),
            ("s --json help 9", "s --json explain 9"),
            (
                "s --socket /s --json help FAULTED",
                "s --socket /s --json explain FAULTED",
            ),
            (
                "s --socket=/s help property quota",
                "s --socket=/s property quota",
            ),
            ("s help pool", "s help pool"),
            ("s --socket", "s --socket"),
        ] {
            assert_eq!(read(line), becomes);
        }
    }
}
