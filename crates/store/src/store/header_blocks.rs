//! Superblocks and key blocks, in every copy on every device.

use std::sync::Arc;

use crate::group::member::Member;
use crate::group::pace;
use crate::layout::frames::{BLOCK, KEY_BLOCK_MAGIC, SUPERBLOCK_MAGIC, encode_frame};
use crate::store::devices::Store;
use crate::store::headers::Headers;
use crate::{Error, HeaderCheck, Newest, Result};

impl Store {
    /// Replaces the superblock: whole, or not at all. Durable after the next flush.
    ///
    /// # Errors
    /// `Error::Device` if a device fails that the pool cannot do without.
    pub fn write_superblock(&self, txg: u64, payload: &[u8]) -> Result<()> {
        self.put_superblock(txg, payload, Member::is_active)
    }

    /// Writes the newest superblock once more, to the members that are online, and flushes. The process that
    /// wrote it may have ended before it was durable, or before it was on all of them.
    ///
    /// # Errors
    /// `Error::Device` if a device fails that the pool cannot do without.
    pub fn confirm_superblock(&self, txg: u64, payload: &[u8]) -> Result<()> {
        // One that is being resilvered would seem to hold everything.
        self.put_superblock(txg, payload, Member::is_complete)?;
        self.flush()
    }

