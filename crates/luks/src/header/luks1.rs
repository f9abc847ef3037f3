//! LUKS1: one header of 592 bytes, big-endian, without a checksum, and eight areas for key material.
//!
//! "LUKS1 On-Disk Format Specification", version 1.2.3. The header lies in two sectors of 512 bytes: slots 0 to 5 in
//! the first, slot 7 in the second, and slot 6 in both. A disk writes a sector whole or not at all. So a new slot
//! writes the second sector before the first, and a removed slot writes the first before the second. The first sector
//! says whether a slot is in use. For slot 7 the second one does, with all that belongs to the slot.

use std::io::IoSlice;

use block::BlockDevice;
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::luks2::MAGIC;
use crate::keyslots::kdf::Kdf;
use crate::model::{
    KEY_LEN_MAX, KeyDigest, Keyslot, Priority, SALT_LEN, SECTOR, STRIPES, Segment, material_len,
};
use crate::{Error, Result};

/// The number of key slots.
pub(crate) const SLOTS: usize = 8;

/// The address of the first area for key material in a new header. All areas are aligned to it.
pub(crate) const AREA_ALIGN: u64 = 4096;

/// The number of slots that lie wholly in the first sector.
const FIRST_SECTOR_SLOTS: u32 = 6;

const ENABLED: u32 = 0x00ac_71f3;
const DISABLED: u32 = 0x0000_dead;

/// The header as it is on the device.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 6],
    version: U16,
    cipher_name: [u8; 32],
    cipher_mode: [u8; 32],
    hash: [u8; 32],
    /// In sectors.
    payload_offset: U32,
    key_len: U32,
    digest: [u8; 20],
    digest_salt: [u8; SALT_LEN],
    digest_iterations: U32,
    uuid: [u8; 40],
    slots: [RawSlot; SLOTS],
}

#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawSlot {
    active: U32,
    iterations: U32,
    salt: [u8; SALT_LEN],
    /// In sectors.
    material_offset: U32,
    stripes: U32,
}

/// The length of the header without key material, in bytes.
pub(crate) const RAW_LEN: usize = size_of::<RawHeader>();
const _: () = assert!(RAW_LEN == 592);
const _: () = assert!(std::mem::offset_of!(RawHeader, uuid) == 168);

/// A LUKS1 header in memory.
#[derive(Clone, Debug)]
pub struct Header {
    raw: RawHeader,
    cipher: String,
    hash: String,
    uuid: String,
}

/// The fields of a new header.
pub(crate) struct NewHeader<'a> {
    /// The cipher, for example `aes-xts-plain64`.
    pub(crate) cipher: &'a str,
    pub(crate) hash: &'a str,
    pub(crate) uuid: &'a str,
    pub(crate) key_len: usize,
    /// The address of the data, in bytes; zero if it is on another device.
    pub(crate) data_offset: u64,
    pub(crate) digest: [u8; 20],
    pub(crate) digest_salt: [u8; SALT_LEN],
    pub(crate) digest_iterations: u32,
    /// The address of the area of each slot, in bytes.
    pub(crate) areas: [u64; SLOTS],
}

impl Header {
    /// Makes a header without a key slot in use.
    pub(crate) fn new(new: &NewHeader<'_>) -> Result<Header> {
        let (name, mode) = new.cipher.split_once('-').unwrap_or((new.cipher, ""));
        let mut raw = RawHeader::new_zeroed();
        raw.magic = MAGIC;
        raw.version = 1.into();
        put(&mut raw.cipher_name, name, "cipher")?;
        put(&mut raw.cipher_mode, mode, "cipher")?;
        put(&mut raw.hash, new.hash, "hash")?;
        put(&mut raw.uuid, new.uuid, "UUID")?;
        raw.payload_offset = sectors(new.data_offset)?.into();
        raw.key_len = (new.key_len as u32).into();
        raw.digest = new.digest;
        raw.digest_salt = new.digest_salt;
        raw.digest_iterations = new.digest_iterations.into();
        for (slot, offset) in raw.slots.iter_mut().zip(new.areas) {
            slot.active = DISABLED.into();
            slot.material_offset = sectors(offset)?.into();
            slot.stripes = STRIPES.into();
        }
        check(raw).map_err(Error::Usage)
    }

