//! The connection of a command to the daemon.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use protocol::api::{Ask, Command, DeviceUse, Failure, FailureKind, MappingReencryption, Reply};
use protocol::client::{
    DaemonConnection, Data, RemoteDevice, SYSTEM_SOCKET, Terminal, default_socket,
    socket_of_environment,
};
use protocol::device_name::DeviceName;
use secret::Secret;

use crate::terminal::Prompter;

/// The state that commands share: the socket, the output format, the prompter.
pub struct Session {
    /// The socket of the daemon, absolute: a daemon that is started has another directory.
    pub socket: PathBuf,
    /// True if a daemon is started if none listens there: not at a socket that was typed, which may be
    /// mistyped.
    starts: bool,
    /// The output is JSON.
    pub json: bool,
    prompter: Prompter,
    /// The amount that memory a password hash of the daemon may take, in MiB, if that was typed.
    pub hash_memory: Option<u64>,
}

impl Session {
    /// `socket`: what was typed, if anything.
    pub fn new(socket: Option<PathBuf>, json: bool) -> Result<Session, Failure> {
        Ok(Session {
            starts: socket.is_none(),
            socket: absolute(&socket.unwrap_or_else(default_socket))?,
            json,
            prompter: Prompter::default(),
            hash_memory: None,
        })
    }

    /// The prompter that asks for secrets.
    pub fn prompter(&mut self) -> &mut Prompter {
        &mut self.prompter
    }

    /// Connects to the daemon, which is started at the usual socket if none runs.
    fn connect(&self) -> Result<DaemonConnection, Failure> {
        let client = self.connect_plainly()?;
        Ok(client.with_hash_memory(self.hash_memory))
    }

    fn connect_plainly(&self) -> Result<DaemonConnection, Failure> {
        if self.starts {
            return DaemonConnection::connect_or_start(&self.socket);
        }
        DaemonConnection::connect(&self.socket).map_err(|failure| match failure.kind {
            FailureKind::NoDaemon => Failure {
                message: format!(
                    "{}; no daemon is started at a socket that --socket names: \
                     'strongroom --socket {} daemon --background' starts one",
                    failure.message,
                    self.socket.display()
                ),
                ..failure
            },
            _ => failure,
        })
    }

    /// Has a command done, by a daemon that is started if none runs.
    pub fn call(&mut self, command: impl Into<Command>) -> Result<Reply, Failure> {
        let client = self.connect()?;
        let reply = client.call(command, &mut self.prompter);
        reply.map_err(|failure| self.name_system_daemon(failure))
    }

    /// Has a long command done. It ends if the reader of the standard output goes away: a server of another host does
    /// not end the command when the connection breaks.
    pub fn call_while_read(&mut self, command: impl Into<Command>) -> Result<Reply, Failure> {
        let stdout = std::io::stdout().as_fd().try_clone_to_owned();
        let stdout = stdout.map_err(|error| other(format!("standard output: {error}")))?;
        let client = self.connect()?.with_output(stdout);
        let reply = client.call(command, &mut self.prompter);
        reply.map_err(|failure| self.name_system_daemon(failure))
    }

    /// Names the daemon of root, which may know what this user's daemon does not: users with permissions there find
    /// the way. A socket that the environment names was chosen.
    fn name_system_daemon(&self, failure: Failure) -> Failure {
        let is_chosen = !self.starts || socket_of_environment().is_some();
        if is_chosen
            || self.socket == Path::new(SYSTEM_SOCKET)
            || failure.kind != FailureKind::NotFound
        {
            return failure;
        }
        match DaemonConnection::connect(Path::new(SYSTEM_SOCKET)) {
            Ok(_) => Failure {
                message: format!(
                    "{}; for a pool of root's daemon use --socket {SYSTEM_SOCKET}",
                    failure.message
                ),
                ..failure
            },
            Err(_) => failure,
        }
    }

    /// Has a command done that asks for a secret which is known already.
    pub fn call_with_secret(
        &mut self,
        command: impl Into<Command>,
        secret: Secret,
    ) -> Result<Reply, Failure> {
        let client = self.connect()?;
        let mut known = FirstAnswer {
            secret: Some(secret),
            prompter: &mut self.prompter,
        };
        client.call(command, &mut known)
    }

    /// Has a command done by a daemon that runs, which asks for this secret and tells how far it is. `watch` says
    /// whether it is to go on.
    pub fn call_and_watch(
        &mut self,
        command: impl Into<Command>,
        secret: Secret,
        watch: &mut dyn FnMut(&MappingReencryption) -> bool,
    ) -> Result<Reply, Failure> {
        let client = DaemonConnection::connect(&self.socket)?;
        let mut known = ProgressWatcher {
            known: FirstAnswer {
                secret: Some(secret),
                prompter: &mut self.prompter,
            },
            watch,
        };
        client.call(command, &mut known)
    }

