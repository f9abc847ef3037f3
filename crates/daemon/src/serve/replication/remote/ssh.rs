//! The target of a job on another host: runs `strongroom` there, by the program `ssh`.
//!
//! The program runs as the owner of the job, with the owner's keys and settings of `ssh`, and never asks anything. It
//! gets no variable from a caller. The names in its command are quoted for the shell of the other host. Everything that
//! comes back may be forged: it is parsed with limits, and decides only what is sent of the job's own source.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use protocol::api::{DatasetRow, FailureKind, VerifiedSnapshot};

use crate::failure::Result;
use crate::serve::replication::remote::program::OwnerPrograms;
use crate::serve::replication::remote::rows::rows_of;
use crate::serve::replication::verification::remote::verified_of;
use crate::state::callers::channel::DataChannel;
use crate::state::replication::job::ReplicationJob;
use crate::state::replication::progress::RunProgress;
use crate::state::replication::target::SshTarget;

/// The program, unless the environment of the daemon names another one.
const PROGRAM: &str = "/usr/bin/ssh";
/// The variable of the daemon that names the program. It is not the variable of a caller.
const VARIABLE: &str = "STRONGROOM_SSH";
/// The options of each connection. Without an answer for a minute a connection ends.
const OPTIONS: [&str; 6] = [
    "BatchMode=yes",
    "ClearAllForwardings=yes",
    "ConnectTimeout=30",
    "PermitLocalCommand=no",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
];
/// The begin of a command on the other host. Ordinary users use root's daemon, unless their environment names another.
const REMOTE: &str = r#"strongroom --socket "${STRONGROOM_SOCKET:-/run/strongroom/socket}""#;
/// The exit code of `ssh` if there was no connection, and that of a shell without the program.
const NO_CONNECTION: i32 = 255;
const NO_PROGRAM: i32 = 127;

/// Another host.
pub(crate) struct SshHost {
    target: SshTarget,
    program: PathBuf,
    programs: OwnerPrograms,
}

impl SshHost {
    pub(crate) fn new(
        target: &SshTarget,
        job: &ReplicationJob,
        progress: &Arc<RunProgress>,
    ) -> Result<SshHost> {
        let mut programs = OwnerPrograms::new(&target.host, job, progress)?;
        let user = &programs.user;
        programs.meanings = vec![
            (
                NO_CONNECTION,
                format!("no connection by ssh as the user {user}"),
            ),
            (NO_PROGRAM, "there is no strongroom there".into()),
        ];
        let program = std::env::var_os(VARIABLE).map(PathBuf::from);
        Ok(SshHost {
            target: target.clone(),
            program: program
                .filter(|program| program.is_absolute())
                .unwrap_or_else(|| PROGRAM.into()),
            programs,
        })
    }

    /// The rows of a listing of the other host.
    pub(crate) fn list(&self, name: &str, recursive: bool) -> Result<Vec<DatasetRow>> {
        let depth = if recursive { "-r" } else { "-d 1" };
        let columns = "name,guid,createtxg,receive_resume_token,origin";
        let words = format!("--json list {depth} -t all -o {columns} {}", quoted(name));
        let text = self.programs.ask(self.command(&words))?;
        rows_of(&text).ok_or_else(|| self.programs.failed("its listing is not understood"))
    }

    /// Carries out a command whose answer does not matter.
    pub(crate) fn order(&self, words: &str, names: &[&str]) -> Result<()> {
        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        let command = self.command(&format!("{words} {}", names.join(" ")));
        self.programs.ask(command).map(drop)
    }

    /// Has the other host read snapshots.
    pub(crate) fn verify(
        &self,
        names: &[String],
        challenge: &str,
    ) -> Result<Vec<VerifiedSnapshot>> {
        let quoted: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        let words = format!("--json verify --challenge {challenge} {}", quoted.join(" "));
        let (text, ended) = self.programs.answer(self.command(&words))?;
        match (verified_of(&text, names), ended) {
            (Some(rows), Ok(())) => Ok(rows),
            // It names what is damaged.
            (Some(rows), Err(failure)) if failure.kind == FailureKind::Damaged => Ok(rows),
            (_, Err(failure)) => Err(failure),
            (None, Ok(())) => Err(self.programs.failed("its verification is not understood")),
        }
    }

    /// Has the other host receive a stream that `send` writes.
    pub(crate) fn receive(
        &self,
        name: &str,
        said: String,
        limit: Option<u64>,
        send: impl FnOnce(Arc<dyn DataChannel>) -> Result<()>,
    ) -> Result<()> {
        let command = self.command(&format!("receive -s {}", quoted(name)));
        self.programs.receive(command, said, limit, send)
    }

    /// The program with its arguments.
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("-T");
        for option in OPTIONS {
            command.args(["-o", option]);
        }
        if let Some(port) = self.target.port {
            command.args(["-p", &port.to_string()]);
        }
        if let Some(user) = &self.target.user {
            command.args(["-l", user]);
        }
        command.args(["--", &self.target.host, &format!("{REMOTE} {words}")]);
        command
    }
}

/// A word for the shell of the other host. Nothing in it has a meaning there.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_meaning_for_the_shell() {
        for name in [
            "a b",
            "a'b",
            "$(touch x)",
            "`touch x`",
            "a;b",
            "-n",
            "a\\'b",
            "'",
            "*",
            "\"$HOME\"",
        ] {
            let script = format!("printf %s {}", quoted(name));
            let done = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(done.stdout).unwrap(), name);
        }
    }
}
