//! The algorithm of a key that nothing names.

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;
use vfs::{Error, Result};

use super::config::{CONFIG_NAME, Config};
use crate::formats::pefs::algorithm::Algorithm;
use crate::lower::{Entry, list, posix};

/// The algorithm of keys in a lower directory, if neither an option nor the record of a key says it.
///
/// Files do not say how they are encrypted. So a directory in which anything is stored keeps the algorithm that older
/// versions used: AES-128. An empty one gets AES-256, and `.pefs.conf` says so from then on. If this link cannot be
/// made, it stays AES-128. So it does for a mount that `has_keys`: these may be of the older default, and make files.
///
/// # Errors
/// Those of listing and reading; `Invalid` for a `.pefs.conf` that cannot be understood.
pub fn default_algorithm(dir: &Entry, has_keys: bool) -> Result<Algorithm> {
    if has_keys || !is_empty(dir)? {
        return Ok(of_link(dir)?.unwrap_or_default());
    }
    let algorithm = Algorithm::NEW;
    let target = algorithm.to_string();
    match rustix::fs::symlinkat(target, dir, CONFIG_NAME) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(of_link(dir)?.unwrap_or_default()),
        // There are no such links, or they cannot be made here.
        Err(Errno::PERM | Errno::ACCESS | Errno::ROFS | Errno::OPNOTSUPP | Errno::NOSYS) => {
            return Ok(Algorithm::default());
        }
        Err(error) => return Err(posix(error)),
    }
    sync(dir)?;
    Ok(algorithm)
}

/// Has the link stored: no file that it describes may outlive it.
fn sync(dir: &Entry) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let synced = rustix::fs::fsync(dir.reopen(flags)?).map_err(posix);
    if synced.is_err() {
        let _ = rustix::fs::unlinkat(dir, CONFIG_NAME, AtFlags::empty());
    }
    synced
}

/// The algorithm in `.pefs.conf`, if it is a link.
fn of_link(dir: &Entry) -> Result<Option<Algorithm>> {
    let link = dir.entry(CONFIG_NAME.as_bytes());
    match link.and_then(|link| link.target()) {
        Ok(target) => {
            let config = Config::decode(&target).map_err(|_| Error::Invalid)?;
            Ok(config.algorithm)
        }
        Err(Error::NotFound | Error::Invalid) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_empty(dir: &Entry) -> Result<bool> {
    let mut is_empty = true;
    list(dir, 0, |listed| {
        is_empty &= matches!(listed.name, b"." | b"..");
        Ok(is_empty)
    })?;
    Ok(is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_directory_gets_another_default() {
        let new = tempfile::tempdir().unwrap();
        let dir = Entry::root(new.path()).unwrap();
        assert_eq!(
            default_algorithm(&dir, false).unwrap().to_string(),
            "aes256-xts"
        );
        let link = new.path().join(CONFIG_NAME);
        assert_eq!(
            std::fs::read_link(&link).unwrap().to_str(),
            Some("aes256-xts")
        );
        std::fs::write(new.path().join("file"), b"").unwrap();
        assert_eq!(
            default_algorithm(&dir, false).unwrap().to_string(),
            "aes256-xts"
        );

        // A key that came at the same moment has settled it.
        assert_eq!(
            default_algorithm(&dir, true).unwrap().to_string(),
            "aes256-xts"
        );

        let old = tempfile::tempdir().unwrap();
        std::fs::write(old.path().join(".file"), b"").unwrap();
        let dir = Entry::root(old.path()).unwrap();
        assert_eq!(
            default_algorithm(&dir, false).unwrap().to_string(),
            "aes128-xts"
        );
        std::fs::remove_file(old.path().join(".file")).unwrap();
        assert_eq!(
            default_algorithm(&dir, true).unwrap().to_string(),
            "aes128-xts"
        );
        assert!(!old.path().join(CONFIG_NAME).exists());
    }
}
