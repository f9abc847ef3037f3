//! Commands with a stream: `send` answers with one, and the body of `receive` is one.
//!
//! A stream goes through in pieces, and as fast as its slower end: at most one piece of it is in memory. If the client
//! goes away or stands still, the command in the daemon ends, as it does when the command line is interrupted.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use protocol::api::{Command, FailureKind, ReceiveName, command};
use protocol::property::Property;
use serde::Deserialize;
use serde_json::json;

use super::body::CommandCall;
use super::commands::done;
use super::daemon::{ApiCaller, CommandReply, CommandTalk, DaemonMessage, not_understood};
use super::secrets::{self, GivenSecrets};
use crate::http::{
    ANSWER_TIME, ClientStream, Problem, Request, RequestReader, Response, StreamedBody, UrlQuery,
    is_late, linger,
};

/// A client that gives or takes nothing for so long has gone.
const STALL: Duration = Duration::from_secs(120);
/// While a client gives nothing, this is how often to hear the daemon.
const TICK: Duration = Duration::from_secs(1);
/// The longest piece that a client gives or takes at a time.
const PIECE: usize = 64 << 10;
/// The longest header with notices.
const NOTICES_MAX: usize = 4 << 10;
/// The longest secrets before a stream.
const SECRETS_MAX: usize = 64 << 10;

/// The parameters in the address of `receive`: the fields of the command, and the length of the secrets before the
/// stream.
pub(super) const PARAMETERS: &[&str] = &[
    "target",
    "naming",
    "force",
    "resumable",
    "no_mount",
    "dry_run",
    "props",
    "exclude",
    "secrets",
];

/// The memory of a stream: a piece, and its frame for the daemon.
pub(crate) const STREAM_COST: usize = 2 << 20;

/// A command whose stream comes next.
pub(crate) enum Transfer {
    /// The answer is the stream.
    Send(Box<CommandCall>),
    /// The body is the stream, after secrets of this length.
    Receive(Box<Command>, usize),
}

impl Transfer {
    /// A send, for a client that can tell a whole answer from one that was cut.
    pub(super) fn send(call: CommandCall, request: &Request) -> Result<Transfer, Problem> {
        match request.knows_chunks {
            true => Ok(Transfer::Send(Box::new(call))),
            false => {
                let why = "the end of a stream is known with HTTP/1.1 only";
                Err(Problem::Refused(505, why.into()))
            }
        }
    }

    /// A receive, with what the address says.
    pub(super) fn receive(query: &UrlQuery) -> Result<Transfer, Problem> {
        query.only(PARAMETERS)?;
        let pair = |text: String| match text.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(Problem::usage(format!("'props={text}': write NAME=VALUE"))),
        };
        let exclude = query.all("exclude").into_iter();
        let known = |name: String| Property::find(&name).map_or(name, |known| known.name.into());
        let receive = command::Receive {
            target: query.needed("target")?,
            naming: match query.one("naming")?.as_deref() {
                None | Some("exact") => ReceiveName::Exact,
                Some("path") => ReceiveName::Path,
                Some("last") => ReceiveName::Last,
                Some(_) => return Err(Problem::usage("'naming' is exact, path or last")),
            },
            force: query.flag("force")?,
            resumable: query.flag("resumable")?,
            no_mount: query.flag("no_mount")?,
            dry_run: query.flag("dry_run")?,
            props: query
                .all("props")
                .into_iter()
                .map(pair)
                .collect::<Result<_, _>>()?,
            exclude: exclude.map(known).collect(),
        };
        let secrets = query.number("secrets")?.unwrap_or(0);
        if secrets > SECRETS_MAX {
            let why = format!("the secrets have more than {SECRETS_MAX} bytes");
            return Err(Problem::Refused(413, why));
        }
        Ok(Transfer::Receive(Box::new(receive.into()), secrets))
    }

    /// Carries it out, and answers. Says whether the connection stays.
    ///
    /// # Errors
    /// The connection failed, or the stream ended too early: then it has to be closed.
    pub(crate) fn run<S: ClientStream>(
        self,
        stream: &mut S,
        reader: &mut RequestReader,
        request: &Request,
        caller: &ApiCaller,
    ) -> io::Result<bool> {
        match self {
            Transfer::Send(call) => send(*call, stream, request.stays, caller),
            Transfer::Receive(command, secrets) => {
                let mut body = StreamedBody::new(reader, stream, request.framing);
                let result = receive(*command, secrets, &mut body, caller);
                let is_whole = body.is_over();
                let stays = request.stays && is_whole;
                let response = match result {
                    Ok(told) => done(&told),
                    Err(problem) => problem.response(),
                };
                stream.end_in(ANSWER_TIME);
                response.send(stream, true, stays)?;
                if !is_whole {
                    linger(stream);
                }
                Ok(stays)
            }
        }
    }
}

