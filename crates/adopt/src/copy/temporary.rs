//! Names of files that are not finished. A second run finds them again, since the name follows from the file's own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

const PREFIX: &str = ".strongroom-adopt-";
/// Bytes of a hash in the name.
const HASHED: usize = 16;

/// The name of a file until it is finished.
pub(crate) fn name_for(name: &OsStr) -> OsString {
    let hash = &cipher::hash(name.as_bytes())[..HASHED];
    format!("{PREFIX}{}", encoding::hex(hash)).into()
}

/// Returns whether a file of this name was not finished.
pub(crate) fn is_one(name: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(PREFIX.as_bytes());
    rest.is_some_and(|rest| rest.len() == 2 * HASHED && rest.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_others() {
        let name = name_for(OsStr::new("a file"));
        assert!(is_one(&name));
        assert_ne!(name, name_for(OsStr::new("another")));
        assert!(!is_one(OsStr::new(".strongroom-adopt-notes")));
    }
}
