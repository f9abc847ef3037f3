//! A program that has keys, by its path.

use std::path::PathBuf;

/// A program that has keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSource {
    /// True if the program listens already; otherwise it is started.
    pub(crate) listens: bool,
    /// The program or the socket, absolute.
    pub(crate) path: PathBuf,
    /// The text behind a `?`, for the program.
    pub(crate) argument: String,
}
