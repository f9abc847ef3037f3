//! Puts right what an interruption left, and ends a re-encryption.

use std::sync::Arc;

use block::BlockDevice;
use cipher::Random;

use super::keys::BothKeys;
use super::zone::Zone;
use crate::container::Container;
use crate::header::Header;
use crate::luks2::{self, Reencryption, State};
use crate::{Error, Result, keyslot};

impl Container {
    /// Puts the hot zone right if there is one, and lets the header say so. When nothing is left to do after
    /// that, the re-encryption ends here: cryptsetup would take a container for one at the beginning.
    ///
    /// # Errors
    /// [`Error::TooSmall`] if there is less data than the header says; the failure of a device. The next attempt
    /// begins again.
    pub(crate) fn recover(
        &mut self,
        state: &Reencryption,
        data: &dyn BlockDevice,
        keys: &BothKeys,
        random: &dyn Random,
    ) -> Result<()> {
        self.check_writable()?;
        state.check_device(data)?;
        if let Some(hot) = state.hot() {
            let part = (hot.at, hot.segment.len.unwrap_or_default());
            let both = (keys.old()?, &keys.new);
            Zone::new(&*self.device, state, data, both, part)?.recover()?;
        }
        let is_over = state.is_over(data.size());
        let untouched = state.hot().is_none() && state.last_state() == State::Old;
        let others = keys.old.is_none() && !state.old.digest.keyslots.is_empty();
        match is_over {
            // Slots that were not opened may be those of another passphrase.
            true if others => Ok(()),
            true => self.end(state, random),
            false if untouched || keys.old.is_none() => Ok(()),
            false => self.change_header(random, |header| header.advance(state, state.done(), None)),
        }
    }

    /// Lets the header say that all data is encrypted anew, and overwrites the slots that go with that.
    pub(super) fn end(&mut self, state: &Reencryption, random: &dyn Random) -> Result<()> {
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
            keyslot::wipe(&*self.device, offset, len, random)?;
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
        changed.write(&*device, random)?;
        *header = changed;
        Ok(())
    }
}
