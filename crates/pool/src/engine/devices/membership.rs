//! The devices of a pool: compares the devices that an import finds with those that the configuration lists.
//!
//! The newest superblock of all devices counts, and its configuration lists the devices. The newest superblock of each
//! device tells when the device was last part of the pool. The device lacks all records born later, and is resilvered.
//! If its last commit is not part of the pool's past, the device was imported without the others and changed. Then only
//! the administrator can decide which of the two states to keep.

use store::{DeviceAssignment, MemberInfo, MemberState, Newest, Shape, Store};

use crate::error::{Error, Result};
use crate::format::superblock::config::{Config, ConfigDevice, DeviceState, Epoch, Purpose};
use crate::format::superblock::root::PoolRoot;

/// The number of imports that the pool remembers, for devices that were away.
const EPOCHS_MAX: usize = 4096;

/// The result of an import's search.
pub(crate) struct DeviceSearch<'a> {
    pub(crate) store: &'a Store,
    /// The newest root and its transaction group.
    pub(crate) root: &'a PoolRoot,
    pub(crate) txg: u64,
}

impl DeviceSearch<'_> {
    /// Updates the configuration for the devices that were found, tells the store which of them to use, and refuses
    /// a pool that lacks too many. Writes nothing. Returns the number of groups.
    pub(crate) fn recognize(&self, config: &mut Config) -> Result<u32> {
        let newest = self.store.newest_superblocks();
        if config.is_redundant {
            self.refuse_other_histories(config, &newest)?;
            let present = self.store.members();
            let before = config.devices.clone();
            for index in 0..config.devices.len() {
                let device = &config.devices[index];
                let own = newest.iter().find(|own| own.guid == device.guid);
                let is_alone = config.group(device.group).count() == 1;
                let is_for_logs = config.purpose(device.group) == Purpose::Logs;
                let mut updated = self.judge(
                    index,
                    device,
                    own,
                    (&present, &config.epochs, is_alone && !is_for_logs),
                );
                let has_failed = device.state == DeviceState::Faulted;
                if is_for_logs && has_failed && config.is_sole(device) {
                    // No other device has the entries of a waiting log.
                    updated.state = self.back_again(device, &present);
                }
                config.devices[index] = updated;
            }
            self.set_resilver(&before, config, &newest);
        }
        let groups = self.root.groups.get();
        let is_in_none = |device: &ConfigDevice| {
            let purpose = config.purpose(device.group);
            let is_gone = matches!(purpose, Purpose::Gone | Purpose::Moved);
            device.is_member() && (u32::from(device.group) >= groups || is_gone)
        };
        if config.devices.iter().any(is_in_none) || config.roles.len() > groups as usize {
            let detail = "a device is in a group that does not exist";
            return Err(Error::inconsistent("configuration", detail));
        }
        self.warn_of_strangers(config);
        // Before the store uses any device: an import that is refused must change nothing.
        self.refuse_missing(config)?;
        self.store
            .assign(&assignment(config, &self.store.members()));
        self.count_segments(config)?;
        self.refuse_other_shapes(config)?;
        let groups = config.forget_last_gone(groups);
        for (group, segments) in config.dispensable() {
            self.store.make_dispensable(group, segments);
        }
        Ok(groups)
    }

    /// Refuses a pool without any group: only spares were found.
    pub(crate) fn refuse_empty(&self) -> Result<()> {
        match self.store.groups().iter().any(|segments| *segments > 0) {
            true => Ok(()),
            false => Err(store::Error::MissingDevices {
                missing: "only spares are there".into(),
            }
            .into()),
        }
    }

    /// Explains why the configuration could not be read: missing devices, if there are any.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let lost = (0..self.root.groups.get()).filter(|group| self.store.width(*group) == 0);
        match lost.count() {
            0 => error,
            lost => Error::Store(store::Error::MissingDevices {
                missing: format!("all, or too many, of {lost} of {} groups", self.root.groups),
            }),
        }
    }

    /// Decides the state of a listed device.
    fn judge(
        &self,
        index: usize,
        device: &ConfigDevice,
        newest: Option<&Newest>,
        (present, epochs, is_sole): (&[MemberInfo], &[Epoch], bool),
    ) -> ConfigDevice {
        let mut device = device.clone();
        let last = newest.and_then(|newest| newest.superblock.as_ref());
        let last = last.map(|(txg, payload)| last_commit(epochs, *txg, payload));
        // All data of a commit is durable before its first superblock is written.
        let missed = self.root.has_missed(index);
        let has_all = !missed && last.is_some_and(|last| last.saturating_add(1) >= self.txg);
        let was_here_till = match (device.state, missed) {
            (DeviceState::Online, false) => self.txg,
            (DeviceState::Online, true) => self.txg.saturating_sub(1),
            _ => device.from_txg,
        };
        let is_there = present.iter().any(|member| {
            member.guid == device.guid
                && (member.group, member.column) == (device.group, device.column)
        });
        device.from_txg = match (is_there, last) {
            (true, last) => last.unwrap_or(0).min(was_here_till),
            (false, _) => was_here_till,
        };
        device.state = match device.state {
            DeviceState::Spare => DeviceState::Spare,
            DeviceState::Faulted => DeviceState::Faulted,
            DeviceState::Offline if !device.is_temporary => DeviceState::Offline,
            _ if !is_there => DeviceState::Missing,
            DeviceState::Online if has_all || is_sole => DeviceState::Online,
            _ => DeviceState::Resilvering,
        };
        if device.state != DeviceState::Offline {
            device.is_temporary = false;
        }
        device
    }

    /// Tries a failed device again.
    fn back_again(&self, device: &ConfigDevice, present: &[MemberInfo]) -> DeviceState {
        match present.iter().any(|member| member.guid == device.guid) {
            true => DeviceState::Resilvering,
            false => DeviceState::Missing,
        }
    }

    /// Restarts the resilver, unless it can continue: for the same devices, if they have missed no write since.
    fn set_resilver(&self, before: &[ConfigDevice], config: &mut Config, newest: &[Newest]) {
        let has_missed = |index: usize, device: &ConfigDevice| {
            let own = newest.iter().find(|own| own.guid == device.guid);
            let last = own.and_then(|own| own.superblock.as_ref());
            let last = last.map_or(0, |(txg, _)| *txg);
            self.root.has_missed(index) || last.saturating_add(1) < self.txg
        };
        // After errors it is unknown which members lack records.
        let mut goes_on = config.resilver.is_running() && config.resilver.progress.errors == 0;
        for (index, device) in config.devices.iter().enumerate() {
            if device.state == DeviceState::Resilvering {
                // The position of the resilver holds for a device that has missed nothing since.
                let same = before[index].state == device.state
                    && before[index].from_txg == device.from_txg;
                goes_on &= same && !has_missed(index, device);
            }
        }
        if !goes_on {
            config.restart_resilver();
        }
    }

    /// Refuses devices whose last commit is not part of the past of the newest one.
    fn refuse_other_histories(&self, config: &Config, newest: &[Newest]) -> Result<()> {
        let leader = newest.iter().find(|device| {
            let newest = device.superblock.as_ref();
            newest.is_some_and(|(txg, payload)| {
                *txg == self.txg && PoolRoot::decode(payload).is_ok_and(|root| root == *self.root)
            })
        });
        for device in newest {
            let Some((txg, payload)) = &device.superblock else {
                continue;
            };
            let Ok(root) = PoolRoot::decode(payload) else {
                continue;
            };
            // A spare holds no data of the pool, whatever it was before.
            let mut members = config.devices.iter().filter(|d| d.is_member());
            let is_member = members.any(|d| d.guid == device.guid);
            let is_past = match *txg == self.txg {
                true => root == *self.root,
                false => is_past(&config.epochs, &root, *txg, is_member),
            };
            if !is_past {
                return Err(Error::OtherHistory {
                    device: device.name.clone(),
                    other: leader.map_or_else(String::new, |leader| leader.name.clone()),
                });
            }
        }
        Ok(())
    }

    /// Sets the number of segments of each group: from the configuration, or from the labels if no group has grown.
    fn count_segments(&self, config: &Config) -> Result<()> {
        for (known, group) in self.store.groups().into_iter().zip(0..) {
            let segments = config.segments(group).unwrap_or(known);
            if known > 0 && u32::from(group) < self.root.groups.get() {
                self.store.set_segments(group, segments)?;
            }
        }
        let mut stretches = config.stretches.iter();
        if stretches.any(|stretch| u32::from(stretch.group) >= self.root.groups.get()) {
            let detail = "it has segments of a group that does not exist";
            return Err(Error::inconsistent("configuration", detail));
        }
        Ok(())
    }

    /// Checks that the labels and the configuration agree about each group.
    fn refuse_other_shapes(&self, config: &Config) -> Result<()> {
        let segments = self.store.groups().into_iter();
        let mut known = segments.zip(0..).filter(|(segments, _)| *segments > 0);
        let differs = known.any(|(segments, group)| {
            let number = u16::try_from(group).unwrap_or(u16::MAX);
            let listed = config.shape(number);
            let mut others = config.dispensable();
            let is_other = others.any(|(other, listed)| other == number && segments != listed);
            group < self.root.groups.get() && (self.store.shape(group) != listed || is_other)
        });
        match differs {
            false => Ok(()),
            true => {
                let detail = "it does not agree with the labels about what the groups are";
                Err(Error::inconsistent("configuration", detail))
            }
        }
    }

    fn warn_of_strangers(&self, config: &Config) {
        for member in self.store.members() {
            let is_listed = config.devices.iter().any(|d| d.guid == member.guid);
            if !is_listed {
                tracing::warn!(
                    device = member.name,
                    "the device was taken out of the pool and is not used"
                );
            }
        }
    }

    /// Checks that the members of each group together hold all of its data.
    fn refuse_missing(&self, config: &Config) -> Result<()> {
        let present = self.store.members();
        let is_usable = |device: &ConfigDevice| {
            device.state == DeviceState::Online
                && present.iter().any(|member| member.guid == device.guid)
        };
        let groups = 0..self.root.groups.get();
        let lost = groups.filter(|group| {
            let group = u16::try_from(*group).unwrap_or(u16::MAX);
            config.purpose(group).holds_data() && !config.is_complete(group, is_usable)
        });
        let missing: Vec<String> = lost
            .map(|group| {
                let members = config.group(group as u16);
                let lacking = members.filter(|device| !is_usable(device));
                let names: Vec<&str> = lacking.map(|device| device.path.as_str()).collect();
                let shape = config.shape(group as u16);
                let (has, needed) = (config.columns(group as u16, is_usable), shape.needed());
                match shape.has_parity() {
                    true => format!("{} of {}", needed - has, names.join(" and ")),
                    false => names.join(" or "),
                }
            })
            .collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(Error::Store(store::Error::MissingDevices {
                missing: missing.join(", "),
            })),
        }
    }
}