/// Sends. What fails before the first piece has a status of its own; after it the answer ends without its last chunk.
fn send<S: ClientStream>(
    call: CommandCall,
    stream: &mut S,
    stays: bool,
    caller: &ApiCaller,
) -> io::Result<bool> {
    let mut talk = match first_piece(call, caller) {
        Ok(talk) => talk,
        Err(problem) => {
            stream.end_in(ANSWER_TIME);
            problem.response().send(stream, true, stays)?;
            return Ok(stays);
        }
    };
    let mut head = Response::empty(200);
    head.header("Content-Type", "application/octet-stream");
    head.header("Cache-Control", "no-store");
    let notices = talk.notices();
    if !notices.is_empty() {
        head.header("X-Strongroom-Notices", in_header(&notices));
    }
    stream.end_in(STALL);
    head.send_head_of_chunks(stream, stays)?;
    let mut chunk = Vec::with_capacity(PIECE + 16);
    loop {
        for part in talk.piece.chunks(PIECE) {
            chunk.clear();
            write!(chunk, "{:x}\r\n", part.len())?;
            chunk.extend_from_slice(part);
            chunk.extend_from_slice(b"\r\n");
            stream.end_in(STALL);
            stream.write_all(&chunk)?;
        }
        stream.flush()?;
        match next(&mut talk) {
            Ok(DaemonMessage::Data | DaemonMessage::Note) => {}
            Ok(DaemonMessage::Done(_)) => break,
            Ok(DaemonMessage::Ready) | Err(_) => {
                return Err(io::Error::other("the stream ends in the middle"));
            }
        }
    }
    stream.end_in(STALL);
    stream.write_all(b"0\r\n\r\n")?;
    stream.flush()?;
    Ok(stays)
}

/// Begins a send, and waits for its first piece.
fn first_piece(call: CommandCall, caller: &ApiCaller) -> Result<CommandTalk<'_>, Problem> {
    let mut talk = caller.begin(call.command, call.secrets, call.hash_memory)?;
    match next(&mut talk)? {
        DaemonMessage::Data => Ok(talk),
        _ => Err(not_understood().into()),
    }
}

/// The next message of the daemon that is no notice.
fn next(talk: &mut CommandTalk<'_>) -> Result<DaemonMessage, Problem> {
    loop {
        match talk.hear()? {
            DaemonMessage::Note => {}
            heard => return Ok(heard),
        }
    }
}

/// Notices as JSON in a header, which has ASCII only and is not long.
fn in_header(notices: &[String]) -> String {
    let mut count = notices.len();
    loop {
        let mut shown = notices[..count].to_vec();
        if count < notices.len() {
            shown.push(format!("and {} more", notices.len() - count));
        }
        let text = ascii(&json!(shown).to_string());
        if text.len() <= NOTICES_MAX || count == 0 {
            return text;
        }
        count /= 2;
    }
}

/// JSON whose text has only ASCII.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c.is_ascii() && !c.is_ascii_control() {
            true => out.push(c),
            false => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out += &format!("\\u{unit:04x}");
                }
            }
        }
    }
    out
}

/// The JSON before a stream: the fields of the command are in the address.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Before {
    secrets: GivenSecrets,
    hash_memory: Option<u64>,
}

/// Receives. The body is read only when the daemon wants it.
fn receive<S: ClientStream>(
    command: Command,
    secrets: usize,
    body: &mut StreamedBody<'_, S>,
    caller: &ApiCaller,
) -> Result<CommandReply, Problem> {
    let before = match secrets {
        0 => Before::default(),
        len => {
            body.begin().map_err(|_| gone())?;
            secrets::parse(&body.secret(len)?)?
        }
    };
    let mut talk = caller.begin(command, before.secrets.0, before.hash_memory)?;
    let mut source = StreamBody::NotWanted;
    loop {
        if let StreamBody::Flows(since) = source
            && !talk.has_said()
        {
            source = pass_on(body, &mut talk, since)?;
            continue;
        }
        match talk.hear() {
            Ok(DaemonMessage::Done(reply)) => {
                let notices = talk.notices();
                return Ok(CommandReply { reply, notices });
            }
            Ok(DaemonMessage::Note) => {}
            Ok(DaemonMessage::Ready) => {
                body.begin().map_err(|_| gone())?;
                source = StreamBody::Flows(Instant::now());
            }
            Ok(DaemonMessage::Data) => return Err(not_understood().into()),
            Err(problem) => return Err(source.explain(problem)),
        }
    }
}

/// The origin of the data for the daemon.
enum StreamBody {
    /// The daemon has not asked for it.
    NotWanted,
    /// The body: the last piece came then.
    Flows(Instant),
    /// The data has ended, or the daemon takes no more.
    Over,
    /// The body failed before its end.
    Failed(String),
}

impl StreamBody {
    /// Says why a stream ended, if that is why the command failed.
    fn explain(self, problem: Problem) -> Problem {
        match (self, problem) {
            (StreamBody::Failed(why), Problem::Failed(mut failure)) => {
                failure.message = format!("{why}: {}", failure.message);
                // To the daemon it was the connection that failed.
                if failure.kind == FailureKind::Other {
                    failure.kind = FailureKind::Damaged;
                }
                Problem::Failed(failure)
            }
            (_, problem) => problem,
        }
    }
}

