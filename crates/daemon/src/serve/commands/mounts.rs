//! Mounts.

use protocol::api::{MountPermissions, Reply, command};

use super::done;
use crate::failure::Failure;
use crate::serve::authorize::{self, only_root};
use crate::serve::zones::NameEffect;
use crate::state::zones::rules::{denied, refused};

/// Returns whether the daemon chooses the mountpoint and the options.
fn is_plain(mount: &command::Mount) -> bool {
    mount.dir.is_none() && !mount.overlay && mount.allowed == MountPermissions::default()
}

fn not_for_delegates() -> Failure {
    authorize::refused("where and how it is mounted is for root to say; mount it by its name alone")
}

fn not_for_tenants() -> Failure {
    denied(
        "name the dataset alone: where and how it is mounted, and what its log loses, is for the global zone to say",
    )
}

serve!(
    Mount,
    |_| NameEffect::Shared,
    |it, check| {
        let name = it.name.as_ref().ok_or_else(only_root)?;
        if !is_plain(it) {
            return Err(not_for_delegates());
        }
        check.need(name, &["mount"])?;
        if it.give_up_log {
            // Synced data is lost.
            check.need(name, &["rollback"])?;
        }
        match it.load_keys {
            true => check.key_root(name),
            false => Ok(()),
        }
    },
    |it, view| {
        let is_plain = is_plain(it) && !it.give_up_log;
        let name = it.name.as_mut().filter(|_| is_plain);
        view.mount(name.ok_or_else(not_for_tenants)?, it.load_keys)
    },
    |it, daemon, context| match &it.name {
        Some(name) => daemon.mount_named(name, it, context).map(done),
        None => daemon.mount_all(it.load_keys, context).map(done),
    }
);

root_only! {
    Home: |it, daemon, context| daemon.home(it, context).map(Reply::Home);
}

serve!(
    Remount,
    |_| NameEffect::AsItIs,
    |_, _| Err(not_for_delegates()),
    // How a dataset is mounted is for the global zone to say.
    |_, _| Err(refused()),
    |it, daemon, context| daemon
        .remount(&it.name, it.read_only, it.allowed, context)
        .map(done)
);

serve!(
    Mounts,
    |_| NameEffect::AsItIs,
    |_, _| Err(only_root()),
    // Of what is mounted a tenant is told what is in the zone.
    |_, _| Ok(()),
    |_, daemon, _| daemon.mount_list().map(Reply::Mounts)
);

serve!(
    Unmount,
    |_| NameEffect::AsItIs,
    |it, check| {
        let name = it.target.as_ref().filter(|name| !name.starts_with('/'));
        check.need(name.ok_or_else(only_root)?, &["mount"])
    },
    |it, view| {
        let name = it.target.as_mut().filter(|name| !name.starts_with('/'));
        view.change(name.ok_or_else(not_for_tenants)?)
    },
    |it, daemon, context| daemon
        .unmount(it.target.as_deref(), it.force, context)
        .map(done)
);
