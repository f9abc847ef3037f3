//! A device with a header, and opening it with a passphrase.

pub(crate) mod backup;
mod convert;
mod dump;
pub(crate) mod flags;
pub(crate) mod format;

use std::sync::Arc;

use block::{BlockDevice, FileDevice};
use cipher::Random;
use keys::HashWork;
use secret::Secret;

use crate::header::luks2;
use crate::header::{Header, HeaderScan, find};
use crate::keyslots::kdf::WORK_MAX;
use crate::keyslots::material;
use crate::model::{ContainerVersion, KeyDigest, Keyslot, Priority, Segment};
use crate::{Error, Result};

/// The advice for a container in re-encryption that no passphrase opens.
pub(crate) const END_WITHOUT_KEY: &str = "no backup of the header fits data in re-encryption; if all data is changed already, \
                               'luks reencrypt --resume-only' ends that without a passphrase";

/// A container whose header has been read.
pub struct Container {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) header: Header,
    /// True if something else was written over the first copy of the header. The header is then not changed.
    pub(crate) is_overwritten: bool,
    /// True if the device fails in a copy of the header. The header is then not changed.
    pub(crate) is_unreadable: bool,
    /// The file of the header, which is locked only while the header is written.
    pub(crate) file: Option<Arc<FileDevice>>,
}

/// The volume key, and the slot that it came out of.
#[derive(Debug)]
pub struct UnlockedKey {
    /// The slot.
    pub slot: u32,
    /// The key.
    pub key: Secret,
}

impl Container {
    /// Reads the header, to look only.
    ///
    /// # Errors
    /// As [`Header::read`].
    pub fn look(device: Arc<dyn BlockDevice>) -> Result<Container> {
        let HeaderScan {
            header,
            is_overwritten,
            is_unreadable,
            ..
        } = find(&*device)?;
        Ok(Container {
            device,
            header,
            is_overwritten,
            is_unreadable,
            file: None,
        })
    }

    /// Reads the header of a device that has no other user, and repairs a damaged copy of it. If
    /// something else was written over the first copy, that stays: the container opens to read. A copy that cannot
    /// be read stays too.
    ///
    /// # Errors
    /// As [`Header::read`].
    pub fn open(device: Arc<dyn BlockDevice>, random: &dyn Random) -> Result<Container> {
        let found = find(&*device)?;
        if let (Header::V2(header), false) = (&found.header, found.is_overwritten) {
            for copy in found.stale {
                header.write_copy(&*device, copy, random)?;
            }
        }
        Ok(Container {
            device,
            header: found.header,
            is_overwritten: found.is_overwritten,
            is_unreadable: found.is_unreadable,
            file: None,
        })
    }

    /// Lets other programs read the header from now on, except while it is written.
    pub fn let_others_read(&mut self, file: Arc<FileDevice>) {
        file.let_others_lock();
        self.file = Some(file);
    }

