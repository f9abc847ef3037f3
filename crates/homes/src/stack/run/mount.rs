//! Serving the view of a lower directory until it is unmounted.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cipher::SystemRandom;
use console::mount_options::MountOption;
use console::outcome::{Outcome, Result};
use console::terminal::Prompter;
use fuse::{AccessTimePolicy, FuseMount, OpenReports, SessionEnd};
use protocol::api::{AccessTimes as TimesOption, Failure, FailureKind};
use protocol::client::Terminal;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stack::formats::DirectoryFormat;
use stack::formats::fscrypt::{FscryptFormat, XattrNamespace};
use stack::{
    ClientRefusal, DirectoryClient, Entry, Options, ReverseView, StackedDirectory, StackedView,
};

use super::control::Control;
use super::mounts::{SUBTYPE, find};
use super::{background, gocryptfs, lower, pefs};
use crate::stack::args::{CacheMode, StackKey, StackMount};

pub(super) fn run(args: &StackMount) -> Result {
    secret::harden_process().map_err(Failure::from)?;
    let dir = lower::open(&args.dir)?;
    check_empty(args)?;
    if args.reverse {
        if name_index(args).is_some() {
            return Err(no_index());
        }
        let keys = gocryptfs::open_reverse(&args.dir, &dir, &args.key)?;
        let hears = hears(args, &dir);
        let options = lower_options(args, &dir);
        let view = ReverseView::new(dir, keys, options);
        return serve_view(view, args, hears, no_control);
    }
    if args.pefs {
        pefs::check_free(&args.dir, &dir)?;
        return serve(dir, pefs::without_keys(), args, pefs::control);
    }
    if let Some(config) = gocryptfs::config(&args.dir, &dir)? {
        if args.locked {
            return Err(Failure::usage(
                "--locked is for the formats fscrypt and pefs",
            ));
        }
        let format = gocryptfs::open(&args.dir, &config, &args.key)?;
        return serve(dir, format, args, no_control);
    }
    if let Some(keys) = pefs::keys(&args.dir, &dir)? {
        let key = (!args.locked).then_some(&args.key);
        let format = pefs::open(&args.dir, &keys, key)?;
        return serve(dir, format, args, pefs::control);
    }
    let format = fscrypt(&dir, args)?;
    serve(dir, format, args, super::fscrypt::control)
}

/// The format of a directory of fscrypt, with its key.
fn fscrypt(dir: &Entry, args: &StackMount) -> Result<FscryptFormat> {
    let (space, policy) =
        match super::fscrypt::has_metadata(dir) && matches!(XattrNamespace::of(dir), Ok(None)) {
            true => (super::fscrypt::usual_space(), None),
            false => {
                let (space, policy) = lower::policy(&args.dir, dir)?;
                (space, Some(policy))
            }
        };
    let keys = match policy {
        _ if !args.key.key_file.is_empty() => {
            let protected = policy.filter(|_| super::fscrypt::has_metadata(dir));
            let protected = protected.as_ref().map(|policy| &policy.key);
            let keys =
                super::fscrypt::keys_of_files((&args.dir, dir), &args.key.key_file, protected)?;
            if policy.is_some_and(|policy| !keys.contains_key(&policy.key)) {
                let message = format!("the key is not the one of {}", args.dir.display());
                return Err(Failure::new(FailureKind::WrongKey, message));
            }
            keys
        }
        None => HashMap::new(),
        Some(_) if args.locked => HashMap::new(),
        Some(policy) if super::fscrypt::has_metadata(dir) => {
            let key = super::fscrypt::unlock((&args.dir, dir), &policy.key, &args.key)?;
            HashMap::from([(policy.key, key)])
        }
        Some(_) => {
            let message = "fscrypt needs a key file: -d FILE; or --locked, to use no key";
            return Err(Failure::usage(message));
        }
    };
    Ok(FscryptFormat::new(space, keys, Arc::new(SystemRandom)))
}

/// Has commands change the keys of a mount.
type StartControl<V> = fn(Arc<V>, &Arc<FuseMount>) -> Result<Option<Control>>;

/// For formats whose keys stay.
fn no_control<V>(_: Arc<V>, _: &Arc<FuseMount>) -> Result<Option<Control>> {
    Ok(None)
}

fn serve<F: DirectoryFormat>(
    dir: Entry,
    format: F,
    args: &StackMount,
    control: StartControl<StackedDirectory<F>>,
) -> Result
where
    StackedDirectory<F>: StackedView,
{
    if name_index(args).is_some() && format.names_epoch().is_none() {
        return Err(no_index());
    }
    if name_index(args) == Some(true) && !args.private && !dir.is_local() {
        return Err(Failure::usage(
            "dircache needs a lower file system that only this machine changes; use --private if nothing else changes it",
        ));
    }
    let hears = match args.private {
        true if format.heeds_opens() => OpenReports::OpensAndKeeps,
        _ => hears(args, &dir),
    };
    let options = lower_options(args, &dir);
    let client = match options.remote && !is_read_only(args) {
        true => DirectoryClient::enter(&dir).map_err(|refusal| refused(&args.dir, refusal))?,
        false => None,
    };
    let options = Options {
        alone: client.as_ref().is_some_and(DirectoryClient::is_alone),
        ..options
    };
    let view = StackedDirectory::new(dir, format, options);
    serve_view(view, args, hears, control)
}