/// Passes a piece of the body on to the daemon, or waits a moment for one.
fn pass_on<S: ClientStream>(
    body: &mut StreamedBody<'_, S>,
    talk: &mut CommandTalk<'_>,
    since: Instant,
) -> Result<StreamBody, Problem> {
    let mut piece = [0; PIECE];
    let why = match body.read_in(TICK, &mut piece) {
        Ok(0) => {
            talk.give(&[])?;
            return Ok(StreamBody::Over);
        }
        Ok(len) => {
            return Ok(match talk.give(&piece[..len])? {
                true => StreamBody::Flows(Instant::now()),
                // It says why.
                false => StreamBody::Over,
            });
        }
        Err(error) if is_late(&error) && since.elapsed() < STALL => {
            return Ok(StreamBody::Flows(since));
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            return Ok(StreamBody::Flows(since));
        }
        Err(error) if is_late(&error) => {
            format!("no data came for {} seconds", STALL.as_secs())
        }
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the client stopped before the end of the body".into()
        }
        Err(error) => format!("the body cannot be read: {error}"),
    };
    talk.break_off();
    Ok(StreamBody::Failed(why))
}

fn gone() -> Problem {
    Problem::Refused(408, "the client has gone".into())
}

#[cfg(test)]
mod tests {
    use std::cell::{OnceCell, RefCell};
    use std::io::Read;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::Arc;

    use protocol::wire;
    use rustix::event::PollFlags;

    use super::*;
    use crate::memory::RequestMemory;

    /// A client that gives and takes nothing.
    struct Still;

    impl Read for Still {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    impl Write for Still {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl ClientStream for Still {
        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn end_at(&mut self, _: Instant) {}
    }

    /// Does something with a daemon that sends a piece of data, and waits until the data for it ends.
    fn with_daemon(work: impl FnOnce(&ApiCaller)) {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let (_client, here) = UnixStream::pair().unwrap();
        let caller = ApiCaller {
            socket,
            token: None,
            client: (Arc::new(here.into()), PollFlags::HUP),
            memory: RequestMemory::of_all(),
            share: RefCell::default(),
            report: OnceCell::new(),
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                wire::receive_request(&mut stream, 1000).unwrap().unwrap();
                // The caller may have gone before it took this.
                let _ = wire::send_piece(&mut stream, b"piece");
                assert!(!matches!(stream.read(&mut [0]), Ok(1..)));
            });
            work(&caller);
        });
    }

    #[test]
    fn a_client_that_stands_still_ends_the_command() {
        let call = || CommandCall {
            command: Command::Whoami,
            secrets: Vec::new(),
            hash_memory: None,
        };
        with_daemon(|caller| assert!(send(call(), &mut Still, true, caller).is_err()));
        with_daemon(|caller| {
            let CommandCall { command, .. } = call();
            let mut talk = caller.begin(command, Vec::new(), None).ok().unwrap();
            let head = "POST /v1/commands/receive HTTP/1.1\r\nContent-Length: 9\r\n\r\n";
            let (mut reader, mut still) = (RequestReader::new(), Still);
            let mut body =
                StreamedBody::new(&mut reader, &mut still, Request::for_tests(head).framing);
            let now = Instant::now();
            let source = pass_on(&mut body, &mut talk, now);
            assert!(matches!(source, Ok(StreamBody::Flows(since)) if since == now));
            let source = pass_on(&mut body, &mut talk, now.checked_sub(STALL).unwrap());
            assert!(matches!(source, Ok(StreamBody::Failed(why)) if why.contains("120 seconds")));
        });
    }

    #[test]
    fn notices_fit_in_a_header() {
        let few = ["caf\u{e9} \u{1f511}\n\u{7f}".to_owned()];
        assert_eq!(in_header(&few), r#"["caf\u00e9 \ud83d\udd11\n\u007f"]"#);
        let many = vec!["x".repeat(100); 1000];
        let shown = in_header(&many);
        assert!(
            shown.len() <= NOTICES_MAX && shown.contains(" more\"]"),
            "{shown}"
        );
        assert_eq!(in_header(&["x".repeat(NOTICES_MAX)]), r#"["and 1 more"]"#);
    }

    #[test]
    fn the_address_has_the_options_of_a_receive() {
        let of = |text: &str| Transfer::receive(&UrlQuery::parse(text).unwrap());
        let text =
            "target=safe/b&naming=last&force=true&props=compression=off&exclude=compress&secrets=9";
        let Ok(Transfer::Receive(command, 9)) = of(text) else {
            panic!()
        };
        let Command::Receive(it) = *command else {
            panic!()
        };
        assert!(it.force && !it.resumable && !it.dry_run);
        assert_eq!(it.props, [("compression".into(), "off".into())]);
        assert_eq!(it.exclude, ["compression"]);
        for wrong in [
            "",
            "target=a&target=b",
            "target=a&dryrun=true",
            "target=a&force=yes",
            "target=a&naming=other",
            "target=a&props=compression",
            "target=a&secrets=-1",
            "target=a&secrets=99999999",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
