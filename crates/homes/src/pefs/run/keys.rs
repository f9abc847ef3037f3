//! Keys of a mount, by the process that serves it.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use console::outcome::{Outcome, Result};
use console::show::json;
use console::terminal::Prompter;
use protocol::api::{Failure, FailureKind};
use protocol::client::Terminal;
use rustix::fs::{Mode, OFlags, Stat};
use stack::formats::pefs::{Algorithm, KeyId, PefsMasterKey};

use super::key;
use super::place::{Lower, default_algorithm, failure, other_version};
use crate::pefs::args::{AddKey, ChainOf, DelKey, GetKey, KeyOf, OfMount, SetKey, ShowKeys};
use crate::stack::run::{ControlAnswer, KeyLine, Request, StackedMount};

/// The exit code if a key cannot be added.
const NOT_ADDED: u8 = 255;

type KeyAndAlgorithm = (PefsMasterKey, Algorithm);

/// A key, and its algorithm if anything says it.
type KeyChoice = (PefsMasterKey, Option<Algorithm>);

pub(super) fn add(args: &AddKey) -> Result {
    let of = &args.of;
    let mounted = StackedMount::of(&of.of.mountpoint)?;
    let keys = keys(&mounted, &of.key, &of.chain, args.algorithm.as_deref())?;
    let keys = with_algorithms(&mounted, keys)?;
    let mut text = String::new();
    for key in &keys {
        // The rest of the chain is not tried.
        if let Err(failure) = add_one(&mounted, key) {
            return Ok(Outcome {
                text,
                ..Outcome::failed(failure).with_exit_code(NOT_ADDED)
            });
        }
        if of.verbose {
            text += &format!("Key added: {}\n", key.0.id());
        }
    }
    Ok(Outcome::text(text))
}

pub(super) fn delete(args: &DelKey) -> Result {
    let mounted = StackedMount::of(&args.of.mountpoint)?;
    let mut text = String::new();
    let mut missing = None;
    for (key, _) in keys(&mounted, &args.key, &args.chain, None)? {
        let id = key.id();
        match mounted.ask(&Request::Delete { id: id.0 }, None) {
            Ok(_) => text += &format!("Key deleted: {id}\n"),
            // Not all keys of a chain need be there.
            Err(failure) if failure.kind == FailureKind::NotFound => {
                missing.get_or_insert(failure);
            }
            Err(failure) => return Err(failure),
        }
    }
    match missing {
        Some(failure) if text.is_empty() => Err(failure),
        _ if args.verbose => Ok(Outcome::text(text)),
        _ => Ok(Outcome::done()),
    }
}

pub(super) fn flush(args: &OfMount) -> Result {
    StackedMount::of(&args.mountpoint)?.ask(&Request::Flush, None)?;
    Ok(Outcome::done())
}

pub(super) fn show(args: &ShowKeys, is_json: bool) -> Result {
    let mounted = StackedMount::of(&args.of.mountpoint)?;
    let keys = lines(mounted.ask(&Request::Keys, None)?)?;
    if args.test {
        return Ok(silent(!keys.is_empty(), 7));
    }
    if is_json {
        return Ok(Outcome::text(json::show(&keys)));
    }
    if keys.is_empty() {
        return Ok(Outcome::text("No keys specified\n"));
    }
    let shown = keys.iter().enumerate().map(|(number, key)| {
        let KeyLine { id, algorithm } = key;
        format!("{number} {id} {algorithm}\n")
    });
    Ok(Outcome::text(format!(
        "Keys:\n{}",
        shown.collect::<String>()
    )))
}

pub(super) fn set(args: &SetKey) -> Result {
    let dir = args.dir.canonicalize();
    let dir = dir.map_err(|error| unusable(&args.dir, &error))?;
    let mounted = StackedMount::of(&dir)?;
    let keys = keys(&mounted, &args.key, &args.chain, args.algorithm.as_deref())?;
    let (Some(above), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(no_key_for(&dir));
    };
    let (parent, own) = (held(above)?, held(&dir)?);
    if parent.1.st_dev != own.1.st_dev {
        return Err(no_key_for(&dir));
    }
    let keys = with_algorithms(&mounted, keys)?;
    let key = keys.first().expect("the key itself");
    if args.adds {
        add_one(&mounted, key)?;
    }
    let id = key.0.id();
    let request = Request::SetKey {
        parent: parent.1.st_ino,
        name: name.as_bytes().to_vec(),
        id: id.0,
    };
    mounted.ask(&request, None)?;
    Ok(Outcome::text(match args.verbose {
        true => format!("Key({}): {id} {}\n", args.dir.display(), key.1),
        false => String::new(),
    }))
}

