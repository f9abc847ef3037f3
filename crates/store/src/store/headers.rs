//! Checks the blocks of the headers, and repairs them from each other.

use std::io::IoSlice;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::group::member::{HeaderBlock, Member};
use crate::group::mirror::{Groups, StoreLayout};
use crate::layout::frames::{
    BLOCK, KEY_BLOCK_MAGIC, Label, RING_SLOTS, SUPERBLOCK_MAGIC, decode_frame,
};
use crate::layout::geometry::{COPIES, HeaderSide};
use crate::{HeaderCheck, Result};

/// A check of headers under way.
pub(crate) struct Headers<'a> {
    pub(crate) groups: &'a Groups,
    pub(crate) layout: &'a StoreLayout,
    pub(crate) pool_guid: u64,
    pub(crate) repair: bool,
    pub(crate) found: HeaderCheck,
}

impl Headers<'_> {
    /// Each device knows its label since it was opened.
    pub(crate) fn labels(&mut self) -> Result<()> {
        let layout = self.layout;
        for member in layout.active().chain(&layout.spares) {
            for copy in COPIES {
                let at = member.geometry.label(copy);
                let is_whole = |block: &HeaderBlock| Label::decode(block) == Ok(member.label);
                if !self.read(member, at).is_some_and(|block| is_whole(&block)) {
                    self.rewrite(member, at, &member.label.encode())?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn superblock(&mut self, txg: u64) -> Result<()> {
        let slot = (txg % u64::from(RING_SLOTS)) as u32;
        let guid = self.pool_guid;
        self.frames(
            &|member, copy| member.geometry.superblock(copy, slot),
            &|block| matches!(decode_frame(SUPERBLOCK_MAGIC, guid, block), Ok((t, _)) if t == txg),
        )
    }

    pub(crate) fn key_block(&mut self, index: u32) -> Result<()> {
        let guid = self.pool_guid;
        self.frames(
            &|member, copy| member.geometry.key_block(copy, index),
            &|block| decode_frame(KEY_BLOCK_MAGIC, guid, block).is_ok(),
        )
    }

    /// A block that is the same in every header. A member that is being resilvered may hold an older
    /// one that is whole too.
    fn frames(
        &mut self,
        place: &dyn Fn(&Member, HeaderSide) -> u64,
        is_whole: &dyn Fn(&HeaderBlock) -> bool,
    ) -> Result<()> {
        let mut found = Vec::new();
        let mut good = None;
        for member in self.layout.active() {
            for copy in COPIES {
                let at = place(member, copy);
                let block = self.read(member, at).filter(|block| is_whole(block));
                if member.is_complete() && good.is_none() {
                    good.clone_from(&block);
                }
                found.push((member, at, block));
            }
        }
        let Some(good) = good else {
            self.found.lost += 1;
            return Ok(());
        };
        for (member, at, block) in found {
            if block.is_none_or(|block| block != good) {
                self.rewrite(member, at, &good)?;
            }
        }
        Ok(())
    }

    fn read(&mut self, member: &Arc<Member>, at: u64) -> Option<Box<HeaderBlock>> {
        if !is_used(member) {
            return None;
        }
        self.found.examined += BLOCK as u64;
        let found = Arc::new(Mutex::new(Box::new([0; BLOCK])));
        let read = |member: &Member, (at, found): &(u64, Arc<Mutex<Box<HeaderBlock>>>)| {
            let mut block = Box::new([0; BLOCK]);
            member.read(*at, &mut block[..])?;
            *found.lock() = block;
            Ok(())
        };
        let task = (at, Arc::clone(&found));
        let read = self.groups.on_one(self.layout, member, task, read);
        read.ok().map(|()| found.lock().clone())
    }

    fn rewrite(&mut self, member: &Arc<Member>, at: u64, block: &HeaderBlock) -> Result<()> {
        // One that did not answer has been given up.
        if !self.repair || !is_used(member) {
            return Ok(());
        }
        self.found.repaired += 1;
        let one = std::iter::once(member);
        let task = (at, Box::new(*block));
        let write = |member: &Member, (at, block): &(u64, Box<HeaderBlock>)| {
            member.write(*at, &[IoSlice::new(&block[..])])
        };
        self.groups.on_members(self.layout, one, task, write)
    }
}

fn is_used(member: &Member) -> bool {
    member.is_active() || member.label.is_spare()
}
