//! Starting the daemon, and its end.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    let (daemon, listener) = result?;
    daemon.import_remembered();
    import_named(&daemon, &options.import);
    accept(&daemon, &listener);
    let _ = std::fs::remove_file(&options.socket);
    Ok(())
}

fn start(options: &ServeOptions) -> Result<(Arc<Daemon>, UnixListener)> {
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
    stop_on_signals(&options.socket)?;
    Ok((
        Daemon::new(&options.socket, &state_dir, options.cache_bytes),
        listener,
    ))
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

fn accept(daemon: &Arc<Daemon>, listener: &UnixListener) {
    let stopping = Arc::new(AtomicBool::new(false));
    for stream in listener.incoming() {
        if SIGNALLED.load(Ordering::Acquire) {
            if let Err(failure) = daemon.shut_down(true) {
                tracing::error!(
                    reason = failure.message,
                    "not everything could be unmounted"
                );
            }
            return;
        }
        if stopping.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let daemon = Arc::clone(daemon);
        let stopping = Arc::clone(&stopping);
        let serve = move || {
            if daemon.serve_one(stream) == Served::Stop {
                stopping.store(true, Ordering::Release);
                // Wakes the thread that listens.
                let _ = UnixStream::connect(&daemon.socket);
            }
        };
        if let Err(error) = std::thread::Builder::new()
            .name("command".into())
            .spawn(serve)
        {
            tracing::error!(%error, "a command could not be served");
        }
    }
}

static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// Has SIGTERM, SIGINT and SIGHUP unmount everything and end the daemon.
fn stop_on_signals(socket: &Path) -> Result<()> {
    let socket = socket.to_owned();
    let mut signals = signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGHUP,
    ])
    .map_err(|error| Failure::other(format!("signals cannot be watched: {error}")))?;
    let watch = move || {
        if let Some(signal) = signals.forever().next() {
            tracing::info!(signal, "told to stop");
            SIGNALLED.store(true, Ordering::Release);
            let _ = UnixStream::connect(&socket);
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .map_err(|error| Failure::other(format!("signals cannot be watched: {error}")))?;
    Ok(())
}

/// `/var/lib/strongroom` for root, else the user's state directory.
fn default_state_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return "/var/lib/strongroom".into();
    }
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state"));
    let base = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(home);
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
