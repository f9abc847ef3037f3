//! The list of modules that may be loaded.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secret::Secret;

use crate::system::trust::check_trusted;
use crate::{Result, TokenUri};

/// A list of modules is no longer than this.
const LIST_MAX: usize = 64 << 10;

/// The modules that may be loaded, and the program that loads them.
#[derive(Clone, Debug)]
pub struct TokenModules {
    /// A file with the absolute path of one module in each line. `#` begins a comment.
    pub list: PathBuf,
    /// The program that loads a module and calls [`crate::serve_token`], with its arguments.
    pub helper: Vec<OsString>,
    /// A module has this long to do one thing.
    pub time_max: Duration,
}

impl TokenModules {
    /// The module of a token. It is listed, and only root and this user can change it or the list.
    pub(super) fn module(&self, uri: &TokenUri) -> Result<PathBuf> {
        if cfg!(target_feature = "crt-static") {
            // It has no loader, and a module needs the libraries of the system.
            return Err(uri.failed(
                "this program is a static one, which loads no PKCS#11 modules; use one that a package installs",
            ));
        }
        let unusable = |path: &Path, why: String| {
            uri.failed(format_args!("its module {}: {why}", path.display()))
        };
        let list = self.list.display();
        let real = check_trusted(&uri.module).map_err(|(path, why)| unusable(&path, why))?;
        let unlisted = || {
            unusable(
                &uri.module,
                format!("it is not listed; to allow it, write its path into a line of {list}"),
            )
        };
        if std::fs::symlink_metadata(&self.list)
            .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        {
            return Err(unlisted());
        }
        let failed = |why: String| uri.failed(format_args!("the list of modules {list}: {why}"));
        let path = check_trusted(&self.list).map_err(|(path, why)| match path == self.list {
            true => failed(why),
            false => failed(format!("{}: {why}", path.display())),
        })?;
        let mut file =
            crate::system::file::open_regular(&path).map_err(|error| failed(error.to_string()))?;
        let text = Secret::from_reader(&mut file, LIST_MAX)?;
        let text = String::from_utf8_lossy(text.expose());
        let lines = text.lines().map(str::trim);
        let mut listed = lines.filter(|line| line.starts_with('/'));
        match listed.any(|line| {
            Path::new(line)
                .canonicalize()
                .is_ok_and(|path| path == real)
        }) {
            true => Ok(real),
            false => Err(unlisted()),
        }
    }
}
