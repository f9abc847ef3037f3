//! The commands' side of the daemon's socket.

mod remote_device;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Uid;
use secret::Secret;

use crate::accounts::{group_name, user_name};
use crate::api::{
    API_VERSION, Ask, Command, DaemonAnswer, DeviceUse, Failure, FailureKind, MappingReencryption,
    Reply, Request, command,
};
use crate::wire;

pub use remote_device::RemoteDevice;

/// The time to wait for a daemon that another command is starting.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two looks for it.
const PAUSE: Duration = Duration::from_millis(20);
/// The message of a daemon that is not needed, since one listens already.
pub const TAKEN: &str = "taken";
/// The message to a caller whose token the daemon does not accept.
pub const BAD_TOKEN: &str = "the token is wrong, expired or revoked";

/// The work of a client for the daemon while a command runs.
pub trait Terminal {
    /// Asks a person for a secret; `None` if there is no person to ask, or they gave up.
    ///
    /// # Errors
    /// Why no answer can be had: the command then fails with it.
    fn ask(&mut self, ask: &Ask) -> Result<Option<Secret>, Failure>;

    /// Tells a person something.
    fn notice(&mut self, text: &str);

    /// Tells a person how far the work is. Says whether it is to go on.
    fn progress(&mut self, _: &MappingReencryption) -> bool {
        true
    }
}

/// The socket of root's daemon.
pub const SYSTEM_SOCKET: &str = "/run/strongroom/socket";
/// The directory with the sockets of root's processes.
pub const SYSTEM_DIR: &str = "/run/strongroom";

/// Returns the socket of this user's daemon, unless another one is named: `/run/strongroom/socket` for root, else
/// `strongroom/socket` in the user's runtime directory.
pub fn default_socket() -> PathBuf {
    socket_of_environment().unwrap_or_else(|| runtime_dir().join("socket"))
}

/// The socket that the environment names. An empty variable names none.
pub fn socket_of_environment() -> Option<PathBuf> {
    let path = std::env::var_os("STRONGROOM_SOCKET")?;
    (!path.is_empty()).then(|| path.into())
}

/// The directory with the sockets of this user's processes.
pub fn runtime_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return SYSTEM_DIR.into();
    }
    runtime_dir_in(std::env::var_os("XDG_RUNTIME_DIR"))
}

/// By its specification, this variable means nothing if it is empty or no absolute path.
fn runtime_dir_in(variable: Option<OsString>) -> PathBuf {
    match variable.map(PathBuf::from).filter(|dir| dir.is_absolute()) {
        Some(dir) => dir.join("strongroom"),
        None => fallback_dir(),
    }
}

/// Returns the directory of the socket if there is no runtime directory. Every user can make a directory of this name.
/// So the daemon refuses one of another user, and commands refuse a daemon of another user.
pub fn fallback_dir() -> PathBuf {
    format!("/tmp/strongroom-{}", rustix::process::geteuid().as_raw()).into()
}

/// A connection to the daemon.
pub struct DaemonConnection {
    stream: UnixStream,
    hash_memory: Option<u64>,
    token: Option<Arc<Secret>>,
    /// The output of the command, which ends when the reader of the output has gone.
    output: Option<OwnedFd>,
}