    /// Returns the addresses of the areas of a new header, one behind the other.
    pub(crate) fn usual_areas(key_len: usize) -> [u64; SLOTS] {
        let step = material_len(key_len).next_multiple_of(AREA_ALIGN);
        std::array::from_fn(|slot| AREA_ALIGN + slot as u64 * step)
    }

    /// Reads the header. Nothing is written.
    ///
    /// # Errors
    /// [`Error::NotLuks`], [`Error::Damaged`], [`Error::TooSmall`].
    pub fn read(device: &dyn BlockDevice) -> Result<Header> {
        let not_luks = || Error::NotLuks {
            device: device.name(),
        };
        if device.size() < RAW_LEN as u64 {
            return Err(not_luks());
        }
        let mut bytes = [0; RAW_LEN];
        device.read_at(0, &mut bytes)?;
        if !Header::is_one(&bytes) {
            return Err(not_luks());
        }
        let header = Header::decode(&bytes).map_err(|what| Error::damaged(device, what))?;
        let needed = header.header_len();
        match device.size() {
            size if size < needed => Err(Error::TooSmall {
                device: device.name(),
                size,
                needed,
            }),
            _ => Ok(header),
        }
    }

    /// Returns whether these bytes begin a LUKS1 header.
    pub(crate) fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC) && bytes.get(6..8) == Some(&[0, 1])
    }

    /// The UUID of what may be left of a header.
    pub(crate) fn uuid_of(device: &dyn BlockDevice) -> Option<String> {
        let mut bytes = [0; RAW_LEN];
        device.read_at(0, &mut bytes).ok()?;
        text(&bytes[std::mem::offset_of!(RawHeader, uuid)..][..40])
    }

    /// Checks the bytes of a header.
    pub(crate) fn decode(bytes: &[u8; RAW_LEN]) -> std::result::Result<Header, String> {
        check(RawHeader::read_from_bytes(bytes).expect("the array is as long as the header"))
    }

    /// The bytes of the header.
    pub(crate) fn encode(&self) -> [u8; RAW_LEN] {
        let mut bytes = [0; RAW_LEN];
        bytes.copy_from_slice(self.raw.as_bytes());
        bytes
    }

    /// Returns the length of the header with all key material, in bytes.
    pub fn header_len(&self) -> u64 {
        let ends = self
            .raw
            .slots
            .iter()
            .map(|slot| slot.offset() + material_len(self.key_len()));
        ends.max().unwrap_or(0)
    }

    /// Returns the UUID of the container.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// Returns the cipher of data and key material, for example `aes-xts-plain64`.
    pub fn cipher(&self) -> &str {
        &self.cipher
    }

    /// The hash for everything, as `sha256`.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Returns the length of the volume key, in bytes.
    pub fn key_len(&self) -> usize {
        self.raw.key_len.get() as usize
    }

    /// Returns the address of the area of each slot, in bytes.
    pub(crate) fn areas(&self) -> [u64; SLOTS] {
        self.raw.slots.each_ref().map(RawSlot::offset)
    }

    /// The slots in use.
    pub(crate) fn slots(&self) -> Vec<Keyslot> {
        let slots = self.raw.slots.iter().enumerate();
        let active = slots.filter(|(_, slot)| slot.active.get() == ENABLED);
        active
            .map(|(id, slot)| self.slot(id as u32, slot))
            .collect()
    }

    fn slot(&self, id: u32, slot: &RawSlot) -> Keyslot {
        Keyslot {
            id,
            key_len: self.key_len(),
            priority: Priority::Normal,
            kdf: Kdf::Pbkdf2 {
                hash: self.hash.clone(),
                iterations: slot.iterations.get(),
            },
            salt: slot.salt,
            af_hash: self.hash.clone(),
            cipher: self.cipher.clone(),
            cipher_key_len: self.key_len(),
            offset: slot.offset(),
            len: material_len(self.key_len()),
        }
    }

    /// A slot as it would be with this cost and salt.
    pub(crate) fn planned_slot(&self, id: u32, iterations: u32, salt: [u8; SALT_LEN]) -> Keyslot {
        let mut slot = self.raw.slots[id as usize].clone();
        slot.iterations = iterations.into();
        slot.salt = salt;
        self.slot(id, &slot)
    }

    /// Returns the digest of the volume key.
    pub(crate) fn digest(&self) -> KeyDigest {
        KeyDigest {
            id: 0,
            hash: self.hash.clone(),
            iterations: self.raw.digest_iterations.get(),
            salt: self.raw.digest_salt,
            digest: self.raw.digest.to_vec(),
            keyslots: self.slots().iter().map(|slot| slot.id).collect(),
            segments: vec![0],
        }
    }

    /// Returns the encrypted data.
    pub(crate) fn segment(&self) -> Segment {
        Segment {
            offset: u64::from(self.raw.payload_offset.get()) * SECTOR,
            len: None,
            iv_offset: 0,
            cipher: self.cipher.clone(),
            sector_size: SECTOR as u32,
            integrity: None,
        }
    }

    /// Gives the slot whose area begins before `begin` another area, which ends at `end` at most. Returns the old and
    /// the new address of its material. Only the first sector of the header changes.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::Usage`] if areas are not where they can stay.
    pub(crate) fn vacate(&mut self, begin: u64, end: u64) -> Result<Option<(u64, u64)>> {
        let unaligned = |slot: &Keyslot| !slot.offset.is_multiple_of(AREA_ALIGN);
        if self.slots().iter().any(unaligned) {
            return Err(Error::usage(
                "its key material is not aligned to 4 KiB, as LUKS2 needs it",
            ));
        }
        let in_the_way: Vec<u32> = self
            .slots()
            .iter()
            .filter(|s| s.offset < begin)
            .map(|s| s.id)
            .collect();
        let id = match in_the_way.as_slice() {
            [] => return Ok(None),
            [id] if *id < FIRST_SECTOR_SLOTS => *id as usize,
            _ => {
                return Err(Error::usage(
                    "its key material lies where LUKS2 has its header",
                ));
            }
        };
        let len = material_len(self.key_len()).next_multiple_of(AREA_ALIGN);
        let from = self.raw.slots[id].material_offset;
        // The area of a slot that is not in use, which gets this one's; or what is behind all of them.
        let free = self.raw.slots[..FIRST_SECTOR_SLOTS as usize]
            .iter_mut()
            .find(|slot| {
                slot.active.get() == DISABLED
                    && slot.offset() >= begin
                    && slot.offset() + len <= end
            });
        let to = match free {
            Some(free) => std::mem::replace(&mut free.material_offset, from),
            None => {
                let behind = self.header_len().next_multiple_of(AREA_ALIGN);
                let fits = behind + len <= end;
                let behind = fits.then(|| sectors(behind)).transpose()?;
                let full = || Error::NoSpace {
                    what:
                        "LUKS2 needs the space of a key slot; remove one of the slots 0 to 5 first"
                            .into(),
                };
                behind.ok_or_else(full)?.into()
            }
        };
        self.raw.slots[id].material_offset = to;
        Ok(Some((
            u64::from(from.get()) * SECTOR,
            u64::from(to.get()) * SECTOR,
        )))
    }

    pub(crate) fn set_uuid(&mut self, uuid: &str) -> Result<()> {
        put(&mut self.raw.uuid, uuid, "UUID")?;
        self.uuid = uuid.into();
        Ok(())
    }

    /// Puts a slot in use whose key material is durable.
    pub(crate) fn enable(&mut self, id: u32, iterations: u32, salt: [u8; SALT_LEN]) {
        let slot = &mut self.raw.slots[id as usize];
        slot.active = ENABLED.into();
        slot.iterations = iterations.into();
        slot.salt = salt;
    }

    /// Takes a slot out of use.
    pub(crate) fn disable(&mut self, id: u32) {
        let slot = &mut self.raw.slots[id as usize];
        slot.active = DISABLED.into();
        slot.iterations = 0.into();
        slot.salt = [0; SALT_LEN];
    }

    /// Writes the header of a container that gets a slot, and makes it durable.
    pub(crate) fn write_growing(&self, device: &dyn BlockDevice) -> Result<()> {
        self.write(device, true)
    }

    /// Writes the header of a container that loses slots, and makes it durable.
    pub(crate) fn write_shrinking(&self, device: &dyn BlockDevice) -> Result<()> {
        self.write(device, false)
    }

    fn write(&self, device: &dyn BlockDevice, second_first: bool) -> Result<()> {
        let bytes = self.encode();
        let (first, second) = bytes.split_at(SECTOR as usize);
        let mut parts = [(0, first), (SECTOR, second)];
        if second_first {
            parts.reverse();
        }
        for (offset, part) in parts {
            device.write_at(offset, &[IoSlice::new(part)])?;
            device.flush()?;
        }
        Ok(())
    }
}