/// Returns whether the last commit of a device is part of the past of the pool.
fn is_past(epochs: &[Epoch], last: &PoolRoot, txg: u64, is_member: bool) -> bool {
    let Some(first) = epochs.first() else {
        return true;
    };
    let guid = last.epoch.get();
    let Some(index) = epochs.iter().position(|epoch| epoch.guid == guid) else {
        // The epoch is not in the list. A commit without an epoch (0) may be older than the list. If the device was
        // removed from its group, every commit may be older than the list.
        return txg < first.start && (guid == 0 || !is_member);
    };
    let start = epochs[index].start;
    let end = epochs.get(index + 1).map_or(u64::MAX, |next| next.start);
    // The commit was interrupted before it was durable on all devices, and the next epoch began with its number.
    let was_cut_short = txg == end && last.missed.iter().all(|bits| *bits == 0);
    start <= txg && (txg < end || was_cut_short)
}

/// Returns whether the pool certainly went on from this commit. Unlike [`is_past`] it believes no commit of an epoch that
/// the pool has forgotten, and none that was interrupted: a copy of the pool could be brought to look like that.
pub(crate) fn is_certain_past(epochs: &[Epoch], guid: u64, txg: u64, now: u64) -> bool {
    let is_it = |epoch: &Epoch| guid != 0 && epoch.guid == guid;
    let Some(index) = epochs.iter().position(is_it) else {
        return false;
    };
    let end = epochs.get(index + 1).map(|next| next.start);
    epochs[index].start <= txg && txg <= now && end.is_none_or(|end| txg < end)
}

