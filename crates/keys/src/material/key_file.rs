//! New keys, and files to keep them in.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use cipher::Random;
use secret::Secret;

use crate::format::limit;
use crate::system::file::{open_private, open_regular};
use crate::{Error, MaterialFormat, Result};

/// A new random key of 16, 24 or 32 bytes: these if raw, lower-case digits and a newline if hexadecimal.
///
/// # Errors
/// [`Error::KeySource`] for a passphrase, which a person chooses; [`Error::Cipher`] if there are no
/// random numbers.
pub fn keygen(format: MaterialFormat, bytes: usize, random: &dyn Random) -> Result<Secret> {
    let mut key = Secret::zeroed(bytes)?;
    random.fill(key.expose_mut())?;
    match format {
        MaterialFormat::Raw => Ok(key),
        MaterialFormat::Hex => encode_hex(key.expose()),
        MaterialFormat::Passphrase => Err(Error::KeySource(
            "a passphrase is chosen by a person; generate a raw or hex key".into(),
        )),
    }
}

fn encode_hex(key: &[u8]) -> Result<Secret> {
    let mut text = Secret::zeroed(2 * key.len() + 1)?;
    let (digits, newline) = text.expose_mut().split_at_mut(2 * key.len());
    for (pair, byte) in digits.chunks_exact_mut(2).zip(key) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    newline.copy_from_slice(b"\n");
    Ok(text)
}

/// The digit for a value below 16, computed without a table or a branch that would show the value.
fn digit(value: u8) -> u8 {
    // 0xff if value > 9: the subtraction borrows.
    let letter = (u16::from(9u8).wrapping_sub(u16::from(value)) >> 8) as u8;
    b'0' + value + (letter & (b'a' - b'0' - 10))
}

/// Reads a PIN from its file: the first line.
///
/// # Errors
/// [`Error::KeyFileMissing`] or [`Error::KeyFileUnreadable`].
pub fn read_pin(path: &Path) -> Result<Secret> {
    read_line(path, open_regular(path))
}

/// Reads a secret from a file that only root, or the user of this process, can read: the first line.
///
/// # Errors
/// [`Error::KeyFileMissing`] or [`Error::KeyFileUnreadable`], also if others can read it.
pub fn read_private(path: &Path) -> Result<Secret> {
    read_line(path, open_private(path))
}

/// Reads a part of a file that only root, or the user of this process, can read: `len` bytes from `offset` on, or all
/// that follow, of which there may be `max`.
///
/// # Errors
/// [`Error::KeyFileMissing`] or [`Error::KeyFileUnreadable`], also if others can read it, or it is shorter or longer.
pub fn read_private_part(
    path: &Path,
    offset: u64,
    len: Option<usize>,
    max: usize,
) -> Result<Secret> {
    let refused = |source| Error::KeyFileUnreadable {
        path: path.to_owned(),
        source,
    };
    let mut file = open_private(path).map_err(|source| unreadable(path, source))?;
    file.seek(SeekFrom::Start(offset)).map_err(refused)?;
    let limit = len.unwrap_or(max + 1).min(max + 1);
    let part = Secret::from_reader(&mut file, limit)?;
    match part.len() {
        0 => Err(refused(io::Error::other("there is nothing to read in it"))),
        found if len.is_some_and(|len| found < len) => Err(refused(io::Error::other(
            "it is shorter than the part that is named",
        ))),
        found if found > max => Err(refused(io::Error::other(format!(
            "the key is longer than {max} bytes"
        )))),
        _ => Ok(part),
    }
}

fn unreadable(path: &Path, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::NotFound => Error::KeyFileMissing(path.to_owned()),
        _ => Error::KeyFileUnreadable {
            path: path.to_owned(),
            source,
        },
    }
}

fn read_line(path: &Path, opened: io::Result<File>) -> Result<Secret> {
    let mut file = opened.map_err(|source| unreadable(path, source))?;
    let mut line = Secret::from_reader(&mut file, limit(MaterialFormat::Passphrase, true))?;
    line.trim_newline();
    Ok(line)
}

/// Writes a key to a new file that only its owner can read (mode 0600). File and name are durable when it returns.
///
/// # Errors
/// [`Error::KeyFileWrite`], also if there is a file already: it may hold the only copy of a key. A
/// file that could not be completed is removed.
pub fn write_key_file(path: &Path, key: &Secret) -> Result<()> {
    write_private_file(path, key.expose())
}

/// Writes like [`write_key_file`], for a file that is no secret by itself and still to be kept like one.
///
/// # Errors
/// As [`write_key_file`].
pub fn write_private_file(path: &Path, content: &[u8]) -> Result<()> {
    let failed = |source| Error::KeyFileWrite {
        path: path.to_owned(),
        source,
    };
    // create_new is O_CREAT | O_EXCL, which does not follow a symbolic link either.
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    let written = file
        .write_all(content)
        .and_then(|()| file.sync_all())
        .and_then(|()| sync_directory_of(path));
    written.map_err(|error| {
        // Best effort: the error that is reported is the first.
        let _ = std::fs::remove_file(path);
        failed(error)
    })
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits() {
        let all: Vec<u8> = (0..16).map(digit).collect();
        assert_eq!(all, b"0123456789abcdef");
    }
}