    /// The superblocks that are whole, the newest first.
    ///
    /// # Errors
    /// `Error::NoSuperblock` if none is whole, `Error::TooNew`, or the failure of a device.
    pub fn superblocks(&self) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut found = Vec::new();
        let mut failure = None;
        for member in self.groups.now().active() {
            match member.superblocks(&mut found) {
                Err(error @ Error::TooNew { .. }) => return Err(error),
                Err(error) => failure = Some(error),
                Ok(()) => {}
            }
        }
        found.sort_by_key(|(txg, _)| std::cmp::Reverse(*txg));
        found.dedup_by_key(|(txg, _)| *txg);
        match found.is_empty() {
            true => Err(failure.unwrap_or(Error::NoSuperblock)),
            false => Ok(found),
        }
    }

    /// Returns whether no device ever had a superblock. A device that gets its label, and no state before the machine
    /// stops, is like that.
    ///
    /// # Errors
    /// The failure of a device.
    pub fn has_empty_rings(&self) -> Result<bool> {
        for member in self.groups.now().active() {
            if !member.has_empty_rings()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The newest superblock of each device, spares left out.
    pub fn newest_superblocks(&self) -> Vec<Newest> {
        let newest = |member: &Arc<Member>| {
            let mut found = Vec::new();
            // What cannot be read is not there.
            let _ = member.superblocks(&mut found);
            Newest {
                guid: member.guid(),
                name: member.device.name(),
                superblock: found.into_iter().max_by_key(|(txg, _)| *txg),
            }
        };
        self.groups.now().members().map(newest).collect()
    }

    /// The payload of a key block.
    ///
    /// # Errors
    /// `Error::DamagedKeyBlock` if every copy is damaged, or there is no such block. The failure of a device if
    /// a copy cannot be read and no other is good.
    pub fn read_key_block(&self, index: u32) -> Result<Vec<u8>> {
        self.check_key_block(index)?;
        let layout = self.groups.now();
        // What a member lacks that is being resilvered may be a newer key.
        let complete = layout.members().filter(|member| member.is_complete());
        let complete: Vec<&Arc<Member>> = complete.collect();
        let mut slow = Vec::new();
        let mut failure = Error::DamagedKeyBlock { index };
        if let [_, _, ..] = complete[..] {
            for member in &complete {
                match member.read_key_block_soon(index) {
                    Some(Ok(Some(payload))) => return Ok(payload),
                    Some(Ok(None)) => {}
                    Some(Err(error @ Error::TooNew { .. })) => return Err(error),
                    Some(Err(error)) => failure = error,
                    None => slow.push(*member),
                }
            }
        } else {
            slow = complete;
        }
        // The others have none that is good.
        for member in slow {
            match member.read_key_block(index) {
                Ok(Some(payload)) => return Ok(payload),
                Ok(None) => {}
                Err(error @ Error::TooNew { .. }) => return Err(error),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// A key block as this pool writes it.
    pub(crate) fn key_block_frame(&self, index: u32) -> Result<Box<[u8; BLOCK]>> {
        let payload = self.read_key_block(index)?;
        Ok(encode_frame(KEY_BLOCK_MAGIC, self.pool_guid, 0, &payload))
    }

    /// Overwrites a key block, at most [`crate::layout::frames::PAYLOAD_MAX`] bytes. Not atomic.
    ///
    /// # Errors
    /// `Error::DamagedKeyBlock` if there is no such block, or the failure of a device.
    pub fn write_key_block(&self, index: u32, payload: &[u8]) -> Result<()> {
        self.check_key_block(index)?;
        let layout = self.groups.now();
        let task = (index, payload.to_vec());
        self.groups.on_members(
            &layout,
            layout.active(),
            task,
            |member, (index, payload)| member.write_key_block(*index, payload),
        )
    }

    /// Overwrites a key block with zeros, on every device.
    ///
    /// # Errors
    /// `Error::DamagedKeyBlock` if there is no such block, or the failure of a device.
    pub fn wipe_key_block(&self, index: u32) -> Result<()> {
        self.check_key_block(index)?;
        let layout = self.groups.now();
        let wipe = |member: &Member, index: &u32| member.wipe_key_block(*index);
        self.groups
            .on_members(&layout, layout.active(), index, wipe)
    }

    /// Returns whether a key block holds nothing but zeros on every device.
    ///
    /// # Errors
    /// `Error::DamagedKeyBlock` if there is no such block. A device that cannot be read, or does not answer, counts as
    /// not blank.
    pub fn key_block_is_blank(&self, index: u32) -> Result<bool> {
        self.check_key_block(index)?;
        for member in self.groups.now().active() {
            let own = Arc::clone(member);
            let look = move || own.key_block_is_blank(index);
            // One that cannot be read is not known to be blank.
            let is_blank = pace::ask(member.pace(), self.deadline(), look);
            if !matches!(is_blank, Some(Ok(true))) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads, in every copy on every device, the labels, the superblock of `txg`, and the key blocks
    /// named, and with `repair` rewrites bad ones from a whole one. Nothing else may write to the
    /// headers meanwhile.
    ///
    /// # Errors
    /// The failure of a device that cannot be read or written.
    pub fn check_headers(&self, txg: u64, key_blocks: &[u32], repair: bool) -> Result<HeaderCheck> {
        let layout = self.groups.now();
        let mut headers = Headers {
            groups: &self.groups,
            layout: &layout,
            pool_guid: self.pool_guid,
            repair,
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

    /// Makes the devices ones that belong to no pool. Labels, superblocks and key areas are written
    /// over with zeros, in every copy on every device.
    ///
    /// # Errors
    /// The first failure of a device; the others are erased.
    pub fn erase(&self) -> Result<()> {
        // Every device, also behind one that fails: a key is gone only where all copies are.
        let layout = self.groups.now();
        let nothing = Arc::new(());
        let all = layout
            .all()
            .map(|it| (Arc::clone(it), Arc::clone(&nothing)));
        let all: Vec<_> = all.collect();
        let erase = |member: &Member, (): &()| member.overwrite_headers();
        let outcomes = self.groups.on_some(&layout, &all, erase);
        let outcomes = outcomes
            .into_iter()
            .zip(&all)
            .map(|(outcome, (member, _))| {
                outcome.unwrap_or_else(|| Err(member.unanswered(self.deadline())))
            });
        outcomes.collect::<Vec<_>>().into_iter().collect()
    }

    /// Brings labels and key area of a member up to date. The blocks named are as on the others, all
    /// others are overwritten with zeros. Flushes. Nothing else may write to the headers meanwhile.
    ///
    /// # Errors
    /// `Error::NoSuchMember`, or the failure of the device.
    pub fn refresh_headers(&self, guid: u64, key_blocks: &[u32]) -> Result<()> {
        let layout = self.groups.now();
        let member = layout.member(guid)?;
        let labels = |member: &Member, (): &()| member.write_labels();
        self.groups.on_one(&layout, member, (), labels)?;
        for index in 0..self.key_blocks {
            let payload = match key_blocks.contains(&index) {
                true => Some(self.read_key_block(index)?),
                false => None,
            };
            let write = |member: &Member, (index, payload): &(u32, Option<Vec<u8>>)| match payload {
                Some(payload) => member.write_key_block(*index, payload),
                None => member.wipe_key_block(*index),
            };
            self.groups
                .on_one(&layout, member, (index, payload), write)?;
        }
        let flush = |member: &Member, (): &()| member.flush();
        self.groups.on_one(&layout, member, (), flush)
    }

    /// Writes a superblock to the devices that are wanted.
    fn put_superblock(
        &self,
        txg: u64,
        payload: &[u8],
        is_wanted: fn(&Member) -> bool,
    ) -> Result<()> {
        let block: Box<[u8; BLOCK]> = encode_frame(SUPERBLOCK_MAGIC, self.pool_guid, txg, payload);
        let layout = self.groups.now();
        let members = layout.members().filter(|member| is_wanted(member));
        self.groups
            .on_members(&layout, members, (txg, block), |member, (txg, block)| {
                member.write_superblock(*txg, block)
            })
    }
}
