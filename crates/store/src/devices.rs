//! A store on block devices.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;

use block::BlockDevice;

use crate::geometry::{Geometry, choose};
use crate::headers::Headers;
use crate::layout::{BLOCK, FORMAT_VERSION, LABEL_MAGIC, Label, SUPERBLOCK_MAGIC, encode_frame};
use crate::member::{Member, contents, read_label};
use crate::{Error, HeaderCheck, MemberInfo, Result, SegmentId, Store};

/// What a new pool is to be.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Names the pool for ever.
    pub pool_guid: u64,
    /// One for each device.
    pub device_guids: Vec<u64>,
    /// Seconds since 1970.
    pub created: u64,
    /// Overwrite what the devices hold.
    pub force: bool,
}

/// What a device says of itself, for finding pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The pool it belongs to.
    pub pool_guid: u64,
    /// Which of the pool's devices it is.
    pub device_guid: u64,
    /// Its group.
    pub group: u16,
}

/// Reads the label of a device.
pub fn probe(device: &dyn BlockDevice) -> Result<Found> {
    let label = read_label(device)?;
    Ok(Found {
        pool_guid: label.pool_guid.get(),
        device_guid: label.device_guid.get(),
        group: label.group.get(),
    })
}

/// The places of a pool on block devices. Each device is a group of its own; segments are striped
/// over the groups by whoever allocates.
pub struct DeviceStore {
    pool_guid: u64,
    /// By group.
    members: Vec<Member>,
}

impl DeviceStore {
    /// Prepares devices for a new pool. They belong to it only after [`DeviceStore::commit_labels`],
    /// so that a creation that is cut short leaves no half of a pool.
    pub fn create(
        devices: Vec<Arc<dyn BlockDevice>>,
        options: &CreateOptions,
    ) -> Result<DeviceStore> {
        assert_eq!(devices.len(), options.device_guids.len());
        if !options.force {
            for device in &devices {
                refuse_contents(device.as_ref())?;
            }
        }
        let Some(smallest) = devices.iter().map(|device| device.size()).min() else {
            return Err(Error::Mismatch {
                reason: "no device was named".into(),
            });
        };
        let (segment_size, key_blocks) = choose(smallest);
        let mut members = Vec::new();
        for (group, device) in devices.into_iter().enumerate() {
            let geometry = Geometry::new(&device.name(), device.size(), segment_size, key_blocks)?;
            let group = u16::try_from(group).map_err(|_| Error::Mismatch {
                reason: "there are more than 65,536 of them".into(),
            })?;
            let label = new_label(&geometry, group, options);
            members.push(Member::new(device, label, geometry));
        }
        for member in &members {
            member.empty_headers()?;
        }
        Ok(DeviceStore {
            pool_guid: options.pool_guid,
            members,
        })
    }

    /// Writes the labels of a new pool, after its first superblock is durable.
    pub fn commit_labels(&self) -> Result<()> {
        self.members.iter().try_for_each(Member::write_labels)
    }

    /// Puts the devices of one pool together, in any order. A last group that is missing is not
    /// noticed here: the superblock knows how many there are.
    pub fn open(devices: Vec<Arc<dyn BlockDevice>>) -> Result<DeviceStore> {
        let mut by_group: BTreeMap<u16, Member> = BTreeMap::new();
        for device in devices {
            let member = Member::open(device)?;
            check_same_pool(by_group.values().next(), &member)?;
            if let Some(other) = by_group.get(&member.label.group.get()) {
                return Err(clash(other, &member));
            }
            by_group.insert(member.label.group.get(), member);
        }
        let Some(first) = by_group.values().next() else {
            return Err(Error::Mismatch {
                reason: "there are none".into(),
            });
        };
        let pool_guid = first.label.pool_guid.get();
        let highest = by_group
            .keys()
            .next_back()
            .map_or(0, |g| usize::from(*g) + 1);
        if highest > by_group.len() {
            return Err(Error::MissingDevices {
                missing: highest - by_group.len(),
                expected: highest,
            });
        }
        Ok(DeviceStore {
            pool_guid,
            members: by_group.into_values().collect(),
        })
    }

    fn first(&self) -> &Member {
        &self.members[0]
    }

    /// Where a place in a segment is.
    fn locate(&self, segment: SegmentId, offset: u32, len: u64) -> Result<(&Member, u64)> {
        let no_such_place = || Error::NoSuchPlace {
            group: segment.group() as u16,
            index: segment.index(),
            offset,
            len,
        };
        let member = self
            .members
            .get(segment.group() as usize)
            .filter(|member| segment.index() < member.geometry.segments)
            .ok_or_else(no_such_place)?;
        if u64::from(offset) + len > u64::from(member.geometry.segment_size) {
            return Err(no_such_place());
        }
        Ok((
            member,
            member.geometry.segment(segment.index()) + u64::from(offset),
        ))
    }

    fn check_key_block(&self, index: u32) -> Result<()> {
        if index < self.key_blocks() {
            return Ok(());
        }
        Err(Error::DamagedKeyBlock { index })
    }
}

fn refuse_contents(device: &dyn BlockDevice) -> Result<()> {
    match contents(device)? {
        None => Ok(()),
        Some(what) => Err(Error::InUse {
            device: device.name(),
            what,
        }),
    }
}

