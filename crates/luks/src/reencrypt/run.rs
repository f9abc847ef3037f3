//! Encrypts data anew, one hot zone after the other.

use std::sync::Arc;

use block::BlockDevice;
use cipher::Random;

use super::keys::BothKeys;
use super::zone::Zone;
use crate::container::Container;
use crate::luks2::{Hot, Reencryption, Resilience};
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

impl Container {
    /// How far the re-encryption is that is under way, with the data on a device.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it is of a kind that is not known here; [`Error::Damaged`].
    pub fn reencryption_progress(&self, data: &dyn BlockDevice) -> Result<Progress> {
        let state = self.reencryption()?;
        let total = state.data_len(data.size());
        let hot = state.hot().map_or(u64::MAX, |hot| hot.at);
        let done = state.done().min(hot).min(total);
        Ok(Progress { done, total })
    }

    /// Goes on with a re-encryption, of a container that is closed and whose data is on `data`, to the end or
    /// until `go_on` says no. A hot zone that is longer than `zone` bytes is taken in parts.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the header was changed since the re-encryption began; the failure of a device. The
    /// next attempt goes on from there.
    pub fn reencrypt(
        &mut self,
        data: &dyn BlockDevice,
        keys: &BothKeys,
        zone: Option<u64>,
        random: &dyn Random,
        go_on: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Reencrypted> {
        let state = self.reencryption()?;
        self.check_proof(&state, keys)?;
        self.recover(&state, data, keys, random)?;
        if !self.is_in_reencryption() {
            return Ok(Reencrypted::All);
        }
        let mut state = self.reencryption()?;
        let total = state.data_len(data.size());
        let mut done = state.done();
        if done >= total {
            // What is left is slots of the old key, perhaps overwritten already. They go at the end anyway.
            self.end(&state, random)?;
            return Ok(Reencrypted::All);
        }
        let zone = zone_len(&state, zone)?;
        if total % u64::from(state.block()) != 0 {
            return Err(Error::unsupported(
                &data.name(),
                "its data ends inside of a block that has one checksum",
            ));
        }
        while go_on(Progress { done, total }) {
            let hot = Hot {
                len: zone.min(total - done),
                is_last: zone >= total - done,
            };
            let written = self.write_zone(&state, data, keys, done, &hot, random);
            if written.is_ok() {
                done += hot.len;
            }
            let must_say = state.resilience != Resilience::None;
            if written.is_err() && !must_say && done > state.done() {
                // The header is behind: what it says would be read with the wrong key.
                self.change_header(random, |header| header.advance(&state, done, None))?;
            }
            written?;
            if done == total {
                self.end(&state, random)?;
                return Ok(Reencrypted::All);
            }
            if must_say {
                self.change_header(random, |header| header.advance(&state, done, None))?;
                state = self.reencryption()?;
            }
        }
        if done > state.done() {
            self.change_header(random, |header| header.advance(&state, done, None))?;
        }
        Ok(Reencrypted::Paused(Progress { done, total }))
    }

    /// Encrypts a part of the data anew, as the hot zone unless nothing is kept of it.
    fn write_zone(
        &mut self,
        state: &Reencryption,
        data: &dyn BlockDevice,
        keys: &BothKeys,
        at: u64,
        hot: &Hot,
        random: &dyn Random,
    ) -> Result<()> {
        let device = Arc::clone(&self.device);
        let zone = Zone::new(
            &*device,
            state,
            data,
            (keys.old()?, &keys.new),
            (at, hot.len),
        )?;
        let old = zone.read()?;
        if state.resilience != Resilience::None {
            zone.protect(&old)?;
            self.change_header(random, |header| header.advance(state, at, Some(hot)))?;
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