/// The last commit that both the device and the pool have. An interrupted commit does not count.
fn last_commit(epochs: &[Epoch], txg: u64, payload: &[u8]) -> u64 {
    let guid = PoolRoot::decode(payload).map_or(0, |root| root.epoch.get());
    let epoch = epochs.iter().rev().find(|epoch| epoch.start <= txg);
    match epoch.is_none_or(|epoch| epoch.guid == guid) {
        true => txg,
        false => txg.saturating_sub(1),
    }
}

/// The last transaction group that a returning device has. The device may lack all records born later. `last` is its
/// newest superblock.
pub(crate) fn rejoin(config: &Config, name: &str, last: Option<&(u64, Vec<u8>)>) -> Result<u64> {
    let Some((txg, payload)) = last else {
        return Ok(0);
    };
    let root = PoolRoot::decode(payload)?;
    match is_past(&config.epochs, &root, *txg, true) {
        true => Ok(last_commit(&config.epochs, *txg, payload)),
        false => Err(Error::OtherHistory {
            device: name.into(),
            other: "the pool as it is here".into(),
        }),
    }
}

/// The last transaction group that an image of the pool has, whose newest superblock is this one.
pub(crate) fn last_of_image(
    (config, now): (&Config, u64),
    name: &str,
    (txg, payload): (u64, &[u8]),
) -> Result<u64> {
    let root = PoolRoot::decode(payload)?;
    let mut later = config.epochs.iter().filter(|epoch| epoch.start <= txg);
    // An image is made of durable commits only, so none of it was cut short.
    let is_in_last = later
        .next_back()
        .is_none_or(|is| is.guid == root.epoch.get());
    match txg <= now && is_in_last && is_past(&config.epochs, &root, txg, true) {
        true => Ok(txg),
        false => Err(Error::OtherHistory {
            device: name.into(),
            other: "the pool as it is here".into(),
        }),
    }
}

