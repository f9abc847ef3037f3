//! Addresses of pools on object stores.

use std::fmt::{self, Write};

/// The kind of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreProvider {
    /// `s3://bucket/prefix`: Amazon S3, and every store with its interface.
    S3,
    /// `gs://bucket/prefix`: Google Cloud Storage.
    Gcs,
    /// `az://container/prefix`: Azure Blob Storage.
    Azure,
    /// `file:///DIR`: a folder of this machine, or of a file system of several.
    Folder,
}

impl StoreProvider {
    /// The beginning of an address.
    pub fn scheme(self) -> &'static str {
        match self {
            StoreProvider::S3 => "s3",
            StoreProvider::Gcs => "gs",
            StoreProvider::Azure => "az",
            StoreProvider::Folder => "file",
        }
    }
}

/// The address of a pool on an object store. It has no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreAddress {
    /// The kind of the store.
    pub provider: StoreProvider,
    /// The bucket or container. Empty for a folder.
    pub bucket: String,
    /// The names of all objects of the pool begin with this, without `/` at either end. For a folder its absolute path.
    pub prefix: String,
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.provider.scheme(), self.bucket)?;
        match self.prefix.as_str() {
            "" => Ok(()),
            path if path.starts_with('/') => write_escaped(f, path),
            path => write!(f, "/{path}"),
        }
    }
}

/// Writes a path with the escapes that it has in an address. The same address in messages and on the command line names the
/// same folder.
fn write_escaped(f: &mut fmt::Formatter<'_>, path: &str) -> fmt::Result {
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' | b':' => {
                f.write_char(byte.into())?;
            }
            other => write!(f, "%{other:02X}")?,
        }
    }
    Ok(())
}
