//! Changing which devices a store is made of, and what they are good for.

use std::sync::Arc;

use block::BlockDevice;

use crate::group::member::Member;
use crate::group::mirror::Group;
use crate::group::pace::LateDevice;
use crate::layout::frames::PoolChange;
use crate::store::devices::{Store, refuse_contents};
use crate::{
    DeviceAssignment, DeviceFault, Error, Joins, MemberInfo, MemberState, NewMember, Result, Shape,
};

impl Store {
    /// Says how many segments a group has, parity included. Each of its members must have space for its part.
    ///
    /// # Errors
    /// `Error::NoMember` if there is no such group, `Error::TooSmall` if a member is too small.
    pub fn set_segments(&self, group: u16, segments: u32) -> Result<()> {
        self.groups.try_change(|layout| {
            let known = layout.groups.get_mut(usize::from(group));
            let known = known.ok_or(Error::NoMember {
                group: group.into(),
            })?;
            known.set_segments(segments)
        })
    }

    /// Looks how large the devices are now that are in use. A remote one connects again if its connection is lost; one
    /// that has failed does so only when it is opened again.
    pub fn refresh_sizes(&self) {
        for member in self.groups.now().active() {
            // One that cannot tell keeps the size that it had.
            let _ = member.device.refresh_size();
        }
    }

    /// The members that have failed since this was asked last.
    pub fn take_faults(&self) -> Vec<DeviceFault> {
        self.groups.take_faults()
    }

    /// Says which devices belong to the pool, and what they are good for. Others are let go of.
    pub fn assign(&self, devices: &[DeviceAssignment]) {
        self.groups.change(|layout| {
            let mut kept = Vec::new();
            for member in layout.all() {
                let assigned = devices.iter().find(|device| device.guid == member.guid());
                if let Some(assigned) = assigned {
                    member.set_state(assigned.state);
                    member.set_errors(&assigned.errors);
                    kept.push(Arc::clone(member));
                } else if member.label.change() == PoolChange::Splitting {
                    self.split_before.lock().push(Arc::clone(member));
                }
            }
            *layout = layout.with(kept);
        });
    }

    /// Says that the pool can do without a group, so that the failure of its last member is none of an
    /// operation's: it is written to as long as it [works](Store::works). It has so many segments, also
    /// while none of its members is there.
    pub fn make_dispensable(&self, group: u16, segments: u32) {
        self.groups
            .change(|layout| layout.make_dispensable(group.into(), segments));
    }

    /// Says what a member is good for from now on.
    pub fn set_state(&self, guid: u64, state: MemberState) {
        if let Some(member) = self.groups.now().find(guid) {
            member.set_state(state);
        }
    }

    /// Forgets how often the members failed; of all, or of one.
    pub fn clear_errors(&self, guid: Option<u64>) {
        let layout = self.groups.now();
        let wanted = |member: &&Arc<Member>| guid.is_none_or(|guid| guid == member.guid());
        layout
            .all()
            .filter(wanted)
            .for_each(|member| member.set_errors(&Default::default()));
    }

    /// Makes a device a spare, or a member of a group that is to be resilvered. It is emptied and
    /// labelled, which is durable when this returns. What it holds is refused unless `force`.
    ///
    /// # Errors
    /// `Error::InUse` unless `force`, `Error::TooSmall`, or the failure of the device.
    pub fn join(&self, device: &NewMember, joins: Joins) -> Result<MemberInfo> {
        if !device.force {
            refuse_contents(device.device.as_ref())?;
        }
        let template = self.template();
        let holds = match joins {
            Joins::Group { group, .. } => self.groups.now().find_group(group)?.per_column(),
            Joins::Spares => (template.segments(device)?, Shape::WHOLE),
        };
        let member = template.member(device, joins, holds)?;
        self.claim_new(&member)?;
        prepare(&member)?;
        if let Joins::Group { .. } = joins {
            member.set_state(MemberState::Resilvering);
        }
        let info = member.info();
        self.groups.try_change(|layout| {
            match joins {
                Joins::Group { group, .. } => layout.groups[usize::from(group)].take_in(member)?,
                Joins::Spares => layout.spares.push(member),
            }
            Ok(())
        })?;
        Ok(info)
    }

    /// Makes devices the members of a new group, all online, and returns its number. `parity` as in
    /// [`crate::NewGroup`]. It has no more than `segments_max` segments. As for [`Store::join`].
    ///
    /// # Errors
    /// As [`Store::join`].
    pub fn add_group(
        &self,
        devices: &[NewMember],
        parity: usize,
        segments_max: u32,
    ) -> Result<u16> {
        let number = self.groups.now().groups.len();
        let members = self.plan_group(devices, parity, segments_max)?;
        members
            .iter()
            .try_for_each(|member| self.claim_new(member))?;
        members.iter().try_for_each(|member| prepare(member))?;
        self.groups
            .change(|layout| layout.groups.push(Group::new(members)));
        Ok(number as u16)
    }

    /// Says whether [`Store::add_group`] would refuse these devices. Nothing is written.
    ///
    /// # Errors
    /// As [`Store::add_group`].
    pub fn check_group(
        &self,
        devices: &[NewMember],
        parity: usize,
        segments_max: u32,
    ) -> Result<()> {
        self.plan_group(devices, parity, segments_max).map(drop)
    }

    /// Says whether [`Store::join`] would refuse this spare. Nothing is written.
    ///
    /// # Errors
    /// As [`Store::join`].
    pub fn check_spare(&self, new: &NewMember) -> Result<()> {
        if !new.force {
            refuse_contents(new.device.as_ref())?;
        }
        self.template().segments(new).map(drop)
    }

