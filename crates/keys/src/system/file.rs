//! Opening files that hold keys, PINs and certificates. Another user may have named them. So nothing here waits,
//! and only ordinary files are accepted.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat};

/// Opens whatever is there without waiting for it.
pub(crate) fn open(path: &Path) -> rustix::io::Result<(File, Stat)> {
    // NONBLOCK: opening a FIFO would wait for another process to open the other end, and opening a serial
    // line for a carrier. NOCTTY: a terminal would become this process's own.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    Ok((File::from(file), stat))
}

/// The kind of an open file, if it is not a regular file.
pub(crate) fn other_kind(file: &File, stat: &Stat) -> Option<&'static str> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => None,
        FileType::CharacterDevice if rustix::termios::isatty(file) => Some("a terminal"),
        FileType::CharacterDevice => Some("a character device"),
        FileType::BlockDevice => Some("a block device"),
        FileType::Directory => Some("a directory"),
        FileType::Fifo => Some("a FIFO"),
        FileType::Socket => Some("a socket"),
        _ => Some("of an unknown kind"),
    }
}

/// Opens a regular file.
///
/// # Errors
/// As the kernel says, or that it is of another kind.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let (file, stat) = open(path)?;
    match other_kind(&file, &stat) {
        None => Ok(file),
        Some(kind) => Err(io::Error::other(format!(
            "it is {kind}, not a regular file"
        ))),
    }
}

/// Opens a regular file that only root, or the user of this process, can read.
///
/// # Errors
/// As [`open_regular`], or that others can read it, or own it.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let file = open_regular(path)?;
    let stat = rustix::fs::fstat(&file)?;
    let own = rustix::process::geteuid().as_raw();
    if stat.st_uid != 0 && stat.st_uid != own {
        return Err(io::Error::other("it belongs to another user"));
    }
    match stat.st_mode & 0o077 {
        0 => Ok(file),
        _ => Err(io::Error::other(
            "other users may read or change it; run chmod 600 on it",
        )),
    }
}

/// All that is in a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open_regular`], or that it is longer.
pub(crate) fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?
        .take(limit + 1)
        .read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::other(format!("it is longer than {limit} bytes"))),
        false => Ok(bytes),
    }
}
