//! Making containers.
//!
//! The old contents of the device are given up first: its headers are overwritten, durably, before anything else is
//! written. So a power cut leaves no header with the key material of another one. The first copy of the header, with
//! which the container begins to exist, is written last.

use std::sync::Arc;
use std::time::Duration;

use block::BlockDevice;
use cipher::{Random, SectorCipher};
use secret::Secret;
use serde_json::{Map, Value, json};

use super::Container;
use crate::header::Header;
use crate::header::luks1;
use crate::header::luks2::{self, COPY_SIZES};
use crate::integrity::{self, SealSpec};
use crate::keyslots::kdf::{self, PBKDF2_MIN, pbkdf2_iterations};
use crate::keyslots::material;
use crate::keyslots::slots::SlotChoice;
use crate::model::{ContainerVersion, Integrity, SALT_LEN, SECTOR};
use crate::{Error, Result, crypto};

/// The usual address of the data: 16 MiB for LUKS2, 2 MiB for LUKS1, as with cryptsetup.
const DATA_OFFSET: u64 = 16 << 20;
const DATA_OFFSET_V1: u64 = 2 << 20;

/// The alignment of the data behind key material of a chosen length, as with cryptsetup.
const DATA_ALIGN: u64 = 1 << 20;

/// The longest time for the digest of the volume key.
const DIGEST_TIME: Duration = Duration::from_millis(125);

/// The settings of a new container.
#[derive(Clone, Debug)]
pub struct ContainerFormat {
    /// The version of the format.
    pub version: ContainerVersion,
    /// The cipher of the data, for example `aes-xts-plain64`.
    pub cipher: String,
    /// The length of the encrypting key, in bytes.
    pub key_len: usize,
    /// The authentication of sectors, for example `hmac(sha256)`, or none; LUKS2 only. The volume key is longer if the
    /// algorithm needs a key of its own.
    pub integrity: Option<String>,
    /// The length of a sector, in bytes: 512 to 4096.
    pub sector_size: u32,
    /// The UUID of the container.
    pub uuid: String,
    /// A name for people; LUKS2 only.
    pub label: String,
    /// The program that owns it; LUKS2 only.
    pub subsystem: String,
    /// The address of the data, in bytes; zero if it is on another device. `None`: behind the header.
    pub data_offset: Option<u64>,
    /// The length of a copy of a LUKS2 header, in bytes.
    pub copy_len: u64,
    /// The space for key material, in bytes. `None`: all space before the data.
    pub areas_len: Option<u64>,
    /// The settings of the first key slot.
    pub slot: SlotChoice,
    /// The number of the first slot.
    pub slot_id: Option<u32>,
}

impl ContainerFormat {
    /// `aes-xts-plain64` with a key of 512 bits, as cryptsetup makes containers.
    pub fn new(version: ContainerVersion, uuid: String) -> ContainerFormat {
        ContainerFormat {
            version,
            cipher: "aes-xts-plain64".into(),
            key_len: 64,
            integrity: None,
            sector_size: 512,
            uuid,
            label: String::new(),
            subsystem: String::new(),
            data_offset: None,
            copy_len: COPY_SIZES[0],
            areas_len: None,
            slot: SlotChoice::new(version),
            slot_id: None,
        }
    }
}

/// Makes a container on a device and gives back its volume key. What was there is lost.
///
/// # Errors
/// [`Error::Usage`] and [`Error::TooSmall`], before anything is written. If the device fails later,
/// there is no container on it, and not what was there before either.
pub fn format(
    device: Arc<dyn BlockDevice>,
    format: &ContainerFormat,
    passphrase: &Secret,
    random: &dyn Random,
) -> Result<(Container, Secret)> {
    let (mut container, key) = blank(device, format, random)?;
    container.check_space(format)?;
    // Settled before anything is written: there may be too little memory for it.
    let mut slot = format.slot.clone();
    slot.kdf = slot.kdf.forced()?;
    container.give_up_old(random)?;
    let segment = container.segment()?;
    if let Some(integrity) = &segment.integrity {
        integrity::create(&container.device, &segment, integrity)?;
    }
    container.add_key(&key, passphrase, &slot, format.slot_id, random)?;
    Ok((container, key))
}

