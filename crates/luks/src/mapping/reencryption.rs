//! Re-encryption of a mapping that is open, under its requests.

use std::sync::Arc;

use cipher::Random;

use super::Mapping;
use super::identity::MappingIdentity;
use super::regions::Regions;
use super::sectors::SectorCore;
use super::serving::Serving;
use crate::model::Segment;
use crate::{
    BothKeys, Container, Error, ReencryptionEnd, ReencryptionPace, ReencryptionProgress, Result,
};

impl Mapping {
    /// Goes on with the re-encryption of the container that is open here, to the end or until `go_on` says no.
    /// Requests continue meanwhile. Those for the piece that is being written wait, and in the hot zone around it
    /// most writes: see `regions`. Only one thread may do this at a time.
    ///
    /// # Errors
    /// [`Error::Usage`] if the mapping is not what the header says, or its blocks would become larger;
    /// [`Error::Damaged`] if the header was changed since the re-encryption began; the failure of a device. If the
    /// device fails while data is written, requests for that part fail until the container is opened again.
    pub fn reencrypt(
        &self,
        container: &mut Container,
        keys: &BothKeys,
        pace: ReencryptionPace,
        random: &dyn Random,
        go_on: &mut dyn FnMut(ReencryptionProgress) -> bool,
    ) -> Result<ReencryptionEnd> {
        self.take_up(container, keys, pace)?;
        let serving = Arc::clone(&*self.serving.now().ok_or_else(Error::suspended)?);
        let Serving::Regions(regions) = &*serving else {
            return Err(Error::usage("nothing is being re-encrypted"));
        };
        let ended =
            container.reencrypt_under(&*self.device, keys, pace, random, &**regions, go_on)?;
        if ended == ReencryptionEnd::All {
            self.complete(container, keys)?;
        }
        Ok(ended)
    }

    /// Serves in regions from now on, as the header says it.
    fn take_up(
        &self,
        container: &Container,
        keys: &BothKeys,
        pace: ReencryptionPace,
    ) -> Result<()> {
        let state = container.reencryption()?;
        container.check_proof(&state, keys)?;
        if self.read_only {
            return Err(Error::usage(
                "a mapping that is open read-only is not re-encrypted: open it for writing",
            ));
        }
        if pace.device_size.is_some() {
            return Err(Error::usage(
                "a mapping that is open is re-encrypted whole: close it to use a part of the device only",
            ));
        }
        let size = self.size.load(std::sync::atomic::Ordering::Relaxed);
        let total = state.data_len(self.device.size());
        if size != total {
            let way_out = match **self.serving.now().ok_or_else(Error::suspended)? {
                Serving::All(_) => "make them the same with 'luks resize' first",
                Serving::Regions(_) => "close it, and open it again",
            };
            return Err(Error::Usage(format!(
                "the mapping has {size} bytes, and its container {total}: {way_out}"
            )));
        }
        if state.unit() > self.sector {
            return Err(Error::usage(
                "larger sectors would change the blocks that users of the open mapping see: close it first",
            ));
        }
        let regions = Regions::new(&state, &self.device, keys)?;
        let is_same = match &**self.serving.now().ok_or_else(Error::suspended)? {
            Serving::All(core) => regions.is_all_like(core)?,
            Serving::Regions(now) if now.is_like(&regions)? => return Ok(()),
            Serving::Regions(_) => false,
        };
        if !is_same {
            return Err(Error::usage(
                "the mapping is not what the header says of its re-encryption: close it, and open it again",
            ));
        }
        *self.own.lock() = None;
        self.serving.replace(Serving::Regions(Box::new(regions)));
        Ok(())
    }

    /// Serves the data when all of it is new.
    fn complete(&self, container: &Container, keys: &BothKeys) -> Result<()> {
        let device = Arc::clone(&self.device);
        let core = match &keys.new {
            Some(key) => {
                let segment = container.segment()?;
                SectorCore::new(&segment, device, key, self.mode)?
            }
            None => SectorCore::part(&Segment::linear(self.start, None), device, None)?,
        };
        self.serving.replace(Serving::All(core));
        *self.own.lock() = keys
            .new
            .as_ref()
            .map(|_| MappingIdentity::of(container))
            .transpose()?;
        Ok(())
    }
}
