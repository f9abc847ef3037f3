//! `cp`: a copy by reference, which the kernel asks the file system for.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use console::mount_type;
use console::outcome::{Outcome, Result};
use console::session::usage;
use protocol::api::{Failure, FailureKind};
use rustix::fs::{OFlags, copy_file_range};

use crate::cmd::dataset::args::Cp;

pub(crate) fn run(args: &Cp) -> Result {
    let (from, source) = open_source(&args.from)?;
    let to = match args.to.is_dir() {
        false => args.to.clone(),
        true => {
            let name = args.from.file_name();
            args.to.join(name.ok_or_else(|| no_file(&args.from))?)
        }
    };
    check_place(&args.from, &source, &to)?;
    let (target, is_new) = open_target(&to, &source, args.force)?;
    copy(&from, &target, source.len()).map_err(|error| {
        if is_new {
            // What is there is not what was asked for.
            let _ = std::fs::remove_file(&to);
        }
        failed("cannot copy to", &to, &error)
    })?;
    Ok(Outcome::done())
}

/// Opening never waits, whatever kind of file it is.
fn open_source(path: &Path) -> Result<(File, Metadata)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(|error| failed("cannot read", path, &error))?;
    let found = file
        .metadata()
        .map_err(|error| failed("cannot read", path, &error))?;
    match found.is_file() {
        true => Ok((file, found)),
        false => Err(no_file(path)),
    }
}

/// Checks that both are in the same dataset, before anything is made.
fn check_place(from: &Path, source: &Metadata, to: &Path) -> Result<()> {
    let kind = mount_type::of_device(source.dev())
        .map_err(|error| failed("cannot read", Path::new(mount_type::LIST), &error))?;
    if kind.as_deref() != Some(mount_type::DATASET) {
        return Err(usage(format!(
            "'{}' is not in a mounted dataset; copy it with cp",
            from.display()
        )));
    }
    let parent = match to.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let there =
        std::fs::metadata(parent).map_err(|error| failed("no directory", parent, &error))?;
    if there.dev() != source.dev() {
        return Err(usage(format!(
            "'{}' is not in the same dataset as '{}', and only inside of one records are shared; copy it with cp",
            to.display(),
            from.display()
        )));
    }
    Ok(())
}

/// The target, empty, and whether it was made by this.
fn open_target(path: &Path, source: &Metadata, force: bool) -> Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .mode(source.permissions().mode() & 0o777)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    match options.clone().create_new(true).open(path) {
        Ok(file) => return Ok((file, true)),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed("cannot make", path, &error));
        }
        Err(_) if !force => {
            return Err(Failure::new(
                FailureKind::Exists,
                format!(
                    "'{}' exists already; -f replaces its contents",
                    path.display()
                ),
            ));
        }
        Err(_) => {}
    }
    let cannot = |error| failed("cannot write", path, &error);
    let file = options.open(path).map_err(cannot)?;
    let found = file.metadata().map_err(cannot)?;
    if !found.is_file() {
        return Err(no_file(path));
    }
    // A link may lead out of the dataset, or back to the source.
    if found.dev() != source.dev() || found.ino() == source.ino() {
        return Err(usage(format!(
            "'{}' is the source itself, or in another file system; name another target",
            path.display()
        )));
    }
    file.set_len(0).map_err(cannot)?;
    Ok((file, false))
}

/// Copies in several calls, because one may copy less than requested.
fn copy(from: &File, to: &File, len: u64) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        let (mut at, mut target) = (done, done);
        let rest = usize::try_from(len - done).unwrap_or(usize::MAX);
        match copy_file_range(from, Some(&mut at), to, Some(&mut target), rest)? {
            // It was truncated meanwhile.
            0 => break,
            copied => done += copied as u64,
        }
    }
    Ok(())
}

fn no_file(path: &Path) -> Failure {
    usage(format!("'{}' is not a regular file", path.display()))
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => FailureKind::NotFound,
        io::ErrorKind::PermissionDenied => FailureKind::Permission,
        _ => FailureKind::of_system(error),
    };
    Failure::new(kind, format!("{what} '{}': {error}", path.display()))
}