pub(super) fn get(args: &GetKey, is_json: bool) -> Result {
    let mounted = StackedMount::of(&args.file)?;
    let (_open, found) = held(&args.file)?;
    let request = Request::KeyOf { ino: found.st_ino };
    let key = lines(mounted.ask(&request, None)?)?.pop();
    if args.test {
        return Ok(silent(key.is_some(), 1));
    }
    if is_json {
        return Ok(Outcome::text(json::show(&key)));
    }
    let file = args.file.display();
    Ok(Outcome::text(match key {
        Some(KeyLine { id, algorithm }) => format!("Key({file}): {id} {algorithm}\n"),
        None => format!("Key({file}): <not specified>\n"),
    }))
}

pub(super) fn add_one(mounted: &StackedMount, (key, algorithm): &KeyAndAlgorithm) -> Result<()> {
    let algorithm = algorithm.to_string();
    let request = Request::Add { algorithm };
    mounted.ask(&request, Some(key.secret())).map(drop)
}

/// The key of a command, and those that it leads to.
fn keys(
    mounted: &StackedMount,
    key: &KeyOf,
    chain: &ChainOf,
    algorithm: Option<&str>,
) -> Result<Vec<KeyChoice>> {
    let lower = Lower::at(mounted.lower())?;
    let config = lower.config()?;
    let algorithm = key::algorithm(algorithm, &config)?;
    let first = key::parent(&lower, key, &config, false)?;
    if chain.no_chain {
        return Ok(vec![(first, algorithm)]);
    }
    let failed = |error| failure(lower.path(), error);
    let alone = first.try_clone().map_err(failed)?;
    let opened = lower
        .chains()
        .and_then(|chains| chains.open(first, Algorithm::default()).map_err(failed));
    match opened {
        // All of them are in records.
        Ok(Some(keys)) => Ok(keys
            .into_iter()
            .map(|(key, algorithm)| (key, Some(algorithm)))
            .collect()),
        Ok(None) if chain.must_have_chain => Err(no_record(alone.id(), &lower)),
        Err(failure) if chain.must_have_chain => Err(failure),
        Ok(None) => Ok(vec![(alone, algorithm)]),
        Err(failure) => {
            let why = &failure.message;
            Prompter::default().notice(&format!("{why}; the key is used alone"));
            Ok(vec![(alone, algorithm)])
        }
    }
}

/// The keys, with the default for those whose algorithm nothing says.
fn with_algorithms(mounted: &StackedMount, keys: Vec<KeyChoice>) -> Result<Vec<KeyAndAlgorithm>> {
    let with = |(key, algorithm): KeyChoice| {
        let algorithm = algorithm.map_or_else(|| default_algorithm(mounted), Ok)?;
        Ok((key, algorithm))
    };
    keys.into_iter().map(with).collect()
}

/// The failure for a missing chain.
pub(super) fn no_record(id: KeyId, lower: &Lower) -> Failure {
    let place = lower.path().display();
    let message = format!("the key {id} has no record in {place}");
    Failure::new(FailureKind::WrongKey, message)
}

pub(super) fn lines(answer: ControlAnswer) -> Result<Vec<KeyLine>> {
    match answer {
        ControlAnswer::Keys(keys) => Ok(keys),
        _ => Err(other_version()),
    }
}

/// A file, and its numbers: the mount knows it by them while it is open.
fn held(path: &Path) -> Result<(OwnedFd, Stat)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::open(path, flags, Mode::empty()).and_then(|file| {
        let stat = rustix::fs::fstat(&file)?;
        Ok((file, stat))
    });
    held.map_err(|error| unusable(path, &error.into()))
}

/// An outcome with only an exit code.
fn silent(is_so: bool, code: u8) -> Outcome {
    match is_so {
        true => Outcome::done(),
        false => Outcome::done().with_exit_code(code),
    }
}

fn no_key_for(dir: &Path) -> Failure {
    let message = format!("{}: the top directory of a mount has no key", dir.display());
    Failure::new(FailureKind::Damaged, message)
}

fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => FailureKind::NotFound,
        std::io::ErrorKind::PermissionDenied => FailureKind::Permission,
        _ => FailureKind::Device,
    };
    Failure::new(kind, format!("{}: {error}", path.display()))
}
