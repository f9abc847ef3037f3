//! Mounts the named datasets, or all.

use std::sync::Arc;

use pool::Entry;
use protocol::api::{FailureKind, command};
use vfs::Caller;

use crate::failure::{Failure, Result};
use crate::state::callers::context::{CallerContext, first_of};
use crate::state::daemon::Daemon;
use crate::state::mounts::mount_options::{HidingPolicy, MountRequest};
use crate::state::pools::active_pool::ActivePool;

impl Daemon {
    pub(crate) fn mount_named(
        self: &Arc<Self>,
        name: &str,
        mount: &command::Mount,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let (active, entry) = self.find(name)?;
        check_canmount(&entry, name)?;
        let root = active.key_root(&entry)?;
        let was_loaded_here = match mount.load_keys && entry.suite != 0 {
            true => active.ensure_key(root, context.decision, context.channel)?,
            false => false,
        };
        let _admin = active.lock(context.decision)?;
        let mounted = active
            .again(&entry, name, context.decision)
            .and_then(|entry| {
                check_canmount(&entry, name)?;
                if mount.give_up_log && entry.volume().is_some() {
                    return self.give_up_volume_log(&active, &entry, name);
                }
                let how = MountRequest {
                    dir: mount.dir.clone(),
                    read_only: mount.read_only,
                    gives_up_log: mount.give_up_log,
                    hiding: match mount.overlay {
                        true => HidingPolicy::Allowed,
                        false if context.is_root() => HidingPolicy::RefusedByName,
                        false => HidingPolicy::Refused,
                    },
                    allowed: mount.allowed,
                    owner: owner_of_root(&active, &entry, context)?,
                };
                self.mount(&active, &entry, &how)
            });
        if mounted.is_ok() && mount.dir.is_none() {
            // Those whose directories are in that one come after it.
            context.tell(self.mount_automatic(&active, &[], Caller::default()));
        }
        if mounted.is_err() && was_loaded_here {
            // A command that fails changes nothing. If the key is in use by now, it stays.
            let root = active.pool.entry(root).map_err(Failure::from);
            let unloaded = root.and_then(|root| self.unload_key(&active, &root, false));
            if let Err(failure) = unloaded {
                tracing::info!(
                    dataset = name,
                    reason = failure.message,
                    "its key stays loaded"
                );
            }
        }
        mounted
    }

    pub(crate) fn mount_all(
        self: &Arc<Self>,
        load_keys: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let mut failures = Vec::new();
        for active in self.pools() {
            if load_keys {
                for root in self.awaited_keys(&active)? {
                    failures.extend(
                        active
                            .ensure_key(root, context.decision, context.channel)
                            .err(),
                    );
                }
            }
            // A pool that was exported meanwhile has nothing to mount.
            let Ok(_admin) = active.lock(context.decision) else {
                continue;
            };
            let entries = active.all_heads()?;
            failures.extend(self.mount_automatic(&active, &entries, context.caller()));
        }
        first_of(failures, context)
    }
}

/// Refuses a dataset that no command may mount.
fn check_canmount(entry: &Entry, name: &str) -> Result<()> {
    if entry.is_snapshot() || entry.props.get("canmount").is_none_or(|is| is != "off") {
        return Ok(());
    }
    Err(Failure::new(
        FailureKind::Permission,
        format!(
            "'{name}' is not mounted: its property canmount is off; 'strongroom set canmount=noauto {name}' lets a \
             command mount it"
        ),
    ))
}

/// The owner of the root directory of a dataset that is mounted for the first time. A delegate owns it only with the
/// permission to make datasets there.
fn owner_of_root(
    active: &ActivePool,
    entry: &Entry,
    context: &CallerContext<'_>,
) -> Result<Caller> {
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