/// A new header without key slots, in memory, and its volume key.
pub(crate) fn blank(
    device: Arc<dyn BlockDevice>,
    format: &ContainerFormat,
    random: &dyn Random,
) -> Result<(Container, Secret)> {
    let mut key = Secret::zeroed(check_cipher(format)?)?;
    random.fill(key.expose_mut())?;
    check_allowed(format, &key)?;
    let header = match format.version {
        ContainerVersion::V1 => Header::V1(Box::new(luks1_header(format, &key, random)?)),
        ContainerVersion::V2 => Header::V2(Box::new(luks2_header(format, &key, random)?)),
    };
    let container = Container {
        device,
        header,
        is_overwritten: false,
        is_unreadable: false,
        file: None,
    };
    Ok((container, key))
}

/// Checks the cipher, and returns the length of the volume key, in bytes.
fn check_cipher(format: &ContainerFormat) -> Result<usize> {
    const DEVICE: &str = "a new container";
    let (key_lens, mac_key_len) = match &format.integrity {
        None => (crypto::spec(&format.cipher, DEVICE)?.key_lens(), 0),
        Some(kind) => {
            let spec = SealSpec::parse(&format.cipher, &Integrity::new(kind), DEVICE)?;
            check_integrity(format, &spec)?;
            (spec.key_lens(), spec.mac_key_len())
        }
    };
    if !key_lens.contains(&format.key_len) {
        return Err(crypto::wrong_key_len(&format.cipher, key_lens));
    }
    if ![512, 1024, 2048, 4096].contains(&format.sector_size) {
        return Err(Error::usage("a sector has 512, 1024, 2048 or 4096 bytes"));
    }
    if format.version == ContainerVersion::V1 && format.sector_size != 512 {
        return Err(Error::usage("LUKS1 has sectors of 512 bytes only"));
    }
    Ok(format.key_len + mac_key_len)
}

/// Refuses what FIPS mode forbids before anything is lost.
fn check_allowed(format: &ContainerFormat, key: &Secret) -> Result<()> {
    const DEVICE: &str = "a new container";
    match &format.integrity {
        None => {
            let spec = crypto::spec(&format.cipher, DEVICE)?;
            Ok(SectorCipher::new(spec, key.expose()).map(drop)?)
        }
        Some(kind) => {
            let spec = SealSpec::parse(&format.cipher, &Integrity::new(kind), DEVICE)?;
            integrity::check_allowed(spec, key, DEVICE)
        }
    }
}

fn check_integrity(format: &ContainerFormat, spec: &SealSpec) -> Result<()> {
    let refuse = |what: &str| Err(Error::usage(what));
    match format.version {
        ContainerVersion::V1 => refuse("LUKS1 has no integrity"),
        ContainerVersion::V2 if spec.needs_random() => refuse(
            "this encryption gives away what is written twice to a sector unless its IV is random: \
             end the name of the cipher with -random",
        ),
        ContainerVersion::V2 if format.data_offset == Some(0) => {
            refuse("a container with integrity is made with its header before its data")
        }
        ContainerVersion::V2 => Ok(()),
    }
}

/// The digest of a key as it stands in the JSON area.
pub(crate) fn digest_json(
    slot: &SlotChoice,
    key: &Secret,
    keyslots: &[u32],
    segments: &[u32],
    random: &dyn Random,
) -> Result<Value> {
    let mut digest = vec![0; crypto::digest(&slot.kdf.hash)?.output_len()];
    let (salt, iterations) = digest_of(slot, key, &mut digest, random)?;
    let names = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>();
    Ok(json!({
        "type": "pbkdf2",
        "keyslots": names(keyslots),
        "segments": names(segments),
        "hash": slot.kdf.hash,
        "iterations": iterations,
        "salt": crypto::base64(&salt),
        "digest": crypto::base64(&digest),
    }))
}

/// The digest of a volume key: its salt, iterations and value.
fn digest_of(
    slot: &SlotChoice,
    key: &Secret,
    value: &mut [u8],
    random: &dyn Random,
) -> Result<([u8; SALT_LEN], u32)> {
    let mut salt = [0; SALT_LEN];
    random.fill(&mut salt)?;
    let hash = &slot.kdf.hash;
    let iterations = match slot.kdf.force_iterations {
        Some(_) => PBKDF2_MIN,
        None => pbkdf2_iterations(hash, DIGEST_TIME)?,
    };
    kdf::pbkdf2(hash, iterations)?.derive(key.expose(), &salt, value)?;
    Ok((salt, iterations))
}