    /// Returns a container with the same header, to try changes in memory.
    pub(crate) fn draft(&self) -> Container {
        Container {
            device: Arc::clone(&self.device),
            header: self.header.clone(),
            is_overwritten: self.is_overwritten,
            is_unreadable: self.is_unreadable,
            file: self.file.clone(),
        }
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The device that the header is on.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// Returns the UUID of the container.
    pub fn uuid(&self) -> &str {
        match &self.header {
            Header::V1(header) => header.uuid(),
            Header::V2(header) => &header.uuid,
        }
    }

    /// The version of the format.
    pub fn version(&self) -> ContainerVersion {
        match &self.header {
            Header::V1(_) => ContainerVersion::V1,
            Header::V2(_) => ContainerVersion::V2,
        }
    }

    /// Returns the length of the header with all key material, in bytes.
    pub fn header_len(&self) -> u64 {
        self.header.len()
    }

    /// The key slots that this program knows how to use, in the order in which they are tried.
    pub fn slots(&self) -> Vec<Keyslot> {
        let mut slots = match &self.header {
            Header::V1(header) => header.slots(),
            Header::V2(header) => {
                let slots = header.view().slots.values();
                slots.filter_map(|slot| slot.known.clone()).collect()
            }
        };
        slots.sort_by_key(|slot| (std::cmp::Reverse(slot.priority), slot.id));
        slots
    }

    /// The key slots that hold the key of the data, whether they can be used or not.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the header has no digest of a known kind.
    pub fn data_slots(&self) -> Result<Vec<u32>> {
        Ok(self.digest()?.keyslots)
    }

    /// The part of the device that is encrypted.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there are several, or the header asks for what is not known here.
    pub fn segment(&self) -> Result<Segment> {
        self.check_requirements()?;
        match &self.header {
            Header::V1(header) => Ok(header.segment()),
            Header::V2(header) => {
                let segments = &header.view().segments;
                let one = segments.get(&0).filter(|_| segments.len() == 1);
                let crypt = one.and_then(|segment| segment.crypt.clone());
                if one.is_some_and(|segment| segment.kind == "linear") {
                    return Err(
                        self.unsupported("its data is not encrypted any more: it was decrypted")
                    );
                }
                crypt.ok_or_else(|| {
                    let kinds: Vec<_> = segments.values().map(|s| s.kind.as_str()).collect();
                    self.unsupported(format!(
                        "its data is in segments of the types {}",
                        kinds.join(", ")
                    ))
                })
            }
        }
    }

    /// Refuses what asks for more than is known here.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn check_requirements(&self) -> Result<()> {
        let Header::V2(header) = &self.header else {
            return Ok(());
        };
        match header.view().requirements.first() {
            None => Ok(()),
            Some(what) => Err(self.unsupported(format!(
                "its header requires '{what}', which this version does not know"
            ))),
        }
    }

    /// Refuses to change a header with unknown requirements, or with a copy that must not be written.
    ///
    /// # Errors
    /// [`Error::Unsupported`]; as for [`Container::check_writable`].
    pub(crate) fn check_changeable(&self) -> Result<()> {
        self.check_requirements()?;
        self.check_writable()
    }

    /// Refuses to change the header where something else was written over its first copy, or a copy cannot be read.
    ///
    /// # Errors
    /// [`Error::Overwritten`], [`Error::Unreadable`].
    pub fn check_writable(&self) -> Result<()> {
        self.check_data_writable()?;
        match self.is_unreadable {
            false => Ok(()),
            true => Err(Error::Unreadable {
                device: self.device.name(),
            }),
        }
    }

    /// Refuses to change the data where something else was written over the first copy of the header.
    ///
    /// # Errors
    /// [`Error::Overwritten`].
    pub fn check_data_writable(&self) -> Result<()> {
        match self.is_overwritten {
            false => Ok(()),
            true => Err(Error::Overwritten {
                device: self.device.name(),
            }),
        }
    }

    fn unsupported(&self, what: impl Into<String>) -> Error {
        Error::unsupported(&self.device.name(), what)
    }

    /// Returns the digest of the volume key.
    pub(crate) fn digest(&self) -> Result<KeyDigest> {
        match &self.header {
            Header::V1(header) => Ok(header.digest()),
            Header::V2(header) => {
                let digests = header.view().digests.values();
                let known = digests.filter_map(|digest| digest.known.clone());
                let mut of_data = known.filter(|digest| digest.segments.contains(&0));
                let unknown =
                    || self.unsupported("it recognises its key in a way that is not known here");
                of_data.next().ok_or_else(unknown)
            }
        }
    }

    /// The volume key.
    ///
    /// Every slot that may open is tried, whatever the ones before it said. So the time of a refusal does not show
    /// what is wrong with a passphrase.
    ///
    /// # Errors
    /// [`Error::WrongPassphrase`]; [`Error::KeyMaterial`] if a slot that did not open is damaged;
    /// [`Error::NoUsableSlot`]; [`Error::NoSlot`]; [`Error::Unsupported`].
    pub fn unlock(&self, passphrase: &Secret, slot: Option<u32>) -> Result<UnlockedKey> {
        self.unlock_one_of(self.digest(), passphrase, slot)
    }

