//! The location of metadata: file systems, and the references to what is on them.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use console::outcome::Result;
use keys::{Argon2Params, kernel};
use protocol::api::{Failure, FailureKind};
use stack::formats::fscrypt::KeyName;
use stack::formats::fscrypt::tool::{
    Config, DIRECTORY_NAME, Descriptor, MetadataStore, ProtectedPolicy, Protector, ProtectorEntry,
    ProtectorLink, key_name_from, parse_descriptor,
};

use super::open_path::OpenPath;
pub(super) use super::system_error::io;
pub(super) use crate::stack::run::metadata_failure as failure;
use crate::stack::run::open_directory;

pub(super) struct FileSystemMount {
    pub(super) path: PathBuf,
    pub(super) kind: String,
    device: u64,
    is_whole: bool,
    is_read_only: bool,
}

/// The mounted file systems, in the order of their mounting.
pub(super) fn mounted() -> Result<Vec<FileSystemMount>> {
    let text = fs::read_to_string("/proc/self/mountinfo");
    let text = text.map_err(|error| Failure::other(format!("/proc/self/mountinfo: {error}")))?;
    Ok(text.lines().filter_map(line).collect())
}

fn line(line: &str) -> Option<FileSystemMount> {
    let (mount, source) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(2);
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
    let is_whole = fields.next()? == "/";
    let path = PathBuf::from(unescaped(fields.next()?));
    let is_read_only = fields.next()?.split(',').any(|option| option == "ro");
    let kind = source.split(' ').next()?.to_owned();
    Some(FileSystemMount {
        path,
        kind,
        device,
        is_whole,
        is_read_only,
    })
}

/// Spaces and the like stand as three octal digits.
fn unescaped(text: &str) -> String {
    let mut plain = text.to_owned();
    for (digits, c) in [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ] {
        plain = plain.replace(digits, c);
    }
    plain
}

/// The mountpoint of a file system: where all of it is mounted, and can be written.
fn of_device(device: u64) -> Result<Option<PathBuf>> {
    let mut all = mounted()?;
    all.retain(|mounted| mounted.device == device && mounted.path.is_dir());
    let best = all.iter().min_by_key(|mounted| {
        let len = mounted.path.as_os_str().len();
        (!mounted.is_whole, mounted.is_read_only, len)
    });
    Ok(best.map(|mounted| mounted.path.clone()))
}

/// The mountpoint of the file system with a file, and the directory there.
pub(super) fn of_file(held: &OpenPath<'_>) -> Result<(PathBuf, File)> {
    let device = held.metadata()?.dev();
    if let Some(mountpoint) = of_device(device)? {
        let directory = OpenPath::open(&mountpoint)?.reopen()?;
        let is_it = directory
            .metadata()
            .is_ok_and(|found| found.dev() == device);
        return match is_it {
            true => Ok((mountpoint, directory)),
            false => Err(Failure::other(format!(
                "{}: something else is mounted there meanwhile",
                mountpoint.display()
            ))),
        };
    }
    // Files of btrfs have a device number that no mount has.
    let whole = held.whole_path()?;
    let mounted = mounted()?;
    let mut above = whole.ancestors();
    let found = above.find(|above| mounted.iter().any(|mounted| mounted.path == *above));
    let mountpoint = found.unwrap_or(Path::new("/")).to_owned();
    let directory = OpenPath::open(&mountpoint)?.reopen()?;
    Ok((mountpoint, directory))
}

/// The file system with login protectors: the one of the system. The variable is the tool's.
pub(super) fn root() -> Result<PathBuf> {
    let path = std::env::var_os("FSCRYPT_ROOT_MNT").filter(|path| !path.is_empty());
    let path = path.map_or_else(|| PathBuf::from("/"), PathBuf::from);
    fs::canonicalize(&path).map_err(|error| io(&path, &error))
}

/// Returns whether metadata is in this directory.
pub(super) fn is_place(path: &Path) -> bool {
    path.join(DIRECTORY_NAME).is_dir()
}

/// The configuration of the machine, or the defaults.
pub(super) fn config() -> Result<Config> {
    let path = config_path();
    match fs::read(&path) {
        Ok(bytes) => {
            Config::decode(&bytes).map_err(|error| failure(&path.display().to_string(), error))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(Config::new(Argon2Params::RECOMMENDED.into()))
        }
        Err(error) => Err(io(&path, &error)),
    }
}