impl DaemonConnection {
    /// Connects to a daemon that runs, and is root's or of the same user: others would get the
    /// passphrases.
    ///
    /// # Errors
    /// [`FailureKind::NoDaemon`] if none answers; [`FailureKind::Permission`] if this user may not connect, or
    /// the daemon belongs to another user.
    pub fn connect(socket: &Path) -> Result<DaemonConnection, Failure> {
        let stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => not_for_us(socket),
            _ => no_daemon(format!(
                "no daemon answers at {}: {error}",
                socket.display()
            )),
        })?;
        let server = rustix::net::sockopt::socket_peercred(&stream)
            .map_err(|error| other(format!("the daemon is not known: {error}")))?;
        if !is_trusted(server.uid, rustix::process::geteuid()) {
            return Err(Failure::new(
                FailureKind::Permission,
                format!(
                    "the daemon at {} belongs to another user (uid {}), who is not trusted",
                    socket.display(),
                    server.uid.as_raw()
                ),
            ));
        }
        Ok(DaemonConnection::over(stream))
    }

    /// Lets a password hash take so much memory, in MiB, if the daemon is this user's.
    pub fn with_hash_memory(self, mib: Option<u64>) -> DaemonConnection {
        DaemonConnection {
            hash_memory: mib,
            ..self
        }
    }

    /// Shows a token, so that the daemon knows the caller as its user.
    pub fn with_token(self, token: Option<Arc<Secret>>) -> DaemonConnection {
        DaemonConnection { token, ..self }
    }

    /// Ends a command when the reader of this output has gone: of a pipe, a socket or a terminal. Nothing is written.
    pub fn with_output(self, output: OwnedFd) -> DaemonConnection {
        DaemonConnection {
            output: Some(output),
            ..self
        }
    }

    /// Speaks over a stream that is connected to a daemon which the caller trusts.
    pub fn over(stream: UnixStream) -> DaemonConnection {
        DaemonConnection {
            stream,
            hash_memory: None,
            token: None,
            output: None,
        }
    }

    /// Connects, and starts the daemon first if none runs.
    ///
    /// # Errors
    /// As [`DaemonConnection::connect`] and [`start_daemon`].
    pub fn connect_or_start(socket: &Path) -> Result<DaemonConnection, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match DaemonConnection::connect(socket) {
                Err(failure) if failure.kind == FailureKind::NoDaemon => {}
                result => return result,
            }
            match start_daemon(socket, &[]) {
                Ok(()) => {}
                // Another command is starting one, or one is about to end.
                Err(failure) if failure.kind == FailureKind::Exists => {
                    if Instant::now() > deadline {
                        return Err(failure);
                    }
                    std::thread::sleep(PAUSE);
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Has a command done.
    ///
    /// # Errors
    /// What the daemon answers, or `terminal` returns; [`FailureKind::Other`] if the connection breaks.
    pub fn call(
        self,
        command: impl Into<Command>,
        terminal: &mut dyn Terminal,
    ) -> Result<Reply, Failure> {
        self.call_with_data(command, terminal, &mut NoData)
    }

    /// Borrows a device of the daemon's.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`] if the daemon has no such device; [`FailureKind::Busy`].
    pub fn borrow(mut self, device: &Path, how: DeviceUse) -> Result<RemoteDevice, Failure> {
        let device = device.to_owned();
        self.request(command::LuksBorrow { device, how })?;
        match wire::receive(&mut self.stream).map_err(lost)? {
            DaemonAnswer::Lent(is) => Ok(RemoteDevice::new(self.stream, is)),
            DaemonAnswer::Failed(failure) => Err(failure),
            _ => Err(not_understood()),
        }
    }

    /// Has a command done that sends or receives data.
    ///
    /// # Errors
    /// As [`DaemonConnection::call`], and what `data` returns.
    pub fn call_with_data(
        mut self,
        command: impl Into<Command>,
        terminal: &mut dyn Terminal,
        data: &mut dyn Data,
    ) -> Result<Reply, Failure> {
        let command = command.into();
        let stops = command.ends_daemon();
        self.request(command)?;
        let mut piece = Vec::new();
        let mut rows = Vec::new();
        loop {
            self.wait_for_answer()?;
            let received = wire::receive_any(&mut self.stream, &mut piece, wire::JSON_MAX);
            let answer = match received.map_err(lost)? {
                wire::ReceivedFrame::Message(answer) => answer,
                wire::ReceivedFrame::Data => {
                    data.take(&piece)?;
                    continue;
                }
            };
            match answer {
                DaemonAnswer::Ready => self.send_data(data)?,
                DaemonAnswer::Lent(_) => return Err(not_understood()),
                DaemonAnswer::Done(reply) => {
                    if stops {
                        self.wait_for_end();
                    }
                    return reply.after(rows).ok_or_else(not_understood);
                }
                DaemonAnswer::Rows(more) => rows.push(more),
                DaemonAnswer::Failed(failure) => return Err(failure),
                DaemonAnswer::Notice(text) => terminal.notice(&text),
                DaemonAnswer::Progress(at) => {
                    let goes_on = terminal.progress(&at);
                    wire::send(&mut self.stream, &goes_on).map_err(lost)?;
                }
                DaemonAnswer::Ask(ask) => {
                    let answer = terminal.ask(&ask);
                    match &answer {
                        Ok(Some(secret)) => wire::send_secret(&mut self.stream, secret),
                        Ok(None) | Err(_) => wire::send_cancel(&mut self.stream),
                    }
                    .map_err(lost)?;
                    answer?;
                }
            }
        }
    }
}

impl DaemonConnection {
    fn request(&mut self, command: impl Into<Command>) -> Result<(), Failure> {
        let request = Request {
            version: API_VERSION,
            command: command.into(),
            hash_memory: self.hash_memory,
        };
        let token = self.token.take();
        let shown = token.map_or(Ok(()), |token| wire::send_secret(&mut self.stream, &token));
        let Err(error) = shown.and_then(|()| wire::send(&mut self.stream, &request)) else {
            return Ok(());
        };
        // A refused client gets the refusal before it sends its command.
        match wire::receive(&mut self.stream) {
            Ok(DaemonAnswer::Failed(failure)) => Err(failure),
            _ => Err(lost(error)),
        }
    }

    /// Waits for an answer, if the output is watched.
    fn wait_for_answer(&self) -> Result<(), Failure> {
        let Some(output) = &self.output else {
            return Ok(());
        };
        loop {
            // Without events to wait for, the output tells only of its end.
            let mut ends = [
                PollFd::new(&self.stream, PollFlags::IN),
                PollFd::new(output, PollFlags::empty()),
            ];
            match poll(&mut ends, None) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(lost(error.into())),
                Ok(_) if ends[1].revents().is_empty() => return Ok(()),
                Ok(_) => return Err(other("the reader of the output has gone".into())),
            }
        }
    }

    /// Waits until a daemon that said it ends has ended: it keeps the connection until then. A command that follows
    /// would else come to one that no longer answers.
    fn wait_for_end(&mut self) {
        let _ = self.stream.set_read_timeout(Some(PATIENCE));
        let _ = self.stream.read(&mut [0]);
    }

    /// Sends data to its end, or for as long as the daemon takes it: if it does not, it says why.
    fn send_data(&mut self, data: &mut dyn Data) -> Result<(), Failure> {
        let mut piece = vec![0; wire::DATA_MAX];
        let mut writer = wire::DataWriter::new(&mut self.stream);
        loop {
            let read = data.give(&mut piece)?;
            let sent = writer.write_all(&piece[..read]);
            match sent {
                Ok(()) if read > 0 => {}
                Ok(()) => {
                    let _ = writer.end();
                    return Ok(());
                }
                Err(_) => return Ok(()),
            }
        }
    }
}

