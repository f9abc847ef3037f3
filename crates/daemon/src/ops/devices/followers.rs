//! Images of pools in object stores: the commands on them, and their use after an import.

use std::path::Path;

use pool::{FollowerInfo, Pool};
use protocol::api::{DeviceChange, FollowerRow};
use protocol::device_name::DeviceName;
use protocol::object_uri::ObjectUri;

use crate::failure::{Failure, Result};
use crate::ops::devices::commands::find;
use crate::ops::devices::meters::pool_user;
use crate::ops::devices::new_pool::MadeDevices;
use crate::ops::devices::stores::object_stores::is_on_store;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;

/// The age that an image may have, in seconds, if the command does not say it.
const INTERVAL: u32 = 30;
/// The most that it may have: a day.
const INTERVAL_MAX: u32 = 86_400;

impl ActivePool {
    /// Follows the pool with its image after an import. The pool works without it.
    pub(crate) fn follow_image(&self, daemon: &Daemon, context: &mut CallerContext<'_>) {
        let follower = self.pool.follower();
        if let Some(time) = follower.imported_state() {
            let text = format!(
                "the pool was imported from its image, and is as it was at {time} (seconds since 1970); later changes are \
                 only on its disks"
            );
            tracing::warn!(
                pool = self.pool.name(),
                time,
                "a pool was imported from its image"
            );
            context.channel.notice(text);
        }
        let Some(info) = follower.info() else { return };
        match ObjectUri::parse(&info.path) {
            Ok(uri) => self.use_image(daemon, &uri),
            Err(failure) => follower.note_problem(failure.message),
        }
    }

    fn use_image(&self, daemon: &Daemon, uri: &ObjectUri) {
        let user = pool_user(&self.pool.name());
        self.image.set(Some(daemon.image_device(uri, user)));
        self.wake();
    }

    /// Carries out a command on the image; `None` if the command names another device.
    pub(crate) fn change_follower(
        &self,
        daemon: &Daemon,
        change: &DeviceChange,
        context: &mut CallerContext<'_>,
    ) -> Option<Result<()>> {
        match change {
            DeviceChange::Attach {
                device,
                new,
                follow,
                ..
            } if is_on_store(new) => {
                Some(self.attach_image(daemon, (device, new), *follow, context))
            }
            DeviceChange::Attach {
                new,
                follow: Some(_),
                ..
            } => Some(Err(Failure::usage(format!(
                "{}: only an image in an object store follows the pool; a disk has each write at once",
                new.display()
            )))),
            DeviceChange::Detach { device, .. } | DeviceChange::Remove { device, .. } => {
                let info = self.pool.follower().info()?;
                (info.path == *device).then(|| self.detach_image(&info, context))
            }
            DeviceChange::Online { device, .. } => {
                let info = self.pool.follower().info()?;
                (info.path == *device).then(|| {
                    let uri = ObjectUri::parse(&info.path)?;
                    self.use_image(daemon, &uri);
                    Ok(())
                })
            }
            _ => None,
        }
    }

    fn attach_image(
        &self,
        daemon: &Daemon,
        (beside, new): (&str, &Path),
        follow: Option<u32>,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let pool = &self.pool;
        find(pool, beside)?;
        let interval = follow.unwrap_or(INTERVAL);
        if !(1..=INTERVAL_MAX).contains(&interval) {
            return Err(Failure::usage(format!(
                "follow={interval}s: an image follows after 1 s to {INTERVAL_MAX} s"
            )));
        }
        if pool.multihost().is_on()? {
            return Err(Failure::usage(format!(
                "'{}' has multihost=on: an image in an object store would get a heartbeat each second when it is imported; \
                 switch that off first",
                pool.name()
            )));
        }
        let DeviceName::Object(text) = DeviceName::parse(new) else {
            return Err(Failure::usage("the address is none of an object store"));
        };
        let uri = ObjectUri::parse(text)?;
        pool.follower().check()?;
        let made = MadeDevices::default();
        daemon.make_image_device(&uri, pool.follower().size()?, &made)?;
        let device = daemon.image_device(&uri, pool_user(&pool.name()));
        pool.follower()
            .attach((device.open)()?, interval, &context.origin())?;
        made.keep();
        self.image.set(Some(device));
        Ok(())
    }

    fn detach_image(&self, info: &FollowerInfo, context: &mut CallerContext<'_>) -> Result<()> {
        self.pool.follower().detach(&context.origin())?;
        self.image.end();
        self.image.set(None);
        // Its device may have been opened for a copy meanwhile.
        self.pool.follower().disconnect();
        context.channel.notice(format!(
            "{0} keeps the state that it had, with its wrapped keys; to remove it: strongroom pool labelclear -f {0}",
            info.path
        ));
        Ok(())
    }
}

/// The image for a report.
pub(crate) fn row(pool: &Pool) -> Option<FollowerRow> {
    let info = pool.follower().info()?;
    let is_away = info.problem.is_some();
    Some(FollowerRow {
        interval: info.interval.into(),
        state: match (is_away, info.is_current) {
            (true, _) => "away",
            (false, true) => "current",
            (false, false) => "behind",
        }
        .into(),
        path: info.path,
        behind: info.behind,
        txg: info.txg,
        time: info.time,
        problem: info.problem,
        copied: info.copied,
        lost: info.lost,
    })
}
