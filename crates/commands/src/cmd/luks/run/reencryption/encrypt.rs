//! The beginning of encryption and decryption in place.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, FileDevice};
use cipher::SystemRandom;
use console::key_file::ask;
use console::outcome::Result;
use console::session::Session;
use luks::{
    BothKeys, Container, ContainerFormat, ContainerVersion, Header, HeaderStage, Protection,
};
use protocol::api::{Failure, FailureKind};
use secret::Secret;

use super::reencrypt_options::{check_size, pace, protection, under_way};
use crate::cmd::luks::args::{LuksReencryptArgs, LuksResilience};
use crate::cmd::luks::run::device::{OwnDevice, own};
use crate::cmd::luks::run::format::{header_file, new_uuid};
use crate::cmd::luks::run::key::{key_len, passphrase, slot_choice};

/// An encryption that was begun.
pub(crate) struct EncryptionStart {
    pub(crate) container: Container,
    /// The device of the header, which may be that of the data.
    pub(crate) header: OwnDevice,
    pub(crate) data: OwnDevice,
    pub(crate) keys: BothKeys,
}

/// Begins to encrypt a device that is not encrypted.
pub(crate) fn encrypt(args: &LuksReencryptArgs, session: &Session) -> Result<EncryptionStart> {
    let data = own(&args.container.device, session)?;
    check_plain(&*data.device, args)?;
    pace(args).check(data.device.size(), args.sector_size.unwrap_or(512))?;
    let format = ContainerFormat {
        cipher: args
            .cipher
            .clone()
            .unwrap_or_else(|| "aes-xts-plain64".into()),
        key_len: key_len(args.key_size.unwrap_or(512))?,
        sector_size: args.sector_size.unwrap_or(512),
        slot: slot_choice(&args.kdf, ContainerVersion::V2)?,
        slot_id: args.key_slot,
        ..ContainerFormat::new(ContainerVersion::V2, new_uuid()?)
    };
    match (&args.container.header, args.reduce_device_size) {
        (None, None) => Err(Failure::usage(
            "a header needs space: free some at the end of the device and name it twice with \
             --reduce-device-size, or put the header elsewhere with --header",
        )),
        (Some(_), Some(_)) => Err(Failure::usage(
            "with --header the device keeps its size: leave out --reduce-device-size",
        )),
        (None, Some(reduced)) => encrypt_in_place(args, data, &format, reduced),
        (Some(path), None) => encrypt_beside(args, data, &format, path, session),
    }
}

fn encrypt_in_place(
    args: &LuksReencryptArgs,
    data: OwnDevice,
    format: &ContainerFormat,
    reduced: u64,
) -> Result<EncryptionStart> {
    if !matches!(args.resilience, None | Some(LuksResilience::Datashift)) {
        return Err(Failure::usage(
            "data that moves to make space for a header has the resilience datashift",
        ));
    }
    let passphrase = new_passphrase(args)?;
    let random = &SystemRandom;
    let on = Arc::clone(&data.device);
    let begun = luks::begin_encryption_in_place(on, reduced, format, &passphrase, random);
    let (container, keys) = begun?;
    Ok(EncryptionStart {
        container,
        header: data.clone(),
        data,
        keys,
    })
}

fn encrypt_beside(
    args: &LuksReencryptArgs,
    data: OwnDevice,
    format: &ContainerFormat,
    path: &Path,
    session: &Session,
) -> Result<EncryptionStart> {
    let protection = protection(args)?;
    let passphrase = new_passphrase(args)?;
    let (header, made) = header_file(path, format, session)?;
    match Header::read(&*header.device) {
        Err(luks::Error::NotLuks { .. } | luks::Error::TooSmall { .. }) => {}
        // A header that cannot be read now may be the only one of an encryption that was interrupted.
        Err(error) => return Err(error.into()),
        Ok(_) => {
            let path = path.display();
            return Err(Failure::new(
                FailureKind::Exists,
                format!("{path} has a header already; to continue an encryption use --resume-only"),
            ));
        }
    }
    let random = &SystemRandom;
    let (on, from) = (Arc::clone(&header.device), &*data.device);
    let begun = luks::begin_encryption(on, from, format, &protection, &passphrase, random);
    if let (Err(_), Some(made)) = (&begun, made) {
        let _ = std::fs::remove_file(made);
    }
    let (container, keys) = begun?;
    Ok(EncryptionStart {
        container,
        header,
        data,
        keys,
    })
}

