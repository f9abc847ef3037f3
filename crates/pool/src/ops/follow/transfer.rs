//! Copies the state of the last commit to the image.

use std::collections::BTreeSet;

use store::{ImageHeader, PoolImage, SegmentId};
use zerocopy::IntoBytes;

use super::Follower;
use super::walk::{StatePart, StateWalk};
use crate::engine::datasets::keyarea;
use crate::engine::datasets::table::DatasetTable;
use crate::engine::devices::membership::last_of_image;
use crate::engine::gate::CommitEngine;
use crate::error::{Error, Result};
use crate::format::superblock::config::DeviceState;
use crate::format::superblock::root::PoolRoot;
use crate::ops::lifecycle::import::newest_root;

/// The nodes that a copy keeps in memory: 4 MiB.
const COPIED_NODES: usize = 1024;

/// A state that is being copied. Its space is pinned.
struct PinnedState<'a> {
    engine: &'a CommitEngine,
    txg: u64,
    root: PoolRoot,
    header: ImageHeader,
    /// The records in system segments, which the next commits use again.
    system: Vec<StatePart>,
    /// The segments in which the image may have what the pool has freed.
    stale: Option<BTreeSet<SegmentId>>,
    is_copied: bool,
}

impl Drop for PinnedState<'_> {
    fn drop(&mut self) {
        let space = &self.engine.space;
        space.unpin();
        if !self.is_copied {
            space.put_back_stale(self.stale.take());
        }
    }
}