/// Data that goes with a command.
pub trait Data {
    /// Takes a piece of what the daemon sends; an empty one is the last.
    ///
    /// # Errors
    /// Why the piece cannot be taken: the command ends with it.
    fn take(&mut self, piece: &[u8]) -> Result<(), Failure>;

    /// Gives more of what the daemon is to have, and says how much; 0: that was all.
    ///
    /// # Errors
    /// Why there is no more: the command ends with it.
    fn give(&mut self, piece: &mut [u8]) -> Result<usize, Failure>;
}

/// The data of a command that has none.
struct NoData;

impl Data for NoData {
    fn take(&mut self, _: &[u8]) -> Result<(), Failure> {
        Err(other("the daemon sent an unexpected answer".into()))
    }

    fn give(&mut self, _: &mut [u8]) -> Result<usize, Failure> {
        Ok(0)
    }
}

/// Starts the daemon in the background with these arguments, and returns when it listens.
pub fn start_daemon(socket: &Path, args: &[OsString]) -> Result<(), Failure> {
    let failed = |what: String| no_daemon(format!("the daemon could not be started: {what}"));
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut child = std::process::Command::new(program)
        .arg("daemon")
        .arg("--detached")
        .arg("--socket")
        .arg(socket)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .current_dir("/")
        .process_group(0)
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    // It says one line when it listens, or why it cannot, and then nothing more.
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout)
            .read_line(&mut line)
            .map_err(|error| failed(error.to_string()))?;
    }
    match line.trim() {
        "ready" => Ok(()),
        TAKEN => Err(Failure::new(
            FailureKind::Exists,
            format!("a daemon already listens at {}", socket.display()),
        )),
        "" => Err(failed("the daemon ended at once; see its log".into())),
        reason => Err(failed(reason.into())),
    }
}

