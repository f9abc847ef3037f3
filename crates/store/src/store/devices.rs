//! A store on block devices: making it, and putting it together from what is found.

use std::sync::Arc;

use block::{BlockDevice, Claimant};
use parking_lot::Mutex;

use crate::group::member::{Member, contents, read_label};
use crate::group::mirror::{Group, Groups, StoreLayout};
use crate::group::pool_change::complete_changes;
use crate::layout::frames::{Label, NO_GROUP, POLICY_SPARE, POLICY_WHOLE, PoolChange};
use crate::layout::geometry::{Geometry, choose};

use crate::layout::shape::{COLUMNS_MAX, Shape, columns_min};
use crate::{Error, Joins, MemberInfo, MemberState, NewMember, Result};

/// The options of a new pool.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Names the pool for ever.
    pub pool_guid: u64,
    /// A for each device: those of the groups in order, then the spares.
    pub device_guids: Vec<u64>,
    /// Seconds since 1970.
    pub created: u64,
    /// Overwrite what the devices hold.
    pub force: bool,
}

/// A group of a new pool.
#[derive(Clone)]
pub struct NewGroup {
    /// The devices.
    pub devices: Vec<Arc<dyn BlockDevice>>,
    /// The number of devices that may be lost in a group with parity; 0: all hold the same.
    pub parity: usize,
}

impl From<Vec<Arc<dyn BlockDevice>>> for NewGroup {
    fn from(devices: Vec<Arc<dyn BlockDevice>>) -> NewGroup {
        NewGroup { devices, parity: 0 }
    }
}

/// The facts in the label of a device that identify its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceIdentity {
    /// The pool it belongs to.
    pub pool_guid: u64,
    /// The guid of the device.
    pub device_guid: u64,
    /// The number of the group; for a spare, the number of no group.
    pub group: u16,
    /// The change of the pool, and the other pool.
    pub change: PoolChange,
    /// 0 without a change.
    pub other_guid: u64,
    /// True if it is shorter than its label says.
    pub is_cut: bool,
}

impl DeviceIdentity {
    /// Returns whether it belongs to the pool with this guid, or will when the change of that pool's guid is complete.
    pub fn is_of(&self, pool_guid: u64) -> bool {
        self.pool_guid == pool_guid
            || self.change == PoolChange::Renumbered && self.other_guid == pool_guid
    }

    /// Returns whether it belongs to the pool of `other`, and only a power cut kept it from getting a label like that
    /// of
    /// `other`. A spare has nothing of the pool but its label, so it proves nothing for other devices.
    pub fn changes_with(&self, other: &DeviceIdentity) -> bool {
        match (self.change, other.change) {
            (PoolChange::Splitting, PoolChange::SplitOff) => other.pool_guid == self.other_guid,
            (PoolChange::None, PoolChange::Renumbered) => {
                other.other_guid == self.pool_guid && other.group != NO_GROUP
            }
            _ => false,
        }
    }
}

/// Reads the label of a device.
///
/// # Errors
/// [`Error::NotAPool`] without a label, [`Error::DamagedLabel`], [`Error::TooNew`], or [`Error::Device`].
pub fn probe(device: &dyn BlockDevice) -> Result<DeviceIdentity> {
    let label = read_label(device)?;
    Ok(DeviceIdentity {
        pool_guid: label.pool_guid.get(),
        device_guid: label.device_guid.get(),
        group: label.group.get(),
        change: label.change(),
        other_guid: label.other_guid.get(),
        is_cut: device.size() < label.device_size.get(),
    })
}

/// The places of a pool. They are on block devices: every kind of device is behind [`BlockDevice`].
///
/// Nothing that is written is durable before [`Store::flush`] has returned, in whichever order it
/// was written.
///
/// The members of a group hold the same, or each a column of a group with parity (see [`Shape`]). What
/// is written goes to all of them that are online or being resilvered. One that fails is not used any
/// more, which [`Store::take_faults`] tells, and the operation succeeds as long as enough online
/// members of the group have done it. What a member does not take that its group cannot do without is kept in
/// memory, and read from there. The write succeeds, and no flush does ([`Store::stall`], [`Store::retry`]).
///
/// A place is the beginning of a stripe, with the bytes that were written there at once. In a group
/// without parity any part of it can be read and written too. In one with parity only
/// [`Store::write_each`] and [`Store::read_units`] allow for that, for what is written unit by unit.
pub struct Store {
    pub(crate) pool_guid: u64,
    pub(crate) segment_size: u32,
    pub(crate) key_blocks: u32,
    pub(crate) groups: Groups,
    pub(crate) passed_over: Vec<String>,
    /// The machine that holds the reservation of the devices.
    pub(crate) claimant: Mutex<Option<Claimant>>,
    /// Devices that do not belong to the pool any more, and whose labels say that they are being split off.
    pub(crate) split_before: Mutex<Vec<Arc<Member>>>,
}

