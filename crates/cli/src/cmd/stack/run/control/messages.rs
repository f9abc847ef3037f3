//! What both sides say.

use std::time::Duration;

use protocol::api::Failure;
use serde::{Deserialize, Serialize};

/// The directory of the sockets, in the user's runtime directory.
pub(super) const DIRECTORY: &str = "stack";
/// The longest request, in bytes: one with a name.
pub(super) const REQUEST_MAX: u32 = 4 << 10;
/// The longest answer, in bytes: one with many keys.
pub(super) const ANSWER_MAX: u32 = 1 << 20;
/// The longest key, in bytes.
pub(super) const KEY_MAX: u32 = 64;
/// How long one side waits for the other to end its words.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What a command asks of the process of a mount.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The keys that there are.
    Keys,
    /// Another key, which follows as a secret.
    Add { algorithm: String },
    /// One key less.
    Delete { id: [u8; 8] },
    /// No keys any more.
    Flush,
    /// The key of an inode.
    KeyOf { ino: u64 },
    /// Another key for a directory.
    SetKey {
        parent: u64,
        name: Vec<u8>,
        id: [u8; 8],
    },
}

impl Request {
    /// Whether a secret follows.
    pub(super) fn has_secret(&self) -> bool {
        matches!(self, Request::Add { .. })
    }
}

/// What the process answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Done,
    Keys(Vec<KeyLine>),
    Failed(Failure),
}

/// A key, as it is shown.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeyLine {
    pub(crate) id: String,
    pub(crate) algorithm: String,
}

/// The name of the socket of a mount, by the number of its device.
pub(super) fn socket_name(device: u32) -> String {
    format!("{device}.sock")
}
