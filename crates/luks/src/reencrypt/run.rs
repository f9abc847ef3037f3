//! Encrypts data anew, one hot zone after the other.

use std::sync::Arc;

use block::BlockDevice;
use cipher::Random;

use super::keys::BothKeys;
use super::zone::Zone;
use crate::container::Container;
use crate::luks2::{Part, Reencryption, Resilience};
use crate::{Error, Result};

/// How long a hot zone is unless it is said, in bytes.
const ZONE: u64 = 32 << 20;

/// How far a re-encryption is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is encrypted anew.
    pub done: u64,
    /// All data.
    pub total: u64,
}

/// How a re-encryption stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reencrypted {
    /// All data is encrypted anew, and the old key is gone.
    All,
    /// It was asked to stop; it can go on from there.
    Paused(Progress),
}

/// How much is encrypted anew, and how much at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// The longest hot zone, in bytes.
    pub zone: Option<u64>,
    /// So many bytes of the data only; the rest is lost.
    pub device_size: Option<u64>,
}

impl Container {
    /// How far the re-encryption is that is under way, with the data on a device.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it is of a kind that is not known here; [`Error::Damaged`].
    pub fn reencryption_progress(&self, data: &dyn BlockDevice) -> Result<Progress> {
        let state = self.reencryption()?;
        let total = state.data_len(data.size());
        let done = state.done(total);
        Ok(Progress { done, total })
    }

    /// Goes on with a re-encryption, of a container that is closed and whose data is on `data`, to the end or
    /// until `go_on` says no.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the header was changed since the re-encryption began; [`Error::Usage`] for a size
    /// that does not fit; the failure of a device. The next attempt goes on from there.
    pub fn reencrypt(
        &mut self,
        data: &dyn BlockDevice,
        keys: &BothKeys,
        pace: Pace,
        random: &dyn Random,
        go_on: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Reencrypted> {
        let state = self.limited(pace, data)?;
        self.check_proof(&state, keys)?;
        self.recover(&state, data, keys, random)?;
        if !self.is_in_reencryption() {
            return Ok(Reencrypted::All);
        }
        let mut state = self.limited(pace, data)?;
        let total = state.data_len(data.size());
        let mut done = state.done(total);
        if done >= total {
            // What is left is slots of the old key, perhaps overwritten already. They go at the end anyway.
            self.complete(&state, data, random)?;
            return Ok(Reencrypted::All);
        }
        let zone = zone_len(&state, pace.zone)?;
        if total % u64::from(state.block()) != 0 {
            return Err(Error::unsupported(
                &data.name(),
                "its data ends inside of a block that has one checksum",
            ));
        }
        while go_on(Progress { done, total }) {
            let part = state.next(total, done, zone);
            let written = self.write_zone(&state, data, keys, done, &part, random);
            if written.is_ok() {
                done += part.len;
            }
            let must_say = state.resilience != Resilience::None;
            if written.is_err() && !must_say && done > state.done(total) {
                // The header is behind: what it says would be read with the wrong key.
                self.change_header(random, |header| header.advance(&state, total, done, None))?;
            }
            written?;
            if done == total {
                self.complete(&state, data, random)?;
                return Ok(Reencrypted::All);
            }
            if must_say {
                self.change_header(random, |header| header.advance(&state, total, done, None))?;
                state = self.limited(pace, data)?;
            }
        }
        if done > state.done(total) {
            self.change_header(random, |header| header.advance(&state, total, done, None))?;
        }
        Ok(Reencrypted::Paused(Progress { done, total }))
    }

    /// What the header says, for so much of the data.
    fn limited(&self, pace: Pace, data: &dyn BlockDevice) -> Result<Reencryption> {
        let mut state = self.reencryption()?;
        let Some(len) = pace.device_size else {
            return Ok(state);
        };
        let there = state.data_len(data.size());
        let is_other = state.limit.is_some_and(|limit| limit != len);
        let is_whole = len > 0 && len % u64::from(state.block()) == 0;
        if is_other || !is_whole || len > there || state.moved.is_some() {
            let block = state.block();
            return Err(Error::Usage(format!(
                "the size of the device has to be a multiple of {block}, not more than the {there} bytes of \
                 the data, and always the same, and data is not moved"
            )));
        }
        state.limit = Some(len);
        Ok(state)
    }

    /// Encrypts a part of the data anew, as the hot zone unless nothing is kept of it.
    fn write_zone(
        &mut self,
        state: &Reencryption,
        data: &dyn BlockDevice,
        keys: &BothKeys,
        done: u64,
        part: &Part,
        random: &dyn Random,
    ) -> Result<()> {
        let device = Arc::clone(&self.device);
        let total = state.data_len(data.size());
        let zone = Zone::new(&*device, state, data, keys, part)?;
        let old = zone.read()?;
        if state.resilience != Resilience::None {
            zone.protect(&old)?;
            self.change_header(random, |header| {
                header.advance(state, total, done, Some(part))
            })?;
        }
        zone.write(&old)
    }
}

/// How long a hot zone can be.
fn zone_len(state: &Reencryption, wanted: Option<u64>) -> Result<u64> {
    let unit = u64::from(state.block());
    let most = state.resilience.capacity(state.area.1, state.unit());
    let len = wanted.unwrap_or(ZONE).min(most);
    match len - len % unit {
        0 => Err(Error::Usage(format!(
            "a hot zone has at least {unit} bytes, and there is space for {most}"
        ))),
        len => Ok(len),
    }
}
