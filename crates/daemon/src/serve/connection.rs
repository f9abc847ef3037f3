//! Connections: one connection, one command, one thread.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::api::{API_VERSION, Answer, Ask, AskFormat, Command, FailureKind, Reply, Request};
use protocol::wire;
use secret::Secret;

use crate::failure::{Failure, Result};
use crate::host::users::Peer;
use crate::serve::commands::served;
use crate::state::connections::Hurried;
use crate::state::context::Context;
use crate::state::daemon::Daemon;
use crate::state::keyring::Prompt;
use crate::state::zones::view::View;
use crate::state::zones::zone::Zone;

/// A client sends its request within this time.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// A request of a user other than root has no more bytes than this.
const DELEGATE_REQUEST_MAX: u32 = 1 << 20;

/// Asks over the connection, in a zone as its tenant calls things.
struct Remote<'a> {
    stream: &'a mut UnixStream,
    view: Option<&'a View>,
}

impl Prompt for Remote<'_> {
    fn ask(&mut self, ask: Ask) -> Result<Option<Secret>> {
        let lost =
            |error| Failure::new(FailureKind::NoKey, format!("the caller went away: {error}"));
        let ask = match self.view {
            Some(view) => view.ask(ask),
            None => ask,
        };
        let len_max = match ask.format {
            AskFormat::KeyFile => wire::KEY_FILE_MAX,
            AskFormat::Passphrase | AskFormat::Hex | AskFormat::Pin => wire::SECRET_MAX,
        };
        wire::send(self.stream, &Answer::Ask(ask)).map_err(lost)?;
        wire::receive_secret(self.stream, len_max).map_err(lost)
    }

    fn notice(&mut self, text: String) {
        let text = match self.view {
            Some(view) => view.text(&text),
            None => text,
        };
        // A client that has gone needs no answer.
        let _ = wire::send(self.stream, &Answer::Notice(text));
    }
}

/// How much memory a request lets one password hash take, in KiB: others may not take it from the machine.
fn hash_memory_of(request: &Request, peer: &Peer, view: Option<&View>) -> Result<u64> {
    match request.hash_memory {
        None => Ok(0),
        Some(mib) if peer.is_admin && view.is_none() => Ok(mib.saturating_mul(1024)),
        Some(_) => Err(Failure::new(
            FailureKind::Permission,
            "--hash-memory is for root, and for the user who runs the daemon",
        )),
    }
}

impl Daemon {
    /// Has a thread of its own serve a connection.
    pub(crate) fn serve_on_thread(serve: impl FnOnce() + Send + 'static) {
        let thread = std::thread::Builder::new().name("command".into());
        if let Err(error) = thread.spawn(serve) {
            tracing::error!(%error, "a command could not be served");
        }
    }

    /// Serves one connection, which came in where the daemon listens or through a zone.
    pub(crate) fn serve_one(
        self: &Arc<Self>,
        mut stream: UnixStream,
        zone: Option<&Zone>,
    ) -> Served {
        let outcome = match zone {
            Some(zone) => self.handle_in_zone(&mut stream, zone),
            None => self.handle(&mut stream),
        };
        answer(stream, outcome)
    }

    /// Serves one connection of a caller who is known by other means.
    #[cfg(test)]
    pub(crate) fn serve_peer(self: &Arc<Self>, peer: Peer, mut stream: UnixStream) {
        let outcome = self.hear(peer, &mut stream);
        assert_eq!(answer(stream, outcome), Served::Done);
    }

    fn handle(self: &Arc<Self>, stream: &mut UnixStream) -> Result<Outcome> {
        self.hear(Peer::of(stream)?, stream)
    }

    /// Reads a request, and carries it out.
    fn hear(self: &Arc<Self>, peer: Peer, stream: &mut UnixStream) -> Result<Outcome> {
        let request = match peer.is_admin {
            true => receive_in_time(stream, wire::JSON_MAX)?,
            false => {
                self.check_known(&peer)?;
                receive_in_time(stream, DELEGATE_REQUEST_MAX)?
            }
        };
        self.carry_out(request, peer, None, stream)
    }

    /// Carries out a tenant's request, and answers with the names that the tenant uses.
    fn handle_in_zone(self: &Arc<Self>, stream: &mut UnixStream, zone: &Zone) -> Result<Outcome> {
        let mut peer = Peer::of(stream)?;
        zone.check(&peer)?;
        let _running = zone.callers.begin(stream)?;
        let request = receive_in_time(stream, DELEGATE_REQUEST_MAX)?;
        peer.who = format!("{}:{}", peer.who, zone.name);
        let view = self.view(zone)?;
        let _guard = zone.guard_names(served(request.command.clone()).names())?;
        self.carry_out(request, peer, Some(&view), stream)
    }

