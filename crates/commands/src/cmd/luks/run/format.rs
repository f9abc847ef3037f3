//! Making containers.

use std::io::IsTerminal;
use std::path::Path;

use block::{BlockDevice, FileDevice};
use cipher::{Random, SystemRandom};
use console::key_file::ask_with;
use console::outcome::{Outcome, Result};
use console::session::Session;
use console::terminal::be_sure;
use console::terminal::{Interruptions, bar};
use luks::{Container, ContainerFormat, SECTOR};
use protocol::api::{DeviceUse, Failure};
use protocol::device_name::DeviceName;
use secret::Secret;

use super::device::{OwnDevice, device, own};
use super::key::{key_len, slot_choice};
use crate::cmd::luks::args::LuksFormat;

pub(super) fn run(args: &LuksFormat, session: &Session) -> Result {
    let version = args.version.version();
    let data = device(&args.device, DeviceUse::Own, session)?;
    let format = ContainerFormat {
        cipher: args.cipher.clone(),
        key_len: key_len(args.key_size)?,
        integrity: integrity(args)?,
        sector_size: args.sector_size.unwrap_or(sector_size(&*data, version)),
        label: args.label.clone().unwrap_or_default(),
        subsystem: args.subsystem.clone().unwrap_or_default(),
        data_offset: data_offset(args)?,
        copy_len: args
            .luks2_metadata_size
            .unwrap_or(luks::luks2::COPY_SIZES[0]),
        areas_len: args.luks2_keyslots_size,
        slot: slot_choice(&args.kdf, version)?,
        slot_id: args.key_slot,
        ..ContainerFormat::new(version, uuid(args)?)
    };
    let what = args.device.display();
    be_sure(
        args.batch_mode,
        "to do it anyway, use -q",
        &format!("What is on {what} will be lost"),
    )?;
    let passphrase = match &args.key.key_file {
        Some(path) => args.key.part().read(path)?,
        None => ask_with(&mut args.key.prompter(), &args.device, true)?,
    };
    let (header, made) = match &args.header {
        Some(path) => {
            let (header, made) = header_file(path, &format, session)?;
            (header.device, made)
        }
        None => (data, None),
    };
    let wipes = format.integrity.is_some() && !args.integrity_no_wipe;
    let signals = wipes.then(Interruptions::hold).transpose();
    let signals = signals.map_err(|error| Failure::other(error.to_string()))?;
    let (container, key) = match luks::format(header, &format, &passphrase, &SystemRandom) {
        Ok(made) => made,
        Err(error) => {
            if let Some(made) = made {
                let _ = std::fs::remove_file(made);
            }
            return Err(error.into());
        }
    };
    if let Some(signals) = signals {
        let wiped = match wipe(&container, &key, &signals) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::other("interrupted")),
            Err(error) => Err(error.into()),
        };
        let what = "the container was made, but not all of it was written; make it again";
        wiped.map_err(|failure| failure.context(what))?;
    }
    Ok(Outcome::done())
}

/// The name of the integrity in the header.
fn integrity(args: &LuksFormat) -> Result<Option<String>> {
    let option = args.integrity.as_deref();
    let kind = option.map(luks::integrity_type).transpose()?;
    Ok(kind.map(String::from))
}

/// Writes all sectors of a container once, so that they are authentic, with a progress bar on a terminal. Returns whether
/// it was not interrupted.
fn wipe(container: &Container, key: &Secret, signals: &Interruptions) -> luks::Result<bool> {
    let bar = std::io::stderr().is_terminal().then(|| bar("wipe"));
    luks::wipe(container, key, &mut |done, of| {
        if let Some(bar) = &bar {
            bar.set_length(of);
            bar.set_position(done);
        }
        !signals.came()
    })
}

/// The sector size that the device writes as one, if it is made of such.
fn sector_size(device: &dyn BlockDevice, version: luks::ContainerVersion) -> u32 {
    let suits = device.sector_sizes().physical >= 4096 && device.size().is_multiple_of(4096);
    match version == luks::ContainerVersion::V2 && suits {
        true => 4096,
        false => 512,
    }
}

fn data_offset(args: &LuksFormat) -> Result<Option<u64>> {
    match (args.offset, &args.header) {
        (Some(sectors), _) => {
            let bytes = sectors.checked_mul(SECTOR);
            bytes
                .map(Some)
                .ok_or_else(|| Failure::usage("the offset is too large"))
        }
        (None, Some(_)) => Ok(Some(0)),
        (None, None) => Ok(None),
    }
}

/// The file for a header that is elsewhere, and its path if it is made now.
pub(super) fn header_file<'a>(
    path: &'a Path,
    format: &ContainerFormat,
    session: &Session,
) -> Result<(OwnDevice, Option<&'a Path>)> {
    let len = match format.version {
        luks::ContainerVersion::V1 => 2 << 20,
        luks::ContainerVersion::V2 => 16 << 20,
    };
    let name = DeviceName::parse(path).of_blocks()?;
    if !name.is_path() || path.exists() {
        let opened = own(path, session)?;
        if path.is_file() && opened.device.size() < len {
            lengthen(path, len)?;
            opened.device.refresh_size()?;
        }
        return Ok((opened, None));
    }
    let made = FileDevice::create(path, len)?;
    Ok((OwnDevice::of_file(made), Some(path)))
}

/// Makes a file as long as a header is.
fn lengthen(path: &Path, len: u64) -> Result<()> {
    let file = std::fs::OpenOptions::new().write(true).open(path);
    let longer = file.and_then(|file| file.set_len(len));
    longer.map_err(|error| {
        Failure::other(format!(
            "{} cannot be made as long as a header, {len} bytes: {error}",
            path.display()
        ))
    })
}

fn uuid(args: &LuksFormat) -> Result<String> {
    match &args.uuid {
        Some(text) => parse_uuid(text),
        None => new_uuid(),
    }
}

pub(super) fn new_uuid() -> Result<String> {
    // RFC 9562, section 5.4: random, version 4.
    let mut bytes = [0; 16];
    SystemRandom
        .fill(&mut bytes)
        .map_err(|error| Failure::other(error.to_string()))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = encoding::hex(&bytes);
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    Ok(parts.join("-"))
}

/// A UUID in its usual form, in lower case.
pub(super) fn parse_uuid(text: &str) -> Result<String> {
    let lens: Vec<usize> = text.split('-').map(str::len).collect();
    let is_hex = text.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
    match lens == [8, 4, 4, 4, 12] && is_hex {
        true => Ok(text.to_ascii_lowercase()),
        false => Err::<_, Failure>(Failure::usage(format!(
            "'{text}' is not a UUID, such as 5ae2903e-22b6-43a2-b884-f5e9640ee47b"
        ))),
    }
}
