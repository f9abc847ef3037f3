//! Starts the daemon, and ends it.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use admission::StopSignal;
use protocol::api::{FailureKind, command};
use protocol::client::TAKEN;

use crate::failure::{Failure, Result};
use crate::front_ends::FRONT_ENDS;
use crate::host::crypto::Decisions;
use crate::host::listen::{DaemonSockets, listen};
use crate::host::log::start_log;
use crate::host::pkcs11::choose_list;
use crate::host::process::input::at_end_of_input;
use crate::host::process::notify;
use crate::host::state_dir;
use crate::host::state_dir::state_dir_at;
use crate::ops::keys::autolock;
use crate::serve::metrics::server as metrics;
use crate::serve::replication;
use crate::serve::unix::ConnectionEnd;
use crate::shutdown::StoreRule;
use crate::state::callers::command_connections::{
    SIGNALLED, STOPPED, attend, raise_descriptor_limit,
};
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::devices::store_patience::patience_at_stop;

/// The start waits at most this long for the keys of all pools together. A later key is used when it arrives.
const KEYS_AT_START: Duration = Duration::from_secs(20);

/// The smallest memory for password hashes, in KiB: enough for two new slots.
const HASH_MEMORY_LEAST: u64 = 128 << 10;

/// The options of a daemon.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The socket for commands.
    pub socket: PathBuf,
    /// Run in the background: print one line when it listens, and log to a file.
    pub detached: bool,
    /// End, as after SIGTERM, when the standard input ends: the process that holds its other end has ended, however it did.
    pub until_eof: bool,
    /// Memory for clean data.
    pub cache_bytes: u64,
    /// The state directory; the default one if absent.
    pub state_dir: Option<PathBuf>,
    /// The list of PKCS#11 modules that may be loaded; the default one if absent.
    pub pkcs11_list: Option<PathBuf>,
    /// Devices of pools to import, besides the remembered pools.
    pub import: Vec<PathBuf>,
}

/// Runs the daemon until it is told to stop.
///
/// # Errors
/// [`FailureKind::Exists`] if a daemon already listens. The socket, the state directory or the log cannot be used, or a
/// test of the ciphers fails.
pub fn serve(options: ServeOptions) -> Result<()> {
    let result = start(&options);
    if options.detached {
        // The process that started it reads one line: that it is ready, or why not.
        let line = match &result {
            Ok(_) => "ready".to_owned(),
            Err(failure) if failure.kind == FailureKind::Exists => TAKEN.to_owned(),
            Err(failure) => failure.message.replace('\n', " "),
        };
        let _ = writeln!(std::io::stdout(), "{line}");
        leave_terminal();
    }
    let started = result?;
    let keys_until = Instant::now() + KEYS_AT_START;
    started.daemon.import_remembered(keys_until);
    import_named(&started.daemon, &options.import, keys_until);
    FRONT_ENDS
        .iter()
        .for_each(|each| each.start(&started.daemon));
    replication::start(&started.daemon);
    notify::tell(notify::READY);
    accept(&started);
    FRONT_ENDS
        .iter()
        .for_each(|each| each.stop(&started.daemon));
    Ok(())
}

/// A daemon that listens.
struct RunningDaemon {
    daemon: Arc<Daemon>,
    /// Held as long as the daemon writes there.
    _state_lock: Option<File>,
    listening: DaemonSockets,
    stop: StopSignal,
}

fn start(options: &ServeOptions) -> Result<RunningDaemon> {
    if let Some(list) = &options.pkcs11_list {
        choose_list(list.clone());
    }
    let mut listening = listen(&options.socket)?;
    let given = options.state_dir.clone();
    let state_dir = given.map_or_else(|| state_dir_at(&options.socket), Ok)?;
    let state_lock = state_dir::lock(&state_dir, &options.socket)?;
    start_log(options.detached, &state_dir)?;
    if options.state_dir.is_some() {
        state_dir::remember(&options.socket, &state_dir);
    }
    if options.detached {
        let _ = rustix::process::setsid();
    }
    secret::harden_process()?;
    raise_descriptor_limit();
    if let Some(cost) = Decisions::new(state_dir.clone()).begin()? {
        tracing::info!(
            tested = cost.tested,
            remembered = cost.remembered,
            "FIPS mode"
        );
    }
    test_ciphers()?;
    keys::set_hash_memory(hash_memory_kib()?);
    patience_at_stop()?;
    // The first random number takes long; it is not to be the first command's.
    let warm_up = || cipher::Random::nonce(&cipher::SystemRandom).map(|_| ());
    let _ = threads::start("warm-up", warm_up);
    let hardware = cipher::hardware();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), %hardware, "the daemon listens");
    let stop = StopSignal::new()
        .map_err(|error| Failure::other(format!("the daemon cannot wait: {error}")))?;
    stop_on_signals(&stop)?;
    if options.until_eof {
        let stop = stop.clone();
        at_end_of_input(move || stop.tell(SIGNALLED))?;
    }
    let daemon = Daemon::new(&options.socket, &state_dir, options.cache_bytes, FRONT_ENDS);
    FRONT_ENDS.iter().for_each(|each| each.prepare(&daemon));
    daemon
        .follow_outages()
        .map_err(|error| Failure::other(format!("a thread cannot be started: {error}")))?;
    autolock::start(&daemon)
        .map_err(|error| Failure::other(format!("a thread cannot be started: {error}")))?;
    if let Some(listener) = listening.metrics.take() {
        metrics::serve(&daemon, listener)?;
    }
    Ok(RunningDaemon {
        daemon,
        _state_lock: state_lock,
        listening,
        stop,
    })
}