/// Begins an epoch of the pool, and forgets epochs that are older than the last commit of every device.
pub(crate) fn begin_epoch(config: &mut Config, epoch: Epoch) {
    config.epochs.push(epoch);
    // A spare that once held all data, and was removed while it was away, may have another history.
    let may_be_back = |device: &&ConfigDevice| match device.state {
        DeviceState::Online => false,
        DeviceState::Spare => device.from_txg > 0,
        _ => true,
    };
    let away = config.devices.iter().filter(may_be_back);
    let oldest = away.map(|device| device.from_txg).min();
    let oldest = oldest
        .unwrap_or(u64::MAX)
        .min(epoch.start.saturating_sub(2));
    // The image may be of any epoch.
    let is_over = |next: &Epoch| next.start <= oldest && config.follower.is_none();
    while config.epochs.get(1).is_some_and(is_over) || config.epochs.len() > EPOCHS_MAX {
        config.epochs.remove(0);
    }
}

/// The layouts of the groups of a store; empty if no group has parity.
pub(crate) fn shapes(store: &Store) -> Vec<Shape> {
    let groups = 0..store.groups().len() as u32;
    let shapes: Vec<Shape> = groups.map(|group| store.shape(group)).collect();
    match shapes.iter().any(|shape| shape.has_parity()) {
        true => shapes,
        false => Vec::new(),
    }
}

