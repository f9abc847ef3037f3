//! Devices that get the guid of another pool: those that are split off from a pool, and all devices of a pool that
//! gets another guid.
//!
//! Labels, superblocks and key blocks all name the pool, and cannot change at one moment. So a label names both pools
//! meanwhile, and frames of either count. `docs/FORMAT.md` has the order of the writes.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::group::member::{InUse, Member};
use crate::layout::frames::{BLOCK, Label, PoolChange};
use crate::layout::geometry::COPIES;
use crate::store::devices::{DeviceIdentity, Store};
use crate::{Error, MemberInfo, Result};

/// Groups what was found on devices by the pools that they belong to. Of a change that a power cut interrupted, what is
/// true of one device is true of all.
pub fn by_pool<T>(found: Vec<(T, DeviceIdentity)>) -> BTreeMap<u64, Vec<T>> {
    let changed: Vec<DeviceIdentity> = found.iter().map(|(_, found)| *found).collect();
    let pool_of = |own: &DeviceIdentity| {
        let mut others = changed.iter().filter(|other| own.changes_with(other));
        others.next().map_or(own.pool_guid, |other| other.pool_guid)
    };
    let mut pools: BTreeMap<u64, Vec<T>> = BTreeMap::new();
    for (device, own) in found {
        pools.entry(pool_of(&own)).or_default().push(device);
    }
    pools
}

/// A key block, by its number.
type KeyBlock = (u32, Box<[u8; BLOCK]>);

/// An operation on a device ends within this time, or the device does not answer.
const CLOSING: Duration = Duration::from_secs(10);

impl Store {
    /// Labels devices as ones that the next commit splits off, as a pool with this guid and name. They are split off
    /// if that commit, `txg`, is durable and does not list them. Durable when this returns.
    ///
    /// # Errors
    /// `Error::NoSuchMember`, or the failure of a device: some may have the label then.
    pub fn prepare_split(
        &self,
        devices: &[u64],
        (pool_guid, name): (u64, &str),
        txg: u64,
    ) -> Result<()> {
        self.relabel(devices, |label| label.splitting(pool_guid, name, txg))
    }

    /// Labels devices as before [`Store::prepare_split`].
    ///
    /// # Errors
    /// `Error::NoSuchMember`, or the failure of a device.
    pub fn undo_split(&self, devices: &[u64]) -> Result<()> {
        self.relabel(devices, Label::settled)
    }

    /// Labels devices as those of the new pool, and closes them. The commit that splits them off is durable.
    ///
    /// # Errors
    /// The first failure of a device. The next import of this pool, or of the other one, completes what is missing.
    pub fn split_off(&self, devices: &[u64]) -> Result<()> {
        let mut done = Ok(());
        for guid in devices {
            done = done.and(self.relabel(&[*guid], Label::split_off));
        }
        let layout = self.groups.now();
        let gone = layout.all().filter(|m| devices.contains(&m.guid()));
        let in_use: Vec<InUse> = gone.map(|member| member.in_use()).collect();
        drop(layout);
        for guid in devices {
            self.let_go(*guid, false)?;
        }
        // An operation that began before may have one open still.
        let limit = Instant::now() + CLOSING;
        while in_use.iter().any(InUse::is_used) && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
        done
    }

    /// After a power cut, completes the splits that a commit has made, and undoes the others. `done` are the guids of
    /// the pools that commits have split off. Returns the failures of devices to take their labels: a member is faulted
    /// then, and another device stays as it is.
    ///
    /// # Errors
    /// The failure of a device that the pool cannot do without.
    pub fn settle_splits(&self, done: &[u64]) -> Result<Vec<String>> {
        let is_splitting = |member: &Arc<Member>| member.label.change() == PoolChange::Splitting;
        let mut failures =
            self.on_devices(is_splitting, |m| self.set_label(m, m.label.settled()))?;
        for member in self.split_before.lock().drain(..) {
            let since = member.label.since.get();
            // One that went on in the pool after that commit was taken out later.
            let is_from_before = member.newest_txg().is_some_and(|last| last < since);
            if done.contains(&member.label.other_guid.get()) && is_from_before {
                let split_off = Arc::new(member.with_label(member.label.split_off()));
                let written = self.write_labels(&split_off);
                failures.extend(written.err().map(|error| error.to_string()));
            }
        }
        Ok(failures)
    }

    /// The name that the pool gets, if its devices were split off from another one and it was not imported since.
    pub fn name_of_split(&self) -> Option<String> {
        let layout = self.groups.now();
        let mut name = None;
        for member in layout.members() {
            if member.label.change() != PoolChange::SplitOff || member.has_own_superblock() {
                return None;
            }
            name = Some(member.label.new_name());
        }
        name
    }

    /// Returns whether labels name another pool still.
    pub fn is_changing(&self) -> bool {
        let layout = self.groups.now();
        layout.all().any(names_other)
    }

    /// The devices whose labels name another pool still, or would if a power cut had not come in between.
    pub fn changing(&self) -> Vec<MemberInfo> {
        let layout = self.groups.now();
        let all = layout.all().filter(|member| names_other(member));
        all.map(|member| member.info()).collect()
    }