fn new_label(geometry: &Geometry, group: u16, options: &CreateOptions) -> Label {
    Label {
        magic: LABEL_MAGIC,
        version: FORMAT_VERSION.into(),
        segment_size: geometry.segment_size.into(),
        pool_guid: options.pool_guid.into(),
        device_guid: options.device_guids[usize::from(group)].into(),
        group: group.into(),
        member: 0.into(),
        width: 1.into(),
        policy: 0.into(),
        segments: geometry.segments.into(),
        key_blocks: geometry.key_blocks.into(),
        header_size: geometry.header_size.into(),
        device_size: geometry.device_size.into(),
        created: options.created.into(),
    }
}

fn check_same_pool(first: Option<&Member>, member: &Member) -> Result<()> {
    let Some(first) = first else { return Ok(()) };
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

fn clash(one: &Member, other: &Member) -> Error {
    let (first, second) = (one.device.name(), other.device.name());
    if one.label.device_guid == other.label.device_guid {
        return Error::Duplicate { first, second };
    }
    Error::Mismatch {
        reason: format!("{first} and {second} claim the same place in the pool"),
    }
}

impl Store for DeviceStore {
    fn pool_guid(&self) -> u64 {
        self.pool_guid
    }

    fn segment_size(&self) -> u32 {
        self.first().geometry.segment_size
    }

    fn groups(&self) -> Vec<u32> {
        self.members.iter().map(|m| m.geometry.segments).collect()
    }

    fn key_blocks(&self) -> u32 {
        self.first().geometry.key_blocks
    }

    fn members(&self) -> Vec<MemberInfo> {
        self.members
            .iter()
            .map(|member| MemberInfo {
                guid: member.label.device_guid.get(),
                name: member.device.name(),
                group: member.label.group.get(),
                size: member.geometry.device_size,
            })
            .collect()
    }

    fn read(&self, segment: SegmentId, offset: u32, buf: &mut [u8]) -> Result<()> {
        let (member, at) = self.locate(segment, offset, buf.len() as u64)?;
        member.read(at, buf)
    }

    fn write(&self, segment: SegmentId, offset: u32, pieces: &[IoSlice<'_>]) -> Result<()> {
        let len = pieces.iter().map(|p| p.len() as u64).sum();
        let (member, at) = self.locate(segment, offset, len)?;
        member.write(at, pieces)
    }

    fn discard(&self, segment: SegmentId, offset: u32, len: u32) -> Result<()> {
        let (member, at) = self.locate(segment, offset, u64::from(len))?;
        member.discard(at, u64::from(len))
    }

    fn flush(&self) -> Result<()> {
        let dirty: Vec<&Member> = self.members.iter().filter(|m| m.is_dirty()).collect();
        let Some((last, others)) = dirty.split_last() else {
            return Ok(());
        };
        // Devices flush side by side; one alone flushes on this thread.
        std::thread::scope(|scope| {
            let threads: Vec<_> = others
                .iter()
                .map(|member| scope.spawn(|| member.flush()))
                .collect();
            let mut result = last.flush();
            for thread in threads {
                let outcome = thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result = result.and(outcome);
            }
            result
        })
    }

    fn write_superblock(&self, txg: u64, payload: &[u8]) -> Result<()> {
        let block: Box<[u8; BLOCK]> = encode_frame(SUPERBLOCK_MAGIC, self.pool_guid, txg, payload);
        self.members
            .iter()
            .try_for_each(|member| member.write_superblock(txg, &block))
    }

    fn superblocks(&self) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut found = Vec::new();
        for member in &self.members {
            member.superblocks(&mut found)?;
        }
        found.sort_by_key(|(txg, _)| std::cmp::Reverse(*txg));
        found.dedup_by_key(|(txg, _)| *txg);
        if found.is_empty() {
            return Err(Error::NoSuperblock);
        }
        Ok(found)
    }

    fn read_key_block(&self, index: u32) -> Result<Vec<u8>> {
        self.check_key_block(index)?;
        for member in &self.members {
            if let Some(payload) = member.read_key_block(index)? {
                return Ok(payload);
            }
        }
        Err(Error::DamagedKeyBlock { index })
    }

    fn write_key_block(&self, index: u32, payload: &[u8]) -> Result<()> {
        self.check_key_block(index)?;
        self.members
            .iter()
            .try_for_each(|member| member.write_key_block(index, payload))
    }

    fn wipe_key_block(&self, index: u32) -> Result<()> {
        self.check_key_block(index)?;
        self.members
            .iter()
            .try_for_each(|member| member.wipe_key_block(index))
    }

    fn key_block_is_blank(&self, index: u32) -> Result<bool> {
        self.check_key_block(index)?;
        for member in &self.members {
            if !member.key_block_is_blank(index)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check_headers(&self, txg: u64, key_blocks: &[u32], mend: bool) -> Result<HeaderCheck> {
        let mut headers = Headers {
            members: &self.members,
            pool_guid: self.pool_guid,
            mend,
            found: HeaderCheck::default(),
        };
        headers.labels()?;
        headers.superblock(txg)?;
        for index in key_blocks {
            self.check_key_block(*index)?;
            headers.key_block(*index)?;
        }
        let found = headers.found;
        self.flush()?;
        Ok(found)
    }

    fn erase(&self) -> Result<()> {
        // Every device, also behind one that fails: a key is gone only where all copies are.
        let outcomes: Vec<Result<()>> =
            self.members.iter().map(Member::overwrite_headers).collect();
        outcomes.into_iter().collect()
    }
}