impl Store {
    /// Prepares devices for a new pool, each a group of its own. See [`Store::create_groups`].
    ///
    /// # Errors
    /// As [`Store::create_groups`].
    pub fn create(devices: Vec<Arc<dyn BlockDevice>>, options: &CreateOptions) -> Result<Store> {
        let groups = devices.into_iter().map(|device| vec![device].into());
        let groups = groups.collect();
        Store::create_groups(groups, Vec::new(), options)
    }

    /// Says whether [`Store::create_groups`] would refuse these devices. Nothing is written.
    ///
    /// # Errors
    /// As [`Store::create_groups`].
    pub fn check_groups(
        groups: &[NewGroup],
        spares: &[Arc<dyn BlockDevice>],
        options: &CreateOptions,
    ) -> Result<()> {
        plan(groups, spares, options).map(drop)
    }

    /// Prepares devices for a new pool: groups, and spares. They belong to it only
    /// after [`Store::commit_labels`], so that a creation that is cut short leaves no half of
    /// a pool.
    ///
    /// # Errors
    /// [`Error::InUse`] if a device holds something, unless `force`; [`Error::TooSmall`]; [`Error::Mismatch`]
    /// without a device; [`Error::Device`].
    pub fn create_groups(
        groups: Vec<NewGroup>,
        spares: Vec<Arc<dyn BlockDevice>>,
        options: &CreateOptions,
    ) -> Result<Store> {
        Store::create_by(groups, spares, options, None)
    }

    /// Does the same as [`Store::create_groups`]. If `by` is given, the devices are reserved before anything is
    /// written.
    ///
    /// # Errors
    /// As [`Store::create_groups`] and [`Store::claim`].
    pub fn create_by(
        groups: Vec<NewGroup>,
        spares: Vec<Arc<dyn BlockDevice>>,
        options: &CreateOptions,
        by: Option<&Claimant>,
    ) -> Result<Store> {
        let (template, labelled) = plan(&groups, &spares, options)?;
        let store = template.store(labelled);
        by.map_or(Ok(()), |by| store.claim(by))?;
        for member in store.groups.now().all() {
            member.empty_headers()?;
        }
        store.groups.change(|layout| {
            for group in &mut layout.groups {
                group.segments = Some(group.segments());
            }
        });
        Ok(store)
    }

    /// Writes the labels of a new pool, after its first superblock is durable.
    ///
    /// # Errors
    /// [`Error::Device`]: some devices may have a label then.
    pub fn commit_labels(&self) -> Result<()> {
        let layout = self.groups.now();
        layout.all().try_for_each(|member| member.write_labels())
    }

    /// Puts the devices of one pool together, in any order. Those that cannot be used are passed
    /// over as long as one can. Which devices and groups there should be, only the pool knows.
    ///
    /// # Errors
    /// [`Error::Duplicate`] and [`Error::Mismatch`] if they are not the devices of one pool; the first failure
    /// of a device if none can be used.
    pub fn open(devices: Vec<Arc<dyn BlockDevice>>) -> Result<Store> {
        let mut members: Vec<Arc<Member>> = Vec::new();
        let mut failures = Vec::new();
        for device in devices {
            let member = match Member::open(device) {
                Ok(member) => Arc::new(member),
                Err(error) => {
                    failures.push(error);
                    continue;
                }
            };
            members.push(member);
        }
        complete_changes(&mut members);
        if let Some((first, others)) = members.split_first() {
            others
                .iter()
                .try_for_each(|member| check_same_pool(first, member))?;
        }
        failures.extend(pass_over_strays(&mut members)?);
        let Some(first) = members.first() else {
            return Err(failures.into_iter().next().unwrap_or(Error::Mismatch {
                reason: "there are none".into(),
            }));
        };
        let template = Template {
            pool_guid: first.label.pool_guid.get(),
            segment_size: first.geometry.segment_size,
            key_blocks: first.geometry.key_blocks,
        };
        let mut store = template.store(members);
        store.passed_over = failures.iter().map(Error::to_string).collect();
        Ok(store)
    }

    /// Returns the reasons why devices were passed over when the store was assembled.
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// The pool.
    pub fn pool_guid(&self) -> u64 {
        self.pool_guid
    }

    /// Bytes in a segment: a power of two, at least 1 MiB.
    pub fn segment_size(&self) -> u32 {
        self.segment_size
    }

