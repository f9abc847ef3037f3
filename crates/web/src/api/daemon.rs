//! Requests to the daemon, in the name of a caller.
//!
//! The commands' side of the socket is `protocol::client`. Here an answer may not be as long, and nobody waits for one
//! when the client has gone.

use std::cell::{OnceCell, RefCell};
use std::io::Read;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::api::{
    API_VERSION, Ask, CallerReport, Command, DaemonAnswer, Failure, FailureKind, Reply, Request,
};
use protocol::client::{BAD_TOKEN, DaemonConnection, Terminal};
use protocol::wire::{self, ReceivedFrame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use secret::Secret;

use super::secrets::GivenSecret;
use crate::http::Problem;
use crate::memory::{MemoryAccount, MemoryShare, RequestMemory};

/// The longest answer of the daemon.
const ANSWER_MAX: u32 = 8 << 20;
/// The memory that each byte of an answer takes while it becomes JSON of the site (measured: 24 to 28).
const ANSWER_COST: usize = 28;
/// Answers that are longer than this take a share of the memory, for an answer of any length until it is text.
const SHORT: u32 = 256 << 10;
/// A request waits so long for memory.
const PATIENCE: Duration = Duration::from_secs(20);
/// A daemon that ends does so in this time.
const END_TIME: Duration = Duration::from_secs(30);

/// The caller of a request, and the daemon that is asked.
pub(crate) struct ApiCaller {
    pub(crate) socket: PathBuf,
    /// Without it the caller is the user of this process.
    pub(crate) token: Option<Arc<Secret>>,
    /// The connection to the client, and how its end shows.
    pub(crate) client: (Arc<OwnedFd>, PollFlags),
    pub(crate) memory: Arc<RequestMemory>,
    /// The memory of the last answer, until the client has it.
    pub(crate) share: RefCell<Option<MemoryShare>>,
    /// The daemon's word about the caller, once it was asked.
    pub(crate) report: OnceCell<CallerReport>,
}

/// The reply to a command, and its notices.
pub(crate) struct CommandReply {
    pub(crate) reply: Reply,
    pub(crate) notices: Vec<String>,
}

/// The name under which the places and memory of a token are counted that has its own. No zone has such a name.
pub(crate) fn own_name(report: &CallerReport) -> Option<String> {
    let token = report.token.as_ref().filter(|_| report.apart);
    token.map(|id| format!("token {id}"))
}

impl ApiCaller {
    /// The user that the daemon knows the caller as.
    ///
    /// # Errors
    /// The token is wrong, or the user has no right at all.
    pub(crate) fn known(&self) -> Result<&CallerReport, Problem> {
        if let Some(report) = self.report.get() {
            return Ok(report);
        }
        match self.ask(Command::Whoami)? {
            Reply::Caller(report) => Ok(self.report.get_or_init(|| report)),
            _ => Err(Problem::Login("the daemon does not know the caller".into())),
        }
    }

    /// Takes memory of the caller's user.
    pub(crate) fn reserve(&self, size: usize) -> Result<MemoryShare, Problem> {
        let report = self.known()?;
        let account = MemoryAccount {
            user: (report.uid, report.zone.clone().or_else(|| own_name(report))),
            is_admin: report.admin,
        };
        let share = self.memory.take(&account, size, PATIENCE);
        share.ok_or_else(no_memory)
    }

    /// Takes memory for the longest answer, once. A caller with a part of it could wait for another one with the rest.
    fn hold(&self) -> Result<(), Problem> {
        if self.share.borrow().is_none() {
            let share = self.reserve(ANSWER_MAX as usize * ANSWER_COST)?;
            self.share.replace(Some(share));
        }
        Ok(())
    }

    /// Has a command done that asks for nothing.
    pub(crate) fn ask(&self, command: impl Into<Command>) -> Result<Reply, Problem> {
        let told = self.call(command.into(), Vec::new(), None)?;
        Ok(told.reply)
    }

    /// Has a command done, with these secrets.
    pub(crate) fn call(
        &self,
        command: Command,
        secrets: Vec<GivenSecret>,
        hash_memory: Option<u64>,
    ) -> Result<CommandReply, Problem> {
        let ends = command.ends_daemon();
        let mut talk = self.begin(command, secrets, hash_memory)?;
        let reply = loop {
            match talk.hear()? {
                DaemonMessage::Done(reply) => break reply,
                DaemonMessage::Note => {}
                DaemonMessage::Ready | DaemonMessage::Data => return Err(not_understood().into()),
            }
        };
        if ends {
            // It keeps the connection until it has ended.
            let _ = talk.stream.set_read_timeout(Some(END_TIME));
            let _ = talk.stream.read(&mut [0]);
        }
        let notices = talk.answers.notices;
        Ok(CommandReply { reply, notices })
    }

    /// Sends the daemon a command, with the secrets that it may ask for.
    pub(super) fn begin(
        &self,
        command: Command,
        secrets: Vec<GivenSecret>,
        hash_memory: Option<u64>,
    ) -> Result<CommandTalk<'_>, Problem> {
        let answers = SecretAnswers {
            secrets,
            missing: None,
            notices: Vec::new(),
        };
        // The answer before is no longer needed.
        self.share.take();
        let mut stream = self.connect()?;
        let sent = self.request(&mut stream, command, hash_memory);
        sent.map_err(refused)?;
        Ok(CommandTalk {
            caller: self,
            stream,
            answers,
            rows: Vec::new(),
            kept: 0,
            len: 0,
            piece: Vec::new(),
        })
    }

    /// A connection to the daemon, if it is root's or of the same user.
    fn connect(&self) -> Result<UnixStream, Problem> {
        let own = rustix::process::geteuid();
        let is_trusted = |stream: &UnixStream| {
            let server = rustix::net::sockopt::socket_peercred(stream);
            server.is_ok_and(|server| server.uid.is_root() || server.uid == own)
        };
        match UnixStream::connect(&self.socket) {
            Ok(stream) if is_trusted(&stream) => Ok(stream),
            // It says why not.
            _ => match DaemonConnection::connect(&self.socket) {
                Err(failure) => Err(failure.into()),
                Ok(_) => Err(Problem::TooMany("the daemon has just begun".into(), 1)),
            },
        }
    }

    fn request(
        &self,
        stream: &mut UnixStream,
        command: Command,
        hash_memory: Option<u64>,
    ) -> Result<(), Failure> {
        let version = API_VERSION;
        let request = Request {
            version,
            command,
            hash_memory,
        };
        let token = self.token.as_ref();
        let shown = token.map_or(Ok(()), |token| wire::send_secret(stream, token));
        match shown.and_then(|()| wire::send(stream, &request)) {
            Ok(()) => Ok(()),
            // A refused client gets the refusal before it sends its command.
            Err(error) => match wire::receive_up_to(stream, SHORT) {
                Ok(DaemonAnswer::Failed(failure)) => Err(failure),
                _ => Err(lost(error)),
            },
        }
    }
}

