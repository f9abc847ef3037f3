//! One command's dealings with the daemon.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use daemon::api::{Borrowing, Command, Failure, FailureKind, Reply};
use daemon::client::{Borrowed, Client, Data, default_socket};

use crate::terminal::Prompter;

/// What a command needs to be carried out.
pub(crate) struct Session {
    /// Where the daemon listens, absolute: a daemon that is started has another directory.
    pub(crate) socket: PathBuf,
    /// Whether to print JSON.
    pub(crate) json: bool,
    typed: String,
    prompter: Prompter,
}

impl Session {
    pub(crate) fn new(socket: Option<PathBuf>, json: bool) -> Result<Session, Failure> {
        Ok(Session {
            socket: absolute(&socket.unwrap_or_else(default_socket))?,
            json,
            typed: typed(std::env::args_os().skip(1)),
            prompter: Prompter::default(),
        })
    }

    /// Has a command done, by a daemon that is started if none runs.
    pub(crate) fn call(&mut self, command: Command) -> Result<Reply, Failure> {
        let client = Client::connect_or_start(&self.socket)?;
        client.call(command, &self.typed, &mut self.prompter)
    }

    /// Has a command done that sends or receives data, by a daemon that is started if none runs.
    pub(crate) fn call_with_data(
        &mut self,
        command: Command,
        data: &mut dyn Data,
    ) -> Result<Reply, Failure> {
        let client = Client::connect_or_start(&self.socket)?;
        client.call_with_data(command, &self.typed, &mut self.prompter, data)
    }

    /// Borrows a device of a daemon, which is started if none runs.
    pub(crate) fn borrow(&self, device: &Path, how: Borrowing) -> Result<Borrowed, Failure> {
        let client = Client::connect_or_start(&self.socket)?;
        client.borrow(device, how, &self.typed)
    }

    /// Borrows a device of a daemon that runs.
    pub(crate) fn borrow_running(
        &self,
        device: &Path,
        how: Borrowing,
    ) -> Result<Borrowed, Failure> {
        Client::connect(&self.socket)?.borrow(device, how, &self.typed)
    }

    /// Has a command done by a daemon that runs.
    pub(crate) fn call_running(&mut self, command: Command) -> Result<Reply, Failure> {
        let client = Client::connect(&self.socket)?;
        client.call(command, &self.typed, &mut self.prompter)
    }
}

/// Takes the answer that a command has, and fails on any other.
macro_rules! answer {
    ($reply:expr, $variant:ident) => {
        match $reply {
            daemon::api::Reply::$variant(found) => Ok(found),
            other => Err(crate::session::unexpected(&other)),
        }
    };
}
pub(crate) use answer;

/// An answer of another kind than the question: client and daemon are not of one version.
pub(crate) fn unexpected(_: &Reply) -> Failure {
    Failure {
        kind: FailureKind::Other,
        message: "the daemon's answer is not understood; it may be of another version: \
                  strongroom daemon stop"
            .into(),
    }
}

/// A command line or a value in it that makes no sense.
pub(crate) fn usage(message: impl Into<String>) -> Failure {
    Failure {
        kind: FailureKind::Usage,
        message: message.into(),
    }
}

/// A failure of none of the other kinds.
pub(crate) fn other(message: impl Into<String>) -> Failure {
    Failure {
        kind: FailureKind::Other,
        message: message.into(),
    }
}

/// The path from the root, symbolic links and all: a disk is known by its link in `/dev/disk`.
/// The daemon is told of paths as text.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let refused = |reason: String| usage(format!("{}: {reason}", path.display()));
    let path = std::path::absolute(path).map_err(|error| refused(error.to_string()))?;
    match path.to_str() {
        Some(_) => Ok(path),
        None => Err(refused("the path is no UTF-8".into())),
    }
}

/// As [`absolute`], of a device; a volume of a pool is no path.
pub(crate) fn device_path(name: &Path) -> Result<PathBuf, Failure> {
    match is_volume(name) {
        true => Ok(name.to_owned()),
        false => absolute(name),
    }
}

/// Whether this is the name of a volume.
pub(crate) fn is_volume(name: &Path) -> bool {
    name.to_str()
        .is_some_and(|name| name.starts_with("volume:"))
}

/// What was typed, quoted as a shell would need it.
fn typed(args: impl Iterator<Item = OsString>) -> String {
    let words = args.map(|arg| quoted(&arg.to_string_lossy()));
    std::iter::once("strongroom".to_string())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./,:=@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    if word.chars().any(char::is_control) {
        let escaped = word.replace('\\', "\\\\").replace('\'', "\\'");
        let escaped = crate::show::text::in_a_cell(&escaped).into_owned();
        return format!("$'{escaped}'");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_words_are_quoted_where_a_shell_would_need_it() {
        for (word, expected) in [
            ("tank/home@monday", "tank/home@monday"),
            ("-o", "-o"),
            (
                "keysource=raw,file:///etc/keys/a%20b",
                "keysource=raw,file:///etc/keys/a%20b",
            ),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("~/key", "'~/key'"),
            ("größe", "größe"),
            ("a\nb'c\\", r"$'a\nb\'c\\'"),
        ] {
            assert_eq!(quoted(word), expected, "{word:?}");
        }
        let args = ["create", "tank/my files"].map(OsString::from);
        assert_eq!(typed(args.into_iter()), "strongroom create 'tank/my files'");
    }

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
}