    /// The variant of [`Container::unlock`] that also opens a slot whose key encrypts no data.
    ///
    /// # Errors
    /// As for [`Container::unlock`].
    pub fn test(&self, passphrase: &Secret, slot: Option<u32>) -> Result<UnlockedKey> {
        let of_slot = match (&self.header, slot) {
            (Header::V2(header), Some(id)) => {
                let digests = header.view().digests.values();
                let mut known = digests.filter_map(|digest| digest.known.clone());
                known.find(|digest| digest.keyslots.contains(&id))
            }
            _ => None,
        };
        if self.is_in_reencryption() {
            return match of_slot {
                Some(digest) => self.try_slots(&digest, passphrase, slot),
                None => self.test_both(passphrase, slot),
            };
        }
        self.unlock_one_of(of_slot.map_or_else(|| self.digest(), Ok), passphrase, slot)
    }

    fn unlock_one_of(
        &self,
        digest: Result<KeyDigest>,
        passphrase: &Secret,
        slot: Option<u32>,
    ) -> Result<UnlockedKey> {
        self.check_requirements()?;
        self.try_slots(&digest?, passphrase, slot)
    }

    /// Refuses a container that no passphrase opens, so that nobody is asked for one.
    ///
    /// # Errors
    /// [`Error::NoUsableSlot`], [`Error::NoSlot`], [`Error::Unsupported`].
    pub fn check_slots(&self, slot: Option<u32>) -> Result<()> {
        if self.is_in_reencryption() {
            return self.check_slots_of_both(slot);
        }
        self.check_requirements()?;
        self.slots_to_try(&self.digest()?, slot).map(drop)
    }

    /// The key slots of a digest that are tried: this one, or all that can be used. At least one.
    pub(crate) fn slots_to_try(
        &self,
        digest: &KeyDigest,
        slot: Option<u32>,
    ) -> Result<Vec<Keyslot>> {
        let mut slots = self.slots();
        slots.retain(|slot| digest.keyslots.contains(&slot.id));
        match slot {
            Some(id) => slots.retain(|slot| slot.id == id),
            None if slots.is_empty() => {}
            None => {
                let ignored = slots[0].id;
                slots.retain(|slot| slot.priority > Priority::Ignore);
                if slots.is_empty() {
                    let why =
                        format!("it has only ignored ones; name one, as in --key-slot {ignored}");
                    return Err(self.no_usable_slot(why));
                }
            }
        }
        if !slots.is_empty() {
            return Ok(slots);
        }
        let odd = self.odd_slots();
        Err(match slot {
            Some(id) => match odd.iter().find(|(odd, _)| *odd == id) {
                Some((_, why)) => self.unsupported(format!("key slot {id} cannot be used: {why}")),
                None => self.no_slot(id),
            },
            None => {
                let odd = odd
                    .iter()
                    .map(|(id, why)| format!("key slot {id}: {why}; "));
                let odd: String = odd.collect();
                let none = if odd.is_empty() {
                    "it has none; "
                } else {
                    &odd
                };
                let advice = match self.is_in_reencryption() {
                    true => END_WITHOUT_KEY,
                    false => {
                        "if there is a backup of its header, 'luks header-restore' puts that back"
                    }
                };
                self.no_usable_slot(format!("{none}{advice}"))
            }
        })
    }

    pub(crate) fn no_usable_slot(&self, why: String) -> Error {
        Error::NoUsableSlot {
            device: self.device.name(),
            why,
        }
    }

    /// The key of a digest, out of one of its slots.
    pub(crate) fn try_slots(
        &self,
        digest: &KeyDigest,
        passphrase: &Secret,
        slot: Option<u32>,
    ) -> Result<UnlockedKey> {
        let slots = self.slots_to_try(digest, slot)?;
        let odd = self.odd_slots();
        let mut damage = None;
        let mut work = HashWork::new(WORK_MAX);
        for slot in slots {
            let paid = slot.kdf.work().and_then(|cost| Ok(work.spend(cost)?));
            if let Err(error) = paid {
                damage = Some(error);
                continue;
            }
            match material::open(&*self.device, &slot, digest, passphrase) {
                Ok(Some(key)) => return Ok(UnlockedKey { slot: slot.id, key }),
                Ok(None) => {}
                Err(error) => damage = Some(self.without_restore(error)),
            }
        }
        let untried = odd.iter().filter(|_| slot.is_none());
        let untried = untried.map(|(id, why)| format!("; key slot {id} cannot be used: {why}"));
        Err(damage.unwrap_or_else(|| Error::WrongPassphrase {
            device: self.device.name(),
            untried: untried.collect(),
        }))
    }