/// A command that the daemon carries out.
pub(super) struct CommandTalk<'a> {
    caller: &'a ApiCaller,
    stream: UnixStream,
    answers: SecretAnswers,
    /// The rows of the reply that came so far.
    rows: Vec<Reply>,
    /// The length of what is kept of the messages so far.
    kept: usize,
    /// The length of the last message.
    len: usize,
    /// The last piece of data that came.
    pub(super) piece: Vec<u8>,
}

/// A message of the daemon.
pub(super) enum DaemonMessage {
    /// The command is done.
    Done(Reply),
    /// The daemon waits for data.
    Ready,
    /// A piece of data; an empty one is the last.
    Data,
    /// A message that was handled already.
    Note,
}

impl CommandTalk<'_> {
    /// The next answer of the daemon, for as long as the client is there.
    ///
    /// # Errors
    /// The command failed, or needs a secret that was not given.
    pub(super) fn hear(&mut self) -> Result<DaemonMessage, Problem> {
        let answer = match self.receive()? {
            ReceivedFrame::Data => return Ok(DaemonMessage::Data),
            ReceivedFrame::Message(answer) => answer,
        };
        let stream = &mut self.stream;
        match answer {
            DaemonAnswer::Done(reply) => {
                let rows = std::mem::take(&mut self.rows);
                let whole = reply.after(rows).ok_or_else(not_understood)?;
                return Ok(DaemonMessage::Done(whole));
            }
            DaemonAnswer::Rows(more) => {
                self.rows.push(more);
                self.kept += self.len;
            }
            DaemonAnswer::Ready => return Ok(DaemonMessage::Ready),
            DaemonAnswer::Failed(failure) => return Err(refused(failure)),
            DaemonAnswer::Lent(_) => return Err(not_understood().into()),
            DaemonAnswer::Notice(text) => {
                self.answers.notice(&text);
                self.kept += self.len;
            }
            DaemonAnswer::Progress(_) => wire::send(stream, &true).map_err(lost)?,
            DaemonAnswer::Ask(ask) => match self.answers.ask(&ask) {
                Ok(Some(secret)) => wire::send_secret(stream, &secret).map_err(lost)?,
                Ok(None) => wire::send_cancel(stream).map_err(lost)?,
                Err(failure) => {
                    wire::send_cancel(stream).map_err(lost)?;
                    return Err(match self.answers.missing.take() {
                        Some(ask) => Problem::SecretNeeded(failure, ask),
                        None => refused(failure),
                    });
                }
            },
        }
        Ok(DaemonMessage::Note)
    }

    /// The notices so far.
    pub(super) fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.answers.notices)
    }

    /// Returns whether the daemon has sent a message, or has ended.
    pub(super) fn has_said(&self) -> bool {
        let mut one = [PollFd::new(&self.stream, PollFlags::IN)];
        let at_once = Timespec::default();
        !matches!(poll(&mut one, Some(&at_once)), Ok(0))
    }

    /// Sends a piece of data; an empty one is the last. Returns false if the daemon takes no more.
    pub(super) fn give(&mut self, piece: &[u8]) -> Result<bool, Problem> {
        let mut frame = Vec::with_capacity(piece.len() + 5);
        wire::send_piece(&mut frame, piece).map_err(lost)?;
        let mut rest = &frame[..];
        while !rest.is_empty() {
            self.wait(PollFlags::OUT)?;
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.stream, rest, flags) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Ends the data before its end. The daemon then says why it cannot go on.
    pub(super) fn break_off(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Waits for the daemon, for as long as the client is there.
    fn wait(&self, what: PollFlags) -> Result<(), Problem> {
        let (client, gone) = &self.caller.client;
        let mut both = [PollFd::new(&self.stream, what), PollFd::new(client, *gone)];
        while let Err(error) = poll(&mut both, None) {
            if error != Errno::INTR {
                return Err(lost(error).into());
            }
        }
        match both[1].revents().is_empty() {
            true => Ok(()),
            false => Err(Problem::Refused(408, "the client has gone".into())),
        }
    }

    fn receive(&mut self) -> Result<ReceivedFrame<DaemonAnswer>, Problem> {
        self.wait(PollFlags::IN)?;
        // The kind and the length of what comes.
        let mut head = [0; 5];
        let flags = RecvFlags::PEEK | RecvFlags::WAITALL;
        let (_, got) = rustix::net::recv(&self.stream, &mut head, flags).map_err(lost)?;
        let is_whole = got == head.len();
        let len = wire::message_len(head).filter(|_| is_whole).unwrap_or(0);
        self.len = len as usize;
        let whole = self.kept + self.len;
        if whole > ANSWER_MAX as usize {
            let why = "the answer is too long: ask for fewer names or properties, or use the command line";
            return Err(Problem::Refused(413, why.into()));
        }
        if whole > SHORT as usize {
            self.caller.hold()?;
        }
        let received = wire::receive_any(&mut self.stream, &mut self.piece, ANSWER_MAX);
        Ok(received.map_err(lost)?)
    }
}

fn no_memory() -> Problem {
    let why = "other long requests of this user, or of all users, take the memory of the site";
    Problem::TooMany(why.into(), 5)
}

/// The problem of a refusal by the daemon: of the token, or of the request.
fn refused(failure: Failure) -> Problem {
    match failure.message == BAD_TOKEN {
        true => Problem::Login(failure.message),
        false => failure.into(),
    }
}

/// The connection broke. The daemon may run still, with its pools.
fn lost(error: impl std::fmt::Display) -> Failure {
    Failure::other(format!("the daemon went away: {error}"))
}

pub(super) fn not_understood() -> Failure {
    lost("its answer is not understood")
}

/// Answers the daemon's questions with what came with the request.
struct SecretAnswers {
    secrets: Vec<GivenSecret>,
    /// The first question without an answer.
    missing: Option<Ask>,
    notices: Vec<String>,
}

impl Terminal for SecretAnswers {
    fn ask(&mut self, ask: &Ask) -> Result<Option<Secret>, Failure> {
        let fits = |given: &GivenSecret| {
            given
                .dataset
                .as_ref()
                .is_none_or(|name| *name == ask.dataset)
        };
        // A secret that was wrong is not tried again with the next one, which is for another question.
        if !ask.again
            && let Some(at) = self.secrets.iter().position(fits)
        {
            return Ok(Some(self.secrets.remove(at).secret));
        }
        let name = &ask.dataset;
        if ask.again {
            let why = format!("'{name}': the secret is wrong");
            return Err(Failure::new(FailureKind::WrongKey, why));
        }
        self.missing = Some(ask.clone());
        let why = format!("'{name}': a secret is needed; send it in 'secrets'");
        Err(Failure::new(FailureKind::NoKey, why))
    }

    fn notice(&mut self, text: &str) {
        self.notices.push(text.into());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use serde_json::json;

    use super::*;

    /// Returns the status of a command if the daemon begins its answer with `head`, and the client stays or goes.
    fn status(head: &[u8], goes: bool) -> u16 {
        let user = json!({"user": "ann", "uid": 1, "admin": false, "zone": null, "token": null, "expires": null});
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let (client, here) = UnixStream::pair().unwrap();
        let caller = ApiCaller {
            socket,
            token: None,
            client: (Arc::new(here.into()), PollFlags::HUP),
            memory: RequestMemory::of_all(),
            share: RefCell::default(),
            report: OnceCell::from(serde_json::from_value::<CallerReport>(user).unwrap()),
        };
        let daemon = || {
            let (mut stream, _) = listener.accept().unwrap();
            wire::receive_request(&mut stream, SHORT).unwrap().unwrap();
            let client = (!goes).then_some(client);
            // The caller may have gone before it took all.
            let _ = stream.write_all(head);
            // Until the caller has gone.
            let _ = stream.read(&mut [0]);
            drop(client);
        };
        std::thread::scope(|scope| {
            scope.spawn(daemon);
            let problem = caller.ask(Command::Whoami).err().unwrap();
            problem.response().status
        })
    }

    #[test]
    fn long_answers_of_a_user_take_their_memory_at_once() {
        let user = json!({"user": "ann", "uid": 1, "admin": false, "zone": null, "token": null, "expires": null});
        let memory = RequestMemory::of_all();
        let account = MemoryAccount {
            user: (1, None),
            is_admin: false,
        };
        let (client, here) = UnixStream::pair().unwrap();
        let caller = ApiCaller {
            socket: PathBuf::new(),
            token: None,
            client: (Arc::new(here.into()), PollFlags::HUP),
            memory: Arc::clone(&memory),
            share: RefCell::default(),
            report: OnceCell::from(serde_json::from_value::<CallerReport>(user).unwrap()),
        };
        let whole = ANSWER_MAX as usize * ANSWER_COST;
        // The longest body leaves enough memory.
        let body = memory.take(&account, 20 << 20, Duration::ZERO);
        assert!(body.is_some() && caller.hold().is_ok());
        assert!(memory.take(&account, whole, Duration::ZERO).is_none());
        // Its other messages need no more.
        assert!(caller.hold().is_ok());
        if let Some(share) = &mut *caller.share.borrow_mut() {
            share.shrink(1);
        }
        assert!(memory.take(&account, whole, Duration::ZERO).is_some());
        drop(client);
    }

    #[test]
    fn an_answer_may_be_too_long_or_for_nobody() {
        let [a, b, c, d] = (ANSWER_MAX + 1).to_le_bytes();
        assert_eq!(status(&[b'J', a, b, c, d], false), 413);
        assert_eq!(status(&[], true), 408);
        // Rows count together.
        let mut rows = Vec::new();
        let names = vec!["x".repeat(1 << 10); 200];
        while rows.len() <= ANSWER_MAX as usize {
            wire::send(&mut rows, &DaemonAnswer::Rows(Reply::Names(names.clone()))).unwrap();
        }
        assert_eq!(status(&rows, false), 413);
    }
}
