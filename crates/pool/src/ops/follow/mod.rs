//! An image of the pool that follows its commits, such as a bucket beside local disks.
//!
//! The image has the whole state of one commit, an older one than the disks have. From time to time the state of the last
//! commit is copied there: everything born since the state that the image has. The changes of the image count together, so
//! that it never has a part of a state. No program and no commit waits for the image, and its failure does no harm.

mod transfer;
mod walk;

use std::sync::Arc;

use store::{AtomicDevice, PoolImage};

use crate::engine::datasets::table::DatasetTable;
use crate::engine::gate::CommitEngine;
use crate::engine::history::{Origin, log};
use crate::error::{Error, Result};
use crate::format::superblock::config::{ConfigFollower, Purpose};
use crate::format::superblock::features::FEATURE_FOLLOWER;
use crate::ops::pool::Pool;

/// The image that follows the commits of a pool.
#[derive(Clone, Copy)]
pub struct Follower<'a> {
    pub(crate) engine: &'a Arc<CommitEngine>,
}

/// The state of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowerInfo {
    /// The name of its device.
    pub path: String,
    /// The age that the image may have, in seconds.
    pub interval: u32,
    /// True if its device is open.
    pub is_connected: bool,
    /// The transaction group whose state it has, as far as that is known.
    pub txg: Option<u64>,
    /// The time of that commit, in seconds since 1970.
    pub time: Option<u64>,
    /// True if it has the newest state.
    pub is_current: bool,
    /// The time for which it lacks a commit, in seconds.
    pub behind: u64,
    /// The reason why the last attempt to copy a state failed.
    pub problem: Option<String>,
    /// The bytes that were copied since the import.
    pub copied: u64,
    /// The number of damaged records that could not be copied since the import, or since a copy of the whole pool.
    pub lost: u64,
}

impl Pool {
    /// The image that follows the commits.
    pub fn follower(&self) -> Follower<'_> {
        Follower {
            engine: &self.engine,
        }
    }
}

impl Follower<'_> {
    /// The state of the image, if the pool has one.
    pub fn info(&self) -> Option<FollowerInfo> {
        let engine = self.engine;
        let listed = engine.state.read().config.follower.clone()?;
        let is_connected = engine.follow.image.lock().is_some();
        let progress = engine.follow.progress.lock().clone();
        let now = engine.env.now();
        Some(FollowerInfo {
            path: listed.path,
            interval: listed.interval,
            is_connected,
            txg: progress.has.map(|(txg, _)| txg),
            time: progress.has.map(|(_, time)| time),
            is_current: progress
                .has
                .is_some_and(|(txg, _)| txg >= engine.committed_txg()),
            behind: progress
                .lacks_since
                .map_or(0, |since| now.saturating_sub(since)),
            problem: progress.problem,
            copied: progress.copied,
            lost: progress.lost,
        })
    }

    /// The size of a device for an image, and of each of its headers, in bytes.
    ///
    /// # Errors
    /// [`Error::Refused`] if the pool can have no image.
    pub fn size(&self) -> Result<(u64, u64)> {
        let guid = {
            let state = self.engine.state.read();
            state.check_can_follow()?;
            state.copied_member()?
        };
        Ok(self.engine.disk.store.image_size(guid)?)
    }

    /// Fails if the pool cannot get an image.
    ///
    /// # Errors
    /// [`Error::Refused`]: it has one already, or several groups of devices, or parity.
    pub fn check(&self) -> Result<()> {
        let state = self.engine.state.read();
        match &state.config.follower {
            Some(follower) => {
                let reason = format!(
                    "{} follows it already; detach that first: strongroom pool detach {} {}",
                    follower.path,
                    state.pool_name(),
                    follower.path
                );
                Err(Error::refused(state.pool_name(), reason))
            }
            None => state.check_can_follow(),
        }
    }

    /// Gives the pool an image on an empty device. It follows the pool from the first [`Follower::copy`] on.
    ///
    /// # Errors
    /// As [`Follower::check`] and [`Pool::commit`].
    pub fn attach(
        &self,
        device: Arc<dyn AtomicDevice>,
        interval: u32,
        origin: &Origin,
    ) -> Result<()> {
        self.check()?;
        let engine = self.engine;
        let path = device.name();
        engine.commit_with(|commit, state| {
            state.check_can_follow()?;
            // Only the epochs tell whether an image is of the past of the pool.
            state.make_redundant(commit);
            state.config.follower = Some(ConfigFollower {
                interval,
                since: 0,
                path,
            });
            let features = state.root.features_optional.get() | FEATURE_FOLLOWER;
            state.root.features_optional = features.into();
            log(commit, state, origin, None);
            Ok(())
        })?;
        self.connect(device);
        Ok(())
    }

    /// Uses the device of the image, after an import or when it was away.
    pub fn connect(&self, device: Arc<dyn AtomicDevice>) {
        let follow = &self.engine.follow;
        *follow.image.lock() = Some(Arc::new(PoolImage::new(device)));
        let mut progress = follow.progress.lock();
        progress.has = None;
        progress.problem = None;
    }

    /// Fails if a device has no image of this pool, or one with another history: another host may use that. It may be empty.
    ///
    /// # Errors
    /// [`Error::OtherHistory`]; [`Error::Store`] if it is an image of another pool, or a device fails.
    pub fn check_own(&self, device: Arc<dyn AtomicDevice>) -> Result<()> {
        self.own_root(&PoolImage::new(device)).map(drop)
    }

    /// Notes why the device of the image could not be opened.
    pub fn note_problem(&self, problem: String) {
        self.engine.follow.progress.lock().problem = Some(problem);
    }

    /// The time of the state that the pool had, if it was imported from its image, in seconds since 1970.
    pub fn imported_state(&self) -> Option<u64> {
        self.engine.follow.progress.lock().imported
    }

    /// Ends the following. The image keeps its last state.
    ///
    /// # Errors
    /// [`Error::Device`] if the pool has no image; as [`Pool::commit`].
    pub fn detach(&self, origin: &Origin) -> Result<()> {
        self.engine.commit_with(|commit, state| {
            if state.config.follower.take().is_none() {
                return Err(no_follower(state));
            }
            state.config_dirty = true;
            log(commit, state, origin, None);
            Ok(())
        })?;
        self.disconnect();
        Ok(())
    }

    /// Closes the device of the image. A copy that runs ends without effect.
    pub fn disconnect(&self) {
        let follow = &self.engine.follow;
        *follow.image.lock() = None;
        self.engine.space.unpin();
    }
}

fn no_follower(state: &DatasetTable) -> Error {
    Error::of_device(&state.pool_name(), "nothing follows this pool")
}

impl DatasetTable {
    /// Fails if an image cannot hold the whole state of the pool.
    pub(crate) fn check_can_follow(&self) -> Result<()> {
        let config = &self.config;
        let groups = u16::try_from(self.root.groups.get()).unwrap_or(u16::MAX);
        let mut others = (1..groups).map(|group| config.purpose(group));
        let reason = if others.any(|purpose| !matches!(purpose, Purpose::Logs | Purpose::Gone)) {
            "only a pool with one disk or one mirror can be followed; it has several groups of devices"
        } else if config.shape(0).has_parity() {
            "only a pool with one disk or one mirror can be followed; its devices have parity"
        } else if config.purpose(0) != Purpose::Data || config.removal.is_some() {
            "a group of devices was removed, and such a pool cannot be followed"
        } else {
            return Ok(());
        };
        Err(Error::refused(self.pool_name(), reason))
    }
}