/// The daemon's socket, or a directory on the way to it, is closed to this user.
fn not_for_us(socket: &Path) -> Failure {
    let mut places = socket.ancestors();
    let found = places.find_map(|place| std::fs::metadata(place).ok());
    let who = found.map_or_else(|| "its owner".into(), |found| may_use(&found));
    Failure::new(
        FailureKind::Permission,
        format!(
            "the daemon's socket {} is only for {who}: become that user, or omit --socket and STRONGROOM_SOCKET \
             to use your own daemon",
            socket.display()
        ),
    )
}

/// The user, and the group if it may write, that something is for.
fn may_use(found: &std::fs::Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    let user = user_name(found.uid()).unwrap_or_else(|| format!("uid {}", found.uid()));
    let is_open = found.mode() & 0o020 != 0;
    let group = group_name(found.gid()).unwrap_or_else(|| format!("gid {}", found.gid()));
    match is_open {
        true => format!("user '{user}' and group '{group}'"),
        false => format!("user '{user}'"),
    }
}

/// Returns whether a daemon of `server` may see the secrets of `own`.
fn is_trusted(server: Uid, own: Uid) -> bool {
    server.is_root() || server == own
}

/// The connection broke. This is not [`FailureKind::NoDaemon`]: the daemon may run still, with its pools.
fn lost(error: std::io::Error) -> Failure {
    other(format!("the daemon went away: {error}"))
}

fn not_understood() -> Failure {
    Failure::new(
        FailureKind::Other,
        "the answer of the daemon is not understood",
    )
}

fn other(message: String) -> Failure {
    Failure::new(FailureKind::Other, message)
}

fn no_daemon(message: String) -> Failure {
    Failure {
        kind: FailureKind::NoDaemon,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_of_others_are_not_trusted() {
        let (root, ann, bob) = (Uid::ROOT, Uid::from_raw(1000), Uid::from_raw(1001));
        assert!(is_trusted(root, ann) && is_trusted(ann, ann) && is_trusted(root, root));
        assert!(!is_trusted(bob, ann) && !is_trusted(bob, root));
    }

    /// A terminal without a person.
    struct NoTerminal;

    impl Terminal for NoTerminal {
        fn ask(&mut self, _: &Ask) -> Result<Option<Secret>, Failure> {
            Ok(None)
        }

        fn notice(&mut self, _: &str) {}
    }

    /// The failure of a call with this output. The daemon does not answer before the caller goes, or time is up.
    fn call_with_output(reader: Option<std::io::PipeReader>, writer: OwnedFd) -> String {
        let (here, mut there) = UnixStream::pair().unwrap();
        let client = DaemonConnection::over(here).with_output(writer);
        let daemon = std::thread::spawn(move || {
            let _: Request = wire::receive(&mut there).unwrap();
            drop(reader);
            there.set_read_timeout(Some(PATIENCE)).unwrap();
            let _ = there.read(&mut [0]);
        });
        let said = client.call(Command::Mounts, &mut NoTerminal).unwrap_err();
        daemon.join().unwrap();
        said.message
    }

    #[test]
    fn a_command_ends_with_the_reader_of_its_output() {
        let gone = "the reader of the output has gone";
        let (reader, writer) = std::io::pipe().unwrap();
        assert_eq!(call_with_output(Some(reader), writer.into()), gone);
        // The end of a socket, as some servers have it.
        let (reader, writer) = UnixStream::pair().unwrap();
        drop(reader);
        assert_eq!(call_with_output(None, writer.into()), gone);
    }

    #[test]
    fn a_runtime_directory_is_an_absolute_path() {
        let dir = |variable: &str| runtime_dir_in(Some(variable.into()));
        assert_eq!(dir("/run/user/7"), Path::new("/run/user/7/strongroom"));
        for variable in ["", "run/user/7"] {
            assert_eq!(dir(variable), fallback_dir(), "{variable}");
        }
        assert_eq!(runtime_dir_in(None), fallback_dir());
    }
}
