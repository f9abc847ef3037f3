//! A bucket as a store of objects.

use std::future::Future;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStoreExt, PutMode, PutOptions};
use tokio::time::timeout;

use crate::store::address::StoreAddress;
use crate::store::cloud::verdict::{Verb, Verdict, judge};
use crate::store::interface::{Creation, ListedObject, ObjectStore, Part, RequestFuture};
use crate::{Error, Result};

/// The time that a request has without its bytes.
const TIME_MAX: Duration = Duration::from_secs(30);
/// The slowest line that is served, in bytes per second: 8 MiB take about two minutes.
const BYTES_PER_SECOND_MIN: u64 = 64 << 10;
/// The most names that a store returns at once.
const PAGE_MAX: usize = 1_000;
/// A list of more pages does not end.
const PAGES_MAX: usize = 100_000;

/// The objects of a bucket below a prefix.
pub(super) struct Bucket<S> {
    address: StoreAddress,
    store: S,
}

impl<S> Bucket<S> {
    pub(super) fn new(address: &StoreAddress, store: S) -> Bucket<S> {
        Bucket {
            address: address.clone(),
            store,
        }
    }

    /// The whole name of an object in the bucket.
    fn whole_name(&self, name: &str) -> String {
        match self.address.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        }
    }

    fn path(&self, verb: Verb, name: &str) -> Result<Path> {
        Path::parse(self.whole_name(name))
            .map_err(|_| self.refused(verb, name, "a store has no such names".into()))
    }

    /// The name of an object for the line, from its whole name.
    fn name<'a>(&self, whole: &'a str) -> Option<&'a str> {
        match self.address.prefix.as_str() {
            "" => Some(whole),
            prefix => whole.strip_prefix(prefix)?.strip_prefix('/'),
        }
    }

    fn refused(&self, verb: Verb, name: &str, reason: String) -> Error {
        Error::Refused {
            store: self.address.to_string(),
            operation: verb.name(),
            object: name.to_owned(),
            reason,
        }
    }

    fn unanswered(&self, verb: Verb, name: &str, reason: String) -> Error {
        Error::Unanswered {
            store: self.address.to_string(),
            operation: verb.name(),
            object: name.to_owned(),
            reason,
        }
    }

    /// Sends a request within its time. `Err(Ok(verdict))` for what is no error to every caller.
    async fn send<T>(
        &self,
        verb: Verb,
        name: &str,
        size: u64,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<std::result::Result<T, Verdict>> {
        let time = TIME_MAX + Duration::from_secs(size / BYTES_PER_SECOND_MIN);
        let Ok(answer) = timeout(time, request).await else {
            let reason = format!("no answer within {} seconds", time.as_secs());
            return Err(self.unanswered(verb, name, reason));
        };
        match answer.map_err(|error| judge(self.address.provider, verb, &error)) {
            Ok(value) => Ok(Ok(value)),
            Err(Verdict::Refused(reason)) => Err(self.refused(verb, name, reason)),
            Err(Verdict::Unanswered(reason)) => Err(self.unanswered(verb, name, reason)),
            Err(verdict) => Ok(Err(verdict)),
        }
    }

    /// The error for a verdict that the request cannot get.
    fn unexpected(&self, verb: Verb, name: &str, verdict: &Verdict) -> Error {
        self.unanswered(verb, name, format!("the store answers: {verdict:?}"))
    }
}

impl<S: object_store::ObjectStore + PaginatedListStore> Bucket<S> {
    async fn put(&self, verb: Verb, name: &str, bytes: Bytes, mode: PutMode) -> Result<Creation> {
        let path = self.path(verb, name)?;
        let size = bytes.len() as u64;
        let options = PutOptions {
            mode,
            ..PutOptions::default()
        };
        let request = self.store.put_opts(&path, bytes.into(), options);
        match self.send(verb, name, size, request).await? {
            Ok(_) => Ok(Creation::Made),
            Err(Verdict::Exists) => Ok(Creation::Exists),
            Err(verdict) => Err(self.unexpected(verb, name, &verdict)),
        }
    }