pub(super) fn config_path() -> PathBuf {
    let path = std::env::var_os("FSCRYPT_CONF").filter(|path| !path.is_empty());
    path.map_or_else(|| PathBuf::from("/etc/fscrypt.conf"), PathBuf::from)
}

/// The metadata of a place. Ordinary users read what belongs to them or to root.
pub(super) fn store(place: &Path, config: Option<&Config>) -> Result<MetadataStore> {
    let user = rustix::process::geteuid();
    let all = user.is_root() || config.is_some_and(|config| config.allow_cross_user_metadata);
    let trusted = (!all).then_some(user.as_raw());
    let root = open_directory(place)?;
    MetadataStore::open(&root, place, trusted)
        .map_err(|error| failure(&place.display().to_string(), error))
}

/// Splits `MOUNTPOINT:ID`.
fn reference(text: &str) -> Result<(PathBuf, &str)> {
    let (place, id) = text
        .rsplit_once(':')
        .ok_or_else(|| Failure::usage(format!("'{text}' is not of the form MOUNTPOINT:ID")))?;
    let place = Path::new(place);
    let whole = fs::canonicalize(place).map_err(|error| io(place, &error))?;
    Ok((whole, id))
}

/// The policy that is named.
pub(super) fn policy(
    text: &str,
    config: &Config,
) -> Result<(PathBuf, MetadataStore, ProtectedPolicy)> {
    let (place, id) = reference(text)?;
    let store = store(&place, Some(config))?;
    let failed = |error| failure(&place.display().to_string(), error);
    let name = key_name_from(id).map_err(failed)?;
    let policy = store.policy(&name).map_err(failed)?;
    Ok((place, store, policy))
}

/// The descriptor of the protector that is named.
pub(super) fn descriptor(text: &str) -> Result<(PathBuf, Descriptor)> {
    let (place, id) = reference(text)?;
    let descriptor = parse_descriptor(id);
    let wrong = || format!("'{id}' is no ID of a protector: it has 16 digits of 0 to 9 and a to f");
    Ok((place, descriptor.ok_or_else(|| Failure::usage(wrong()))?))
}

/// The protector that is named, and where it is: a link is followed.
pub(super) fn protector(text: &str, config: &Config) -> Result<(PathBuf, Protector)> {
    let (place, descriptor) = descriptor(text)?;
    let store = store(&place, Some(config))?;
    follow(&place, &store, &descriptor, config)
}

/// A protector of this place, and where it is.
pub(super) fn follow(
    place: &Path,
    from: &MetadataStore,
    descriptor: &Descriptor,
    config: &Config,
) -> Result<(PathBuf, Protector)> {
    let failed = |error| failure(&place.display().to_string(), error);
    let link = match from.protector(descriptor).map_err(failed)? {
        ProtectorEntry::Here(protector) => return Ok((place.to_owned(), *protector)),
        ProtectorEntry::Linked(link) => link,
    };
    let there = target(&link)?;
    let found = store(&there, Some(config))?.protector(descriptor);
    match found.map_err(|error| failure(&there.display().to_string(), error))? {
        ProtectorEntry::Here(protector) => Ok((there, *protector)),
        ProtectorEntry::Linked(_) => Err(Failure::new(
            FailureKind::Damaged,
            format!("a link on {} leads to another link", place.display()),
        )),
    }
}

/// The mountpoint that a link leads to: by UUID, or else by path.
fn target(link: &ProtectorLink) -> Result<PathBuf> {
    let by_uuid = |uuid: &String| {
        let device = fs::metadata(Path::new("/dev/disk/by-uuid").join(uuid)).ok()?;
        of_device(device.rdev()).ok().flatten()
    };
    let by_path = || link.path.as_ref().map(PathBuf::from);
    let found = link.uuid.as_ref().and_then(by_uuid).or_else(by_path);
    found.ok_or_else(|| {
        let uuid = link.uuid.as_deref().unwrap_or_default();
        let message =
            format!("the file system with UUID {uuid} of a linked protector is not mounted");
        Failure::new(FailureKind::NotFound, message)
    })
}

pub(super) fn specifier(name: &KeyName) -> kernel::Specifier {
    match *name {
        KeyName::Descriptor(descriptor) => kernel::Specifier::Descriptor(descriptor),
        KeyName::Identifier(identifier) => kernel::Specifier::Identifier(identifier),
    }
}
