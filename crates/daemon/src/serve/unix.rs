//! Commands at Unix sockets: one connection, one command, one thread.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use protocol::api::{API_VERSION, Ask, AskFormat, DaemonAnswer, FailureKind, Reply, Request};
use protocol::client::BAD_TOKEN;
use protocol::wire::{self, DataReader, DataWriter, FirstFrame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use secret::Secret;

use crate::failure::{Failure, Result};
use crate::host::callers::users::Peer;
use crate::host::log::cut_to;
use crate::serve::commands::served;
use crate::serve::dispatch::RequestOutcome;
use crate::serve::read_deadline::DeadlineReader;
use crate::state::callers::channel::{Channel, DataChannel, Dialogue, StreamWriter};
use crate::state::callers::command_connections::CommandPermit;
use crate::state::callers::tokens::AcceptedToken;
use crate::state::daemon::Daemon;
use crate::state::zones::zone::Zone;

/// The time limit for a client to send its request.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// The time limit for a client without any permission to send a token.
const TOKEN_TIME: Duration = Duration::from_secs(2);
/// The largest request of a user other than root, in bytes.
const DELEGATE_REQUEST_MAX: u32 = 1 << 20;

/// The longest message of a failure, in bytes. It may have names of the caller's request.
const MESSAGE_MAX: usize = 16 << 10;

/// The caller at the other end of a connection.
struct ConnectedCaller {
    stream: Arc<UnixStream>,
    /// Notices that were not sent yet. A command may have the lock of a pool when it gives one, and the caller need not
    /// read it.
    notices: Mutex<Vec<String>>,
}

impl ConnectedCaller {
    fn new(stream: &Arc<UnixStream>) -> ConnectedCaller {
        let (stream, notices) = (Arc::clone(stream), Mutex::default());
        ConnectedCaller { stream, notices }
    }

    /// Sends the notices. Waits until the caller reads them, so the command may have no lock.
    fn send_notices(&self) {
        for text in self.notices.lock().drain(..) {
            // A client that has gone needs no answer.
            let _ = wire::send(&mut &*self.stream, &DaemonAnswer::Notice(text));
        }
    }
}

impl Drop for ConnectedCaller {
    fn drop(&mut self) {
        self.send_notices();
    }
}

impl Channel for ConnectedCaller {
    fn ask(&mut self, ask: Ask) -> Result<Option<Secret>> {
        let lost =
            |error| Failure::new(FailureKind::NoKey, format!("the caller went away: {error}"));
        let len_max = match ask.format {
            AskFormat::KeyFile => wire::KEY_FILE_MAX,
            AskFormat::Passphrase | AskFormat::Hex | AskFormat::Pin => wire::SECRET_MAX,
        };
        self.send_notices();
        let mut stream = &*self.stream;
        wire::send(&mut stream, &DaemonAnswer::Ask(ask)).map_err(lost)?;
        wire::receive_secret(&mut stream, len_max).map_err(lost)
    }

    fn notice(&mut self, text: String) {
        self.notices.lock().push(text);
    }

    fn rows(&mut self, rows: Reply) -> Result<()> {
        self.send_notices();
        wire::send(&mut &*self.stream, &DaemonAnswer::Rows(rows))
            .map_err(|error| Failure::other(format!("the caller went away: {error}")))
    }

    fn pause(&mut self, time: Duration) -> bool {
        self.send_notices();
        !ends_within(&self.stream, time)
    }

    fn data(&self) -> Result<Arc<dyn DataChannel>> {
        self.send_notices();
        Ok(Arc::clone(&self.stream) as Arc<dyn DataChannel>)
    }
}

/// Waits for the end of a connection, for at most so long. Whether it came.
fn ends_within(stream: &UnixStream, time: Duration) -> bool {
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        // Without events to wait for, this is told only of the end of the connection.
        let mut ends = [PollFd::new(stream, PollFlags::empty())];
        match poll(&mut ends, timeout.as_ref()) {
            Ok(0) => return false,
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return true,
        }
    }
}

impl DataChannel for UnixStream {
    fn reader(&self) -> io::Result<Box<dyn Read + '_>> {
        let mut stream = self;
        wire::send(&mut stream, &DaemonAnswer::Ready)?;
        Ok(Box::new(DataReader::new(stream)))
    }

    fn writer(&self) -> Box<dyn StreamWriter + '_> {
        Box::new(DataWriter::new(self))
    }

    fn dialogue(&self) -> Box<dyn Dialogue + '_> {
        Box::new(self)
    }

    fn break_off(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }

    fn is_gone(&self) -> bool {
        ends_within(self, Duration::ZERO)
    }
}

impl StreamWriter for DataWriter<&UnixStream> {
    fn end(self: Box<Self>) -> io::Result<()> {
        DataWriter::end(*self)
    }
}

