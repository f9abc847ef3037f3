//! Changing the key or cipher of a container in place.

use std::sync::Arc;

use block::BlockDevice;
use cipher::SystemRandom;
use console::outcome::{Outcome, Result};
use console::session::Session;
use console::terminal::Interruptions;
use luks::{BothKeys, Container, HeaderStage, ReencryptionEnd, ReencryptionLock};
use protocol::api::{Failure, FailureKind};
use secret::Secret;

use super::encrypt::{EncryptionStart, decrypt, encrypt};
use super::progress::Reporter;
use super::reencrypt_open;
use super::reencrypt_options::{begins, check_size, kept, options, pace, paused, under_way};
use crate::cmd::luks::args::LuksReencryptArgs;
use crate::cmd::luks::run::device::own;
use crate::cmd::luks::run::key::{passphrase, unlock};

pub(crate) fn run(args: &LuksReencryptArgs, session: &mut Session) -> Result {
    if args.encrypt || args.decrypt {
        let begun = match args.encrypt {
            true => encrypt(args, session)?,
            false => decrypt(args, session)?,
        };
        return end(begun, args);
    }
    if let Some(row) = reencrypt_open::find(args, session)? {
        return reencrypt_open::run(args, &row, session);
    }
    let name = args.container.device.display();
    let data = own(&args.container.device, session)?;
    complete_stage(&*data.device, args)?;
    let header = match &args.container.header {
        Some(path) => own(path, session)?,
        None => data.clone(),
    };
    let mut container = Container::open(Arc::clone(&header.device), &SystemRandom)?;
    container.check_writable()?;
    if container.data_offset()? == 0 && args.container.header.is_none() {
        return Err(Failure::usage(format!(
            "the header on {name} is for data on another device: name that, and this with --header"
        )));
    }
    let keys = match container.is_in_reencryption() {
        true if !begins(args) && container.is_all_new(&*data.device)? => {
            return end_without_key(container, &*data.device);
        }
        true => resume(&container, args)?,
        false if args.resume_only => {
            let name = data.device.name();
            let message = format!("{name} is not being re-encrypted");
            return Err(Failure::new(FailureKind::NotFound, message));
        }
        false => begin(&mut container, &*data.device, args)?,
    };
    end(
        EncryptionStart {
            container,
            header,
            data,
            keys,
        },
        args,
    )
}

/// Ends a re-encryption of which only that is left.
fn end_without_key(mut container: Container, data: &dyn BlockDevice) -> Result {
    let _lock = ReencryptionLock::take(container.uuid())?;
    container.end_reencryption(data, &SystemRandom)?;
    Ok(Outcome::done())
}

/// Puts the header in place of an encryption that was interrupted before that.
fn complete_stage(data: &dyn BlockDevice, args: &LuksReencryptArgs) -> Result<()> {
    let stage = match &args.container.header {
        None => HeaderStage::find(data)?,
        Some(_) => None,
    };
    match stage {
        None => Ok(()),
        Some(_) if begins(args) => Err(under_way(args)),
        Some(stage) => {
            let passphrase = passphrase(&args.key, &args.container)?;
            Ok(stage.complete(data, &passphrase, &SystemRandom)?)
        }
    }
}

/// Does the work. Other programs read the header meanwhile; the lock of the re-encryption keeps them from the data.
fn end(begun: EncryptionStart, args: &LuksReencryptArgs) -> Result {
    if args.init_only {
        return Ok(Outcome::done());
    }
    let EncryptionStart {
        mut container,
        header,
        data,
        keys,
    } = begun;
    let lock = ReencryptionLock::take(container.uuid())?;
    if lock.is_some() {
        if let Some(file) = &data.file {
            file.let_others_lock();
        }
        if let Some(file) = header.file {
            container.let_others_read(file);
        }
    }
    go_on(&mut container, &*data.device, &keys, args)
}

/// The keys of a re-encryption that is under way.
fn resume(container: &Container, args: &LuksReencryptArgs) -> Result<BothKeys> {
    if begins(args) {
        return Err(under_way(args));
    }
    let open = |given: &Secret| container.unlock_both(given);
    Ok(unlock(&args.key, &args.container, open)?.1)
}

fn begin(
    container: &mut Container,
    data: &dyn BlockDevice,
    args: &LuksReencryptArgs,
) -> Result<BothKeys> {
    let how = options(container, args)?;
    // Before passphrases are asked for in vain.
    container.check_reencryption(data, &how)?;
    check_size(args, data, &container.segment()?)?;
    let (old, kept) = kept(container, args)?;
    Ok(container.begin_reencryption(data, &how, old, &kept, &SystemRandom)?)
}

fn go_on(
    container: &mut Container,
    data: &dyn BlockDevice,
    keys: &BothKeys,
    args: &LuksReencryptArgs,
) -> Result {
    let signals = Interruptions::hold().map_err(|error| Failure::other(error.to_string()))?;
    let device = &args.container.device;
    let mut reporter = Reporter::new(device, args.progress_frequency, args.progress_json);
    let mut show = |progress| {
        reporter.show(progress);
        !signals.came()
    };
    let ended = container.reencrypt(data, keys, pace(args), &SystemRandom, &mut show)?;
    let ReencryptionEnd::Paused(progress) = ended else {
        reporter.end();
        return Ok(Outcome::done());
    };
    drop(reporter);
    Err(paused(progress, args))
}
