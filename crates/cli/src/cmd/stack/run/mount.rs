//! Serving the view of a lower directory until it is unmounted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cipher::SystemRandom;
use daemon::Failure;
use fuse::{AccessTimes, End, Hears, Mount};
use protocol::api::FailureKind;
use protocol::client::Terminal;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stack::formats::Format;
use stack::formats::fscrypt::{Fscrypt, KeyName, MasterKey, Policy};
use stack::{Entry, Options, Stacked};

use super::control::Control;
use super::mounts::SUBTYPE;
use super::{background, gocryptfs, lower, pefs};
use crate::cmd::export::args::MountOption;
use crate::cmd::stack::args::StackMount;
use crate::outcome::{LocalResult as Result, Outcome};
use crate::terminal::Prompter;

pub(super) fn run(args: &StackMount) -> Result {
    secret::harden_process().map_err(Failure::from)?;
    let dir = lower::open(&args.dir)?;
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
    serve(dir, format, args, no_control)
}

/// The format of a directory of fscrypt, with its key.
fn fscrypt(dir: &Entry, args: &StackMount) -> Result<Fscrypt> {
    let (space, policy) = lower::policy(&args.dir, dir)?;
    let keys = match &args.key.key_file {
        Some(path) => {
            let key = lower::master_key(path)?;
            HashMap::from([(right(&key, &policy, &args.dir)?, key)])
        }
        None if args.locked => HashMap::new(),
        None if super::fscrypt::has_metadata(dir) => {
            let key = super::fscrypt::unlock(&args.dir, &policy.key, &args.key)?;
            HashMap::from([(policy.key, key)])
        }
        None => {
            let message = "fscrypt needs a key file: -d FILE; or --locked, to use no key";
            return Err(Failure::usage(message));
        }
    };
    Ok(Fscrypt::new(space, keys, Arc::new(SystemRandom)))
}

/// Has commands change the keys of a mount.
type StartControl<F> = fn(Arc<Stacked<F>>, &Arc<Mount>) -> Result<Option<Control>>;

/// For formats whose keys stay.
fn no_control<F: Format>(_: Arc<Stacked<F>>, _: &Arc<Mount>) -> Result<Option<Control>> {
    Ok(None)
}

fn serve<F: Format>(dir: Entry, format: F, args: &StackMount, control: StartControl<F>) -> Result {
    more_files();
    let shared = !args.private;
    // What other machines change is seen when a file is opened, and what they are to see is there when it is
    // closed.
    let hears = match shared {
        false => Hears::Neither,
        true if dir.is_local() => Hears::Opens,
        true => Hears::OpensAndCloses,
    };
    let view = Stacked::new(dir, format, Options { shared })
        .map_err(|error| lower::failure(&args.dir, error))?;
    let view = Arc::new(view);
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM]);
    let signals = signals.map_err(|error| Failure::other(error.to_string()))?;
    let mount = Mount::new(
        view.clone(),
        &absolute(&args.mountpoint),
        &options(args, hears)?,
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
        match args.detached {
            true => background::leave(),
            false => notice(&format!("mounted on {}", args.mountpoint.display())),
        }
        end_by_signal(signals, &mount);
        mount.wait()
    };
    match ended {
        End::Unmounted | End::Aborted => Ok(Outcome::done()),
        End::Failed(errno) => Err(Failure::other(format!(
            "{} is not mounted any more: error {errno} of /dev/fuse",
            args.mountpoint.display()
        ))),
    }
}

/// The name by which the policy knows the key, if it is the right one.
fn right(key: &MasterKey, policy: &Policy, dir: &Path) -> Result<KeyName> {
    // A policy of version 1 does not have to name its key in this way; what the tool makes does.
    let name = match policy.key {
        KeyName::Descriptor(_) => Ok(key.descriptor()),
        KeyName::Identifier(_) => key.identifier(),
    };
    match name {
        Ok(name) if name == policy.key => Ok(name),
        Ok(_) => Err(Failure::new(
            FailureKind::WrongKey,
            format!("the key is not the one of {}", dir.display()),
        )),
        Err(error) => Err(Failure::other(error.to_string())),
    }
}

fn options(args: &StackMount, hears: Hears) -> Result<fuse::Options> {
    let mut options = fuse::Options {
        fs_name: absolute(&args.dir).display().to_string(),
        subtype: SUBTYPE.to_owned(),
        read_only: args.read_only,
        allow_other: args.allow_other,
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
            MountOption::AccessTimes(protocol::api::AccessTimes::Never) => {
                options.access_times = AccessTimes::Never;
            }
            MountOption::AccessTimes(protocol::api::AccessTimes::Relative) => {
                options.access_times = AccessTimes::Relative;
            }
            MountOption::AccessTimes(protocol::api::AccessTimes::Always) => {
                options.access_times = AccessTimes::Always;
            }
            MountOption::Remount => {
                return Err(Failure::usage(
                    "unmount it, and mount it again with the options",
                ));
            }
            MountOption::Ignored => {}
        }
    }
    Ok(options)
}

/// Waits for signals until the mount has ended. The first unmounts what is not in use, the second by
/// force.
fn end_by_signal(mut signals: Signals, mount: &Mount) {
    let mut force = false;
    for _ in signals.forever() {
        match mount.unmount(force) {
            Ok(()) => break,
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

/// Allows as many open files as the system lets this process have: each inode that the kernel keeps is
/// one.
fn more_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // The mount works without, for fewer files.
    let _ = setrlimit(Resource::Nofile, raised);
}
