//! A container that is re-encrypted while it is open, and requests to it at each step of that.

use std::io::IoSlice;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use block::{BlockDevice, SectorSizes};
use luks::{
    BothKeys, Container, ContainerFormat, ContainerVersion, Mapping, Protection, ReencryptionChoice,
};

use super::reencryption::HERE;
use super::{RANDOM, secret};

/// Calls something before each write and flush of one thread, the one that re-encrypts.
pub(crate) struct Stepped {
    inner: Arc<dyn BlockDevice>,
    step: Mutex<Option<(ThreadId, Step)>>,
    /// The range of the last write of that thread.
    last: Mutex<Range<u64>>,
}

pub(crate) type Step = Box<dyn FnMut() + Send>;

impl Stepped {
    pub(crate) fn new(inner: Arc<dyn BlockDevice>) -> Arc<Stepped> {
        let step = Mutex::new(None);
        let last = Mutex::default();
        Arc::new(Stepped { inner, step, last })
    }

    /// From now on, before each write and flush of this thread.
    pub(crate) fn each(&self, step: Step) {
        *self.step.lock().unwrap() = Some((std::thread::current().id(), step));
    }

    pub(crate) fn no_more(&self) {
        *self.step.lock().unwrap() = None;
    }

    /// The range of the write before which the step is, or of the last one before a flush.
    pub(crate) fn last_write(&self) -> Range<u64> {
        self.last.lock().unwrap().clone()
    }

    fn step(&self, write: Option<Range<u64>>) {
        let mut now = self.step.lock().unwrap();
        let Some((thread, mut step)) = now.take_if(|(of, _)| *of == std::thread::current().id())
        else {
            return;
        };
        if let Some(range) = write {
            *self.last.lock().unwrap() = range;
        }
        // What the step does comes from other threads.
        drop(now);
        step();
        *self.step.lock().unwrap() = Some((thread, step));
    }
}

impl BlockDevice for Stepped {
    block::delegate!(self => self.inner; size refresh_size name read_at drop_cached begin_anew discard waits_on_write would_wait io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn sector_sizes(&self) -> SectorSizes {
        self.inner.sector_sizes()
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.step(Some(offset..offset + len as u64));
        self.inner.write_at(offset, pieces)
    }

    fn flush(&self) -> block::Result<()> {
        self.step(None);
        self.inner.flush()
    }
}

/// Returns the choice that keeps the usual cipher.
pub(crate) fn how(protection: Protection) -> ReencryptionChoice {
    ReencryptionChoice {
        cipher: None,
        key_len: None,
        sector_size: None,
        protection,
        slot: super::cheap_slot(ContainerVersion::V2),
    }
}

/// A container that opens with "first", on these devices, which may be the same one.
pub(crate) fn format(
    header: &Arc<dyn BlockDevice>,
    data_offset: u64,
    sector_size: u32,
) -> (Container, secret::Secret) {
    let format = ContainerFormat {
        data_offset: Some(data_offset),
        sector_size,
        areas_len: Some(1 << 20),
        slot: super::cheap_slot(ContainerVersion::V2),
        ..ContainerFormat::new(ContainerVersion::V2, super::UUID.into())
    };
    luks::format(Arc::clone(header), &format, &secret("first"), &RANDOM).unwrap()
}

/// Opens a container whichever way it is.
pub(crate) fn open(
    header: Arc<dyn BlockDevice>,
    data: Arc<dyn BlockDevice>,
) -> luks::Result<(Container, Mapping, Option<BothKeys>)> {
    let mut container = Container::open(header, &RANDOM)?;
    if !container.is_in_reencryption() {
        let key = container.unlock(&secret("first"), None)?.key;
        let mapping = Mapping::open(&container, data, &key, HERE)?;
        return Ok((container, mapping, None));
    }
    let keys = container.unlock_both(&secret("first"))?;
    let mapping = Mapping::open_in_reencryption(&mut container, data, &keys, HERE, &RANDOM)?;
    Ok((container, mapping, Some(keys)))
}

/// Begins to re-encrypt a container that may be open.
pub(crate) fn begin(
    container: &mut Container,
    data: &dyn BlockDevice,
    how: &ReencryptionChoice,
) -> luks::Result<BothKeys> {
    let old = container.unlock(&secret("first"), None)?;
    let kept = [(old.slot, secret("first"))];
    container.begin_reencryption(data, how, old.key, &kept, &RANDOM)
}
