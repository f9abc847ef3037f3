//! Encrypts data anew, one hot zone after the other.

use std::sync::Arc;

use block::BlockDevice;
use cipher::Random;

use super::keys::BothKeys;
use super::traffic::{AllowedRequests, NoTraffic, Traffic};
use super::zone::{HotZone, ZoneContents};
use crate::container::Container;
use crate::header::luks2::{DataPart, ReencryptionState, Resilience};
use crate::{Error, Result};

/// The usual length of a hot zone, in bytes.
const ZONE: u64 = 32 << 20;
/// The same while the container is open: writes to the zone wait while what is kept of it is written.
const ZONE_IN_USE: u64 = 4 << 20;

/// The progress of a re-encryption, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReencryptionProgress {
    /// The data that is encrypted anew.
    pub done: u64,
    /// All data.
    pub total: u64,
}

/// The way in which a call of [`Container::reencrypt`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReencryptionEnd {
    /// All data is encrypted anew, and the old key is gone.
    All,
    /// The caller asked for a stop; another call continues from there.
    Paused(ReencryptionProgress),
}

/// The limits of a re-encryption: all of it, and each step.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReencryptionPace {
    /// The longest hot zone, in bytes.
    pub zone: Option<u64>,
    /// The length of the data to encrypt, in bytes; the rest of the device is lost.
    pub device_size: Option<u64>,
}

impl ReencryptionPace {
    /// Refuses a size that is not of `there` bytes of data, of which `block` are written as one.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn check(&self, there: u64, block: u32) -> Result<()> {
        match self.device_size {
            Some(len)
                if len == 0 || len > there || len.checked_rem(u64::from(block)) != Some(0) =>
            {
                Err(Error::Usage(format!(
                    "the size of the device has to be a multiple of {block}, and not more than the {there} bytes \
                     of the data"
                )))
            }
            _ => Ok(()),
        }
    }
}

impl Container {
    /// Returns the progress of the re-encryption of the data on a device.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it is of a kind that is not known here; [`Error::Damaged`].
    pub fn reencryption_progress(&self, data: &dyn BlockDevice) -> Result<ReencryptionProgress> {
        let state = self.reencryption()?;
        let total = state.data_len(data.size());
        let done = state.done(total);
        Ok(ReencryptionProgress { done, total })
    }

    /// Continues a re-encryption of a container that is closed, and whose data is on `data`. It ends with the data,
    /// or when `go_on` returns false.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the header was changed since the re-encryption began; [`Error::Usage`] for a size
    /// that does not fit; the failure of a device. The next attempt goes on from there.
    pub fn reencrypt(
        &mut self,
        data: &dyn BlockDevice,
        keys: &BothKeys,
        pace: ReencryptionPace,
        random: &dyn Random,
        go_on: &mut dyn FnMut(ReencryptionProgress) -> bool,
    ) -> Result<ReencryptionEnd> {
        self.reencrypt_under(data, keys, pace, random, &NoTraffic, go_on)
    }

    /// The variant of [`Container::reencrypt`] for a container that may be open.
    pub(crate) fn reencrypt_under(
        &mut self,
        data: &dyn BlockDevice,
        keys: &BothKeys,
        pace: ReencryptionPace,
        random: &dyn Random,
        traffic: &dyn Traffic,
        go_on: &mut dyn FnMut(ReencryptionProgress) -> bool,
    ) -> Result<ReencryptionEnd> {
        let state = self.limited(pace, data)?;
        self.check_proof(&state, keys)?;
        self.recover(&state, data, keys, random)?;
        if !self.is_in_reencryption() {
            return Ok(ReencryptionEnd::All);
        }
        let state = self.limited(pace, data)?;
        let total = state.data_len(data.size());
        let mut course = ReencryptionRun {
            done: state.done(total),
            zone: zone_len(&state, pace.zone, traffic)?,
            // The header of an open container follows each part, also where nothing is kept of it.
            says_each: state.resilience != Resilience::None || traffic.goes_on(),
            state,
            total,
            data,
            keys,
            random,
            traffic,
        };
        if course.done >= total {
            // What is left is slots of the old key, perhaps overwritten already. They go at the end anyway.
            self.complete(&course.state, data, random)?;
            return Ok(ReencryptionEnd::All);
        }
        if total % u64::from(course.state.block()) != 0 {
            return Err(Error::unsupported(
                &data.name(),
                "its data ends inside of a block that has one checksum",
            ));
        }
        while go_on(course.progress()) {
            if self.write_next(&mut course)? {
                return Ok(ReencryptionEnd::All);
            }
            if course.says_each {
                course.state = self.limited(pace, data)?;
            }
        }
        self.catch_up(&course)?;
        Ok(ReencryptionEnd::Paused(course.progress()))
    }

    /// Returns the state in the header, limited to the length in `pace`.
    fn limited(&self, pace: ReencryptionPace, data: &dyn BlockDevice) -> Result<ReencryptionState> {
        let mut state = self.reencryption()?;
        let Some(len) = pace.device_size else {
            return Ok(state);
        };
        if state.moved.is_some() {
            return Err(Error::usage(
                "where data is moved, all of it is: leave out the size of the device",
            ));
        }
        match state.limit {
            None => pace.check(state.data_len(data.size()), state.block())?,
            Some(begun) if begun == len => {}
            Some(begun) => {
                return Err(Error::Usage(format!(
                    "the size of the device was {begun} bytes when this began: it stays so"
                )));
            }
        }
        state.limit = Some(len);
        Ok(state)
    }

