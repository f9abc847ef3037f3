//! A new device on a store, and its end.

use std::time::Duration;

use futures_util::future::{self, Either};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::line::Line;
use super::outage::FIRST_PAUSE;
use super::scan::ListedNumbers;
use crate::line::names;
use crate::line::pool_object::{self, DeviceFacts};
use crate::store::{Creation, Executor, ListedObject, ObjectStore, Part};
use crate::{Error, Result};

/// A store that does not answer is waited for so long by work that nobody has to wait for: opening, removal.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first read of a device is sent so often, within two seconds. A request that is lost does no harm then, and a
/// command that looks for pools does not wait long for a store that is away.
const FIRST_ATTEMPTS: u32 = 6;
/// The most names in a list.
const LIST_MAX: usize = 1000;
/// The number of objects that are removed at the same time.
const REMOVALS: usize = 32;

/// Makes an empty device. Its object `pool` is made first; all others are made after it.
///
/// # Errors
/// [`Error::NotEmpty`], or a request was refused or not answered.
pub(super) async fn create(store: &dyn ObjectStore, facts: &DeviceFacts) -> Result<()> {
    check_free(store).await?;
    match store.create(names::POOL, facts.encode().into()).await? {
        Creation::Made => Ok(()),
        Creation::Exists => Err(not_empty(store, names::POOL.into())),
    }
}

/// Fails if a new device cannot be made at the address.
///
/// # Errors
/// [`Error::NotEmpty`], or a request was refused or not answered.
pub(super) async fn check_free(store: &dyn ObjectStore) -> Result<()> {
    for folder in ["", names::LOG, names::MAP] {
        if let Some(object) = store.list(folder, None, 1).await?.pop() {
            return Err(not_empty(store, object.name));
        }
    }
    Ok(())
}

fn not_empty(store: &dyn ObjectStore, object: String) -> Error {
    Error::NotEmpty {
        store: store.address(),
        object,
    }
}

/// Sends one request of each kind that reads.
///
/// # Errors
/// A request was refused or not answered.
pub(super) async fn check(store: &dyn ObjectStore) -> Result<()> {
    store.get(names::POOL, 0..1).await?;
    store.list(names::MAP, None, 1).await.map(drop)
}

/// Reads the facts about a device, and lists its checkpoints at the same time. `None` instead of the list if it has to be
/// read again.
///
/// # Errors
/// [`Error::NoPool`], [`Error::Damaged`], or a request was refused or not answered.
pub(super) async fn read_facts(
    (store, executor): (&dyn ObjectStore, &dyn Executor),
) -> Result<(DeviceFacts, Option<ListedNumbers>)> {
    let part = read_pool_object(store, executor);
    let page = store.list(names::MAP, None, LIST_MAX);
    let (part, page) = future::join(part, page).await;
    let part = part?;
    let Some(part) = part else {
        return Err(Error::NoPool {
            store: store.address(),
        });
    };
    let facts = DeviceFacts::decode(&part.bytes).map_err(|reason| Error::Damaged {
        store: store.address(),
        object: names::POOL.into(),
        reason,
    })?;
    let page = page.ok().filter(|page| page.len() < LIST_MAX);
    let numbered = |object: ListedObject| {
        names::number(names::MAP, &object.name).map(|number| (number, object.size))
    };
    let checkpoints = page.and_then(|page| page.into_iter().map(numbered).collect());
    Ok((facts, checkpoints))
}

/// Reads the object `pool`. The line, which repeats its requests, cannot be there before.
async fn read_pool_object(
    store: &dyn ObjectStore,
    executor: &dyn Executor,
) -> Result<Option<Part>> {
    let mut pause = FIRST_PAUSE;
    let mut attempts = 0;
    loop {
        let part = store
            .get(names::POOL, 0..pool_object::SIZE as u64 + 1)
            .await;
        attempts += 1;
        if attempts == FIRST_ATTEMPTS || !part.as_ref().is_err_and(Error::is_outage) {
            return part;
        }
        executor.sleep(pause).await;
        pause *= 2;
    }
}

/// Removes all objects of a device, the object `pool` last. Objects with other names stay. Returns the number of objects.
///
/// # Errors
/// A request was refused, or not answered for long.
pub(super) async fn remove(line: &Line) -> Result<u64> {
    let of = (&*line.store, &*line.executor);
    let mut removed = 0;
    for folder in [names::MAP, names::LOG] {
        let mut last: Option<String> = None;
        loop {
            let request = line.patiently(|| line.store.list(folder, last.as_deref(), LIST_MAX));
            let page = within(of, request).await?;
            last = page.last().map(|object| object.name.clone());
            let is_last = page.len() < LIST_MAX;
            let own = page.into_iter().map(|object| object.name);
            let own: Vec<String> = own
                .filter(|name| names::number(folder, name).is_some())
                .collect();
            removed += own.len() as u64;
            stream::iter(own)
                .map(|name| async move {
                    within(of, line.patiently(|| line.store.delete(&name))).await
                })
                .buffer_unordered(REMOVALS)
                .try_collect::<()>()
                .await?;
            if is_last {
                break;
            }
        }
    }
    let pool = line.patiently(|| line.store.get(names::POOL, 0..1));
    if within(of, pool).await?.is_none() {
        return Ok(removed);
    }
    within(of, line.patiently(|| line.store.delete(names::POOL))).await?;
    Ok(removed + 1)
}

/// Waits for a request, but not for ever.
///
/// # Errors
/// [`Error::Unanswered`]; the error of the request.
pub(super) async fn within<T>(
    (store, executor): (&dyn ObjectStore, &dyn Executor),
    request: impl Future<Output = Result<T>>,
) -> Result<T> {
    let patience = executor.sleep(PATIENCE);
    match future::select(Box::pin(request), patience).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => Err(Error::Unanswered {
            store: store.address(),
            operation: "a request",
            object: names::POOL.into(),
            reason: format!("no answer for {} s", PATIENCE.as_secs()),
        }),
    }
}