    async fn read(&self, name: &str, range: Range<u64>) -> Result<Option<Part>> {
        let part = match self.request_part(name, &range).await? {
            Ok(part) => part,
            Err(Verdict::Missing) => return Ok(None),
            Err(Verdict::PastEnd(Some(size))) => Part {
                bytes: Bytes::new(),
                size,
            },
            Err(Verdict::PastEnd(None)) => return self.read_past_end(name).await,
            Err(verdict) => return Err(self.unexpected(Verb::Get, name, &verdict)),
        };
        let wanted = part.size.min(range.end).saturating_sub(range.start);
        match part.bytes.len() as u64 == wanted {
            true => Ok(Some(part)),
            false => {
                let reason = format!("{} of {wanted} bytes came", part.bytes.len());
                Err(self.unanswered(Verb::Get, name, reason))
            }
        }
    }

    /// Reads nothing, from a store that does not say which size the object has.
    async fn read_past_end(&self, name: &str) -> Result<Option<Part>> {
        let size = match self.request_part(name, &(0..1)).await? {
            Ok(part) => part.size,
            Err(Verdict::Missing) => return Ok(None),
            // Only an empty object has no first byte.
            Err(_) => 0,
        };
        let bytes = Bytes::new();
        Ok(Some(Part { bytes, size }))
    }

    async fn request_part(
        &self,
        name: &str,
        range: &Range<u64>,
    ) -> Result<std::result::Result<Part, Verdict>> {
        let path = self.path(Verb::Get, name)?;
        let size = range.end.saturating_sub(range.start);
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            ..GetOptions::default()
        };
        let request = async {
            let found = self.store.get_opts(&path, options).await?;
            let size = found.meta.size;
            let bytes = found.bytes().await?;
            Ok(Part { bytes, size })
        };
        self.send(Verb::Get, name, size, request).await
    }

    async fn names(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ListedObject>> {
        let whole_prefix = self.whole_name(prefix);
        let mut objects: Vec<ListedObject> = Vec::new();
        let mut page_token = None;
        for _ in 0..PAGES_MAX {
            let missing = limit.saturating_sub(objects.len());
            if missing == 0 {
                return Ok(objects);
            }
            let options = PaginatedListOptions {
                offset: after.map(|after| self.whole_name(after)),
                max_keys: Some(missing.min(PAGE_MAX)),
                page_token,
                ..PaginatedListOptions::default()
            };
            let request = self.store.list_paginated(Some(&whole_prefix), options);
            let page = match self.send(Verb::List, prefix, 0, request).await? {
                Ok(page) => page,
                Err(verdict) => return Err(self.unexpected(Verb::List, prefix, &verdict)),
            };
            // Some stores ignore where to begin, or how much is wanted.
            let listed = page.result.objects.iter().filter_map(|object| {
                let name = self.name(object.location.as_ref())?;
                let is_wanted = name.starts_with(prefix) && after.is_none_or(|after| name > after);
                is_wanted.then(|| ListedObject {
                    name: name.to_owned(),
                    size: object.size,
                })
            });
            objects.extend(listed.take(missing));
            page_token = page.page_token;
            if page_token.is_none() {
                return Ok(objects);
            }
        }
        Err(self.unanswered(Verb::List, prefix, "the list does not end".into()))
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(Verb::Delete, name)?;
        let request = async { self.store.delete(&path).await };
        match self.send(Verb::Delete, name, 0, request).await? {
            Ok(()) | Err(Verdict::Missing) => Ok(()),
            Err(verdict) => Err(self.unexpected(Verb::Delete, name, &verdict)),
        }
    }
}

impl<S: object_store::ObjectStore + PaginatedListStore> ObjectStore for Bucket<S> {
    fn address(&self) -> String {
        self.address.to_string()
    }

    fn create(&self, name: &str, bytes: Bytes) -> RequestFuture<'_, Result<Creation>> {
        let name = name.to_owned();
        Box::pin(async move { self.put(Verb::Create, &name, bytes, PutMode::Create).await })
    }

    fn replace(&self, name: &str, bytes: Bytes) -> RequestFuture<'_, Result<()>> {
        let name = name.to_owned();
        Box::pin(async move {
            let replaced = self.put(Verb::Replace, &name, bytes, PutMode::Overwrite);
            replaced.await.map(|_| ())
        })
    }

    fn get(&self, name: &str, range: Range<u64>) -> RequestFuture<'_, Result<Option<Part>>> {
        let name = name.to_owned();
        Box::pin(async move { self.read(&name, range).await })
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> RequestFuture<'_, Result<Vec<ListedObject>>> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        Box::pin(async move { self.names(&prefix, after.as_deref(), limit).await })
    }

    fn delete(&self, name: &str) -> RequestFuture<'_, Result<()>> {
        let name = name.to_owned();
        Box::pin(async move { self.remove(&name).await })
    }
}
