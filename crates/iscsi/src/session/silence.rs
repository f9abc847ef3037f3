//! Initiators that are gone: one that says nothing is asked for a sign of life (NOP-In), and its session ends without one.
//!
//! A machine that has crashed, or that no network reaches any more, does not close its connection. Without traffic its
//! session, its memory and what it reserved by RESERVE (6) would stay until the daemon ends.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use crate::wire::link::{InitiatorLink, UNANSWERED_MAX};
use crate::wire::output::ResponseSender;

/// The connection of a session, whose initiator is asked for a sign of life when it is silent.
pub(super) struct WatchedLink<'a> {
    link: &'a dyn InitiatorLink,
    output: &'a ResponseSender,
    /// Questions since the last byte of the initiator.
    unanswered: AtomicU32,
}

impl<'a> WatchedLink<'a> {
    pub(super) fn new(link: &'a dyn InitiatorLink, output: &'a ResponseSender) -> WatchedLink<'a> {
        WatchedLink {
            link,
            output,
            unanswered: AtomicU32::new(0),
        }
    }

    /// Asks for a sign of life.
    ///
    /// # Errors
    /// If earlier questions have no answer, or this one cannot be sent.
    fn ask(&self) -> io::Result<()> {
        if self.unanswered.fetch_add(1, Relaxed) == UNANSWERED_MAX {
            let what = "the initiator is gone: it does not answer";
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
        self.output.ask_for_life().map_err(io::Error::other)
    }
}

impl InitiatorLink for WatchedLink<'_> {
    fn receive(&self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.link.receive(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.ask()?,
                received => {
                    self.unanswered.store(0, Relaxed);
                    return received;
                }
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.link.send(bytes)
    }

    fn begin_session(&self, silence: Duration) {
        self.link.begin_session(silence);
    }

    fn cut(&self) {
        self.link.cut();
    }

    fn portal(&self) -> String {
        self.link.portal()
    }

    fn peer(&self) -> String {
        self.link.peer()
    }
}
