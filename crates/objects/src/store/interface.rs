//! Interfaces to a store and to time, as the line needs them.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

use crate::Result;

/// A request in progress. It does nothing before it is polled, and may be dropped: then it may or may not be carried out.
pub type RequestFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The answer to a request to create an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// The object was made.
    Made,
    /// The store says that there is one of that name, or that another request is making it (409). It may be the own
    /// object, if an answer was lost.
    Exists,
}

/// A part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The bytes asked for, fewer at the end of the object.
    pub bytes: Bytes,
    /// The size of the whole object in bytes.
    pub size: u64,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// The name, as it was given to [`ObjectStore::create`].
    pub name: String,
    /// The size in bytes.
    pub size: u64,
}

/// A store of objects. Names are relative to the address of the pool: `log/00000000000000000007`.
///
/// No request repeats itself: the callers do, because only they know what a lost answer means.
pub trait ObjectStore: Send + Sync + 'static {
    /// The address, for messages.
    fn address(&self) -> String;

    /// Makes an object if there is none of that name. It is durable when this returns [`Creation::Made`].
    ///
    /// # Errors
    /// [`crate::Error::Unanswered`]: the object may be there, or appear at any later time. [`crate::Error::Refused`].
    fn create(&self, name: &str, bytes: Bytes) -> RequestFuture<'_, Result<Creation>>;

    /// Makes an object, or replaces the one that is there. Only for objects that no reader needs any more.
    ///
    /// # Errors
    /// As [`ObjectStore::create`].
    fn replace(&self, name: &str, bytes: Bytes) -> RequestFuture<'_, Result<()>>;

    /// Reads a range of an object, up to its end. `None` if there is no object of that name. The range is not empty.
    ///
    /// # Errors
    /// As [`ObjectStore::create`].
    fn get(&self, name: &str, range: Range<u64>) -> RequestFuture<'_, Result<Option<Part>>>;

    /// Lists the objects whose names begin with `prefix` (which ends with `/`), those after `after` in the order of
    /// names, and at most `limit`.
    ///
    /// # Errors
    /// As [`ObjectStore::create`].
    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> RequestFuture<'_, Result<Vec<ListedObject>>>;

    /// Removes an object. No error if there is none.
    ///
    /// # Errors
    /// As [`ObjectStore::create`].
    fn delete(&self, name: &str) -> RequestFuture<'_, Result<()>>;
}

/// Tasks and time. The simulator has its own.
pub trait Executor: Send + Sync + 'static {
    /// Runs a task beside the caller.
    fn spawn(&self, task: RequestFuture<'static, ()>);

    /// Waits.
    fn sleep(&self, time: Duration) -> RequestFuture<'static, ()>;

    /// The time since an arbitrary moment. It never goes back.
    fn now(&self) -> Duration;

    /// Runs a request to its end, from a thread that is no task.
    fn wait(&self, task: RequestFuture<'_, ()>);
}
