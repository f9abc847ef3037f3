//! The start of the log.

use std::io::IsTerminal;
use std::path::Path;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::file::LogFile;
use super::output::LogOutput;
use super::sources::SourceLimits;
use crate::failure::{Failure, Result};

/// Starts the log with the level of `STRONGROOM_LOG`: on the terminal, or if detached in `daemon.log` in the state
/// directory.
pub(crate) fn start_log(detached: bool, state_dir: &Path) -> Result<()> {
    let usual = Targets::new().with_default(LevelFilter::INFO);
    let (filter, wrong) = match std::env::var("STRONGROOM_LOG").map(|text| (text.parse(), text)) {
        Ok((Ok(filter), _)) => (filter, None),
        Ok((Err(_), text)) => (usual, Some(text)),
        Err(_) => (usual, None),
    };
    let output = match detached {
        true => LogOutput::new(LogFile::open(state_dir).map_err(|error| {
            Failure::other(format!(
                "the log in {} cannot be written: {error}",
                state_dir.display()
            ))
        })?),
        // Of systemd, journald rotates it.
        false => LogOutput::new(std::io::stderr()),
    };
    let format = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(!detached && std::io::stderr().is_terminal())
        .with_writer(output.clone());
    let limits = SourceLimits::new(output);
    let _ = format.finish().with(limits).with(filter).try_init();
    // The standard error of a detached daemon goes to /dev/null.
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        tracing::error!(thread, "a fault of the program, please report it: {panic}");
    }));
    if let Some(filter) = wrong {
        tracing::warn!(filter, "STRONGROOM_LOG is not valid; using 'info'");
    }
    Ok(())
}
