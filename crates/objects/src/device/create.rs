//! A new device on a store.

use super::line::Line;
use crate::line::names;
use crate::line::pool_object::{self, DeviceFacts};
use crate::store::{Creation, ObjectStore};
use crate::{Error, Result};

/// Makes an empty device. Its object `pool` is made first; all others are made after it.
///
/// # Errors
/// [`Error::NotEmpty`], or a request was refused or not answered.
pub(super) async fn create(store: &dyn ObjectStore, facts: &DeviceFacts) -> Result<()> {
    let exists = |object: String| Error::NotEmpty {
        store: store.address(),
        object,
    };
    for folder in ["", names::LOG, names::MAP] {
        if let Some(object) = store.list(folder, None, 1).await?.pop() {
            return Err(exists(object.name));
        }
    }
    match store.create(names::POOL, facts.encode().into()).await? {
        Creation::Made => Ok(()),
        Creation::Exists => Err(exists(names::POOL.into())),
    }
}

/// Reads the facts about a device.
///
/// # Errors
/// [`Error::NoPool`], [`Error::Damaged`], or a request was refused or not answered.
pub(super) async fn read_facts(store: &dyn ObjectStore) -> Result<DeviceFacts> {
    let part = store
        .get(names::POOL, 0..pool_object::SIZE as u64 + 1)
        .await?;
    let Some(part) = part else {
        return Err(Error::NoPool {
            store: store.address(),
        });
    };
    DeviceFacts::decode(&part.bytes).map_err(|reason| Error::Damaged {
        store: store.address(),
        object: names::POOL.into(),
        reason,
    })
}

/// Removes all objects of a device, the object `pool` last.
///
/// # Errors
/// A request was refused.
pub(super) async fn destroy(line: &Line) -> Result<()> {
    for folder in [names::MAP, names::LOG] {
        for number in line.list(folder, 0).await?.into_keys() {
            let name = names::numbered(folder, number);
            line.patiently(|| line.store.delete(&name)).await?;
        }
    }
    line.patiently(|| line.store.delete(names::POOL)).await
}