    /// Returns the number of segments of each group, parity included.
    pub fn groups(&self) -> Vec<u32> {
        self.groups
            .now()
            .groups
            .iter()
            .map(Group::segments)
            .collect()
    }

    /// Returns the number of segments in a device of so many bytes.
    pub fn segments_in(&self, size: u64) -> u32 {
        self.template().segments_in(size)
    }

    /// Returns the layout of a group.
    pub fn shape(&self, group: u32) -> Shape {
        self.groups.now().group(group).shape()
    }

    /// Returns the number of key blocks.
    pub fn key_blocks(&self) -> u32 {
        self.key_blocks
    }

    /// The devices that are there, by group, then the spares.
    pub fn members(&self) -> Vec<MemberInfo> {
        self.groups
            .now()
            .all()
            .map(|member| member.info())
            .collect()
    }

    pub(crate) fn template(&self) -> Template {
        Template {
            pool_guid: self.pool_guid,
            segment_size: self.segment_size,
            key_blocks: self.key_blocks,
        }
    }

    pub(crate) fn check_key_block(&self, index: u32) -> Result<()> {
        match index < self.key_blocks {
            true => Ok(()),
            false => Err(Error::DamagedKeyBlock { index }),
        }
    }
}

/// The devices of a new pool with their labels, of which nothing is written yet.
fn plan(
    groups: &[NewGroup],
    spares: &[Arc<dyn BlockDevice>],
    options: &CreateOptions,
) -> Result<(Template, Vec<Arc<Member>>)> {
    let members = || groups.iter().flat_map(|group| &group.devices);
    let all = || members().chain(spares);
    assert_eq!(all().count(), options.device_guids.len());
    if !options.force {
        for device in all() {
            refuse_contents(device.as_ref())?;
        }
    }
    let smallest = members().map(|device| device.size()).min();
    let Some(smallest) = smallest else {
        return Err(Error::Mismatch {
            reason: "no device was named".into(),
        });
    };
    let (segment_size, key_blocks) = choose(smallest);
    let template = Template {
        pool_guid: options.pool_guid,
        segment_size,
        key_blocks,
    };
    let mut guids = options.device_guids.iter().copied();
    let mut named = |devices: &[Arc<dyn BlockDevice>]| -> Vec<NewMember> {
        let devices = devices.iter().zip(guids.by_ref());
        devices
            .map(|(device, guid)| NewMember {
                device: Arc::clone(device),
                guid,
                created: options.created,
                force: options.force,
            })
            .collect()
    };
    let mut labelled = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let devices = named(&group.devices);
        labelled.extend(template.group(&devices, number, group.parity, u32::MAX)?);
    }
    for spare in named(spares) {
        let segments = template.segments(&spare)?;
        labelled.push(template.member(&spare, Joins::Spares, (segments, Shape::WHOLE))?);
    }
    Ok((template, labelled))
}

/// The values that all devices of a pool have in common.
pub(crate) struct Template {
    pool_guid: u64,
    segment_size: u32,
    key_blocks: u32,
}

impl Template {
    /// Returns the number of segments that a device has space for.
    pub(crate) fn segments(&self, new: &NewMember) -> Result<u32> {
        let device = &new.device;
        let whole = Geometry::new(
            &device.name(),
            device.size(),
            self.segment_size,
            self.key_blocks,
        )?;
        Ok(whole.segments)
    }

    /// A device that is to join. Nothing is written.
    pub(crate) fn member(
        &self,
        new: &NewMember,
        joins: Joins,
        (segments, shape): (u32, Shape),
    ) -> Result<Arc<Member>> {
        let device = &new.device;
        let size = device.size();
        let mut geometry = Geometry::new(&device.name(), size, self.segment_size, self.key_blocks)?;
        if geometry.segments < segments {
            return Err(Error::TooSmall {
                device: device.name(),
                size,
                minimum: geometry.least_size(segments),
            });
        }
        geometry.segments = segments;
        let label = self.label(&geometry, joins, shape, new);
        let member = Member::new(Arc::clone(device), label, geometry);
        if joins == Joins::Spares {
            member.set_state(MemberState::Offline);
        }
        Ok(Arc::new(member))
    }