impl Follower<'_> {
    /// Copies the state of the last commit to the image. False if the image has it already. Ends early if `stops` says so.
    ///
    /// # Errors
    /// [`Error::Refused`] if the state cannot be copied now, if the image has another history, or if it was stopped;
    /// [`Error::Store`] if a device fails. The image keeps the state that it had.
    pub fn copy(&self, stops: &dyn Fn() -> bool) -> Result<bool> {
        let follow = &self.engine.follow;
        let _copying = follow.copying.lock();
        let Some(image) = follow.image.lock().clone() else {
            return Ok(false);
        };
        let copied = self.copy_to(&image, stops);
        let problem = copied.as_ref().err().map(ToString::to_string);
        follow.progress.lock().problem = problem;
        copied
    }

    fn copy_to(&self, image: &PoolImage, stops: &dyn Fn() -> bool) -> Result<bool> {
        let base = self.base(image)?;
        let since = {
            let state = self.engine.state.read();
            state.config.follower.as_ref().map_or(0, |it| it.since)
        };
        let base = if base < since { 0 } else { base };
        let Some(mut pinned) = self.pin(&image.name(), base)? else {
            return Ok(false);
        };
        let engine = self.engine;
        let begun = image.begin(&mut pinned.header);
        begun.map_err(|error| self.explain(image, error))?;
        let mut copied = 0;
        let mut put = |header: &ImageHeader, part: &StatePart| {
            if stops() || !engine.space.is_pinned() {
                return Err(interrupted(engine));
            }
            copied += part.bytes().len() as u64;
            Ok(image.write(header, part.segment, part.offset, part.bytes())?)
        };
        let mut system = std::mem::take(&mut pinned.system).into_iter();
        let header = &pinned.header;
        system.try_for_each(|part| put(header, &part))?;
        let walk = StateWalk::new(engine, base, COPIED_NODES);
        let walked = walk.state(&pinned.root, &mut |part| put(header, &part));
        if walked.is_err() && !engine.space.is_pinned() {
            // Later states have overwritten what was read.
            return Err(interrupted(engine));
        }
        walked?;
        let stale = pinned.stale.as_ref();
        engine.space.each_free_run(stale, |segment, offset, len| {
            Ok(image.discard(header, segment, offset, len)?)
        })?;
        // Space that was used again meanwhile has something else.
        if stops() || !engine.space.is_pinned() {
            return Err(interrupted(engine));
        }
        if walk.lost() > 0 {
            let (pool, image) = (self.name(), image.name());
            tracing::error!(
                pool,
                image,
                records = walk.lost(),
                "damaged records could not be copied to the image"
            );
        }
        image.finish(header)?;
        pinned.is_copied = true;
        let mut progress = engine.follow.progress.lock();
        progress.has = Some((pinned.txg, pinned.root.time.get()));
        progress.lacks_since = progress.lacks_next;
        progress.copied += copied;
        let before = if base == 0 { 0 } else { progress.lost };
        progress.lost = before + walk.lost();
        Ok(true)
    }

    /// The transaction group whose state the image has, 0 if it is empty.
    fn base(&self, image: &PoolImage) -> Result<u64> {
        let engine = self.engine;
        if let Some((txg, _)) = engine.follow.progress.lock().has {
            return Ok(txg);
        }
        let Some((txg, root)) = self.own_root(image)? else {
            return Ok(0);
        };
        let time = root.time.get();
        let now = engine.committed_txg();
        let mut progress = engine.follow.progress.lock();
        if txg < now {
            progress.lacks_since = Some(time.min(progress.lacks_since.unwrap_or(time)));
        }
        Ok(txg)
    }

    /// The root of the newest state of an image, with its transaction group. `None` if it is empty.
    pub(super) fn own_root(&self, image: &PoolImage) -> Result<Option<(u64, PoolRoot)>> {
        let engine = self.engine;
        let Some((txg, payload)) = image.superblock(engine.disk.store.pool_guid())? else {
            return Ok(None);
        };
        let now = engine.committed_txg();
        let state = engine.state.read();
        let txg = last_of_image((&state.config, now), &image.name(), (txg, &payload))?;
        Ok(Some((txg, PoolRoot::decode(&payload)?)))
    }

    /// Pins the state of the last commit. `None` if the image has it, and no keys of an earlier one; or if it was detached.
    fn pin(&self, image: &str, base: u64) -> Result<Option<PinnedState<'_>>> {
        let engine = self.engine;
        let _committing = engine.lock_commits();
        engine.check_writable()?;
        let is_listed = {
            let state = engine.state.read();
            let listed = state.config.follower.as_ref();
            listed.is_some_and(|it| it.path == image)
        };
        // Its device may have been opened late, when another command had detached it.
        if !is_listed {
            return Ok(None);
        }
        let txg = engine.committed_txg();
        // Only a copy to the device as it is open now proves that no keys of earlier states are there.
        let has = engine.follow.progress.lock().has;
        if has.is_some_and(|(has, _)| txg <= has) {
            engine.follow.progress.lock().lacks_since = None;
            return Ok(None);
        }
        let (guid, keys) = {
            let state = engine.state.read();
            state.check_can_follow()?;
            refuse_waiting(engine, &state)?;
            let keys: BTreeSet<u32> = keyarea::blocks(&state).collect();
            (state.copied_member()?, keys)
        };
        let store = &engine.disk.store;
        if store.has_changing_labels() {
            let reason = "the guid of the pool is changing; if the image does not follow after that, detach it, and attach an \
                          empty address";
            return Err(Error::refused(self.name(), reason));
        }
        let (newest, _, mut root) = newest_root(store)?;
        if newest != txg {
            return Err(Error::inconsistent(
                "superblock",
                "the newest is not that of the last commit",
            ));
        }
        if root.has_checkpoint() {
            // The image has no checkpoint.
            root.end_checkpoint();
        }
        let keys: Vec<u32> = keys.into_iter().collect();
        let header = store.image_header(guid, (txg, root.as_bytes()), &keys)?;
        let system = StateWalk::new(engine, base, COPIED_NODES).system(&root)?;
        engine.follow.progress.lock().lacks_next = None;
        Ok(Some(PinnedState {
            txg,
            root,
            header,
            system,
            stale: engine.space.pin(),
            is_copied: false,
            engine,
        }))
    }

    /// Names the way out if the device of the image has become too small.
    fn explain(&self, image: &PoolImage, error: store::Error) -> Error {
        match error {
            store::Error::TooSmall { .. } => {
                let reason = format!(
                    "it has become larger than its image; detach {}, and attach an empty address",
                    image.name()
                );
                Error::refused(self.name(), reason)
            }
            error => error.into(),
        }
    }

    fn name(&self) -> String {
        self.engine.state.read().pool_name()
    }
}

fn interrupted(engine: &CommitEngine) -> Error {
    let reason = match engine.space.is_pinned() {
        true => "the copy to the image was stopped; it begins anew",
        false => {
            "the copy to the image was given up, because programs need its space; it begins anew"
        }
    };
    Error::refused(engine.state.read().pool_name(), reason)
}

/// Fails if synced data is only in a log that waits for a key: an image has no logs.
fn refuse_waiting(engine: &CommitEngine, state: &DatasetTable) -> Result<()> {
    let mut entries = state.all();
    match entries.find(|entry| engine.has_waiting_log(entry)) {
        None => Ok(()),
        Some(entry) => {
            let reason = "synced data waits for its key, and an image cannot have it; load the key and mount it";
            Err(Error::refused(state.name_of(entry), reason))
        }
    }
}

impl DatasetTable {
    /// The member whose label an image gets: one that has all data.
    pub(crate) fn copied_member(&self) -> Result<u64> {
        let mut members = self.config.group(0);
        let whole = members.find(|device| device.state == DeviceState::Online);
        let none = || Error::refused(self.pool_name(), "no device of it has all data");
        Ok(whole.ok_or_else(none)?.guid)
    }
}
