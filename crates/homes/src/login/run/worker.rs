//! A part of a login in a process with the rights of the user: it reads and changes files of that user.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueEnum;
use console::outcome::Result;
use console::session::other;
use protocol::api::{Failure, FailureKind};
use rustix::pipe::{PipeFlags, pipe_with};
use secret::Secret;

use crate::login::args::{LoginArgs, LoginPart, LoginStep};

/// The user and group of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessRights {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl ProcessRights {
    pub(super) const ROOT: ProcessRights = ProcessRights { uid: 0, gid: 0 };

    pub(super) fn of_user(args: &LoginArgs) -> ProcessRights {
        ProcessRights {
            uid: args.uid,
            gid: args.gid,
        }
    }
}

/// The task of a process.
pub(super) struct WorkerStep<'a> {
    pub(super) part: LoginPart,
    pub(super) step: LoginStep,
    /// The directory with the encrypted files of the home.
    pub(super) lower: Option<&'a Path>,
    pub(super) passphrases: &'a [&'a Secret],
    /// Unmount what a login has mounted.
    pub(super) unmounts: bool,
}

/// Does it. The process says itself what fails.
pub(super) fn run(args: &LoginArgs, rights: ProcessRights, work: &WorkerStep<'_>) -> Result<()> {
    let failed = |error: std::io::Error| other(format!("a process for the user: {error}"));
    let word = |value: Option<clap::builder::PossibleValue>| {
        value
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    };
    let (input, passing) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let mut passing = std::fs::File::from(passing);
    for passphrase in work.passphrases {
        // They fit into the pipe.
        passing
            .write_all(passphrase.expose())
            .and_then(|()| passing.write_all(b"\n"))
            .map_err(failed)?;
    }
    drop(passing);
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command
        .args(["login", &word(work.step.to_possible_value())])
        .args(["--part", &word(work.part.to_possible_value())])
        .arg(format!("--user={}", args.user))
        .arg(format!("--uid={}", args.uid))
        .arg(format!("--gid={}", args.gid))
        .arg("--home")
        .arg(&args.home)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .current_dir("/")
        .stdin(Stdio::from(input))
        .stdout(Stdio::null())
        // No groups but this one.
        .uid(rights.uid)
        .gid(rights.gid);
    if let Some(lower) = work.lower {
        command.arg("--lower").arg(lower);
    }
    for (flag, is_set) in [
        ("--ignore-missing", args.ignore_missing),
        ("--unmounts", work.unmounts),
    ] {
        if is_set {
            command.arg(flag);
        }
    }
    let code = match work.step {
        LoginStep::Find => found(&mut command).map_err(failed)?,
        _ => command.status().map_err(failed)?.code(),
    };
    if code == Some(0) {
        return Ok(());
    }
    let known = [
        FailureKind::NotFound,
        FailureKind::WrongKey,
        FailureKind::Busy,
    ];
    let kind = known
        .into_iter()
        .find(|kind| code == Some(i32::from(kind.exit_code())));
    let message = match kind {
        Some(FailureKind::WrongKey) => "the passphrase is wrong",
        Some(FailureKind::Busy) => "it is in use",
        Some(_) => "there is nothing to open",
        None => "it failed; the line above says why",
    };
    Err(Failure::new(
        kind.unwrap_or(FailureKind::Other),
        message.to_owned(),
    ))
}

/// The exit code of a process that looks for something. That there is nothing is an answer, and no failure to tell the
/// user.
fn found(command: &mut Command) -> std::io::Result<Option<i32>> {
    let done = command.stderr(Stdio::piped()).output()?;
    let code = done.status.code();
    if code != Some(i32::from(FailureKind::NotFound.exit_code())) {
        std::io::stderr().write_all(&done.stderr)?;
    }
    Ok(code)
}