/// Refuses to encrypt what is encrypted.
fn check_plain(data: &dyn BlockDevice, args: &LuksReencryptArgs) -> Result<()> {
    if HeaderStage::find(data)?.is_some() {
        return Err(under_way(args));
    }
    match Header::read(data) {
        Err(luks::Error::NotLuks { .. } | luks::Error::TooSmall { .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => {
            let name = args.container.device.display();
            Err(Failure::new(
                FailureKind::Exists,
                format!("{name} is a LUKS container already"),
            ))
        }
    }
}

fn new_passphrase(args: &LuksReencryptArgs) -> Result<Secret> {
    match &args.key.key_file {
        Some(path) => args.key.part().read(path),
        None => ask(&args.container.device, true),
    }
}

/// Begins to decrypt a container. A header that is before its data is exported to a new file first.
pub(crate) fn decrypt(args: &LuksReencryptArgs, session: &Session) -> Result<EncryptionStart> {
    let Some(path) = &args.container.header else {
        return Err(Failure::usage(
            "name the file of the header with --header, or a new file, to which the header is exported",
        ));
    };
    let data = own(&args.container.device, session)?;
    let protection = decrypting_protection(args)?;
    if args.device_size.is_some() && !path.exists() {
        return Err(moves());
    }
    let mut unlocked = None;
    if !path.exists() {
        let container = Container::open(Arc::clone(&data.device), &SystemRandom)?;
        let exported = container.export_for_decryption(&SystemRandom)?;
        let given = passphrase(&args.key, &args.container)?;
        unlocked = Some(container.unlock(&given, args.key_slot)?);
        export(path, &exported)?;
    }
    let header = own(path, session)?;
    let mut container = Container::open(Arc::clone(&header.device), &SystemRandom)?;
    container.check_writable()?;
    if container.is_in_reencryption() {
        return Err(under_way(args));
    }
    let segment = container.check_decryption(&*data.device)?;
    if args.device_size.is_some() && segment.offset > 0 {
        return Err(moves());
    }
    check_size(args, &*data.device, &segment)?;
    let unlocked = match unlocked {
        Some(unlocked) => unlocked,
        None => {
            let given = passphrase(&args.key, &args.container)?;
            container.unlock(&given, args.key_slot)?
        }
    };
    let choice = slot_choice(&args.kdf, container.version())?;
    let (pace, random) = (pace(args), &SystemRandom);
    let on = &*data.device;
    let keys = container.begin_decryption(on, &protection, pace, unlocked, &choice, random)?;
    Ok(EncryptionStart {
        container,
        header,
        data,
        keys,
    })
}

/// The failure for a part of data that is to move to where the header was.
fn moves() -> Failure {
    Failure::usage(
        "data behind a header moves when it is decrypted, all of it: leave out --device-size",
    )
}

/// The protection of the data, or of its first part if the others move.
fn decrypting_protection(args: &LuksReencryptArgs) -> Result<Protection> {
    let hash = args.resilience_hash.as_deref().unwrap_or("sha256");
    match args.resilience {
        Some(LuksResilience::DatashiftChecksum) => Ok(Protection::Checksum(hash.into())),
        Some(LuksResilience::DatashiftJournal) => Ok(Protection::Journal),
        _ => protection(args),
    }
}

/// Writes a header into a new file, which is gone again if that fails.
fn export(path: &Path, header: &[u8]) -> Result<()> {
    let file = FileDevice::create(path, header.len() as u64)?;
    let written = file
        .write_at(0, &[IoSlice::new(header)])
        .and_then(|()| file.flush());
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    Ok(written?)
}