    /// Has a command done that sends or receives data, by a daemon that is started if none runs.
    pub fn call_with_data(
        &mut self,
        command: impl Into<Command>,
        data: &mut dyn Data,
    ) -> Result<Reply, Failure> {
        let client = self.connect()?;
        client.call_with_data(command, &mut self.prompter, data)
    }

    /// Borrows a device of a daemon, which is started if none runs.
    pub fn borrow(&self, device: &Path, how: DeviceUse) -> Result<RemoteDevice, Failure> {
        let client = self.connect()?;
        client.borrow(device, how)
    }

    /// Borrows a device of a daemon that runs.
    pub fn borrow_running(&self, device: &Path, how: DeviceUse) -> Result<RemoteDevice, Failure> {
        DaemonConnection::connect(&self.socket)?.borrow(device, how)
    }

    /// Has a command done by a daemon that runs.
    pub fn call_running(&mut self, command: impl Into<Command>) -> Result<Reply, Failure> {
        let client = DaemonConnection::connect(&self.socket)?;
        client.call(command, &mut self.prompter)
    }
}

/// Gives the secret that is asked for first.
struct FirstAnswer<'a> {
    secret: Option<Secret>,
    prompter: &'a mut Prompter,
}

impl Terminal for FirstAnswer<'_> {
    fn ask(&mut self, _: &Ask) -> Result<Option<Secret>, Failure> {
        Ok(self.secret.take())
    }

    fn notice(&mut self, text: &str) {
        self.prompter.notice(text);
    }
}

/// Gives a secret, and looks at the progress.
struct ProgressWatcher<'a> {
    known: FirstAnswer<'a>,
    watch: &'a mut dyn FnMut(&MappingReencryption) -> bool,
}

impl Terminal for ProgressWatcher<'_> {
    fn ask(&mut self, ask: &Ask) -> Result<Option<Secret>, Failure> {
        self.known.ask(ask)
    }

    fn notice(&mut self, text: &str) {
        self.known.notice(text);
    }

    fn progress(&mut self, at: &MappingReencryption) -> bool {
        (self.watch)(at)
    }
}

/// Takes the answer that a command has, and fails on any other.
#[macro_export]
macro_rules! answer {
    ($reply:expr, $variant:ident) => {
        match $reply {
            protocol::api::Reply::$variant(found) => Ok(found),
            other => Err($crate::session::unexpected(&other)),
        }
    };
}
pub use crate::answer;

/// An answer of another kind than the question: client and daemon are not of one version.
pub fn unexpected(_: &Reply) -> Failure {
    Failure {
        kind: FailureKind::Other,
        message: "the answer of the daemon is not understood; it may be of another version: \
                  strongroom daemon stop"
            .into(),
    }
}

/// A command line or a value in it that makes no sense.
pub fn usage(message: impl Into<String>) -> Failure {
    Failure {
        kind: FailureKind::Usage,
        message: message.into(),
    }
}

/// A failure of none of the other kinds.
pub fn other(message: impl Into<String>) -> Failure {
    Failure {
        kind: FailureKind::Other,
        message: message.into(),
    }
}

/// The path from the root, symbolic links and all: a disk is known by its link in `/dev/disk`.
/// The daemon is told of paths as text.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let refused = |reason: String| usage(format!("{}: {reason}", path.display()));
    let path = std::path::absolute(path).map_err(|error| refused(error.to_string()))?;
    match path.to_str() {
        Some(_) => Ok(path),
        None => Err(refused("the path is not UTF-8".into())),
    }
}

/// The absolute path of a device; other names are spelled as the daemon remembers them.
pub fn device_path(name: &Path) -> Result<PathBuf, Failure> {
    let device = DeviceName::parse(name).supported()?;
    match device.is_lent() {
        true => Ok(device.canonical()?.into()),
        false => absolute(name),
    }
}

/// Returns whether this is the name of a file or a disk.
pub fn is_path(name: &Path) -> bool {
    DeviceName::parse(name).is_path()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_absolute() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(absolute(Path::new("a/./b")).unwrap(), here.join("a/b"));
        assert_eq!(
            absolute(Path::new("/dev/sdb")).unwrap(),
            Path::new("/dev/sdb")
        );
        assert_eq!(
            absolute(Path::new("")).unwrap_err().kind,
            FailureKind::Usage
        );
    }

    #[test]
    fn names_that_are_no_paths_stay_names() {
        let here = std::env::current_dir().unwrap();
        let device = |name: &str| device_path(Path::new(name)).map(PathBuf::into_os_string);
        assert_eq!(device("a").unwrap(), here.join("a").into_os_string());
        for (name, spelling) in [
            ("volume:tank/disk", "volume:tank/disk"),
            ("nbd://Host:10809/disk", "nbd://host/disk"),
            ("s3://bucket/tank/", "s3://bucket/tank"),
        ] {
            assert_eq!(device(name).unwrap(), spelling);
        }
        for wrong in ["nbd://", "nbd+vsock://2/x", "gcs://bucket", "s3://"] {
            assert_eq!(
                device(wrong).unwrap_err().kind,
                FailureKind::Usage,
                "{wrong}"
            );
        }
    }
}