/// For the store: how to use each device that was found.
fn assignment(config: &Config, present: &[MemberInfo]) -> Vec<DeviceAssignment> {
    let is_there = |device: &&ConfigDevice| present.iter().any(|m| m.guid == device.guid);
    let devices = config.devices.iter().filter(is_there);
    devices
        .map(|device| DeviceAssignment {
            guid: device.guid,
            state: device.state.member_state(),
            errors: device.errors,
        })
        .collect()
}

/// Returns a bit for each device that misses a part of the commit that is about to become durable: each device whose
/// state in the store is not in `get_it`.
pub(crate) fn missed(
    config: &Config,
    store: &Store,
    get_it: &[MemberState],
) -> [u8; crate::format::superblock::root::DEVICES_MAX / 8] {
    let mut bits = [0; crate::format::superblock::root::DEVICES_MAX / 8];
    let members = store.members();
    for (index, device) in config.devices.iter().enumerate() {
        let member = members.iter().find(|member| member.guid == device.guid);
        let got_all = member.is_some_and(|member| get_it.contains(&member.state));
        if device.is_member()
            && !got_all
            && let Some(byte) = bits.get_mut(index / 8)
        {
            *byte |= 1 << (index % 8);
        }
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(epoch: u64) -> PoolRoot {
        let mut root = PoolRoot::new("tank", 1, 1);
        root.epoch = epoch.into();
        root
    }

    fn epochs() -> Vec<Epoch> {
        [(7, 10), (8, 20), (9, 30)]
            .map(|(guid, start)| Epoch { guid, start })
            .to_vec()
    }

    #[test]
    fn the_past_is_told_from_other_ways() {
        let past = |epoch, txg| is_past(&epochs(), &root(epoch), txg, true);
        assert!(past(7, 10) && past(7, 19) && past(8, 20) && past(9, 99));
        assert!(past(0, 9), "before there were epochs");
        assert!(!past(0, 10) && !past(7, 9) && !past(7, 21) && !past(8, 19));
        assert!(!past(6, 9), "this one is not known");
        assert!(is_past(&epochs(), &root(6), 9, false), "it was taken out");
        assert!(!is_past(&epochs(), &root(6), 15, false));
        // The next import began with this number, since the commit never was durable.
        assert!(past(7, 20));
        let mut alone = root(7);
        alone.missed[0] = 2;
        assert!(!is_past(&epochs(), &alone, 20, true), "it went on alone");
        assert!(is_past(&[], &root(5), 5, true));
    }

    #[test]
    fn the_certain_past_is_of_known_epochs() {
        let certain = |guid, txg| is_certain_past(&epochs(), guid, txg, 40);
        assert!(certain(7, 10) && certain(7, 19) && certain(8, 29) && certain(9, 40));
        // The next import began with this number. The commit may be one that the pool lacks.
        assert!(!certain(7, 20) && !certain(8, 30));
        assert!(!certain(9, 41), "the pool is not so far");
        assert!(!certain(6, 9) && !certain(0, 9), "before the list");
        assert!(!is_certain_past(&[], 0, 5, 40));
    }

    #[test]
    fn the_past_is_kept_as_far_as_anybody_may_be_back() {
        let mut config = Config {
            epochs: epochs(),
            ..Config::default()
        };
        config.devices.push(ConfigDevice {
            state: DeviceState::Offline,
            from_txg: 25,
            ..ConfigDevice::default()
        });
        let next = Epoch { guid: 1, start: 40 };
        begin_epoch(&mut config, next);
        let starts: Vec<u64> = config.epochs.iter().map(|epoch| epoch.start).collect();
        assert_eq!(starts, [20, 30, 40]);
        config.devices.clear();
        begin_epoch(&mut config, Epoch { guid: 2, start: 41 });
        let starts: Vec<u64> = config.epochs.iter().map(|epoch| epoch.start).collect();
        assert_eq!(
            starts,
            [30, 40, 41],
            "the last two commits may be where a device is"
        );
    }
}