impl Daemon {
    /// Serves a connection on a thread of its own.
    pub(crate) fn serve_on_thread(name: &str, serve: impl FnOnce() + Send + 'static) {
        if let Err(error) = threads::start(name, serve) {
            tracing::error!(%error, "a connection could not be served");
        }
    }

    /// Serves one connection at the daemon's socket, or at the socket of a zone.
    pub(crate) fn serve_one(
        self: &Arc<Self>,
        stream: &Arc<UnixStream>,
        zone: Option<&Zone>,
        guest: &mut CommandPermit,
    ) -> ConnectionEnd {
        let outcome = Peer::of(stream).and_then(|peer| match zone {
            Some(zone) => self.hear_tenant(peer, stream, zone, guest),
            None => self.hear(peer, stream, guest),
        });
        answer(stream, outcome)
    }

    /// Serves one connection of a known caller.
    #[cfg(test)]
    pub(crate) fn serve_peer(self: &Arc<Self>, peer: Peer, stream: UnixStream) {
        let stream = Arc::new(stream);
        let source = admission::ClientSource::local_user(peer.uid);
        let guest = &mut self.guests.greet(&stream, source);
        let outcome = self.hear(peer, &stream, guest);
        assert_eq!(answer(&stream, outcome), ConnectionEnd::Done);
    }

    /// Serves one connection of the tenant of a zone.
    #[cfg(test)]
    pub(crate) fn serve_tenant(self: &Arc<Self>, zone: &Zone, stream: UnixStream) {
        let stream = Arc::new(stream);
        let peer = Peer::of(&stream).unwrap();
        let source = admission::ClientSource::local_user(peer.uid);
        let guest = &mut self.guests.greet(&stream, source);
        let outcome = self.hear_tenant(peer, &stream, zone, guest);
        assert_eq!(answer(&stream, outcome), ConnectionEnd::Done);
    }

    /// Reads a request, and carries it out. A user without any permission is refused before the request is read. If
    /// there are tokens, such a user may show one.
    fn hear(
        self: &Arc<Self>,
        peer: Peer,
        stream: &Arc<UnixStream>,
        guest: &mut CommandPermit,
    ) -> Result<RequestOutcome> {
        let max = self.request_max(&peer);
        let time = match max {
            Some(_) => {
                self.guests.admit(guest, &peer)?;
                REQUEST_TIME
            }
            None => {
                self.expect_token()?;
                TOKEN_TIME
            }
        };
        let first = in_time(stream, time, |stream| wire::receive_first(stream, max))?;
        match first {
            FirstFrame::Request(request) => {
                let caller = &mut ConnectedCaller::new(stream);
                self.carry_out(understood(*request)?, peer, None, caller)
            }
            FirstFrame::Token(token) => self.hear_token(&peer, &token, stream, guest),
            FirstFrame::LongToken => Err(self.bad_token(&peer)),
            FirstFrame::Unwelcome => Err(unknown()),
        }
    }

    /// Refuses a user without any permission, unless there are tokens.
    fn expect_token(&self) -> Result<()> {
        self.forget_ended_tokens();
        match self.tokens.is_empty() {
            true => Err(unknown()),
            false => Ok(()),
        }
    }

    fn forget_ended_tokens(&self) {
        if self.tokens.prune() {
            self.open_to_delegates();
        }
    }

    /// The largest request of a caller; `None` for a user without any permission.
    fn request_max(&self, peer: &Peer) -> Option<u32> {
        match peer.is_admin {
            true => Some(wire::JSON_MAX),
            false => self.knows(peer).then_some(DELEGATE_REQUEST_MAX),
        }
    }

    /// The refusal of a token that no user has.
    fn bad_token(&self, from: &Peer) -> Failure {
        if self.guests.may_tell(from.uid) {
            tracing::warn!(who = from.who, "a token was refused");
        }
        self.forget_ended_tokens();
        Failure::new(FailureKind::Permission, BAD_TOKEN)
    }

    /// Reads the request of a caller who has shown a token, and carries it out for the token's user.
    fn hear_token(
        self: &Arc<Self>,
        from: &Peer,
        token: &Secret,
        stream: &Arc<UnixStream>,
        guest: &mut CommandPermit,
    ) -> Result<RequestOutcome> {
        let Some(AcceptedToken { id, token, account }) = self.tokens.shown(token) else {
            return Err(self.bad_token(from));
        };
        let peer = Peer::of_token(token.uid, account, &id, token.scope.clone());
        self.guests.admit(guest, &peer)?;
        if let Some(name) = &token.zone {
            let zone = self
                .zones
                .get(name)
                .filter(|zone| token.root == Some(zone.is.root()));
            let zone = zone.ok_or_else(|| Failure::new(FailureKind::Permission, BAD_TOKEN))?;
            return self.hear_tenant(peer, stream, &zone, guest);
        }
        let max = self.request_max(&peer).ok_or_else(unknown)?;
        let request = receive_in_time(stream, max)?;
        self.carry_out(request, peer, None, &mut ConnectedCaller::new(stream))
    }

