//! Counters of requests. Providers charge for each of them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::Result;
use crate::store::interface::{Creation, ListedObject, ObjectStore, Part, RequestFuture};

/// The requests to a store so far. Those without an answer count too, because they cost the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreTotals {
    /// Requests to create an object.
    pub creates: u64,
    /// Requests to create or replace an object.
    pub replaces: u64,
    /// Requests to read a range of an object.
    pub gets: u64,
    /// Requests to list objects.
    pub lists: u64,
    /// Requests to remove an object. Most providers charge nothing for them.
    pub deletes: u64,
    /// Requests that had no answer.
    pub outages: u64,
    /// Bytes of objects that were sent.
    pub bytes_sent: u64,
    /// Bytes of objects that were received.
    pub bytes_received: u64,
}

/// A store that counts the requests to another one.
pub struct MeteredStore {
    store: Arc<dyn ObjectStore>,
    counters: RequestCounters,
}

#[derive(Default)]
struct RequestCounters {
    creates: AtomicU64,
    replaces: AtomicU64,
    gets: AtomicU64,
    lists: AtomicU64,
    deletes: AtomicU64,
    outages: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_received: AtomicU64,
}

/// A list with more names takes more than one request.
const NAMES_PER_REQUEST: u64 = 1_000;

impl MeteredStore {
    /// A store whose requests are counted from now on.
    pub fn new(store: Arc<dyn ObjectStore>) -> MeteredStore {
        MeteredStore {
            store,
            counters: RequestCounters::default(),
        }
    }

    /// Returns the requests so far.
    pub fn totals(&self) -> StoreTotals {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreTotals {
            creates: value(&self.counters.creates),
            replaces: value(&self.counters.replaces),
            gets: value(&self.counters.gets),
            lists: value(&self.counters.lists),
            deletes: value(&self.counters.deletes),
            outages: value(&self.counters.outages),
            bytes_sent: value(&self.counters.bytes_sent),
            bytes_received: value(&self.counters.bytes_received),
        }
    }

    /// Counts a request when it is sent, and its outcome.
    fn count<'a, T: 'a>(
        &'a self,
        counter: &'a AtomicU64,
        bytes: usize,
        request: RequestFuture<'a, Result<T>>,
    ) -> RequestFuture<'a, Result<T>> {
        Box::pin(async move {
            add(counter, 1);
            add(&self.counters.bytes_sent, bytes as u64);
            let outcome = request.await;
            if outcome.as_ref().is_err_and(crate::Error::is_outage) {
                add(&self.counters.outages, 1);
            }
            outcome
        })
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl ObjectStore for MeteredStore {
    fn address(&self) -> String {
        self.store.address()
    }

    fn create(&self, name: &str, bytes: Bytes) -> RequestFuture<'_, Result<Creation>> {
        let size = bytes.len();
        self.count(&self.counters.creates, size, self.store.create(name, bytes))
    }

    fn replace(&self, name: &str, bytes: Bytes) -> RequestFuture<'_, Result<()>> {
        let size = bytes.len();
        self.count(
            &self.counters.replaces,
            size,
            self.store.replace(name, bytes),
        )
    }

    fn get(&self, name: &str, range: Range<u64>) -> RequestFuture<'_, Result<Option<Part>>> {
        let request = self.count(&self.counters.gets, 0, self.store.get(name, range));
        Box::pin(async move {
            let part = request.await?;
            let size = part.as_ref().map_or(0, |part| part.bytes.len());
            add(&self.counters.bytes_received, size as u64);
            Ok(part)
        })
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> RequestFuture<'_, Result<Vec<ListedObject>>> {
        let request = self.store.list(prefix, after, limit);
        let request = self.count(&self.counters.lists, 0, request);
        Box::pin(async move {
            let objects = request.await?;
            let more = (objects.len() as u64).saturating_sub(1) / NAMES_PER_REQUEST;
            add(&self.counters.lists, more);
            Ok(objects)
        })
    }

    fn delete(&self, name: &str) -> RequestFuture<'_, Result<()>> {
        self.count(&self.counters.deletes, 0, self.store.delete(name))
    }
}
