//! The names that datasets, snapshots and pools may have: those that ZFS allows.

use crate::error::{Error, Result};

/// A whole name is no longer than this.
pub const NAME_MAX: usize = 255;

/// A name in its parts: `tank/home/ann@monday`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetName<'a> {
    /// The pool.
    pub pool: &'a str,
    /// The datasets below the root dataset, from the top.
    pub path: Vec<&'a str>,
    /// The snapshot.
    pub snapshot: Option<&'a str>,
}

impl<'a> DatasetName<'a> {
    /// Takes a name apart and checks every part.
    ///
    /// # Errors
    /// [`Error::BadName`] with the reason.
    pub fn parse(name: &'a str) -> Result<DatasetName<'a>> {
        let bad = |reason| Error::BadName {
            name: name.into(),
            reason,
        };
        if name.len() > NAME_MAX {
            return Err(bad("it is longer than 255 bytes"));
        }
        if name.is_empty() {
            return Err(bad("it is empty; write POOL/PATH"));
        }
        if name.starts_with('/') {
            return Err(bad("it begins with '/'; write POOL/PATH, as in tank/home"));
        }
        let (dataset, snapshot) = match name.split_once('@') {
            Some((dataset, snapshot)) => (dataset, Some(snapshot)),
            None => (name, None),
        };
        let mut parts = dataset.split('/');
        let pool = parts.next().unwrap_or_default();
        check_pool_part(pool).map_err(bad)?;
        let path: Vec<&str> = parts.collect();
        for part in path.iter().chain(&snapshot) {
            check_part(part).map_err(bad)?;
        }
        Ok(DatasetName {
            pool,
            path,
            snapshot,
        })
    }
}

/// Checks the name of a pool.
///
/// # Errors
/// [`Error::BadName`] with the reason.
pub fn check_pool_name(name: &str) -> Result<()> {
    check_pool_part(name).map_err(|reason| Error::BadName {
        name: name.into(),
        reason,
    })
}

fn check_pool_part(name: &str) -> std::result::Result<(), &'static str> {
    check_part(name)?;
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err("the name of a pool begins with a letter");
    }
    if matches!(
        name,
        "mirror" | "raidz" | "raidz1" | "raidz2" | "raidz3" | "spare" | "log" | "cache"
    ) {
        return Err("the word is reserved, so no pool can have this name");
    }
    Ok(())
}

/// Returns whether a text can be a part of a name.
pub(crate) fn is_part(part: &str) -> bool {
    check_part(part).is_ok()
}

fn check_part(part: &str) -> std::result::Result<(), &'static str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.: ".contains(c);
    if part.is_empty() {
        Err("a part of the name is empty")
    } else if part.len() > NAME_MAX {
        Err("a part of the name is longer than 255 bytes")
    } else if part == "." || part == ".." {
        Err("'.' and '..' are not names")
    } else if !part.chars().all(allowed) {
        Err("letters, digits and the characters '-_.: ' are allowed")
    } else if part.starts_with(['-', ' ']) || part.ends_with(' ') {
        Err("a part of the name begins with '-' or a space, or ends with a space")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let name = DatasetName::parse("tank/home/ann@monday").unwrap();
        assert_eq!(name.pool, "tank");
        assert_eq!(name.path, ["home", "ann"]);
        assert_eq!(name.snapshot, Some("monday"));
        assert_eq!(DatasetName::parse("tank").unwrap().path, Vec::<&str>::new());
    }

    #[test]
    fn errors_show_the_whole_name() {
        for (name, why) in [
            (
                "/mine",
                "'/mine' is not a valid name: it begins with '/'; write POOL/PATH",
            ),
            ("", "'' is not a valid name: it is empty"),
            (
                "1tank/x",
                "'1tank/x' is not a valid name: the name of a pool begins",
            ),
            (
                "mirror/x",
                "'mirror/x' is not a valid name: the word is reserved",
            ),
        ] {
            let error = DatasetName::parse(name).unwrap_err().to_string();
            assert!(error.starts_with(why), "{error}");
        }
    }

    #[test]
    fn bad_names_are_refused() {
        let long = format!("tank/{}", "x".repeat(251));
        for name in [
            "",
            "/",
            "tank/",
            "/tank",
            "tank//x",
            "tank/..",
            "tank/a@",
            "tank@a@b",
            "tank/a b ",
            "1tank",
            "mirror",
            "tank/ä",
            "tank/-x",
            "tank/a\nb",
            &long,
        ] {
            assert!(DatasetName::parse(name).is_err(), "{name:?}");
        }
        DatasetName::parse(&long[..255]).unwrap();
    }
}
