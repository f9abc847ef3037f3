//! The check that a program may be started as root: only root can replace it.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The program with its links resolved.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn program(path: &Path) -> Result<PathBuf, String> {
    let refused = |path: &Path, why: &str| Err(format!("{}: {why}", path.display()));
    if !path.is_absolute() {
        return refused(path, "the path of the program is not absolute");
    }
    // Links are looked up by root too: the directories that they are in are checked, and those that they lead to.
    parents(path)?;
    let whole = match fs::canonicalize(path) {
        Ok(whole) => whole,
        Err(error) => return refused(path, &error.to_string()),
    };
    parents(&whole)?;
    let found = fs::symlink_metadata(&whole).map_err(|error| error.to_string())?;
    match found.is_file() {
        true if only_root_writes(&found) => Ok(whole),
        true => refused(&whole, "other users than root can change it"),
        false => refused(&whole, "it is no file"),
    }
}

/// Checks the directories above a file.
fn parents(path: &Path) -> Result<(), String> {
    for dir in path.ancestors().skip(1) {
        let found = fs::metadata(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        if !only_root_writes(&found) {
            let dir = dir.display();
            return Err(format!("{dir}: other users than root can change it"));
        }
    }
    Ok(())
}

fn only_root_writes(found: &Metadata) -> bool {
    let group_is_root = found.gid() == 0;
    let writable = match group_is_root {
        true => 0o002,
        false => 0o022,
    };
    found.uid() == 0 && found.mode() & writable == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_the_system_is_trusted() {
        assert!(program(Path::new("/usr/bin/env")).is_ok());
    }

    #[test]
    fn programs_that_others_can_replace_are_not() {
        assert!(program(Path::new("usr/bin/env")).is_err());
        assert!(program(Path::new("/usr/bin")).is_err());
        assert!(program(Path::new("/no/such/program")).is_err());
        // Every user can make files here.
        let file = std::env::temp_dir().join(format!("strongroom-pam-{}", std::process::id()));
        fs::write(&file, "").unwrap();
        let why = program(&file).unwrap_err();
        fs::remove_file(&file).unwrap();
        assert!(why.contains("other users than root"), "{why}");
    }
}
