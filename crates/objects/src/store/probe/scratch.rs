//! Objects of a probe. Requests without an answer are repeated, and all objects are removed at the end.

use std::collections::BTreeSet;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::store::interface::{Creation, Executor, ListedObject, ObjectStore};
use crate::{Error, Result};

/// The most times that a request is sent before its store counts as away.
const ATTEMPTS: u32 = 6;
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// The objects of a probe, below `probe/RANDOM/`.
pub(super) struct Scratch {
    store: Arc<dyn ObjectStore>,
    executor: Arc<dyn Executor>,
    /// The beginning of all names.
    prefix: String,
    names: Mutex<BTreeSet<String>>,
}

/// The outcome of a request to create an object that may have been repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The object was made by this request.
    Made,
    /// The store refused, and an earlier request had an answer too.
    Exists,
    /// The store refused after a request without an answer: the object may be the own one.
    Unclear,
}

impl Scratch {
    pub(super) fn new(
        store: &Arc<dyn ObjectStore>,
        executor: &Arc<dyn Executor>,
    ) -> Result<Scratch> {
        let mut random = [0; 8];
        let size = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        if size != Ok(random.len()) {
            return Err(Error::NoRandom);
        }
        Ok(Scratch {
            store: Arc::clone(store),
            executor: Arc::clone(executor),
            prefix: format!("probe/{:016x}/", u64::from_le_bytes(random)),
            names: Mutex::default(),
        })
    }

    /// The whole name of an object.
    pub(super) fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn note(&self, name: &str) -> String {
        let name = self.name(name);
        self.names.lock().insert(name.clone());
        name
    }

    pub(super) async fn create(&self, name: &str, bytes: &Bytes) -> Result<Attempt> {
        let name = self.note(name);
        let mut attempts = 0;
        let creation = self.repeat(|| {
            attempts += 1;
            self.store.create(&name, bytes.clone())
        });
        Ok(match creation.await? {
            Creation::Made => Attempt::Made,
            Creation::Exists if attempts > 1 => Attempt::Unclear,
            Creation::Exists => Attempt::Exists,
        })
    }

    pub(super) async fn replace(&self, name: &str, bytes: &Bytes) -> Result<()> {
        let name = self.note(name);
        self.repeat(|| self.store.replace(&name, bytes.clone()))
            .await
    }

    /// Reads an object that has `size` bytes. Of a larger one it reads nothing.
    pub(super) async fn read(&self, name: &str, size: usize) -> Result<Option<Bytes>> {
        let part = self.part(name, 0..size as u64).await?;
        Ok(part.map(|(bytes, whole)| match whole <= size as u64 {
            true => bytes,
            false => Bytes::new(),
        }))
    }

    /// Reads a range, and returns the size of the whole object too.
    pub(super) async fn part(&self, name: &str, range: Range<u64>) -> Result<Option<(Bytes, u64)>> {
        let name = self.name(name);
        let part = self.repeat(|| self.store.get(&name, range.clone())).await?;
        Ok(part.map(|part| (part.bytes, part.size)))
    }

    pub(super) async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ListedObject>> {
        let prefix = self.name(prefix);
        self.repeat(|| self.store.list(&prefix, after, limit)).await
    }

    pub(super) async fn delete(&self, name: &str) -> Result<()> {
        let name = self.name(name);
        self.repeat(|| self.store.delete(&name)).await?;
        self.names.lock().remove(&name);
        Ok(())
    }

    /// Removes all objects, also those whose request had no answer. Returns the names of those that are left.
    pub(super) async fn remove_all(&self) -> Vec<String> {
        let mut names = self.names.lock().clone();
        if let Ok(listed) = self.list("", None, usize::MAX).await {
            names.extend(listed.into_iter().map(|object| object.name));
        }
        let mut leftovers = Vec::new();
        for name in names {
            if self.repeat(|| self.store.delete(&name)).await.is_err() {
                leftovers.push(name);
            }
        }
        leftovers
    }

    /// Sends a request until it has an answer.
    async fn repeat<T, F: Future<Output = Result<T>>>(
        &self,
        mut request: impl FnMut() -> F,
    ) -> Result<T> {
        let mut wait = FIRST_WAIT;
        for _ in 1..ATTEMPTS {
            match request().await {
                Err(error) if error.is_outage() => {}
                answered => return answered,
            }
            self.executor.sleep(wait).await;
            wait *= 2;
        }
        request().await
    }
}
