//! Mounts the named datasets, or all.

use std::sync::Arc;

use protocol::api::{FailureKind, command};
use vfs::Caller;

use crate::failure::{Failure, Result};
use crate::ops::keys::commands::unloaded_roots;
use crate::ops::mounts::HowToMount;
use crate::state::context::{Context, first_of};
use crate::state::daemon::Daemon;

impl Daemon {
    pub(crate) fn mount_named(
        self: &Arc<Self>,
        name: &str,
        mount: &command::Mount,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let how = HowToMount {
            dir: mount.dir.clone(),
            read_only: mount.read_only,
            overlay: mount.overlay,
            allowed: mount.allowed,
            owner: self.owner_of_root(name, context)?,
        };
        let (active, entry) = self.find(name)?;
        if !entry.is_snapshot() && entry.props.get("canmount").is_some_and(|is| is == "off") {
            return Err(Failure::new(
                FailureKind::Permission,
                format!(
                    "'{name}' is not mounted: its property canmount is off; 'strongroom set canmount=noauto \
                     {name}' lets a command mount it"
                ),
            ));
        }
        if mount.load_keys && entry.suite != 0 {
            active.ensure_key(active.key_root(&entry)?, context.channel)?;
        }
        let _admin = active.lock()?;
        let entry = active.again(&entry, name)?;
        self.mount(&active, &entry, &how)
    }

    /// The owner of the root directory of a dataset that is mounted for the first time. A delegate owns it only with
    /// the permission to make datasets there.
    fn owner_of_root(&self, name: &str, context: &Context<'_>) -> Result<Caller> {
        let (active, entry) = self.find(name)?;
        let may_make = match active.pool.entry(entry.parent) {
            Ok(above) => active.allows(&above, &context.peer, "create")?,
            // The root of a pool is made with the pool only.
            Err(_) => false,
        };
        Ok(match may_make {
            true => context.caller(),
            false => context.owner_elsewhere(),
        })
    }

    pub(crate) fn mount_all(
        self: &Arc<Self>,
        load_keys: bool,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut failures = Vec::new();
        for active in self.pools() {
            if load_keys {
                for root in unloaded_roots(&active)? {
                    failures.extend(active.ensure_key(root, context.channel).err());
                }
            }
            // A pool that was exported meanwhile has nothing to mount.
            let Ok(_admin) = active.lock() else {
                continue;
            };
            let entries = active.all_heads()?;
            failures.extend(self.mount_automatic(&active, &entries, context.caller()));
        }
        first_of(failures, context)
    }
}
