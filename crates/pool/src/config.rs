//! What the pool keeps about itself: its devices, for people, and the key blocks that a crash may
//! have left to wipe.

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::layout::RecordPtr;
use crate::scrub::ScrubStatus;
use crate::wire::{Reader, Writer};

const MAGIC: u32 = u32::from_le_bytes(*b"CONF");
const VERSION: u16 = 1;

/// A device as it was when the configuration was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigDevice {
    pub(crate) guid: u64,
    pub(crate) group: u16,
    pub(crate) size: u64,
    pub(crate) path: String,
}

/// The configuration record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) devices: Vec<ConfigDevice>,
    /// Key blocks that nothing refers to since this commit and that must be overwritten.
    pub(crate) wipe: Vec<u32>,
    /// The scrub under way, or the last one.
    pub(crate) scrub: ScrubStatus,
}

impl Config {
    pub(crate) fn load(disk: &Disk, ptr: &RecordPtr) -> Result<Config> {
        Config::decode(&disk.clear_record(ptr)?)
            .ok_or_else(|| Error::inconsistent("configuration", "it cannot be read"))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        w.u32(MAGIC).u16(VERSION).u16(self.devices.len() as u16);
        w.u32(self.wipe.len() as u32);
        w.value(&self.scrub.to_record());
        for device in &self.devices {
            w.u64(device.guid).u16(device.group).u64(device.size);
            w.text(&device.path);
        }
        for block in &self.wipe {
            w.u32(*block);
        }
        w.bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Config> {
        let mut r = Reader::new(bytes);
        if r.u32()? != MAGIC || r.u16()? != VERSION {
            return None;
        }
        let devices = r.u16()?;
        let wipe = r.u32()?;
        let scrub = ScrubStatus::from_record(&r.value()?)?;
        Some(Config {
            scrub,
            devices: (0..devices)
                .map(|_| {
                    Some(ConfigDevice {
                        guid: r.u64()?,
                        group: r.u16()?,
                        size: r.u64()?,
                        path: r.text()?,
                    })
                })
                .collect::<Option<_>>()?,
            wipe: (0..wipe).map(|_| r.u32()).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_total() {
        let config = Config {
            devices: vec![ConfigDevice {
                guid: 1,
                group: 2,
                size: 3,
                path: "/dev/disk".into(),
            }],
            wipe: vec![4, 5],
            scrub: ScrubStatus::default(),
        };
        let bytes = config.encode();
        assert_eq!(Config::decode(&bytes), Some(config));
        for len in 0..bytes.len() {
            assert_eq!(Config::decode(&bytes[..len]), None);
        }
        let mut huge = bytes;
        huge[8..12].fill(0xff);
        assert_eq!(Config::decode(&huge), None);
    }
}