/// Returns whether an index of names is asked for, or refused.
fn name_index(args: &StackMount) -> Option<bool> {
    let mut options = args.options.iter().rev();
    options.find_map(|option| match option {
        MountOption::NameIndex(is) => Some(*is),
        _ => None,
    })
}

fn no_index() -> Failure {
    Failure::usage(
        "dircache and nodircache are for pefs: other formats find names without a listing",
    )
}

/// The failure for a directory that cannot be used together with others.
fn refused(dir: &Path, refusal: ClientRefusal) -> Failure {
    let kind = match refusal {
        ClientRefusal::Lower(error) => return lower::failure(dir, error),
        ClientRefusal::InUse(_) => FailureKind::Busy,
        ClientRefusal::Unknown(_) => FailureKind::Other,
    };
    Failure::new(kind, format!("{}: {refusal}", dir.display()))
}

/// Returns whether nothing is changed by this mount.
fn is_read_only(args: &StackMount) -> bool {
    let last = args.options.iter().rev().find_map(|option| match option {
        MountOption::ReadOnly(is) => Some(*is),
        _ => None,
    });
    last.unwrap_or(args.read_only)
}

/// Changes by other machines are seen when a file is opened, and what they are to see is there when it is
/// closed.
fn hears(args: &StackMount, dir: &Entry) -> OpenReports {
    match args.private {
        true => OpenReports::Neither,
        false if dir.is_local() => OpenReports::Opens,
        false => OpenReports::OpensAndCloses,
    }
}

fn serve_view<V: StackedView>(
    view: vfs::Result<V>,
    args: &StackMount,
    hears: OpenReports,
    control: StartControl<V>,
) -> Result {
    let known_max = more_files();
    let view = Arc::new(view.map_err(|error| lower::failure(&args.dir, error))?);
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM]);
    let signals = signals.map_err(|error| Failure::other(error.to_string()))?;
    let mount = FuseMount::new(
        Arc::clone(&view).served(),
        &absolute(&args.mountpoint),
        &fuse::Options {
            known_max,
            ..options(args, hears)?
        },
    )?;
    let mount = Arc::new(mount);
    let _control = control(view, &mount).unwrap_or_else(|failure| {
        let why = &failure.message;
        notice(&format!(
            "keys cannot be changed while it is mounted: {why}"
        ));
        None
    });
    let ended = {
        let handle = signals.handle();
        mount.on_end(move |_| handle.close());
        if args.until_eof {
            let mount = Arc::clone(&mount);
            daemon::at_end_of_input(move || drop(mount.unmount(true)))?;
        }
        match args.detached {
            true => background::leave(),
            false => notice(&format!("mounted on {}", args.mountpoint.display())),
        }
        end_by_signal(signals, &mount);
        mount.wait()
    };
    match ended {
        SessionEnd::Unmounted | SessionEnd::Aborted => Ok(Outcome::done()),
        SessionEnd::Failed(errno) => Err(Failure::other(format!(
            "{} is not mounted any more: error {errno} of /dev/fuse",
            args.mountpoint.display()
        ))),
    }
}

/// Refuses to hide files, but for those of the lower directory itself.
fn check_empty(args: &StackMount) -> Result<()> {
    let (at, dir) = (&args.mountpoint, &args.dir);
    let id = |path: &Path| path.metadata().map(|it| (it.dev(), it.ino())).ok();
    if args.overlay || id(at) == id(dir) {
        return Ok(());
    }
    match at.read_dir().map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(Failure::new(
            FailureKind::Busy,
            format!("{} is not empty; use -O to mount over it", at.display()),
        )),
        // The mount says what is wrong.
        Ok(false) | Err(_) => Ok(()),
    }
}

/// Shows a directory of gocryptfs at a place: read-only, and to this process's user only.
pub fn show_gocryptfs(dir: &Path, passfile: Option<&Path>, place: &Path) -> Result<FuseMount> {
    secret::harden_process().map_err(Failure::from)?;
    let lower = lower::open(dir)?;
    let Some(config) = gocryptfs::config(dir, &lower)? else {
        return Err(lower::failure(dir, vfs::Error::NotFound));
    };
    let key = StackKey {
        key_file: Vec::new(),
        passfile: passfile.map(Path::to_owned),
    };
    let format = gocryptfs::open(dir, &config, &key)?;
    let options = Options {
        shared: true,
        brief: lower.is_local(),
        remote: !lower.is_local(),
        alone: false,
        noatime: true,
        nodiratime: true,
        nodircache: false,
    };
    let view = StackedDirectory::new(lower, format, options)
        .map_err(|error| lower::failure(dir, error))?;
    let options = fuse::Options {
        fs_name: absolute(dir).display().to_string(),
        subtype: SUBTYPE.to_owned(),
        read_only: true,
        nosuid: true,
        nodev: true,
        noexec: true,
        access_times: AccessTimePolicy::Never,
        known_max: more_files(),
        ..fuse::Options::default()
    };
    Ok(FuseMount::new(Arc::new(view), place, &options)?)
}