    /// The members of a new group, each with as many segments as the smallest has space for, but no more
    /// than that.
    pub(crate) fn group(
        &self,
        devices: &[NewMember],
        number: usize,
        parity: usize,
        segments_max: u32,
    ) -> Result<Vec<Arc<Member>>> {
        let group = u16::try_from(number)
            .ok()
            .filter(|group| *group != NO_GROUP);
        let group = group.ok_or_else(|| Error::Mismatch {
            reason: "there are more than 65,535 groups".into(),
        })?;
        let shape = match parity {
            0 => Shape::WHOLE,
            _ => Shape::new(devices.len(), parity).ok_or_else(|| Error::Mismatch {
                reason: format!(
                    "a group with this parity has {} to {COLUMNS_MAX} devices, not {}",
                    columns_min(parity),
                    devices.len()
                ),
            })?,
        };
        let all: Result<Vec<u32>> = devices.iter().map(|new| self.segments(new)).collect();
        let segments = all?.into_iter().min().unwrap_or(0);
        let segments = segments.min(u32::MAX / shape.columns() as u32);
        let segments = segments.min(segments_max);
        let members = devices.iter().enumerate();
        members
            .map(|(number, new)| {
                let column = if parity > 0 { number as u16 } else { 0 };
                self.member(new, Joins::Group { group, column }, (segments, shape))
            })
            .collect()
    }

    fn label(&self, geometry: &Geometry, joins: Joins, shape: Shape, new: &NewMember) -> Label {
        let (group, column, policy) = match joins {
            Joins::Group { group, column } => (group, column, POLICY_WHOLE),
            Joins::Spares => (NO_GROUP, 0, POLICY_SPARE),
        };
        let columns = match shape.has_parity() {
            true => shape.columns() as u16,
            false => 0,
        };
        Label {
            segment_size: geometry.segment_size.into(),
            pool_guid: self.pool_guid.into(),
            device_guid: new.guid.into(),
            group: group.into(),
            policy: policy.into(),
            segments: geometry.segments.into(),
            key_blocks: geometry.key_blocks.into(),
            header_size: geometry.header_size.into(),
            device_size: geometry.device_size.into(),
            created: new.created.into(),
            column: column.into(),
            columns: columns.into(),
            parity: (shape.parity() as u16).into(),
            ..Label::new()
        }
    }

    /// Returns the number of segments in a device of so many bytes.
    pub(crate) fn segments_in(&self, size: u64) -> u32 {
        let whole = Geometry::new("", size, self.segment_size, self.key_blocks);
        whole.map_or(0, |whole| whole.segments)
    }

    fn store(&self, members: Vec<Arc<Member>>) -> Store {
        Store {
            pool_guid: self.pool_guid,
            segment_size: self.segment_size,
            key_blocks: self.key_blocks,
            groups: Groups::new(StoreLayout::new(members)),
            passed_over: Vec::new(),
            claimant: Mutex::default(),
            split_before: Mutex::default(),
        }
    }
}

/// Refuses a device that holds something.
pub(crate) fn refuse_contents(device: &dyn BlockDevice) -> Result<()> {
    match contents(device)? {
        None => Ok(()),
        Some(what) => Err(Error::InUse {
            device: device.name(),
            what,
        }),
    }
}

fn check_same_pool(first: &Member, member: &Member) -> Result<()> {
    let (a, b) = (&first.label, &member.label);
    let same = a.pool_guid == b.pool_guid
        && a.segment_size == b.segment_size
        && a.key_blocks == b.key_blocks;
    if same {
        return Ok(());
    }
    Err(Error::Mismatch {
        reason: format!(
            "{} and {} belong to different pools",
            first.device.name(),
            member.device.name()
        ),
    })
}

/// Refuses two copies of one device. Of members of a group that cannot hold the same, those stay that
/// were in the last commit: others were taken out of the pool, or about to join it when the power
/// failed. Returns why the others are passed over.
fn pass_over_strays(members: &mut Vec<Arc<Member>>) -> Result<Vec<Error>> {
    let mut strays = Vec::new();
    for (n, other) in members.iter().enumerate() {
        for one in &members[..n] {
            let (first, second) = (one.device.name(), other.device.name());
            if one.label.device_guid == other.label.device_guid {
                return Err(Error::Duplicate { first, second });
            }
            if one.can_be_beside(other) {
                continue;
            }
            let (of_one, of_other) = (one.newest_txg(), other.newest_txg());
            if of_one == of_other && of_one.is_some() {
                return Err(claim_the_same(&first, &second));
            }
            for (stray, is_stray) in [(one, of_one <= of_other), (other, of_other <= of_one)] {
                if is_stray {
                    strays.push((stray.guid(), claim_the_same(&first, &second)));
                }
            }
        }
    }
    members.retain(|member| {
        let is_stray = |(guid, _): &(u64, _)| *guid == member.guid();
        !strays.iter().any(is_stray)
    });
    Ok(strays.into_iter().map(|(_, error)| error).collect())
}

fn claim_the_same(first: &str, second: &str) -> Error {
    Error::Mismatch {
        reason: format!("the labels of {first} and {second} name the same place in the pool"),
    }
}