/// The memory for all password hashes together, in KiB: from `STRONGROOM_HASH_MEMORY` (in MiB), or a quarter of the
/// machine's memory.
fn hash_memory_kib() -> Result<u64> {
    if let Ok(text) = std::env::var("STRONGROOM_HASH_MEMORY") {
        let mib = text
            .parse::<u64>()
            .ok()
            .filter(|mib| (1..=1 << 30).contains(mib));
        let refused = || Failure::usage("STRONGROOM_HASH_MEMORY is a number of MiB, from 1 on");
        return mib.map(|mib| mib << 10).ok_or_else(refused);
    }
    let kib = keys::machine_memory_kib();
    Ok(kib.map_or(HASH_MEMORY_LEAST, |kib| (kib / 4).max(HASH_MEMORY_LEAST)))
}

/// Fails if a cipher does not compute the known answers.
fn test_ciphers() -> Result<()> {
    let begin = Instant::now();
    let failed: Vec<&str> = cipher::selftest()
        .iter()
        .filter(|test| !test.ok)
        .map(|test| test.algorithm)
        .collect();
    tracing::debug!(took = ?begin.elapsed(), "the ciphers are tested");
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::other(format!(
            "the self-test of {} failed: the processor or this program is faulty, and nothing \
             may be encrypted with it",
            failed.join(", ")
        ))),
    }
}

fn import_named(daemon: &Arc<Daemon>, search: &[PathBuf], keys_until: Instant) {
    if search.is_empty() {
        return;
    }
    let import = command::PoolImport {
        search: search.to_vec(),
        load_keys: true,
        ..command::PoolImport::default()
    };
    let mut nobody = crate::state::callers::channel::NonInteractive::default();
    let mut context = CallerContext::internal("import at start", &mut nobody);
    let result = daemon.import_pools(&import, Some(keys_until), &mut context);
    nobody.log();
    if let Err(failure) = result {
        tracing::error!(
            reason = failure.message,
            "a pool could not be imported; try again with 'strongroom pool import -d PATH'"
        );
    }
}

/// Serves commands until the daemon has to end.
fn accept(started: &RunningDaemon) {
    let RunningDaemon {
        daemon,
        listening,
        stop,
        ..
    } = started;
    let told = attend(
        &listening.listener,
        stop,
        &daemon.guests,
        |stream, mut guest| {
            let daemon = Arc::clone(daemon);
            let stop = stop.clone();
            Daemon::serve_on_thread("command", move || {
                if daemon.serve_one(&stream, None, &mut guest) == ConnectionEnd::Stop {
                    stop.tell(STOPPED);
                    // Open until the process has ended: the caller waits for that.
                    std::mem::forget(stream);
                }
                drop(guest);
            });
        },
    );
    if told == SIGNALLED {
        notify::tell(notify::STOPPING);
        // The log has its lines.
        drop(daemon.shut_down_by_force(StoreRule::Wait));
    }
}

/// Makes SIGTERM, SIGINT and SIGHUP unmount everything and end the daemon.
fn stop_on_signals(stop: &StopSignal) -> Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGHUP,
    ])
    .map_err(|error| Failure::other(format!("signals cannot be watched: {error}")))?;
    let stop = stop.clone();
    let watch = move || {
        if let Some(signal) = signals.forever().next() {
            tracing::info!(signal, "told to stop");
            stop.tell(SIGNALLED);
        }
    };
    threads::start("signals", watch)
        .map_err(|error| Failure::other(format!("signals cannot be watched: {error}")))?;
    Ok(())
}

/// Closes files that were inherited from the starting process.
pub fn leave_terminal() {
    let _ = std::io::stdout().flush();
    if let Ok(null) = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
    {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ciphers_of_this_machine_work() {
        test_ciphers().unwrap();
    }
}
