//! Re-encryption of a container that is open. The command changes the header, which it borrows; then the daemon
//! re-encrypts what it serves, and tells the command how far it is.

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use block::{BlockDevice, SectorSizes};
use cipher::SystemRandom;
use console::outcome::{Outcome, Result};
use console::session::{Session, device_path, unexpected};
use console::terminal::Interruptions;
use luks::{Container, ReencryptionProgress};
use protocol::api::{
    DeviceUse, Failure, FailureKind, MappingReencryption, MappingRow, Reply, command,
};
use protocol::device_name::DeviceName;
use secret::Secret;

use super::progress::Reporter;
use super::reencrypt_options::{begins, kept, options, paused, under_way};
use crate::cmd::luks::args::LuksReencryptArgs;
use crate::cmd::luks::run::device::device;
use crate::cmd::luks::run::key::passphrase;

/// The open mapping that is meant, if there is one.
pub(crate) fn find(args: &LuksReencryptArgs, session: &mut Session) -> Result<Option<MappingRow>> {
    let given = &args.container.device;
    let names = Vec::new();
    // Without a daemon nothing is open.
    let Ok(Reply::Mappings(rows)) = session.call_running(command::LuksStatus { names }) else {
        return Ok(None);
    };
    let by_name = match DeviceName::parse(given) {
        DeviceName::Luks(name) => Some(name.to_owned()),
        _ if given.exists() => None,
        _ => given.to_str().map(str::to_owned),
    };
    let path = device_path(given)?;
    let is_it = |row: &MappingRow| {
        by_name.as_ref() == Some(&row.name) || is_same(Path::new(&row.device), &path)
    };
    Ok(rows.into_iter().find(is_it))
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
}

pub(crate) fn run(args: &LuksReencryptArgs, row: &MappingRow, session: &mut Session) -> Result {
    check(args, row)?;
    let header = row.header.as_ref().unwrap_or(&row.device);
    let header = device(Path::new(header), DeviceUse::ChangeHeader, session)?;
    let mut container = Container::open(header, &SystemRandom)?;
    container.check_writable()?;
    let given = match container.is_in_reencryption() {
        true if begins(args) => return Err(under_way(args)),
        true => passphrase(&args.key, &args.container)?,
        false if args.resume_only => {
            let message = format!("{} is not being re-encrypted", row.device);
            return Err(Failure::new(FailureKind::NotFound, message));
        }
        false => begin(&mut container, row, args)?,
    };
    // The daemon needs the header now.
    drop(container);
    go_on(args, row, given, session)
}

fn check(args: &LuksReencryptArgs, row: &MappingRow) -> Result<()> {
    let refuse = |what: &str| Err(Failure::usage(format!("the mapping '{}' {what}", row.name)));
    if row.kind == "PLAIN" {
        return refuse("has no header, and without one there is no re-encryption");
    }
    if row.suspended {
        return refuse("is suspended: resume it first, with 'luks resume'");
    }
    if row.read_only {
        return refuse("is open read-only: open it for writing");
    }
    if args.device_size.is_some() {
        return refuse("is open, and is re-encrypted whole: close it to use --device-size");
    }
    match args.sector_size {
        Some(wanted) if wanted != row.sector_size => refuse(
            "is open, and another sector size would change the blocks that its users see: close it first",
        ),
        _ => Ok(()),
    }
}

/// Lets the header say that a re-encryption is under way. Returns a passphrase of both keys.
fn begin(container: &mut Container, row: &MappingRow, args: &LuksReencryptArgs) -> Result<Secret> {
    let data = OpenData {
        name: row.device.clone(),
        size: row.offset + row.size,
    };
    let how = options(container, args)?;
    container.check_reencryption(&data, &how)?;
    let (old, kept) = kept(container, args)?;
    container.begin_reencryption(&data, &how, old, &kept, &SystemRandom)?;
    let first = kept.into_iter().next();
    let (_, given) = first.ok_or_else(|| Failure::usage("no passphrase is kept"))?;
    Ok(given)
}

fn go_on(
    args: &LuksReencryptArgs,
    row: &MappingRow,
    given: Secret,
    session: &mut Session,
) -> Result {
    let signals = Interruptions::hold().map_err(|error| Failure::other(error.to_string()))?;
    let device = PathBuf::from(&row.device);
    let mut reporter = Reporter::new(&device, args.progress_frequency, args.progress_json);
    let mut at = None;
    let mut show = |row: &MappingReencryption| {
        let (done, total) = (row.done, row.total);
        reporter.show(ReencryptionProgress { done, total });
        let goes_on = !args.init_only && !signals.came();
        at = (!goes_on).then_some(ReencryptionProgress { done, total });
        goes_on
    };
    let command = command::LuksReencrypt {
        name: row.name.clone(),
        with_key_file: args.key.key_file.is_some(),
        zone: args.hotzone_size,
    };
    match session.call_and_watch(command, given, &mut show)? {
        Reply::Nothing => {}
        reply => return Err(unexpected(&reply)),
    }
    match at {
        None => reporter.end(),
        Some(_) if args.init_only => {}
        Some(progress) => return Err(paused(progress, args)),
    }
    Ok(Outcome::done())
}

/// The data of an open container, of which only the size is known here.
struct OpenData {
    name: String,
    size: u64,
}

impl OpenData {
    fn refused<T>(&self) -> block::Result<T> {
        let device = self.name.clone();
        Err(block::Error::ReadOnly { device })
    }
}

impl BlockDevice for OpenData {
    block::plain_device!();

    fn size(&self) -> u64 {
        self.size
    }

    fn sector_sizes(&self) -> SectorSizes {
        SectorSizes::COMMON
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> block::Result<()> {
        self.refused()
    }

    fn write_at(&self, _: u64, _: &[IoSlice<'_>]) -> block::Result<()> {
        self.refused()
    }

    fn flush(&self) -> block::Result<()> {
        self.refused()
    }

    fn discard(&self, _: u64, _: u64) -> block::Result<()> {
        self.refused()
    }
}
