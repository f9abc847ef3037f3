//! Profiles of zones: the property `readonly` of the datasets in a zone follows the profile.
//!
//! A fixed dataset inherits `readonly=on` from the root, and has no `readonly=off` of its own. Datasets directly below the
//! root that the tenant may change get `readonly=off`, unless a user has set them `readonly=on`. The commands of the
//! tenant cannot change this (`zone_policy`); those of the global zone can.

use std::sync::Arc;

use fuse::MountDirectory;
use pool::Entry;
use protocol::api::{ZoneProfile, command};

use crate::failure::{Failure, Result};
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::datasets::properties;
use crate::state::pools::active_pool::ActivePool;
use crate::state::zones::zone::Zone;

const READONLY: &str = "readonly";

impl Daemon {
    /// Changes the profile of a zone.
    pub(crate) fn set_zone(
        &self,
        new: &command::ZoneSet,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let _changing = self.zones.changing.lock();
        let zone = self.zones.named(&new.name)?;
        let active = self.view(&zone)?.active;
        // No command of the tenant is between its decision and its change.
        let _admin = active.lock(context.decision)?;
        let root = self.view(&zone)?.root;
        let before = zone.profile();
        // At each moment the zone has at least the restrictions that the list of zones shows.
        if new.profile < before {
            self.remember_profile(&zone, new.profile)?;
            return active.follow_profile(&root, before, new.profile, context);
        }
        active.follow_profile(&root, before, new.profile, context)?;
        self.remember_profile(&zone, new.profile)
    }

    fn remember_profile(&self, zone: &Zone, profile: ZoneProfile) -> Result<()> {
        let before = zone.profile();
        zone.set_profile(profile);
        self.zones
            .remember()
            .inspect_err(|_| zone.set_profile(before))
    }
}

impl ActivePool {
    /// Sets `readonly` in a zone as the profile `now` says, and makes the directories that its root needs. A dataset that
    /// was read-only before it had a profile stays so. The caller holds the lock of the pool.
    pub(super) fn follow_profile(
        &self,
        root: &Arc<Entry>,
        before: ZoneProfile,
        now: ZoneProfile,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let none = ZoneProfile::None;
        if (before, now) == (none, none) {
            return Ok(());
        }
        let was_writable = properties::effective(&self.pool, root, READONLY)?.0 == "off";
        if was_writable {
            self.make_directories(root, now, context);
        }
        let (mut begin, mut end) = (Vec::new(), Vec::new());
        let name = self.pool.name_of(root.id)?;
        for head in self.heads_below(root)? {
            let below = self.pool.name_of(head.id)?;
            let own = head.props.get(READONLY).map(String::as_str);
            let is_fixed = now.fixes(below[name.len()..].trim_start_matches('/'));
            match own {
                Some("off") if is_fixed && head.id != root.id => end.push(below),
                None if !is_fixed && head.parent == root.id => begin.push(below),
                _ => {}
            }
        }
        let opens = now != none && (was_writable || before != none);
        let to = |value: Option<&str>| [(READONLY.to_owned(), value.map(str::to_owned))];
        let steps = [
            (if opens { begin } else { Vec::new() }, to(Some("off"))),
            (end, to(None)),
            (vec![name], to((now != none).then_some("on"))),
        ];
        for (names, change) in steps.iter().filter(|(names, _)| !names.is_empty()) {
            self.pool.set_props(names, change, &context.origin())?;
        }
        // The properties hold, and what is mounted refuses changes. What remains is a flag of a mount.
        match self.apply_settings() {
            Ok(failures) => context.tell(failures),
            Err(failure) => context.tell(vec![failure]),
        }
        Ok(())
    }

    /// Makes the directories in the root where the tenant's datasets are mounted. Later the root is read-only.
    fn make_directories(
        &self,
        root: &Entry,
        profile: ZoneProfile,
        context: &mut CallerContext<'_>,
    ) {
        let mounts = self.mounts.lock();
        let Some(dir) = mounts.get(&root.id).map(|state| state.dir()) else {
            return;
        };
        drop(mounts);
        for name in profile.directories() {
            let place = MountDirectory::new(&dir, name);
            if let Err(error) = place.make() {
                let path = place.path();
                let why = format!("cannot make {}: {error}", path.display());
                context.tell(vec![Failure::other(why)]);
            }
        }
    }
}
