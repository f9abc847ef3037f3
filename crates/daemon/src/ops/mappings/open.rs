//! Opens LUKS containers and plain mappings, and makes their entries in the table of mappings.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, DeviceAccess, FileDevice};
use cipher::{Provider, SystemRandom};
use luks::{
    Container, Flag, Mapping, MappingFlags, PlainEncryption, ReencryptionProgress, UnlockedKey,
};
use protocol::api::{FailureKind, MappingChange, MappingReencryption, PlainMapping, command};
use protocol::device_name::DeviceName;
use secret::Secret;

use crate::failure::{Failure, Result};
use crate::ops::mappings::key::{counted, plain_key, shown, unlock_new};
use crate::state::callers::channel::Channel;
use crate::state::daemon::Daemon;
use crate::state::devices::mapping_table::OpenMapping;
use crate::state::devices::reencryption_guard::ReencryptionGuard;

pub(super) fn open_luks(
    daemon: &Daemon,
    new: &command::LuksOpen,
    channel: &mut dyn Channel,
) -> Result<OpenMapping> {
    let provider = provider(new.provider.as_deref())?;
    let (data, data_file) = daemon.device(&new.device, new)?;
    let header = new.header.as_deref();
    let header = header.map(|path| daemon.device(path, new)).transpose()?;
    let (on, header_file) = match &header {
        Some((device, file)) => (device, file),
        None => (&data, &data_file),
    };
    let mut container = match new.read_only {
        true => Container::look(Arc::clone(on))?,
        false => Container::open(Arc::clone(on), &SystemRandom)?,
    };
    if !new.read_only {
        container.check_data_writable()?;
    }
    if container.data_offset()? == 0 && header.is_none() {
        return Err(Failure::usage(format!(
            "the header on {} is for data on another device; name the device with the data, and give this one \
             with --header",
            new.device.display()
        )));
    }
    if container.is_in_reencryption() {
        if provider.is_some() {
            return Err(Failure::usage(
                "the container is in re-encryption, with two ciphers: leave out --provider",
            ));
        }
        let open =
            open_in_reencryption(daemon, container, data, header_file.clone(), channel, new)?;
        let data_file = data_file.filter(|_| header.is_some() || !open.has_locked_file());
        if let Some(file) = data_file {
            file.let_others_lock();
        }
        return Ok(open);
    }
    container.check_slots(new.key_slot)?;
    let device = shown(new);
    let open = |given: &Secret, slot| counted(daemon, &device, container.unlock(given, slot));
    let UnlockedKey { slot, key } = unlock_new(new, &container, channel, open)?;
    let flags = flags(&container, new);
    let mapping = Mapping::open(&container, Arc::clone(&data), &key, flags)?;
    provider.map_or(Ok(()), |provider| mapping.set_provider(provider))?;
    // Only what was opened so is opened so later.
    if new.persistent {
        container.set_flags(&persistent(new), &SystemRandom)?;
    }
    // From now on cryptsetup may read the header.
    for file in [&data_file, header_file].into_iter().flatten() {
        file.let_others_lock();
    }
    let file = header_file.clone();
    Ok(opened(&container, mapping, file, slot, key.len(), new))
}

/// Opens a container whose re-encryption was interrupted. It keeps a guard on the re-encryption: cryptsetup must not
/// continue it below the mapping.
fn open_in_reencryption(
    daemon: &Daemon,
    mut container: Container,
    data: Arc<dyn BlockDevice>,
    file: Option<Arc<FileDevice>>,
    channel: &mut dyn Channel,
    new: &command::LuksOpen,
) -> Result<OpenMapping> {
    if new.key_slot.is_some() || new.persistent {
        return Err(Failure::usage(
            "the container is in re-encryption: it has a slot for each of its two keys, and its header does \
             not change; leave out --key-slot and --persistent",
        ));
    }
    let guard = ReencryptionGuard::named(container.uuid())?;
    let device = shown(new);
    let open = |given: &Secret, _| counted(daemon, &device, container.unlock_both(given));
    let keys = unlock_new(new, &container, channel, open)?;
    let flags = flags(&container, new);
    let on = Arc::clone(&data);
    let mapping = Mapping::open_in_reencryption(&mut container, on, &keys, flags, &SystemRandom)?;
    let (slot, key_len) = (keys.slot, keys.key_len());
    let mut open = opened(&container, mapping, file.clone(), slot, key_len, new);
    // Opening may have completed the re-encryption.
    if container.is_in_reencryption() {
        open.guard = match (guard, &file) {
            (None, Some(file)) => Some(ReencryptionGuard::File(file.share(Duration::ZERO)?)),
            (guard, _) => guard,
        };
        open.reencryption = Some(paused(&container, &*data)?);
    }
    if let Some(file) = file.filter(|_| !open.has_locked_file()) {
        file.let_others_lock();
    }
    Ok(open)
}

/// The progress of a re-encryption that is paused.
pub(super) fn paused(
    container: &Container,
    data: &dyn BlockDevice,
) -> luks::Result<MappingReencryption> {
    let ReencryptionProgress { done, total } = container.reencryption_progress(data)?;
    Ok(MappingReencryption {
        done,
        total,
        running: false,
        speed: None,
        seconds_left: None,
    })
}

