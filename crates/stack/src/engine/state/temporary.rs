//! Names for what is not complete yet.

use std::sync::atomic::{AtomicU64, Ordering};

/// The prefix of temporary names: no format shows a name like this.
const PREFIX: &str = ".strongroom-new-";

/// The name of the file by which a client gives itself the right to make names in a directory.
const CLAIM: &str = ".strongroom-new-name";

/// The name of the file that the clients of a directory lock.
const CLIENT: &str = ".strongroom-new-client";

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A name that nothing in the lower directory has: by process and time, for two clients of one lower
/// directory may have processes of the same number.
pub(crate) fn name() -> Vec<u8> {
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let time = std::time::SystemTime::UNIX_EPOCH.elapsed();
    let time = time.map_or(0, |time| time.as_nanos());
    format!("{PREFIX}{:x}-{time:x}-{next:x}", std::process::id()).into_bytes()
}

/// The file by which clients of one directory take turns.
pub(crate) fn claim() -> &'static [u8] {
    CLAIM.as_bytes()
}

/// The file that each client of a directory holds while it uses the directory.
pub(crate) fn client() -> &'static [u8] {
    CLIENT.as_bytes()
}

pub(crate) fn is(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes())
}