    /// The same error without the advice to restore a header that does not fit the data any more.
    fn without_restore(&self, error: Error) -> Error {
        match error {
            Error::KeyMaterial {
                device,
                slot,
                offset,
                ..
            } if self.is_in_reencryption() => Error::KeyMaterial {
                device,
                slot,
                offset,
                advice: "try another slot; no backup of the header fits data in re-encryption",
            },
            error => error,
        }
    }

    /// Key slots that this program cannot use though it knows their type, and why.
    fn odd_slots(&self) -> Vec<(u32, &str)> {
        match &self.header {
            Header::V1(_) => Vec::new(),
            Header::V2(header) => {
                let slots = header.view().slots.iter();
                let odd = slots.filter_map(|(id, slot)| Some((*id, slot.oddity.as_deref()?)));
                odd.collect()
            }
        }
    }

    /// Returns the address and the length of the material of a slot, even of one that cannot be used.
    pub(crate) fn area_of(&self, id: u32) -> Result<(u64, u64)> {
        let area = match &self.header {
            Header::V1(header) => {
                let slots = header.slots().into_iter();
                slots
                    .map(|slot| (slot.id, (slot.offset, slot.len)))
                    .find(|(n, _)| *n == id)
            }
            Header::V2(header) => {
                let slot = header.view().slots.get(&id);
                slot.map(|slot| (id, (slot.offset, slot.len)))
            }
        };
        area.map(|(_, area)| area).ok_or_else(|| self.no_slot(id))
    }

    /// Returns whether this is the volume key.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the header has no digest of a known kind.
    pub fn is_volume_key(&self, key: &Secret) -> Result<bool> {
        material::is_key_of(&self.digest()?, key)
    }

    pub(crate) fn no_slot(&self, slot: u32) -> Error {
        Error::NoSlot {
            device: self.device.name(),
            slot,
        }
    }

    /// Gives the container another UUID, label or subsystem; those that are `None` stay.
    ///
    /// # Errors
    /// [`Error::Usage`] if one is too long, or is a label of LUKS1.
    pub fn rename(
        &mut self,
        uuid: Option<&str>,
        label: Option<&str>,
        subsystem: Option<&str>,
        random: &dyn Random,
    ) -> Result<()> {
        self.check_changeable()?;
        let device = Arc::clone(&self.device);
        if let Header::V1(header) = &mut self.header {
            if label.is_some() || subsystem.is_some() {
                return Err(Error::usage("LUKS1 has no labels"));
            }
            let mut changed = header.clone();
            changed.set_uuid(uuid.unwrap_or(header.uuid()))?;
            changed.write_growing(&*device)?;
            *header = changed;
            return Ok(());
        }
        let header = self.luks2_mut("labels")?;
        let mut changed = header.clone();
        let set = |field: &mut String, text: Option<&str>| {
            if let Some(text) = text {
                *field = text.into();
            }
        };
        set(&mut changed.uuid, uuid);
        set(&mut changed.label, label);
        set(&mut changed.subsystem, subsystem);
        changed.write(&*device, random)?;
        *header = changed;
        Ok(())
    }

    /// The header, if it is LUKS2 and may be changed.
    pub(crate) fn luks2_mut(&mut self, what: &str) -> Result<&mut luks2::Header> {
        self.check_changeable()?;
        match &mut self.header {
            Header::V1(_) => Err(Error::Usage(format!("LUKS1 has no {what}"))),
            Header::V2(header) => Ok(header),
        }
    }
}