fn luks1_header(
    format: &ContainerFormat,
    key: &Secret,
    random: &dyn Random,
) -> Result<luks1::Header> {
    let mut digest = [0; 20];
    let (digest_salt, digest_iterations) = digest_of(&format.slot, key, &mut digest, random)?;
    luks1::Header::new(&luks1::NewHeader {
        cipher: &format.cipher,
        hash: &format.slot.kdf.hash,
        uuid: &format.uuid,
        key_len: format.key_len,
        data_offset: format.data_offset.unwrap_or(DATA_OFFSET_V1),
        digest,
        digest_salt,
        digest_iterations,
        areas: luks1::Header::usual_areas(format.key_len),
    })
}

fn luks2_header(
    format: &ContainerFormat,
    key: &Secret,
    random: &dyn Random,
) -> Result<luks2::Header> {
    let digest = digest_json(&format.slot, key, &[], &[0], random)?;
    let data_offset = format.data_offset.unwrap_or(match format.areas_len {
        None => DATA_OFFSET,
        Some(len) => (2 * format.copy_len)
            .saturating_add(len.min(luks2::AREAS_MAX))
            .next_multiple_of(DATA_ALIGN),
    });
    let areas_len = areas_len(format, data_offset)?;
    let json = json!({
        "keyslots": {},
        "tokens": {},
        "segments": {"0": {
            "type": "crypt",
            "offset": data_offset.to_string(),
            "size": "dynamic",
            "iv_tweak": "0",
            "encryption": format.cipher,
            "sector_size": format.sector_size,
        }},
        "digests": {"0": digest},
        "config": {
            "json_size": (format.copy_len.saturating_sub(luks2::BINARY_LEN as u64)).to_string(),
            "keyslots_size": areas_len.to_string(),
        },
    });
    let mut json = object(json);
    if let Some(kind) = &format.integrity {
        json["segments"]["0"]["integrity"] = json!({
            "type": kind,
            "journal_encryption": "none",
            "journal_integrity": "none",
        });
    }
    let mut header = luks2::Header::new(format.uuid.clone(), json).map_err(Error::Usage)?;
    header.label = format.label.clone();
    header.subsystem = format.subsystem.clone();
    Ok(header)
}

/// Returns the length of the areas for key material. `None` in `format` takes all space before the data.
fn areas_len(format: &ContainerFormat, data_offset: u64) -> Result<u64> {
    if let Some(len) = format.areas_len {
        return Ok(len);
    }
    let end = match data_offset {
        0 => DATA_OFFSET,
        offset => offset,
    };
    let len = end.checked_sub(2 * format.copy_len).ok_or_else(|| {
        let needed = 2 * format.copy_len;
        Error::Usage(format!(
            "data cannot begin before byte {needed}, where the header ends"
        ))
    })?;
    Ok((len - len % luks2::AREA_ALIGN).min(luks2::AREAS_MAX))
}

/// Overwrites the beginning of every header that may be there, one after the other. Without its header, key material
/// is of no use.
fn give_up(device: &dyn BlockDevice) -> Result<()> {
    for offset in std::iter::once(0).chain(COPY_SIZES) {
        let len = SECTOR.min(device.size().saturating_sub(offset));
        device.overwrite(offset, len)?;
        device.flush()?;
    }
    Ok(())
}

fn object(json: Value) -> Map<String, Value> {
    match json {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

impl Container {
    pub(crate) fn check_space(&self, format: &ContainerFormat) -> Result<()> {
        let segment = self.segment()?;
        if let Some(integrity) = &segment.integrity {
            return integrity::check_space(&*self.device, &segment, integrity);
        }
        let least = match segment.offset {
            0 => self.header_len(),
            offset => offset + u64::from(format.sector_size),
        };
        match self.device.size() {
            size if size < least => Err(Error::TooSmall {
                device: self.device.name(),
                size,
                needed: least,
            }),
            _ => Ok(()),
        }
    }

    /// Overwrites every header that may be there, and the space for key material.
    pub(crate) fn give_up_old(&self, random: &dyn Random) -> Result<()> {
        let device = &*self.device;
        give_up(device)?;
        let end = self.header_len();
        match &self.header {
            Header::V1(header) => {
                let first = header.areas()[0];
                device.overwrite(0, first)?;
                material::wipe(device, first, end - first, random)
            }
            Header::V2(header) => {
                let first = header.view().areas_offset();
                device.overwrite(0, first)?;
                material::wipe(device, first, end - first, random)
            }
        }
    }
}