impl RawSlot {
    /// Returns the address of the area, in bytes.
    fn offset(&self) -> u64 {
        u64::from(self.material_offset.get()) * SECTOR
    }
}

fn check(raw: RawHeader) -> std::result::Result<Header, String> {
    let key_len = raw.key_len.get() as usize;
    if !(1..=KEY_LEN_MAX).contains(&key_len) {
        return Err(format!("a volume key cannot have {key_len} bytes"));
    }
    let data = u64::from(raw.payload_offset.get()) * SECTOR;
    let mut areas = Vec::with_capacity(SLOTS);
    for (id, slot) in raw.slots.iter().enumerate() {
        if ![ENABLED, DISABLED].contains(&slot.active.get()) {
            return Err(format!("key slot {id} is neither in use nor free"));
        }
        if slot.stripes.get() != STRIPES {
            return Err(format!(
                "key slot {id} splits its key in a way that is not known"
            ));
        }
        areas.push((slot.offset(), id));
    }
    areas.sort();
    let mut end = 2 * SECTOR;
    for (offset, id) in areas {
        if offset < end {
            return Err(format!("the area of key slot {id} overlaps something else"));
        }
        end = offset + material_len(key_len);
        if data != 0 && end > data {
            return Err(format!("the area of key slot {id} reaches into the data"));
        }
    }
    let text = |field: &[u8], what| text(field).ok_or(format!("its {what} is no text"));
    let name = text(&raw.cipher_name, "cipher")?;
    let mode = text(&raw.cipher_mode, "cipher")?;
    let hash = text(&raw.hash, "hash")?.to_ascii_lowercase();
    let uuid = text(&raw.uuid, "UUID")?;
    let cipher = match mode.as_str() {
        "" => name,
        mode => format!("{name}-{mode}"),
    };
    Ok(Header {
        raw,
        cipher,
        hash,
        uuid,
    })
}

/// Text up to a zero or the end of the field.
fn text(field: &[u8]) -> Option<String> {
    let end = field
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(field.len());
    let text = std::str::from_utf8(&field[..end]).ok()?;
    Some(text.to_owned())
}

fn put(field: &mut [u8], text: &str, what: &str) -> Result<()> {
    if text.len() >= field.len() || text.as_bytes().contains(&0) {
        let what = format!("the {what} '{text}' does not fit a LUKS1 header");
        return Err(Error::Usage(what));
    }
    field.fill(0);
    field[..text.len()].copy_from_slice(text.as_bytes());
    Ok(())
}

fn sectors(bytes: u64) -> Result<u32> {
    let whole = bytes.is_multiple_of(SECTOR);
    let sectors = u32::try_from(bytes / SECTOR).ok().filter(|_| whole);
    sectors.ok_or_else(|| Error::usage("LUKS1 counts in sectors of 512 bytes, up to 2 TiB"))
}