    /// Puts the devices together again, but for these: their labels count no longer for those of others. The
    /// reservations of the other devices go on, in the new store.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn without(&self, guids: &[u64]) -> Result<Store> {
        let layout = self.groups.now();
        let left = layout.all().filter(|m| !guids.contains(&m.guid()));
        let store = Store::open(left.map(|member| Arc::clone(&member.device)).collect())?;
        store.inherit_claims(self);
        Ok(store)
    }

    /// Writes the labels that name another pool too. Of a change that a power cut interrupted, some devices may not
    /// have theirs. What is written as this pool counts only where the label names it, so this comes before all other
    /// writes. Durable when this returns. A device that does not take its label is faulted; returns why.
    ///
    /// # Errors
    /// The failure of a device that the pool cannot do without.
    pub fn confirm_labels(&self) -> Result<Vec<String>> {
        self.on_devices(names_other, |member| self.write_labels(member))
    }

    /// Has all devices name this pool only. A superblock of this pool is durable, and these key blocks are in use.
    /// Nothing else may write to the headers meanwhile. A device that fails is faulted, and the next import completes
    /// what is missing; returns why.
    ///
    /// # Errors
    /// The failure of a device that the pool cannot do without.
    pub fn finish_change(&self, key_blocks: &[u32]) -> Result<Vec<String>> {
        // As long as one label names the other pool, those that do not change with it.
        let mut failures = self.confirm_labels()?;
        let frames = key_blocks.iter();
        let frames = frames.map(|index| Ok((*index, self.key_block_frame(*index)?)));
        let frames: Arc<[KeyBlock]> = frames.collect::<Result<_>>()?;
        let rewrite = |member: &Arc<Member>| {
            let (layout, frames) = (self.groups.now(), Arc::clone(&frames));
            self.groups
                .on_one(&layout, member, frames, |member, frames| {
                    member.rewrite_keys(frames)
                })
        };
        // Spares hold no keys, nor do devices that are not in use get new ones.
        let has_keys = |member: &Arc<Member>| names_other(member) && member.is_active();
        failures.extend(self.on_devices(has_keys, rewrite)?);
        if failures.is_empty() {
            let settle = |member: &Arc<Member>| self.set_label(member, member.label.settled());
            failures = self.on_devices(names_other, settle)?;
        }
        Ok(failures)
    }

    /// Labels all devices of a pool as those of a pool with another guid. Nothing else may use them. Durable when this
    /// returns; the next import completes it.
    ///
    /// # Errors
    /// `Error::NoSuchMember` if one of them is missing, and nothing is written. The failure of a device: some may have
    /// the label then, and the next import labels the others so.
    pub fn renumber(&self, pool_guid: u64, devices: &[u64]) -> Result<()> {
        let layout = self.groups.now();
        devices
            .iter()
            .try_for_each(|guid| layout.member(*guid).map(drop))?;
        if self.is_changing() {
            return Err(Error::Mismatch {
                reason: "they are getting another guid already; import the pool first".into(),
            });
        }
        // The label of a spare proves nothing for other devices, so it is written after theirs.
        let is_spare = |guid: &u64| layout.member(*guid).is_ok_and(|m| m.label.is_spare());
        let (spares, members): (Vec<u64>, Vec<u64>) = devices.iter().copied().partition(is_spare);
        self.relabel(&[members, spares].concat(), |label| {
            label.renumbered(pool_guid)
        })
    }

    fn relabel(&self, devices: &[u64], new: impl Fn(&Label) -> Label) -> Result<()> {
        for guid in devices {
            let layout = self.groups.now();
            let member = layout.member(*guid)?;
            self.set_label(member, new(&member.label))?;
        }
        Ok(())
    }

    fn set_label(&self, member: &Member, label: Label) -> Result<()> {
        let member = Arc::new(member.with_label(label));
        self.write_labels(&member)?;
        self.groups.change(|layout| layout.renew(&member));
        Ok(())
    }

    fn write_labels(&self, member: &Arc<Member>) -> Result<()> {
        let write = |member: &Member, (): &()| member.write_labels();
        self.groups.on_one(&self.groups.now(), member, (), write)
    }

    /// Does something to some devices. One that fails is faulted; returns why. What is not in use is no loss.
    fn on_devices(
        &self,
        is_one: impl Fn(&Arc<Member>) -> bool,
        act: impl Fn(&Arc<Member>) -> Result<()>,
    ) -> Result<Vec<String>> {
        let layout = self.groups.now();
        let mut failures = Vec::new();
        for member in layout.all().filter(|member| is_one(member)) {
            if let Err(error) = act(member) {
                failures.push(error.to_string());
                self.groups.failed(&layout, member, error)?;
            }
        }
        Ok(failures)
    }
}

impl Member {
    fn rewrite_keys(&self, frames: &[KeyBlock]) -> Result<()> {
        for copy in COPIES {
            for (index, block) in frames {
                let at = self.geometry.key_block(copy, *index);
                self.write(at, &[IoSlice::new(&block[..])])?;
            }
            // One whole copy is there at any moment.
            self.flush()?;
        }
        Ok(())
    }
}

fn names_other(member: &Arc<Member>) -> bool {
    member.label.takes_frames_of_other()
}
