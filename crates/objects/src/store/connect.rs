//! The store of an address.

use std::sync::Arc;

use crate::Result;
use crate::store::address::{StoreAddress, StoreProvider};
use crate::store::cloud::{self, Variables};
use crate::store::folder::Folder;
use crate::store::interface::ObjectStore;

/// Returns the store of an address, with the credentials of the environment. It sends no request.
///
/// # Errors
/// [`crate::Error::Unusable`] if a setting of the environment or a part of the address cannot be used.
pub fn connect(address: &StoreAddress) -> Result<Arc<dyn ObjectStore>> {
    connect_with(address, &Variables::of_process())
}

/// Returns the store of an address, with other settings than those of the environment.
///
/// # Errors
/// As [`connect`].
pub fn connect_with(address: &StoreAddress, variables: &Variables) -> Result<Arc<dyn ObjectStore>> {
    match address.provider {
        StoreProvider::Folder => Ok(Arc::new(Folder::open(address)?)),
        StoreProvider::S3 => cloud::s3(address, variables),
        StoreProvider::Gcs => cloud::gcs(address, variables),
        StoreProvider::Azure => cloud::azure(address, variables),
    }
}
