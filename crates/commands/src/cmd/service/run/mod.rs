//! The daemon: running it, looking at it, ending it.

pub(crate) mod anchor;
pub(crate) mod completion;
pub(crate) mod explain;
pub(crate) mod manual;
pub(crate) mod version;
pub(crate) mod welcome;

use std::path::PathBuf;

use console::outcome::{Outcome, Result};
use console::session::{Session, absolute, answer, device_path};
use console::show::json;
use daemon::ServeOptions;
use protocol::api::{Command, DaemonReport, Failure, FailureKind};
use protocol::client::{DaemonConnection, start_daemon};

use crate::cmd::service::args::{DaemonArgs, DaemonCommand};

pub(crate) fn run(args: DaemonArgs, session: &mut Session) -> Result {
    match args.command {
        Some(DaemonCommand::Status) => status(session),
        Some(DaemonCommand::Stop { force }) => {
            session.call_running(match force {
                false => Command::DaemonStop,
                true => Command::DaemonStopForced,
            })?;
            Ok(Outcome::done())
        }
        None => serve(args, session),
    }
}

fn serve(args: DaemonArgs, session: &Session) -> Result {
    let pools: Result<Vec<PathBuf>> = args.pools.iter().map(|path| device_path(path)).collect();
    let options = ServeOptions {
        socket: session.socket.clone(),
        detached: args.detached,
        until_eof: args.until_eof,
        cache_bytes: args.cache_size.unwrap_or_else(default_cache_bytes),
        state_dir: args.state_dir.as_deref().map(absolute).transpose()?,
        pkcs11_list: args.pkcs11_list.as_deref().map(absolute).transpose()?,
        import: pools?,
    };
    match args.background {
        true => start(&options)?,
        false => daemon::serve(options)?,
    }
    Ok(Outcome::done())
}

/// Starts a daemon with these options in the background, unless one runs.
fn start(options: &ServeOptions) -> std::result::Result<(), Failure> {
    if DaemonConnection::connect(&options.socket).is_ok() {
        let socket = options.socket.display();
        return Err(Failure {
            kind: FailureKind::Exists,
            message: format!("a daemon already listens at {socket}"),
        });
    }
    let mut args = vec![format!("--cache-size={}", options.cache_bytes).into()];
    if let Some(dir) = &options.state_dir {
        args.extend(["--state-dir".into(), dir.into()]);
    }
    if let Some(list) = &options.pkcs11_list {
        args.extend(["--pkcs11-list".into(), list.into()]);
    }
    args.push("--".into());
    args.extend(options.import.iter().map(Into::into));
    start_daemon(&options.socket, &args)
}

/// An eighth of the machine's memory.
fn default_cache_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram * u64::from(system.mem_unit) / 8
}

fn status(session: &mut Session) -> Result {
    let report = answer!(session.call_running(Command::DaemonStatus)?, Daemon)?;
    match session.json {
        true => Ok(Outcome::text(json::show(&report))),
        false => Ok(Outcome::text(show(&report))),
    }
}

fn show(report: &DaemonReport) -> String {
    let pools = match report.pools.is_empty() {
        true => "none".into(),
        false => report.pools.join(" "),
    };
    format!(
        " version: {}\n     pid: {}\n  socket: {}\nhardware: {}\n   pools: {pools}\n",
        report.version, report.pid, report.socket, report.hardware,
    )
}
