//! A mount that is served in the background, by a process of its own.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use console::outcome::{Outcome, Result};
use protocol::api::Failure;

use crate::stack::args::{CacheMode, StackMount};

/// The message of the process when the mount answers.
const READY: &str = "ready";

/// Starts the process, and returns when the mount answers. The process asks for the passphrase itself, and
/// says what is wrong.
pub(crate) fn start(args: &StackMount) -> Result {
    let failed = |error: std::io::Error| {
        Failure::other(format!(
            "a process for the mount cannot be started: {error}"
        ))
    };
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        .args(["stack", "mount", "--detached"])
        .args(words(args))
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout)
            .read_line(&mut line)
            .map_err(failed)?;
    }
    if line.trim_end() == READY {
        let place = args.mountpoint.display();
        return Ok(Outcome::text(format!("mounted on {place}\n")));
    }
    match child.wait().map_err(failed)?.code() {
        // It has said why.
        Some(code) => Ok(Outcome::done().with_exit_code(u8::try_from(code).unwrap_or(1))),
        None => Err(Failure::other("the process for the mount was killed")),
    }
}

/// The arguments of the command, for the process that serves the mount.
fn words(args: &StackMount) -> Vec<OsString> {
    let mut words = Vec::new();
    let (keys, passphrase) = (&args.key.key_file, &args.key.passfile);
    for (option, file) in keys
        .iter()
        .map(|file| ("--key-file", file))
        .chain(passphrase.iter().map(|file| ("--passfile", file)))
    {
        words.extend([option.into(), file.into()]);
    }
    let flags = [
        ("--locked", args.locked),
        ("--pefs", args.pefs),
        ("--read-only", args.read_only),
        ("--allow-other", args.allow_other),
        ("--private", args.private),
        ("--writeback", args.writeback),
        ("--overlay", args.overlay),
        ("--reverse", args.reverse),
    ];
    if args.cache == CacheMode::None {
        words.extend(["--cache".into(), "none".into()]);
    }
    let set = flags.iter().filter(|(_, is_set)| *is_set);
    words.extend(set.map(|(flag, _)| flag.into()));
    let options = args.options.iter().filter_map(|option| option.word());
    words.extend(options.flat_map(|word| ["-o".into(), word.into()]));
    words.push("--".into());
    words.extend([args.dir.clone().into(), args.mountpoint.clone().into()]);
    words
}

/// Leaves the terminal and the directory, and tells the process that waits that the mount answers. Only then: the
/// terminal may close as soon as that one ends, and its signal would unmount.
pub(super) fn leave() {
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    let _ = writeln!(std::io::stdout(), "{READY}");
    daemon::leave_terminal();
}