    /// Encrypts the next part of the data anew, and says whether that was the last one.
    fn write_next(&mut self, run: &mut ReencryptionRun<'_>) -> Result<bool> {
        let part = run.state.next(run.total, run.done, run.zone);
        let held = TrafficHold::new(run, &part);
        let device = Arc::clone(&self.device);
        let (zone, old) = match self.protected(&*device, run, &part) {
            Ok(zone) => zone,
            Err(error) => {
                // Nothing was changed.
                held.release(run);
                self.catch_up(run)?;
                return Err(error);
            }
        };
        let written = self.write_zone(run, &part, &zone, old);
        let said = match &written {
            Ok(()) => {
                run.done += part.len;
                self.say(run)
            }
            Err(_) => Ok(()),
        };
        if written.is_err() || said.is_err() {
            drop(held);
            // The header is behind: what it says would be read with the wrong key.
            if written.is_err() && !run.says_each {
                self.catch_up(run)?;
            }
            return written.and(said).map(|()| false);
        }
        held.release(run);
        Ok(run.done == run.total)
    }

    /// The next part as it is, with what is kept of it.
    fn protected<'a>(
        &self,
        kept: &'a dyn BlockDevice,
        run: &ReencryptionRun<'a>,
        part: &DataPart,
    ) -> Result<(HotZone<'a>, ZoneContents)> {
        let zone = HotZone::new(kept, &run.state, run.data, run.keys, part)?;
        let old = zone.read()?;
        if run.traffic.goes_on() {
            // The copy is made of the last writes, and these have to be on the device after a power cut.
            run.data.flush()?;
        }
        if run.state.resilience != Resilience::None {
            zone.protect(&old)?;
        }
        Ok((zone, old))
    }

    /// Encrypts a part of the data anew, as the hot zone unless nothing is kept of it.
    fn write_zone(
        &mut self,
        run: &ReencryptionRun<'_>,
        part: &DataPart,
        zone: &HotZone<'_>,
        old: ZoneContents,
    ) -> Result<()> {
        if run.state.resilience != Resilience::None {
            self.change_header(run.random, |header| {
                header.advance(&run.state, run.total, run.done, Some(part))
            })?;
        }
        zone.write(old, run.traffic)
    }

    /// Writes the progress into the header, if it follows each part or all data is new.
    fn say(&mut self, run: &ReencryptionRun<'_>) -> Result<()> {
        if run.done == run.total {
            return self.complete(&run.state, run.data, run.random);
        }
        match run.says_each {
            true => self.change_header(run.random, |header| {
                header.advance(&run.state, run.total, run.done, None)
            }),
            false => Ok(()),
        }
    }

    /// Writes the progress into the header, if it does not follow each part.
    fn catch_up(&mut self, run: &ReencryptionRun<'_>) -> Result<()> {
        match run.done > run.state.done(run.total) {
            true => self.change_header(run.random, |header| {
                header.advance(&run.state, run.total, run.done, None)
            }),
            false => Ok(()),
        }
    }
}

/// A re-encryption that goes on.
struct ReencryptionRun<'a> {
    /// The state that the header described last.
    state: ReencryptionState,
    /// The length of the data, and the length of the part that is new, in bytes.
    total: u64,
    done: u64,
    /// The longest hot zone, in bytes.
    zone: u64,
    /// True if the header is written after each part.
    says_each: bool,
    data: &'a dyn BlockDevice,
    keys: &'a BothKeys,
    random: &'a dyn Random,
    traffic: &'a dyn Traffic,
}

impl ReencryptionRun<'_> {
    fn progress(&self) -> ReencryptionProgress {
        let (done, total) = (self.done, self.total);
        ReencryptionProgress { done, total }
    }
}

/// A part for which requests wait. If this is dropped, which also a panic does, they fail.
struct TrafficHold<'a>(Option<&'a dyn Traffic>);

impl<'a> TrafficHold<'a> {
    fn new(run: &ReencryptionRun<'a>, part: &DataPart) -> TrafficHold<'a> {
        run.traffic
            .hold(part, AllowedRequests::new(&run.state, part));
        TrafficHold(Some(run.traffic))
    }

    fn release(mut self, run: &ReencryptionRun<'_>) {
        if let Some(traffic) = self.0.take() {
            traffic.release(&run.state.layout(run.total, run.done, None));
        }
    }
}

impl Drop for TrafficHold<'_> {
    fn drop(&mut self) {
        if let Some(traffic) = self.0 {
            traffic.fail();
        }
    }
}

/// Returns the length of a hot zone.
fn zone_len(state: &ReencryptionState, wanted: Option<u64>, traffic: &dyn Traffic) -> Result<u64> {
    let unit = u64::from(state.block());
    let most = state.resilience.capacity(state.area.1, state.unit());
    let usual = match traffic.goes_on() {
        true => ZONE_IN_USE,
        false => ZONE,
    };
    let len = wanted.unwrap_or(usual).min(most);
    match len - len % unit {
        0 => Err(Error::Usage(format!(
            "a hot zone has at least {unit} bytes, and there is space for {most}"
        ))),
        len => Ok(len),
    }
}
