//! Signals while echo is off.
//!
//! A process that is interrupted, ended or stopped at a prompt must turn echo on again first, or its
//! user types blindly into the shell. So during a prompt these signals only wake the reader, which
//! restores the terminal and then raises the signal again; at other times they keep their usual effect.
//! A command that pauses when it is interrupted holds them back too, with [`Interruptions`].

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::{flag, low_level};

const SIGNALS: [i32; 5] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP];

/// True if signals do what they always do.
static DEFAULT: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(true)));

/// Handlers, which stay once they are installed.
pub(super) struct Signals {
    /// The last signal that came during a prompt, or zero.
    caught: Arc<AtomicUsize>,
    /// Becomes readable when a signal comes.
    wakeup: UnixStream,
}

/// Returns whether this process was started to go on when its terminal is closed, as by nohup(1).
fn is_from_nohup(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    signal == SIGHUP && ignored.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

impl Signals {
    pub(super) fn new() -> io::Result<Signals> {
        let (wakeup, sender) = UnixStream::pair()?;
        wakeup.set_nonblocking(true)?;
        let caught = Arc::new(AtomicUsize::new(0));
        for signal in SIGNALS.into_iter().filter(|signal| !is_from_nohup(*signal)) {
            // They run in this order.
            flag::register_conditional_default(signal, DEFAULT.clone())?;
            flag::register_usize(signal, caught.clone(), signal as usize)?;
            low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        Ok(Signals { caught, wakeup })
    }

    /// Holds signals back while the guard lives.
    pub(super) fn guard(&self) -> Guard {
        DEFAULT.store(false, Ordering::SeqCst);
        Guard
    }

    /// The descriptor to wait for besides the terminal.
    pub(super) fn wakeup(&self) -> &UnixStream {
        &self.wakeup
    }

    /// Returns whether a signal came during a prompt.
    pub(super) fn is_pending(&self) -> bool {
        self.caught.load(Ordering::SeqCst) != 0
    }

    /// The signal that came, if one did; it is not pending then.
    pub(super) fn take(&self) -> Option<i32> {
        let mut drain = [0; 16];
        while matches!((&self.wakeup).read(&mut drain), Ok(1..)) {}
        let signal = self.caught.swap(0, Ordering::SeqCst);
        i32::try_from(signal).ok().filter(|signal| *signal != 0)
    }

    /// Raises the signal again with its usual effect.
    pub(super) fn obey(&self, signal: i32) -> io::Result<()> {
        low_level::emulate_default_handler(signal)
    }
}

/// Signals are held back while this lives.
pub(super) struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        DEFAULT.store(true, Ordering::SeqCst);
    }
}

/// Signals are held back while this lives, for work that pauses instead of ending anywhere.
pub struct Interruptions {
    signals: Signals,
    _held: Guard,
}

impl Interruptions {
    /// # Errors
    /// If handlers cannot be installed.
    pub fn hold() -> io::Result<Interruptions> {
        let signals = Signals::new()?;
        let _held = signals.guard();
        Ok(Interruptions { signals, _held })
    }

    /// Returns whether a signal came that [`Interruptions::came`] has not seen yet.
    pub fn is_pending(&self) -> bool {
        self.signals.is_pending()
    }

    /// Returns whether the work is to pause. A signal to stop the process is obeyed here: then this returns when it
    /// continues.
    pub fn came(&self) -> bool {
        loop {
            match self.signals.take() {
                None => return false,
                Some(SIGTSTP) => {
                    let _ = self.signals.obey(SIGTSTP);
                }
                Some(_) => return true,
            }
        }
    }
}
