//! Directories that the kernel encrypts. All of it happens in this process.

mod directory;
mod keyring;
mod link;
mod login;
mod metadata;
mod open_path;
mod place;
mod policy_directory;
mod protectors;
mod status;
mod system_error;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use console::outcome::{Outcome, Result};
use protocol::api::{Failure, FailureKind};
use stack::formats::fscrypt::tool::{Config, Costs, DIRECTORY_NAME, MetadataStore, Writers};

pub(crate) use self::login::Logins;
use self::place::failure;
use crate::fscrypt::args::{Fscrypt, Metadata, Setup};
use crate::stack::run::{StackedMount, open_directory};

/// Carries out the command.
pub fn run(args: Fscrypt, as_json: bool) -> Result {
    let said = match args {
        Fscrypt::Setup(args) => setup(&args)?,
        Fscrypt::Encrypt(args) => directory::encrypt(&args)?,
        Fscrypt::Recover(args) => protectors::recovery::recover(&args)?,
        Fscrypt::Unlock(args) => directory::unlock(&args)?,
        Fscrypt::Lock(args) => directory::lock(&args)?,
        Fscrypt::Purge(args) => directory::purge(&args)?,
        Fscrypt::Status(args) => return status::run(&args, as_json).map(Outcome::text),
        Fscrypt::Metadata(Metadata::Create(args)) => metadata::create(&args)?,
        Fscrypt::Metadata(Metadata::Destroy(args)) => metadata::destroy(&args)?,
        Fscrypt::Metadata(Metadata::ChangePassphrase(args)) => metadata::change_passphrase(&args)?,
        Fscrypt::Metadata(Metadata::AddProtectorToPolicy(args)) => metadata::add(&args)?,
        Fscrypt::Metadata(Metadata::RemoveProtectorFromPolicy(args)) => metadata::remove(&args)?,
        Fscrypt::Metadata(Metadata::Dump(args)) => metadata::dump(&args)?,
    };
    Ok(Outcome::text(format!("{said}\n")))
}

fn setup(args: &Setup) -> Result<String> {
    let writers = match args.all_users {
        true => Writers::All,
        false => Writers::Owner,
    };
    if let Some(mountpoint) = &args.mountpoint {
        let failed = |error| place::io(mountpoint, &error);
        let whole = std::fs::canonicalize(mountpoint).map_err(failed)?;
        if is_prepared(&whole) {
            return Ok(format!("{} is set up for fscrypt already", whole.display()));
        }
        if !place::mounted()?
            .iter()
            .any(|mounted| mounted.path == whole)
        {
            let message = format!("{} is no mountpoint", mountpoint.display());
            return Err(Failure::usage(message));
        }
        make(&whole, writers)?;
        return Ok(format!("{} is set up for fscrypt", whole.display()));
    }
    let path = place::config_path();
    if !args.force && path.exists() {
        let message = format!(
            "there is {} already; to replace it, use --force",
            path.display()
        );
        return Err(Failure::new(FailureKind::Exists, message));
    }
    let costs = Costs::calibrate(args.time)?;
    let text = Config::new(costs).encode();
    // It is replaced at once.
    let new = path.with_extension("conf.new");
    std::fs::write(&new, text)
        .and_then(|()| std::fs::rename(&new, &path))
        .map_err(|error| place::io(&path, &error))?;
    if !place::is_place(Path::new("/")) {
        make(Path::new("/"), writers)?;
    }
    Ok(format!("{} is written", path.display()))
}

/// Returns whether metadata of root or of this user is in this directory, or in the lower directory that is mounted
/// there.
fn is_prepared(place: &Path) -> bool {
    let users = [0, rustix::process::geteuid().as_raw()];
    let has = |place: &Path| {
        let found = std::fs::symlink_metadata(place.join(DIRECTORY_NAME));
        found.is_ok_and(|found| found.is_dir() && users.contains(&found.uid()))
    };
    has(place) || StackedMount::at(place).is_some_and(|mounted| has(mounted.lower()))
}

fn make(place: &Path, writers: Writers) -> Result<()> {
    let root = open_directory(place)?;
    let made = MetadataStore::create(&root, place, writers);
    made.map_err(|error| failure(&place.display().to_string(), error))
}
