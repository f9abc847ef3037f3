//! The requests of the line to a folder.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rustix::io::Errno;
use tokio::runtime::Handle;

use crate::store::address::StoreAddress;
use crate::store::folder::files::FolderFiles;
use crate::store::folder::listing;
use crate::store::interface::{Creation, ListedObject, ObjectStore, Part, RequestFuture};
use crate::{Error, Result};

/// A folder as a store.
pub(crate) struct Folder {
    address: StoreAddress,
    files: Arc<FolderFiles>,
}

impl Folder {
    /// Opens a folder. It is made with the first object if it does not exist.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the path is no folder.
    pub(crate) fn open(address: &StoreAddress) -> Result<Folder> {
        let unusable = |reason: String| Error::Unusable {
            store: address.to_string(),
            reason,
        };
        let path = Path::new(&address.prefix);
        if !path.is_absolute() {
            return Err(unusable("the path of a folder begins with /".into()));
        }
        let files = FolderFiles::open(path).map_err(|error| unusable(explain(error)))?;
        Ok(Folder {
            address: address.clone(),
            files: Arc::new(files),
        })
    }

    /// Works on a thread that may wait for the folder.
    fn work<T: Send + 'static>(
        &self,
        operation: &'static str,
        name: &str,
        work: impl FnOnce(&FolderFiles, &str) -> std::result::Result<T, Errno> + Send + 'static,
    ) -> RequestFuture<'_, Result<T>> {
        let (files, name) = (Arc::clone(&self.files), name.to_owned());
        Box::pin(async move {
            let object = name.clone();
            let outcome = match Handle::try_current() {
                Ok(runtime) => {
                    let worker = runtime.spawn_blocking(move || work(&files, &name));
                    // The process ends.
                    worker.await.unwrap_or(Err(Errno::CANCELED))
                }
                Err(_) => work(&files, &name),
            };
            outcome.map_err(|error| self.failure(operation, object, error))
        })
    }

    fn failure(&self, operation: &'static str, object: String, error: Errno) -> Error {
        let (store, reason) = (self.address.to_string(), explain(error));
        match is_refusal(error) {
            true => Error::Refused {
                store,
                operation,
                object,
                reason,
            },
            false => Error::Unanswered {
                store,
                operation,
                object,
                reason,
            },
        }
    }
}

/// Returns whether only a user can help. A full or broken disk, or a server that is away, can be back later.
fn is_refusal(error: Errno) -> bool {
    matches!(
        error,
        Errno::ACCESS
            | Errno::PERM
            | Errno::ROFS
            | Errno::LOOP
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::INVAL
            | Errno::NAMETOOLONG
            | Errno::NOENT
            | Errno::OPNOTSUPP
            | Errno::NOSYS
    )
}

fn explain(error: Errno) -> String {
    let advice = match error {
        Errno::ACCESS | Errno::PERM => {
            "; give the user of the daemon the right to read and write there"
        }
        Errno::ROFS => "; mount the file system for writing",
        Errno::LOOP | Errno::NOTDIR => {
            "; the path is or has a symbolic link or a file, name the folder itself"
        }
        Errno::ISDIR => "; something that is no file has the name of an object, move it away",
        Errno::NOENT => "; make the folder that is to hold it first",
        Errno::NOSPC | Errno::DQUOT => "; free some space",
        Errno::OPNOTSUPP | Errno::NOSYS => {
            "; this file system cannot make a file only if there is none, use another one"
        }
        _ => "",
    };
    format!("{}{advice}", std::io::Error::from(error))
}

impl ObjectStore for Folder {
    fn address(&self) -> String {
        self.address.to_string()
    }

    fn create(&self, name: &str, bytes: Bytes) -> RequestFuture<'_, Result<Creation>> {
        self.work("create", name, move |files, name| {
            files.create(name, &bytes)
        })
    }

    fn replace(&self, name: &str, bytes: Bytes) -> RequestFuture<'_, Result<()>> {
        self.work("replace", name, move |files, name| {
            files.replace(name, &bytes)
        })
    }

    fn get(&self, name: &str, range: Range<u64>) -> RequestFuture<'_, Result<Option<Part>>> {
        self.work("get", name, move |files, name| files.read(name, range))
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> RequestFuture<'_, Result<Vec<ListedObject>>> {
        let after = after.map(str::to_owned);
        self.work("list", prefix, move |files, prefix| {
            listing::list(files, prefix, after.as_deref(), limit)
        })
    }

    fn delete(&self, name: &str) -> RequestFuture<'_, Result<()>> {
        self.work("delete", name, |files, name| files.delete(name))
    }
}