    fn plan_group(
        &self,
        devices: &[NewMember],
        parity: usize,
        segments_max: u32,
    ) -> Result<Vec<Arc<Member>>> {
        for new in devices.iter().filter(|new| !new.force) {
            refuse_contents(new.device.as_ref())?;
        }
        let number = self.groups.now().groups.len();
        self.template().group(devices, number, parity, segments_max)
    }

    /// Makes a spare a member of a group, to hold this column of it, which is to be resilvered.
    ///
    /// # Errors
    /// `Error::NoSuchMember`, `Error::NoMember` if there is no such group, or the failure of the device.
    pub fn enlist(&self, guid: u64, group: u16, column: u16) -> Result<()> {
        let layout = self.groups.now();
        let spare = layout.member(guid)?;
        let holds = layout.find_group(group)?.per_column();
        let new = NewMember {
            device: Arc::clone(&spare.device),
            guid,
            created: spare.label.created.get(),
            force: true,
        };
        let joins = Joins::Group { group, column };
        let member = self.template().member(&new, joins, holds)?;
        member.set_state(MemberState::Resilvering);
        member.write_labels()?;
        self.groups.try_change(|layout| {
            layout.remove(guid);
            layout.groups[usize::from(group)].take_in(Arc::clone(&member))
        })?;
        // The member takes over the claim that the device has as a spare.
        *member.claim().lock() = spare.claim().lock().take();
        Ok(())
    }

    /// Makes a member a spare again.
    ///
    /// # Errors
    /// `Error::NoSuchMember`, or the failure of the device.
    pub fn dismiss(&self, guid: u64) -> Result<()> {
        let layout = self.groups.now();
        let old = layout.member(guid)?;
        let new = NewMember {
            device: Arc::clone(&old.device),
            guid,
            created: old.label.created.get(),
            force: true,
        };
        let template = self.template();
        let holds = (template.segments(&new)?, Shape::WHOLE);
        let spare = template.member(&new, Joins::Spares, holds)?;
        old.set_state(MemberState::Offline);
        *spare.claim().lock() = old.claim().lock().take();
        self.groups.change(|layout| {
            layout.remove(guid);
            layout.spares.push(Arc::clone(&spare));
        });
        // A device that does not answer is not waited for.
        old.check_answered()?;
        prepare(&spare)
    }

    /// Refuses a device that may still carry out a write from before it was given up.
    ///
    /// # Errors
    /// `Error::StillUnanswered`.
    pub fn check_answered(&self, guid: u64) -> Result<()> {
        let layout = self.groups.now();
        layout
            .find(guid)
            .map_or(Ok(()), |member| member.check_answered())
    }

    /// The devices that have not answered requests which were given up. One of these may land later, also when the store is
    /// closed.
    pub fn late_devices(&self) -> Vec<LateDevice> {
        let layout = self.groups.now();
        let late = layout.all().filter(|member| member.pace().is_slow());
        let late = late.map(|member| LateDevice {
            name: member.device.name(),
            pace: Arc::clone(member.pace()),
        });
        late.collect()
    }

    /// Takes back a device that was away. If the pool has changed its guid meanwhile, it gets the label that says so;
    /// otherwise it is left alone until its state is set.
    ///
    /// # Errors
    /// `Error::Mismatch` if it is another device, or the failure of the device.
    pub fn take_back(&self, device: Arc<dyn BlockDevice>, guid: u64) -> Result<()> {
        let mut member = Member::open(device)?;
        let found = member.guid();
        let layout = self.groups.now();
        let changed = layout.all().find_map(|m| member.label.beside(&m.label));
        if let Some(label) = changed {
            member = member.with_label(label);
        }
        if found != guid || member.label.pool_guid.get() != self.pool_guid {
            return Err(Error::Mismatch {
                reason: format!("{} is another device", member.device.name()),
            });
        }
        self.check_answered(guid)?;
        // If the old claim of the same disk ended later, it would end the new one too.
        let old = layout.find(guid);
        if old.is_some_and(|old| !old.release()) {
            return Err(block::Error::Busy {
                path: member.device.name(),
                holder: "a question about its reservation, which it has not answered".into(),
            }
            .into());
        }
        self.claim_new(&member)?;
        if changed.is_some() {
            member.write_labels()?;
        }
        member.set_state(MemberState::Offline);
        self.groups.try_change(|layout| {
            if let Some(group) = layout.groups.get(usize::from(member.label.group.get())) {
                group.check_space(&member, group.segments())?;
            }
            let mut all: Vec<Arc<Member>> = layout.all().cloned().collect();
            all.retain(|other| other.guid() != guid);
            all.push(Arc::new(member));
            *layout = layout.with(all);
            Ok(())
        })
    }

    /// Lets go of a member. With `erase` it belongs to no pool afterwards, as far as it can be
    /// written.
    ///
    /// # Errors
    /// The failure of the device when it is erased.
    pub fn let_go(&self, guid: u64, erase: bool) -> Result<()> {
        let layout = self.groups.now();
        let Some(member) = layout.find(guid) else {
            return Ok(());
        };
        member.set_state(MemberState::Offline);
        self.groups.change(|layout| layout.remove(guid));
        let erased = match erase {
            // A device that does not answer is not waited for.
            true => member.check_answered().and_then(|()| {
                let erase = |member: &Member, (): &()| member.overwrite_headers();
                self.groups.on_one(&layout, member, (), erase)
            }),
            false => Ok(()),
        };
        member.release();
        erased
    }
}

/// Empties and labels a device that joins.
fn prepare(member: &Member) -> Result<()> {
    member.empty_headers()?;
    member.write_labels()
}
