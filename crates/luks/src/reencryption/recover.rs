//! Recovery after an interruption, and the end of a re-encryption.

use std::sync::Arc;
use std::time::Duration;

use block::BlockDevice;
use cipher::Random;

use super::keys::BothKeys;
use super::zone::HotZone;
use crate::container::Container;
use crate::header::Header;
use crate::header::luks2::{self, Course, ReencryptionState, Resilience};
use crate::keyslots::material;
use crate::{Error, Result};

/// The time that a change of the header waits for programs that read it.
const PATIENCE: Duration = Duration::from_secs(1);

impl Container {
    /// Recovers the hot zone if there is one, and writes the header. If nothing is left to do after that, the
    /// re-encryption ends here. cryptsetup would take the container for one at the beginning.
    ///
    /// # Errors
    /// [`Error::TooSmall`] if there is less data than the header says; the failure of a device. The next attempt
    /// begins again.
    pub(crate) fn recover(
        &mut self,
        state: &ReencryptionState,
        data: &dyn BlockDevice,
        keys: &BothKeys,
        random: &dyn Random,
    ) -> Result<()> {
        self.check_writable()?;
        state.check_device(data)?;
        let total = state.data_len(data.size());
        let (hot, mut done) = (state.hot(), state.done(total));
        if let Some(hot) = &hot {
            HotZone::new(&*self.device, state, data, keys, hot)?.recover()?;
            done += hot.len;
        }
        let has_old = keys.old.is_some() || state.old.digest.is_none();
        let old_slots = state.passing_digest().map(|old| old.keyslots.is_empty());
        // Slots that were not opened may be those of another passphrase.
        let others = !has_old && old_slots == Some(false);
        let is_said = hot.is_none() && state.covers(total);
        match done >= total {
            true if others => Ok(()),
            true => self.complete(state, data, random),
            false if is_said || !has_old => Ok(()),
            false => self.change_header(random, |header| header.advance(state, total, done, None)),
        }
    }

    /// Returns whether all data on `data` is already new by the header. Then only the end of the re-encryption is
    /// left.
    ///
    /// # Errors
    /// As for [`Container::reencryption_progress`]; [`Error::TooSmall`].
    pub fn is_all_new(&self, data: &dyn BlockDevice) -> Result<bool> {
        let state = self.reencryption()?;
        state.check_device(data)?;
        let total = state.data_len(data.size());
        Ok(state.is_new() && state.covers(total) && state.done(total) >= total)
    }

    /// Ends a re-encryption of which only that is left. No key is needed for it: nothing that is data now is read or
    /// written.
    ///
    /// # Errors
    /// [`Error::Usage`] if more is left; the failure of a device.
    pub fn end_reencryption(&mut self, data: &dyn BlockDevice, random: &dyn Random) -> Result<()> {
        self.check_writable()?;
        match self.is_all_new(data)? {
            true => self.complete(&self.reencryption()?, data, random),
            false => Err(Error::usage("data is left that is still to be changed")),
        }
    }

    /// Ends the re-encryption after all data is new: overwrites the moved part, and writes the header.
    pub(super) fn complete(
        &mut self,
        state: &ReencryptionState,
        data: &dyn BlockDevice,
        random: &dyn Random,
    ) -> Result<()> {
        let Resilience::Shift(shift) = state.resilience else {
            return self.end(state, random);
        };
        let total = state.data_len(data.size());
        if !state.is_new() {
            // From here on nothing of what is overwritten is needed.
            self.change_header(random, |header| header.advance(state, total, total, None))?;
        }
        let (offset, len) = match (state.course, &state.moved) {
            (Course::Up, Some(moved)) => (moved.offset, state.moved_len()),
            _ => (total, shift.min(data.size().saturating_sub(total))),
        };
        material::wipe(data, offset, len, random)?;
        self.end(state, random)
    }

    /// Writes into the header that all data is new, and overwrites the slots of the old key.
    fn end(&mut self, state: &ReencryptionState, random: &dyn Random) -> Result<()> {
        let areas = |header: &luks2::Header| -> Vec<(u64, u64)> {
            let slots = &header.view().slots;
            let gone = state.passing_slots().into_iter();
            let gone = gone.filter_map(|id| slots.get(&id));
            gone.map(|slot| (slot.offset, slot.len)).collect()
        };
        let gone = match &self.header {
            Header::V1(_) => Vec::new(),
            Header::V2(header) => areas(header),
        };
        self.change_header(random, |header| header.finish(state))?;
        // Only now: while the header says that there is a hot zone, the old key is needed.
        for (offset, len) in gone {
            material::wipe(&*self.device, offset, len, random)?;
        }
        Ok(())
    }

    /// Writes a changed header. That in memory stays as it is on the device if that fails.
    pub(super) fn change_header(
        &mut self,
        random: &dyn Random,
        change: impl FnOnce(&mut luks2::Header) -> Result<()>,
    ) -> Result<()> {
        let device = Arc::clone(&self.device);
        let Header::V2(header) = &mut self.header else {
            return Err(Error::usage("LUKS1 is not re-encrypted here"));
        };
        let mut changed = header.clone();
        change(&mut changed)?;
        // Each copy is whole while the other is written, so a reader that does not give way does no harm.
        let _lock = self.file.as_ref().map(|file| file.lock(PATIENCE));
        changed.write(&*device, random)?;
        *header = changed;
        Ok(())
    }
}
