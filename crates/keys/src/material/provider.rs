//! Keys from other programs, which may ask a TPM, a token, or a service: `exec:///PROGRAM` is started,
//! `unix:///SOCKET` is there already. What both sides say is in `docs/KEY-PROVIDERS.md`.
//!
//! The program runs as the daemon's user, and a property names it. An attacker who can write to the devices
//! can set that property. So a program is accepted only in directories that are for nothing else. Only this user
//! and root may be able to change it or a directory above it.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use secret::Secret;

use crate::format::limit;
use crate::material::key_material::material;
use crate::system::child::{ChildProgram, TimedStream};
use crate::system::trust::{check_trusted, is_in, is_trusted};
use crate::{Error, KeyMaterial, MaterialFormat, ProviderSource, Result};

/// The first line of an answer is no longer than this.
const LINE_MAX: usize = 512;
/// Programs find others here.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl ProviderSource {
    fn failed(&self, reason: impl fmt::Display) -> Error {
        self.failed_at(&self.path, reason)
    }

    fn failed_at(&self, path: &Path, reason: impl fmt::Display) -> Error {
        Error::KeyProvider {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    fn io(&self, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                self.failed("it does not answer")
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                self.failed("it ended in the middle of its answer")
            }
            _ => self.failed(error),
        }
    }

    /// The path without symbolic links. Other users cannot replace what is there.
    fn checked(&self, places: &[PathBuf]) -> Result<PathBuf> {
        let real =
            check_trusted(&self.path).map_err(|(path, reason)| self.failed_at(&path, reason))?;
        if is_in(&real, places) {
            return Ok(real);
        }
        let places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
        Err(self.failed(format_args!(
            "it is in none of the directories for key providers: {}",
            places.join(", ")
        )))
    }
}

/// The question to a key program, and the folders in which the program may be.
#[derive(Clone, Copy, Debug)]
pub struct KeyRequest<'a> {
    /// The format of the key.
    pub format: MaterialFormat,
    /// The dataset of the key.
    pub dataset: &'a str,
    /// Directories for programs and sockets that give keys.
    pub places: &'a [PathBuf],
    /// From the request to the last byte of the key.
    pub time_max: Duration,
}

/// Gets the key of a dataset from a program.
///
/// # Errors
/// [`Error::KeyProvider`] if it is in another place or others could change it, if it cannot be started or
/// reached, says no, or takes longer; as [`crate::read_file`] for what the key is.
pub fn ask_provider(provider: &ProviderSource, request: &KeyRequest<'_>) -> Result<KeyMaterial> {
    let path = provider.checked(request.places)?;
    let until = Instant::now() + request.time_max;
    let mut running = None;
    let mut talk = match provider.listens {
        true => connect(provider, &path, until)?,
        false => {
            let (ours, child) = start(&path).map_err(|error| provider.failed(error))?;
            running = Some(ChildProgram(child));
            TimedStream {
                stream: ours,
                until,
            }
        }
    };
    let answer = converse(&mut talk, provider, request);
    // It sees the end of its input, and has what is left of the time to tidy up.
    drop(talk);
    if let Some(running) = &running
        && answer.is_ok()
    {
        running.wait(until);
    }
    material(
        request.format,
        answer?,
        &provider.path.display().to_string(),
        None,
    )
}

/// Connects, and does not wait for longer if the program has stopped taking connections.
fn connect(provider: &ProviderSource, path: &Path, until: Instant) -> Result<TimedStream> {
    let talk = TimedStream::connect(path, until).map_err(|error| provider.io(error))?;
    let peer = rustix::net::sockopt::socket_peercred(&talk.stream)
        .map_err(|error| provider.failed(io::Error::from(error)))?;
    match is_trusted(peer.uid.as_raw()) {
        true => Ok(talk),
        false => Err(provider.failed(format_args!(
            "the user {} listens there, who is neither root nor the daemon's user",
            peer.uid.as_raw()
        ))),
    }
}

/// Starts a program with a socket as its input and output, and nothing of the daemon's environment.
fn start(path: &Path) -> io::Result<(UnixStream, Child)> {
    let (ours, theirs) = UnixStream::pair()?;
    let input = OwnedFd::from(theirs.try_clone()?);
    let child = Command::new(path)
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(OwnedFd::from(theirs)))
        .stderr(Stdio::null())
        .env_clear()
        .env("PATH", PATH)
        .current_dir("/")
        .process_group(0)
        .spawn()?;
    Ok((ours, child))
}

fn converse(
    talk: &mut TimedStream,
    provider: &ProviderSource,
    request: &KeyRequest<'_>,
) -> Result<Secret> {
    let KeyRequest {
        format, dataset, ..
    } = request;
    let lines = format!(
        "STRONGROOM-KEY/1 GET\ndataset: {dataset}\nformat: {format}\nargument: {}\n\n",
        provider.argument
    );
    match talk.write_all(lines.as_bytes()) {
        // A provider with one key need not read the request.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(provider.io(error)),
        _ => {}
    }
    let line = first_line(talk).map_err(|error| provider.io(error))?;
    if let Some(why) = line.strip_prefix("ERROR") {
        return Err(provider.failed(format_args!("it says: {}", why.trim())));
    }
    let len = line.strip_prefix("OK ").and_then(|len| len.parse().ok());
    let Some(len) = len.filter(|len| *len <= limit(*format, true)) else {
        return Err(provider.failed(
            "its answer begins neither with 'OK' and the length of a key, nor with 'ERROR' and a reason",
        ));
    };
    let mut key = Secret::zeroed(len)?;
    talk.read_exact(key.expose_mut())
        .map_err(|error| provider.io(error))?;
    Ok(key)
}

/// The first line of an answer, byte by byte: what follows is a secret. What cannot be shown is left out.
fn first_line(talk: &mut TimedStream) -> io::Result<String> {
    let mut line = String::new();
    let mut byte = [0];
    for _ in 0..LINE_MAX {
        talk.read_exact(&mut byte)?;
        match byte[0] {
            b'\n' => break,
            shown @ b' '..=b'~' => line.push(char::from(shown)),
            _ => {}
        }
    }
    Ok(line)
}