fn opened(
    container: &Container,
    mapping: Mapping,
    file: Option<Arc<FileDevice>>,
    slot: u32,
    key_len: usize,
    new: &command::LuksOpen,
) -> OpenMapping {
    OpenMapping {
        mapping: Arc::new(mapping),
        kind: match container.version() {
            luks::ContainerVersion::V1 => "LUKS1",
            luks::ContainerVersion::V2 => "LUKS2",
        },
        device: new.device.display().to_string(),
        header: new.header.as_ref().map(|path| path.display().to_string()),
        uuid: Some(container.uuid().into()),
        slot: Some(slot),
        key_bits: key_len * 8,
        on: Some((Arc::clone(container.device()), container.header_len())),
        reencryption: None,
        worker: None,
        guard: None,
        file,
    }
}

pub(super) fn open_plain(
    daemon: &Daemon,
    new: &command::LuksOpen,
    plain: &PlainMapping,
    channel: &mut dyn Channel,
) -> Result<OpenMapping> {
    if new.persistent {
        return Err(Failure::usage(
            "a mapping without a header cannot store options; leave out --persistent",
        ));
    }
    let provider = provider(new.provider.as_deref())?;
    let (data, _) = daemon.device(&new.device, new)?;
    let (given, is_key) = plain_key(new, plain.key_len, channel)?;
    let key = match is_key {
        true if given.len() < plain.key_len => {
            return Err(Failure::new(
                FailureKind::NoKey,
                format!(
                    "the key file is shorter than a key of {} bits",
                    plain.key_len * 8
                ),
            ));
        }
        true => Secret::from_slice(&given.expose()[..plain.key_len])?,
        false => luks::plain_key(&given, &plain.hash, plain.key_len)?,
    };
    let settings = PlainEncryption {
        cipher: plain.cipher.clone(),
        offset: plain.offset,
        len: plain.len,
        skip: plain.skip,
        sector_size: plain.sector_size,
    };
    let mut flags = MappingFlags {
        read_only: new.read_only,
        ..MappingFlags::default()
    };
    serve_as(&mut flags, &new.serving);
    let mapping = Mapping::plain(&settings, data, &key, flags)?;
    provider.map_or(Ok(()), |provider| mapping.set_provider(provider))?;
    Ok(OpenMapping {
        mapping: Arc::new(mapping),
        kind: "PLAIN",
        device: new.device.display().to_string(),
        header: None,
        uuid: None,
        slot: None,
        key_bits: key.len() * 8,
        on: None,
        reencryption: None,
        worker: None,
        guard: None,
        file: None,
    })
}

/// The flags of a header that stand for these options.
fn persistent(new: &command::LuksOpen) -> Vec<Flag> {
    let serving = &new.serving;
    let flags = [
        (Flag::AllowDiscards, serving.allow_discards == Some(true)),
        (Flag::NoReadWorkqueue, serving.read_workqueue == Some(false)),
        (
            Flag::NoWriteWorkqueue,
            serving.write_workqueue == Some(false),
        ),
        (Flag::SameCpuCrypt, serving.same_cpu == Some(true)),
        (
            Flag::SubmitFromCryptCpus,
            serving.write_workqueue == Some(true) && serving.sort_writes == Some(false),
        ),
        (Flag::NoJournal, new.no_journal),
    ];
    let given = flags.into_iter().filter(|(_, is_given)| *is_given);
    given.map(|(flag, _)| flag).collect()
}

/// The flags of a new mapping, from its header and from the request.
fn flags(container: &Container, new: &command::LuksOpen) -> MappingFlags {
    let mut flags = match new.persistent {
        // What is given replaces what the header says.
        true => MappingFlags::default(),
        false => container.flags(),
    };
    flags.read_only = new.read_only;
    flags.recovery = new.recovery;
    flags.no_journal |= new.no_journal;
    serve_as(&mut flags, &new.serving);
    flags
}

/// Changes the flags that say how a mapping is served.
pub(super) fn serve_as(flags: &mut MappingFlags, change: &MappingChange) {
    let set = |flag: &mut bool, to: Option<bool>| *flag = to.unwrap_or(*flag);
    set(&mut flags.read_workqueue, change.read_workqueue);
    set(&mut flags.write_workqueue, change.write_workqueue);
    set(&mut flags.same_cpu, change.same_cpu);
    set(&mut flags.sort_writes, change.sort_writes);
    set(&mut flags.allow_discards, change.allow_discards);
}

pub(super) fn provider(name: Option<&str>) -> Result<Option<Provider>> {
    let read = |name| Provider::read(name).map_err(Failure::usage);
    name.map(read).transpose()
}

impl Daemon {
    /// Opens the device of a new mapping. It also returns the file behind it, if the mapping locks one.
    fn device(&self, path: &Path, new: &command::LuksOpen) -> Result<MappingDevice> {
        let access = match new.read_only {
            true => DeviceAccess::ReadOnly,
            false => DeviceAccess::Exclusive,
        };
        let name = DeviceName::parse(path).of_blocks()?;
        if let (DeviceName::Path(path), DeviceAccess::Exclusive) = (name, access) {
            let file = Arc::new(FileDevice::open(path, access)?);
            return Ok((Arc::clone(&file) as _, Some(file)));
        }
        let user = format!("the mapping '{}'", new.name);
        Ok((self.open(name, access, &user)?, None))
    }
}

/// A device, and the file behind it, which is locked.
type MappingDevice = (Arc<dyn BlockDevice>, Option<Arc<FileDevice>>);