    /// Carries out a tenant's request, and answers with the tenant's names.
    fn hear_tenant(
        self: &Arc<Self>,
        mut peer: Peer,
        stream: &Arc<UnixStream>,
        zone: &Zone,
        guest: &mut CommandPermit,
    ) -> Result<RequestOutcome> {
        zone.check(&peer)?;
        self.guests.admit(guest, &peer)?;
        let mut caller = ConnectedCaller::new(stream);
        let _running = zone.callers.begin(&caller.data()?)?;
        let request = receive_in_time(stream, DELEGATE_REQUEST_MAX)?;
        peer.who = format!("{}:{}", peer.who, zone.name);
        let view = self.view(zone)?;
        let _guard = zone.guard_names(served(request.command.clone()).names())?;
        self.carry_out(request, peer, Some(&view), &mut caller)
    }
}

/// The refusal of a user without any permission.
fn unknown() -> Failure {
    Failure::new(
        FailureKind::Permission,
        "only root, the user who runs the daemon, and users with a permission may use the daemon; root \
         gives permissions with 'strongroom allow'",
    )
}

/// Sends the outcome of a command to the caller.
fn answer(mut stream: &UnixStream, outcome: Result<RequestOutcome>) -> ConnectionEnd {
    let answer = match outcome {
        Ok(RequestOutcome::Reply(reply)) => DaemonAnswer::Done(reply),
        Ok(RequestOutcome::Stop) => {
            let _ = wire::send(&mut stream, &DaemonAnswer::Done(Reply::Nothing));
            return ConnectionEnd::Stop;
        }
        Err(mut failure) => {
            failure.message = cut_to(std::mem::take(&mut failure.message), MESSAGE_MAX);
            tracing::debug!(reason = failure.message, "a connection ends with a failure");
            DaemonAnswer::Failed(failure)
        }
    };
    if let Err(error) = wire::send(&mut stream, &answer) {
        tracing::debug!(%error, "a caller did not wait for its answer");
    }
    ConnectionEnd::Done
}

/// Receives a request of at most `max` bytes, within [`REQUEST_TIME`].
fn receive_in_time(stream: &UnixStream, max: u32) -> Result<Request> {
    understood(in_time(stream, REQUEST_TIME, |stream| {
        wire::receive_request(stream, max)
    })?)
}

/// Receives something within a time.
fn in_time<T>(
    stream: &UnixStream,
    time: Duration,
    receive: impl FnOnce(&mut DeadlineReader<'_>) -> io::Result<T>,
) -> Result<T> {
    let until = Instant::now() + time;
    let received = receive(&mut DeadlineReader { stream, until })
        .map_err(|error| Failure::other(format!("the request cannot be understood: {error}")))?;
    // Who is asked for a passphrase then may think.
    stream
        .set_read_timeout(None)
        .map_err(|error| Failure::other(format!("the connection failed: {error}")))?;
    Ok(received)
}

fn understood(request: std::result::Result<Request, u32>) -> Result<Request> {
    request.map_err(|version| {
        Failure::other(format!(
            "the daemon speaks version {API_VERSION} and this command version {version}; restart the daemon: \
             strongroom daemon stop"
        ))
    })
}

/// The state of the daemon after a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// The daemon continues.
    Done,
    /// The daemon ends.
    Stop,
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_caller_that_goes_away_ends_a_pause() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut caller = ConnectedCaller::new(&Arc::new(here));
        assert!(caller.pause(Duration::from_millis(1)));
        drop(there);
        assert!(!caller.pause(Duration::from_secs(3600)));
    }

    /// A command may have a lock when it gives notices.
    #[test]
    fn notices_do_not_wait_for_a_caller_that_reads_nothing() {
        const MANY: usize = 10_000;
        let (here, mut there) = UnixStream::pair().unwrap();
        let here = Arc::new(here);
        let mut caller = ConnectedCaller::new(&here);
        // More than the socket takes.
        (0..MANY).for_each(|number| caller.notice(format!("{number} {}", "x".repeat(100))));
        std::thread::scope(|scope| {
            scope.spawn(|| drop(caller));
            for number in 0..MANY {
                let answer: DaemonAnswer = wire::receive(&mut there).unwrap();
                let DaemonAnswer::Notice(text) = answer else {
                    panic!("{answer:?}");
                };
                assert!(text.starts_with(&format!("{number} ")), "{text}");
            }
        });
    }

    #[test]
    fn a_request_that_comes_in_drops_is_not_waited_for() {
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all(b"J").unwrap();
        let until = Instant::now();
        let mut late = DeadlineReader {
            stream: &here,
            until,
        };
        let error = wire::receive_request(&mut late, 1000).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    }
}
