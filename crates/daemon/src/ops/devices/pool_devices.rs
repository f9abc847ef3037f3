//! Devices of pools that are imported, by this process or another one of this machine. No command takes them for another
//! pool, whatever path they have and whatever is forced.

use std::sync::Arc;

use block::BlockDevice;
use pool::{DeviceRetention, Pool, Superblock};
use protocol::api::FailureKind;
use store::{DeviceIdentity, Store};

use crate::failure::{Failure, Result};
use crate::host::pool_lock::PoolLock;
use crate::ops::devices::commands::is_away;
use crate::ops::devices::stores::object_stores::is_on_store;
use crate::state::daemon::Daemon;

impl Daemon {
    /// Refuses a device that an imported pool uses, or whose pool has retained snapshots. The pool with the guid `own`
    /// may take a device back that it does not use now.
    pub(crate) fn refuse_used(
        &self,
        device: &Arc<dyn BlockDevice>,
        own: Option<u64>,
    ) -> Result<()> {
        let path = device.name();
        let found = match store::probe(device.as_ref()) {
            Ok(found) => found,
            Err(store::Error::NotAPool { .. }) => return Ok(()),
            Err(error @ (store::Error::DamagedLabel { .. } | store::Error::TooNew { .. })) => {
                return Err(unreadable(&path, &error));
            }
            Err(error) => return Err(error.into()),
        };
        let pools = self.pools();
        let Some(active) = { pools.iter() }.find(|it| it.pool.guid() == found.pool_guid) else {
            let shown = found.pool_guid.to_string();
            PoolLock::check(&shown, found.pool_guid)
                .map_err(|failure| failure.context(format_args!("{path} is in use")))?;
            return refuse_retained(device, &found, None);
        };
        let is_own = own == Some(found.pool_guid);
        let name = active.pool.name();
        let mut devices = active.pool.devices().into_iter();
        let is_used = devices.any(|it| {
            let is_it = it.guid == found.device_guid;
            is_it && (!is_own || !is_away(&it))
        });
        match is_used {
            false => refuse_retained(device, &found, Some(&active.pool)),
            true => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "{path} is a device of the imported pool '{name}', which uses it; -f does not override this"
                ),
            )),
        }
    }
}

/// Refuses a device of a pool whose snapshots nobody may destroy yet. The imported pool with the same guid has these
/// snapshots if it went on from the state on the device. It does not have to: it may be an older copy.
pub(crate) fn refuse_retained(
    device: &Arc<dyn BlockDevice>,
    found: &DeviceIdentity,
    imported: Option<&Pool>,
) -> Result<()> {
    // A spare holds nothing but its label.
    if found.group == store::layout::NO_GROUP {
        return Ok(());
    }
    let path = device.name();
    let (txg, payload) = match newest(device) {
        // A `pool add` or `pool attach` of this pool was cut after the label. The device never held data.
        Err(store::Error::NoSuperblock) if imported.is_some() && is_only_labelled(device) => {
            return Ok(());
        }
        newest => newest.map_err(|error| unreadable(&path, &error))?,
    };
    let shown = DeviceRetention::read(txg, &payload).map_err(|error| unreadable(&path, &error))?;
    match imported {
        Some(pool) if pool.went_on_from(&shown) => Ok(()),
        _ => Ok(shown.check_ended(&path)?),
    }
}

/// The refusal of a device that may be of a pool with retained snapshots.
fn unreadable(path: &str, error: &dyn std::error::Error) -> Failure {
    let way_out = match is_on_store(path) {
        true => "delete its objects with a program of the store".to_owned(),
        false => format!("erase the device with another program: wipefs --all {path}"),
    };
    let text = format!(
        "{path} may belong to a pool with retained snapshots, and its state cannot be read: {error}; if nobody needs the \
         pool, {way_out}"
    );
    Failure::new(FailureKind::Busy, text)
}

/// Returns whether a device has a label and nothing else.
fn is_only_labelled(device: &Arc<dyn BlockDevice>) -> bool {
    let store = Store::open(vec![Arc::clone(device)]);
    store.is_ok_and(|store| store.has_empty_rings().unwrap_or(false))
}

/// Reads the newest superblock on a device, if there is one.
pub(crate) fn superblock(device: &Arc<dyn BlockDevice>) -> Option<Superblock> {
    let (txg, payload) = newest(device).ok()?;
    Superblock::decode(txg, &payload).ok()
}

/// The number and the payload of the newest superblock on a device.
fn newest(device: &Arc<dyn BlockDevice>) -> std::result::Result<(u64, Vec<u8>), store::Error> {
    let store = Store::open(vec![Arc::clone(device)])?;
    let superblocks = store.superblocks()?;
    superblocks
        .into_iter()
        .next()
        .ok_or(store::Error::NoSuperblock)
}
