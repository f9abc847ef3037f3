//! Flags in a LUKS2 header that say how the container is served.

use std::sync::Arc;

use cipher::Random;
use serde_json::json;

use super::Container;
use crate::Result;
use crate::header::Header;
use crate::mapping::MappingFlags;

/// A flag that means something here. Others are of how the kernel serves a container, and stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// Discards are passed on.
    AllowDiscards,
    /// Reads are served inline.
    NoReadWorkqueue,
    /// Writes are served inline.
    NoWriteWorkqueue,
    /// Queued requests are encrypted and decrypted on the thread that asks.
    SameCpuCrypt,
    /// Queued writes go to the device from the threads that encrypt.
    SubmitFromCryptCpus,
    /// Sectors with tags are written without the journal.
    NoJournal,
}

impl Flag {
    const ALL: [Flag; 6] = [
        Flag::AllowDiscards,
        Flag::NoReadWorkqueue,
        Flag::NoWriteWorkqueue,
        Flag::SameCpuCrypt,
        Flag::SubmitFromCryptCpus,
        Flag::NoJournal,
    ];

    /// Returns the name of the flag in headers.
    fn name(self) -> &'static str {
        match self {
            Flag::AllowDiscards => "allow-discards",
            Flag::NoReadWorkqueue => "no-read-workqueue",
            Flag::NoWriteWorkqueue => "no-write-workqueue",
            Flag::SameCpuCrypt => "same-cpu-crypt",
            Flag::SubmitFromCryptCpus => "submit-from-crypt-cpus",
            Flag::NoJournal => "no-journal",
        }
    }
}

impl Container {
    /// Returns the settings that the header asks for. Requests are inline by default, so that the flags against queues
    /// ask for what is done anyway. The two flags that choose how a queue works turn the queues on.
    pub fn flags(&self) -> MappingFlags {
        let has = |flag: Flag| match &self.header {
            Header::V1(_) => false,
            Header::V2(header) => header.view().flags.iter().any(|name| name == flag.name()),
        };
        let (same_cpu, submits) = (has(Flag::SameCpuCrypt), has(Flag::SubmitFromCryptCpus));
        let is_queued = same_cpu || submits;
        MappingFlags {
            allow_discards: has(Flag::AllowDiscards),
            read_workqueue: is_queued && !has(Flag::NoReadWorkqueue),
            write_workqueue: is_queued && !has(Flag::NoWriteWorkqueue),
            same_cpu,
            sort_writes: same_cpu && !submits,
            no_journal: has(Flag::NoJournal),
            ..MappingFlags::default()
        }
    }

    /// Sets these flags in the header, and removes the others of those that this program knows.
    ///
    /// # Errors
    /// [`crate::Error::Usage`] for LUKS1; [`crate::Error::NoSpace`]; the failure of the device.
    pub fn set_flags(&mut self, flags: &[Flag], random: &dyn Random) -> Result<()> {
        let device = Arc::clone(&self.device);
        let header = self.luks2_mut("flags")?;
        let known = |name: &str| Flag::ALL.iter().any(|flag| flag.name() == name);
        let others = header.view().flags.iter().filter(|name| !known(name));
        let given = flags.iter().map(|flag| flag.name());
        let all: Vec<&str> = others.map(String::as_str).chain(given).collect();
        if all == header.view().flags {
            return Ok(());
        }
        let all = json!(all);
        let mut changed = header.clone();
        changed.change(
            |json| match (all.as_array(), json["config"].as_object_mut()) {
                (Some(none), Some(config)) if none.is_empty() => drop(config.remove("flags")),
                (_, Some(config)) => drop(config.insert("flags".into(), all)),
                (_, None) => {}
            },
        )?;
        changed.write(&*device, random)?;
        *header = changed;
        Ok(())
    }
}
