//! The thread that copies states of a pool to its image in an object store.
//!
//! No other thread of the pool waits for the store. A command that has to know that the image has the newest state waits
//! for a limited time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use block::AtomicDevice;
use pool::FollowerInfo;

use crate::failure::Result;
use crate::host::process::wakeup::Wakeup;
use crate::state::pools::active_pool::ActivePool;
use crate::state::pools::images::image_follower::ImageDevice;

/// The thread looks so often whether a copy is due.
const LOOK: Duration = Duration::from_secs(1);
/// The pause of the thread of a pool without an image. A command wakes it.
const IDLE: Duration = Duration::from_secs(3600);
/// An image that is so many times older than it may be is an event.
const LATE: u64 = 10;

impl ActivePool {
    /// Copies the newest state to the image, if the pool has one, and waits for that.
    ///
    /// # Errors
    /// The reason why the image does not have the state.
    pub(crate) fn copy_now(&self, patience: Duration) -> std::result::Result<(), String> {
        let follower = self.pool.follower();
        let wanted = self.pool.committed_txg();
        let has_it = || {
            let info = follower.info();
            info.is_none_or(|info| info.txg.is_some_and(|txg| txg >= wanted))
        };
        if has_it() || self.pool.is_read_only() {
            return Ok(());
        }
        let attempt = self.image.ask();
        self.wake();
        let failure = self.image.await_end(attempt, patience)?;
        match has_it() {
            true => Ok(()),
            false => Err(failure.unwrap_or_else(|| "it has an older state".into())),
        }
    }

    /// Copies a state, after the device was opened if it was not open.
    fn copy_turn(&self, info: &FollowerInfo, opened: OpenedImage, leaving: &AtomicBool) {
        let failure = self.copy_to_image(opened, leaving).err();
        let failure = failure.map(|failure| failure.message);
        let (pool, image) = (self.pool.name(), &info.path);
        let is_new = self.image.note(info, failure.clone());
        match failure {
            Some(error) if is_new => {
                tracing::warn!(pool, image, error, "the image of the pool does not follow");
            }
            None if is_new => tracing::info!(pool, image, "the image of the pool follows"),
            _ => {}
        }
        self.note_late();
    }

    fn copy_to_image(&self, opened: OpenedImage, leaving: &AtomicBool) -> Result<()> {
        let follower = self.pool.follower();
        let opened = opened.inspect_err(|it| follower.note_problem(it.message.clone()))?;
        if let Some((device, opened)) = opened
            && !self
                .image
                .while_present(&device, || follower.connect(opened))
        {
            return Ok(());
        }
        let copied = follower.copy(&|| leaving.load(Ordering::Acquire));
        if let Err(pool::Error::Store(_)) = copied {
            // It is opened anew by the next attempt.
            follower.disconnect();
        }
        copied?;
        Ok(())
    }

    /// Adds an event when the image is late, and when it has caught up.
    fn note_late(&self) {
        let Some(info) = self.pool.follower().info() else {
            return;
        };
        let is_late = info.behind > LATE * u64::from(info.interval);
        let before = self.image.set_late(is_late);
        let name = self.pool.name();
        if is_late && !before {
            let text = format!("{} is {} s behind the pool", info.path, info.behind);
            self.events.add("image_late", &name, &text);
        } else if before && !is_late {
            let text = format!("{} follows the pool again", info.path);
            self.events.add("image_follows", &name, &text);
        }
    }
}

/// The device of an image that was opened for a copy, if it was not open before. The image may have been detached meanwhile.
type OpenedImage = Result<Option<(Arc<ImageDevice>, Arc<dyn AtomicDevice>)>>;

/// Copies a state if that is due. Returns the time until the next look, or `None` if the pool has left.
fn look(active: &Weak<ActivePool>, leaving: &AtomicBool) -> Option<Duration> {
    let pool = active.upgrade()?;
    let Some(info) = pool.pool.follower().info() else {
        return Some(IDLE);
    };
    if !pool.image.begin(&info) {
        pool.note_late();
        return Some(LOOK);
    }
    let opened = match info.is_connected {
        true => Ok(None),
        false => {
            let device = pool.image.device();
            // A store may be slow to answer, and the pool can be exported meanwhile.
            drop(pool);
            device.and_then(|device| {
                let opened = (device.open)()?;
                Ok(Some((device, opened)))
            })
        }
    };
    active.upgrade()?.copy_turn(&info, opened, leaving);
    Some(LOOK)
}

/// Runs until the pool leaves.
pub(in crate::state::pools) fn run(
    active: &Weak<ActivePool>,
    wakeup: &Wakeup,
    leaving: &AtomicBool,
) {
    let mut woken = 0;
    while !leaving.load(Ordering::Acquire) {
        let Some(pause) = look(active, leaving) else {
            return;
        };
        woken = wakeup.wait(woken, pause);
    }
}