/// The access to the lower directory.
fn lower_options(args: &StackMount, dir: &Entry) -> Options {
    let (noatime, nodiratime) = no_times(args);
    Options {
        shared: !args.private,
        brief: args.cache == CacheMode::Auto && dir.is_local(),
        remote: !args.private && !dir.is_local(),
        alone: false,
        noatime,
        nodiratime,
        nodircache: name_index(args) == Some(false),
    }
}

/// Returns whether access times stay, of everything and of directories.
fn no_times(args: &StackMount) -> (bool, bool) {
    let has = |option: MountOption| args.options.contains(&option);
    (
        has(MountOption::AccessTimes(TimesOption::Never)),
        has(MountOption::DirectoryTimes(false)),
    )
}

/// Returns whether a mount that exists is to follow the options.
pub(super) fn is_remount(args: &StackMount) -> bool {
    args.options.contains(&MountOption::Remount)
}

/// Has a mount follow the options of its kind.
pub(super) fn remount(args: &StackMount) -> Result {
    let mount = find(&args.mountpoint)?;
    let has = |word: &str| mount.options.iter().any(|option| option == word);
    if no_times(args) != (has("noatime"), has("nodiratime")) {
        return Err(Failure::usage(
            "noatime and nodiratime cannot change while it is mounted; unmount it, and mount it again",
        ));
    }
    if name_index(args).is_some() {
        return Err(Failure::usage(
            "dircache and nodircache cannot change while it is mounted; unmount it, and mount it again",
        ));
    }
    let is_local = || lower::open(&args.dir).map(|dir| dir.is_local());
    if has("ro") && !is_read_only(args) && !is_local()? {
        return Err(Failure::usage(
            "other machines can change the lower directory: unmount it, and mount it again to write",
        ));
    }
    mount.follow(&options(args, OpenReports::Neither)?)?;
    Ok(Outcome::done())
}

fn options(args: &StackMount, hears: OpenReports) -> Result<fuse::Options> {
    let mut options = fuse::Options {
        fs_name: absolute(&args.dir).display().to_string(),
        subtype: SUBTYPE.to_owned(),
        read_only: args.read_only || args.reverse,
        allow_other: args.allow_other,
        writeback_cache: args.writeback,
        hears,
        ..fuse::Options::default()
    };
    for option in &args.options {
        match *option {
            MountOption::ReadOnly(is) => options.read_only = is,
            MountOption::Exec(is) => options.noexec = !is,
            MountOption::Setuid(is) => options.nosuid = !is,
            MountOption::Devices(is) => options.nodev = !is,
            MountOption::DirectoryTimes(is) => options.nodiratime = !is,
            MountOption::AccessTimes(TimesOption::Never) => {
                options.access_times = AccessTimePolicy::Never;
            }
            MountOption::AccessTimes(TimesOption::Relative) => {
                options.access_times = AccessTimePolicy::Relative;
            }
            MountOption::AccessTimes(TimesOption::Always) => {
                return Err(Failure::usage(
                    "access times are those of the lower file system: mount that one with strictatime",
                ));
            }
            MountOption::Remount | MountOption::NameIndex(_) | MountOption::Ignored => {}
        }
    }
    Ok(options)
}

/// Waits for signals until the mount has ended. The first unmounts what is not in use, the second by
/// force.
fn end_by_signal(mut signals: Signals, mount: &FuseMount) {
    let mut force = false;
    for _ in signals.forever() {
        match mount.unmount(force) {
            Ok(_) => break,
            Err(error) => notice(&format!("{error}; interrupt again to unmount by force")),
        }
        force = true;
    }
}

fn notice(text: &str) {
    Prompter::default().notice(text);
}

fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The most inodes that the kernel may know of a mount: each costs memory here.
const KNOWN_MAX: u64 = 1 << 19;

/// Allows as many open files as the system lets this process have, and returns how many inodes the kernel may know:
/// each is an open file.
pub fn more_files() -> Option<NonZeroUsize> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    // The rest is for files that are read and written.
    let known = allowed.map_or(KNOWN_MAX, |files| (files / 4 * 3).min(KNOWN_MAX));
    NonZeroUsize::new(usize::try_from(known).unwrap_or(usize::MAX))
}