    fn carry_out(
        self: &Arc<Self>,
        request: Request,
        peer: Peer,
        view: Option<&View>,
        stream: &mut UnixStream,
    ) -> Result<Outcome> {
        keys::hash_for(peer.uid);
        keys::allow_hash_memory(hash_memory_of(&request, &peer, view)?);
        let stops = matches!(request.command, Command::DaemonStop);
        let mut command = served(request.command);
        let said = command.line().0;
        tracing::info!(who = peer.who, command = said, "command");
        self.authorize(&peer, view, &mut *command)?;
        let lost = |error| Failure::other(format!("the caller went away: {error}"));
        let data = stream.try_clone().map_err(lost)?;
        let mut remote = Remote { stream, view };
        let pools = || self.pools();
        let mut context = Context {
            peer,
            view,
            pools: &pools,
            // In a zone what it means outside.
            said: command.line().0,
            prompt: &mut remote,
            data: Some(&data),
        };
        let result = command.run(self, &mut context);
        if stops && result.is_ok() {
            return Ok(Outcome::Stop);
        }
        let seen = match (view, result) {
            (None, result) => result,
            (Some(view), Ok(reply)) => view.reply(reply),
            (Some(view), Err(failure)) => Err(view.failure(failure)),
        };
        seen.map(Outcome::Reply)
    }

    /// Refuses a user without any permission before reading the request.
    fn check_known(&self, peer: &Peer) -> Result<()> {
        if self.knows(peer) {
            return Ok(());
        }
        Err(Failure::new(
            FailureKind::Permission,
            "only root, the user who runs the daemon, and those to whom something is allowed \
             ('strongroom allow') may use it",
        ))
    }
}

/// Tells a caller what came of a command.
fn answer(mut stream: UnixStream, outcome: Result<Outcome>) -> Served {
    let answer = match outcome {
        Ok(Outcome::Reply(reply)) => Answer::Done(reply),
        Ok(Outcome::Stop) => {
            let _ = wire::send(&mut stream, &Answer::Done(Reply::Nothing));
            return Served::Stop;
        }
        Err(failure) => {
            tracing::info!(reason = failure.message, "a command failed");
            Answer::Failed(failure.into())
        }
    };
    if let Err(error) = wire::send(&mut stream, &answer) {
        tracing::debug!(%error, "a caller did not wait for its answer");
    }
    Served::Done
}

/// Receives a request of so many bytes at most, within [`REQUEST_TIME`].
fn receive_in_time(stream: &UnixStream, max: u32) -> Result<Request> {
    let unheard = |error| Failure::other(format!("the connection failed: {error}"));
    let until = Instant::now() + REQUEST_TIME;
    let request = understood(wire::receive_request(&mut Hurried { stream, until }, max))?;
    // Who is asked for a passphrase then may think.
    stream.set_read_timeout(None).map_err(unheard)?;
    Ok(request)
}

fn understood(request: std::io::Result<std::result::Result<Request, u32>>) -> Result<Request> {
    let request = request
        .map_err(|error| Failure::other(format!("the request cannot be understood: {error}")))?;
    request.map_err(|version| {
        Failure::other(format!(
            "the daemon speaks version {API_VERSION} and this command version {version}; restart the daemon: \
             strongroom daemon stop"
        ))
    })
}

enum Outcome {
    Reply(Reply),
    Stop,
}

/// What becomes of the daemon after a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// It goes on.
    Done,
    /// It ends.
    Stop,
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::API_VERSION;

    #[test]
    fn others_do_not_give_a_hash_more_memory() {
        let request = |hash_memory| Request {
            version: API_VERSION,
            command: Command::Mounts,
            hash_memory,
        };
        let peer = |is_admin| Peer {
            uid: 1000,
            gid: 1000,
            groups: vec![1000],
            who: "another user".into(),
            is_admin,
        };
        let refused = hash_memory_of(&request(Some(5)), &peer(false), None);
        assert_eq!(refused.unwrap_err().kind, FailureKind::Permission);
        assert_eq!(
            hash_memory_of(&request(None), &peer(false), None).unwrap(),
            0
        );
        let allowed = hash_memory_of(&request(Some(5)), &peer(true), None);
        assert_eq!(allowed.unwrap(), 5 << 10);
    }
}
