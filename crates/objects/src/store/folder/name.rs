//! Names of objects as paths below a folder.

use rustix::io::Errno;

/// The beginning of the names of files that are being written. They are no objects.
pub(super) const UNFINISHED: &str = ".new-";
/// The deepest path of an object.
pub(super) const DEPTH_MAX: usize = 8;

/// The parts of a path: folders, and the file.
pub(super) struct ObjectPath<'a> {
    pub(super) folders: Vec<&'a str>,
    pub(super) file: &'a str,
}

impl<'a> ObjectPath<'a> {
    /// The path of an object.
    ///
    /// # Errors
    /// `EINVAL` for a name that leads elsewhere.
    pub(super) fn new(name: &'a str) -> Result<ObjectPath<'a>, Errno> {
        let mut folders = parts(name)?;
        let file = folders.pop().ok_or(Errno::INVAL)?;
        Ok(ObjectPath { folders, file })
    }
}

/// The folders of a prefix, which is empty or ends with `/`.
///
/// # Errors
/// As [`ObjectPath::new`].
pub(super) fn folders(prefix: &str) -> Result<Vec<&str>, Errno> {
    match prefix.strip_suffix('/') {
        Some(prefix) => parts(prefix),
        None if prefix.is_empty() => Ok(Vec::new()),
        None => Err(Errno::INVAL),
    }
}

fn parts(name: &str) -> Result<Vec<&str>, Errno> {
    let parts: Vec<_> = name.split('/').collect();
    match parts.len() <= DEPTH_MAX && parts.iter().all(|part| is_part(part)) {
        true => Ok(parts),
        false => Err(Errno::INVAL),
    }
}

/// Returns whether a name of a file or folder belongs to objects.
pub(super) fn is_part(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && !part.starts_with(UNFINISHED) && !part.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_the_folder() {
        let path = ObjectPath::new("log/7").unwrap();
        assert_eq!((path.folders, path.file), (vec!["log"], "7"));
        for name in [
            "",
            "/a",
            "a/",
            "a//b",
            ".",
            "..",
            "a/../b",
            "a\0b",
            ".new-x",
            "a/.new-x/b",
            "1/2/3/4/5/6/7/8/9",
        ] {
            assert!(ObjectPath::new(name).is_err(), "{name:?}");
        }
        assert_eq!(folders("").unwrap(), Vec::<&str>::new());
        assert_eq!(folders("a/b/").unwrap(), ["a", "b"]);
        assert!(folders("a").is_err());
        assert!(folders("/").is_err());
    }
}
