//! Starting the daemon, and its end.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::api::Failure;
use crate::failure::Result;
use crate::pools::ImportPool;
use crate::server::{Context, Served, listen};
use crate::state::Daemon;

/// How to run the daemon.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Where to listen.
    pub socket: PathBuf,
    /// Leave whoever started it: say one line when it listens, and log to a file.
    pub detached: bool,
    /// Memory for clean data.
    pub cache_bytes: u64,
    /// Where to remember imported pools; the usual place if absent.
    pub state_dir: Option<PathBuf>,
    /// Devices of pools to import besides those that are remembered.
    pub import: Vec<PathBuf>,
}

/// Runs the daemon until it is told to stop.
pub fn serve(options: ServeOptions) -> Result<()> {
    let result = start(&options);
    if options.detached {
        // Whoever started it reads one line: that it is ready, or why not.
        let line = match &result {
            Ok(_) => "ready".to_owned(),
            Err(failure) => failure.message.replace('\n', " "),
        };
        let _ = writeln!(std::io::stdout(), "{line}");
        leave_terminal();
    }
    let (daemon, listener, end) = result?;
    let own = identity(&options.socket);
    daemon.import_remembered();
    import_named(&daemon, &options.import);
    accept(&daemon, &listener, &end);
    // Another daemon may have put its own there.
    if own.is_some() && identity(&options.socket) == own {
        let _ = std::fs::remove_file(&options.socket);
    }
    Ok(())
}

/// Which file a path leads to.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn start(options: &ServeOptions) -> Result<(Arc<Daemon>, UnixListener, Arc<End>)> {
    let state_dir = options.state_dir.clone().unwrap_or_else(default_state_dir);
    start_log(options.detached, &state_dir)?;
    if options.detached {
        let _ = rustix::process::setsid();
    }
    keys::harden_process()?;
    let listener = listen(&options.socket)?;
    // The first random number takes long; it is not to be the first command's.
    let warm = std::thread::Builder::new().name("warm-up".into());
    let _ = warm.spawn(|| cipher::Random::nonce(&cipher::SystemRandom).map(|_| ()));
    let hardware = cipher::hardware();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), %hardware, "the daemon listens");
    let end = Arc::new(End::new()?);
    stop_on_signals(&end)?;
    let daemon = Daemon::new(&options.socket, &state_dir, options.cache_bytes);
    Ok((daemon, listener, end))
}

fn import_named(daemon: &Arc<Daemon>, search: &[PathBuf]) {
    if search.is_empty() {
        return;
    }
    let import = ImportPool {
        search: search.to_vec(),
        pool: None,
        new_name: None,
        read_only: false,
        force: false,
        no_mount: false,
        load_keys: true,
    };
    let mut nobody = crate::pools::Unattended::default();
    let mut context = Context::internal("import at start", &mut nobody);
    if let Err(failure) = daemon.import_pools(&import, &mut context) {
        tracing::error!(reason = failure.message, "a pool could not be imported");
    }
}

/// That the daemon is to end. It wakes the thread that listens, whatever became of the socket's file.
struct End {
    /// By a signal, which does not wait for what is in use.
    signalled: AtomicBool,
    /// By a command, which has shut the pools down.
    stopped: AtomicBool,
    wakeup: OwnedFd,
}

impl End {
    fn new() -> Result<End> {
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Failure::other(format!("signals cannot be watched: {error}")))?;
        Ok(End {
            signalled: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            wakeup,
        })
    }

    fn tell(&self, how: &AtomicBool) {
        how.store(true, Ordering::Release);
        // Fails only if it was told so often that it is awake anyway.
        let _ = rustix::io::write(&self.wakeup, &1u64.to_ne_bytes());
    }
}

fn accept(daemon: &Arc<Daemon>, listener: &UnixListener, end: &Arc<End>) {
    loop {
        let mut wait = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(&end.wakeup, PollFlags::IN),
        ];
        match poll(&mut wait, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "commands cannot be waited for");
                end.signalled.store(true, Ordering::Release);
            }
        }
        let may_accept = wait[0].revents().contains(PollFlags::IN);
        if end.signalled.load(Ordering::Acquire) {
            if let Err(failure) = daemon.shut_down(true) {
                tracing::error!(
                    reason = failure.message,
                    "not everything could be unmounted"
                );
            }
            return;
        }
        if end.stopped.load(Ordering::Acquire) {
            return;
        }
        if may_accept {
            serve_next(daemon, listener, end);
        }
    }
}

fn serve_next(daemon: &Arc<Daemon>, listener: &UnixListener, end: &Arc<End>) {
    let Ok((stream, _)) = listener.accept() else {
        return;
    };
    let daemon = Arc::clone(daemon);
    let end = Arc::clone(end);
    let serve = move || {
        if daemon.serve_one(stream) == Served::Stop {
            end.tell(&end.stopped);
        }
    };
    if let Err(error) = std::thread::Builder::new()
        .name("command".into())
        .spawn(serve)
    {
        tracing::error!(%error, "a command could not be served");
    }
}

/// Has SIGTERM, SIGINT and SIGHUP unmount everything and end the daemon.
fn stop_on_signals(end: &Arc<End>) -> Result<()> {
    let end = Arc::clone(end);
    let mut signals = signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGHUP,
    ])
    .map_err(|error| Failure::other(format!("signals cannot be watched: {error}")))?;
    let watch = move || {
        for signal in signals.forever() {
            tracing::info!(signal, "told to stop");
            end.tell(&end.signalled);
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .map_err(|error| Failure::other(format!("signals cannot be watched: {error}")))?;
    Ok(())
}

/// `strongroom` in `$XDG_STATE_HOME`; else `/var/lib/strongroom` for root, and the user's state
/// directory for others.
fn default_state_dir() -> PathBuf {
    if let Some(base) = std::env::var_os("XDG_STATE_HOME").filter(|base| !base.is_empty()) {
        return Path::new(&base).join("strongroom");
    }
    if rustix::process::geteuid().is_root() {
        return "/var/lib/strongroom".into();
    }
    let base = std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state"));
    base.unwrap_or_else(|| "/tmp".into()).join("strongroom")
}

/// Logs to the terminal, or detached to `daemon.log` in the state directory.
fn start_log(detached: bool, state_dir: &Path) -> Result<()> {
    use tracing_subscriber::EnvFilter;
    let filter =
        || EnvFilter::try_from_env("STRONGROOM_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    if !detached {
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter())
            .with_writer(std::io::stderr)
            .try_init();
        return Ok(());
    }
    let failed = |error| {
        Failure::other(format!(
            "the log in {} cannot be written: {error}",
            state_dir.display()
        ))
    };
    std::fs::create_dir_all(state_dir).map_err(failed)?;
    let mut options = std::fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(options.create(true).append(true), 0o600);
    let file = options.open(state_dir.join("daemon.log")).map_err(failed)?;
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter())
        .with_ansi(false)
        .with_writer(std::sync::Mutex::new(file))
        .try_init();
    Ok(())
}

/// Lets go of what was inherited from whoever started the daemon.
fn leave_terminal() {
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
