//! The process that loads a module, and what both sides say over the socket that is its standard input.
//!
//! A request is a length (4 bytes, little-endian) and: the number of what is to be done (1 byte), the path of the
//! module, the URI and the PIN, each with its length before it (2 bytes), and the payload. An answer is a length
//! and: 0 and the result, or the number of an error and its reason. Secrets are in this socket and in locked
//! memory only.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use secret::{Secret, harden_process};

use super::inside;
use super::modules::TokenModules;
use crate::system::child::{ChildProgram, TimedStream};
use crate::{Error, Result, TokenUri};

/// Neither side says more than this.
const MESSAGE_MAX: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenOperation {
    /// Read a data object; the payload is how much of it.
    Read = 1,
    /// Make a key.
    Keygen = 2,
    /// Encrypt; the payload is a nonce and a key.
    Wrap = 3,
    /// Decrypt; the payload is a nonce and what was encrypted.
    Unwrap = 4,
    /// Make a secret of a fixed text; there is no payload.
    Derive = 5,
}

const DONE: u8 = 0;
const FAILED: u8 = 1;
const PIN: u8 = 2;
const KEY_EXISTS: u8 = 3;
const WRONG_KEY: u8 = 4;

/// Has a new process do something with a module.
pub(super) fn ask(
    modules: &TokenModules,
    module: &Path,
    (op, uri, pin): (TokenOperation, &TokenUri, &Secret),
    payload: &[u8],
) -> Result<Secret> {
    let mut request = Secret::from_slice(&[op as u8])?;
    for part in [
        module.as_os_str().as_bytes(),
        uri.text.as_bytes(),
        pin.expose(),
    ] {
        let len = u16::try_from(part.len()).map_err(|_| uri.failed("its URI is too long"))?;
        request.push_slice(&len.to_le_bytes())?;
        request.push_slice(part)?;
    }
    request.push_slice(payload)?;
    let until = Instant::now() + modules.time_max;
    let cannot = |error: io::Error| {
        uri.failed(format_args!(
            "the process for its module cannot be started: {error}"
        ))
    };
    let (stream, _running) = start(modules).map_err(cannot)?;
    let mut talk = TimedStream { stream, until };
    let answer = send(&mut talk, &request).and_then(|()| receive(&mut talk));
    let answer = answer.map_err(|error| {
        let module = module.display();
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => uri.failed(format_args!(
                "its module {module} did not answer within {} seconds, and was ended",
                modules.time_max.as_secs()
            )),
            _ => uri.failed(format_args!(
                "its module {module} crashed, or its process ended: {error}"
            )),
        }
    })?;
    let answer = answer?;
    let Some((kind, rest)) = answer.expose().split_first() else {
        return Err(uri.failed("its module gave no answer"));
    };
    let (token, reason) = (uri.shown().to_owned(), String::from_utf8_lossy(rest));
    match *kind {
        DONE => Ok(Secret::from_slice(rest)?),
        PIN => Err(Error::TokenPin {
            token,
            reason: reason.into_owned(),
        }),
        KEY_EXISTS => Err(Error::TokenKeyExists { token }),
        WRONG_KEY => Err(Error::WrongKey),
        _ => Err(uri.failed(reason)),
    }
}

fn start(modules: &TokenModules) -> io::Result<(UnixStream, ChildProgram)> {
    let (ours, theirs) = UnixStream::pair()?;
    let (program, args) = modules
        .helper
        .split_first()
        .ok_or(io::ErrorKind::NotFound)?;
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .process_group(0)
        .spawn()?;
    Ok((ours, ChildProgram(child)))
}

fn send(to: &mut impl Write, message: &Secret) -> io::Result<()> {
    let len = u32::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    to.write_all(&len.to_le_bytes())?;
    to.write_all(message.expose())
}

fn receive(from: &mut impl Read) -> io::Result<Result<Secret>> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > MESSAGE_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = match Secret::zeroed(len) {
        Ok(message) => message,
        Err(error) => return Ok(Err(error.into())),
    };
    from.read_exact(message.expose_mut())?;
    Ok(Ok(message))
}

/// Loads one module and does one operation with it, for the process at the other end of the standard input.
///
/// # Errors
/// If standard input is not the socket of [`crate::token_material`].
pub fn serve_token() -> io::Result<()> {
    let other = |error: Error| io::Error::other(error.to_string());
    harden_process().map_err(io::Error::other)?;
    let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let request = receive(&mut stream)?.map_err(other)?;
    let answer = answer(request.expose()).or_else(|error| refusal(&error));
    send(&mut stream, &answer.map_err(other)?)
}

/// An error as the answer to the caller.
fn refusal(error: &Error) -> Result<Secret> {
    let (kind, reason) = match error {
        Error::Token { reason, .. } => (FAILED, reason.clone()),
        Error::TokenPin { reason, .. } => (PIN, reason.clone()),
        Error::TokenKeyExists { .. } => (KEY_EXISTS, String::new()),
        Error::WrongKey => (WRONG_KEY, String::new()),
        other => (FAILED, other.to_string()),
    };
    let mut answer = Secret::from_slice(&[kind])?;
    let reason = &reason.as_bytes()[..reason.len().min(MESSAGE_MAX - 1)];
    answer.push_slice(reason)?;
    Ok(answer)
}

/// Takes a part with its length before it.
fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, tail) = rest.split_first_chunk()?;
    let (part, tail) = tail.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
    *rest = tail;
    Some(part)
}

fn answer(request: &[u8]) -> Result<Secret> {
    let unknown = || Error::KeySource("the request for a token is not understood".into());
    let (op, mut rest) = request.split_first().ok_or_else(unknown)?;
    let mut next = || part(&mut rest).ok_or_else(unknown);
    let module = Path::new(OsStr::from_bytes(next()?));
    let uri = TokenUri::parse(&String::from_utf8_lossy(next()?))?;
    let pin = Secret::from_slice(next()?)?;
    let mut done = Secret::from_slice(&[DONE])?;
    let nonce = || rest.split_first_chunk::<12>().ok_or_else(unknown);
    match *op {
        op if op == TokenOperation::Read as u8 => {
            let max = u64::from_le_bytes(rest.try_into().map_err(|_| unknown())?);
            let max = usize::try_from(max).unwrap_or(0).min(MESSAGE_MAX / 2);
            let (text, len) = inside::read(module, &uri, &pin, max)?;
            done.push_slice(&len.to_le_bytes())?;
            done.push_slice(text.expose())?;
        }
        op if op == TokenOperation::Keygen as u8 => {
            let bytes = *rest.first().ok_or_else(unknown)?;
            inside::keygen(module, &uri, bytes, &pin)?;
        }
        op if op == TokenOperation::Wrap as u8 => {
            let (nonce, key) = nonce()?;
            done.push_slice(&inside::wrap(module, &uri, &pin, *nonce, key)?)?;
        }
        op if op == TokenOperation::Unwrap as u8 => {
            let (nonce, wrapped) = nonce()?;
            done.push_slice(inside::unwrap(module, &uri, &pin, *nonce, wrapped)?.expose())?;
        }
        op if op == TokenOperation::Derive as u8 => {
            done.push_slice(inside::derive(module, &uri, &pin)?.expose())?;
        }
        _ => return Err(unknown()),
    }
    Ok(done)
}
