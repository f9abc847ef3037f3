//! The messages of both sides.

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
/// The time that one side waits for the other to end its words.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A request of a command to the process of a mount.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The keys that there are.
    Keys,
    /// The algorithm of keys that neither an option nor a record says; it is settled by this if nothing is stored.
    DefaultAlgorithm,
    /// Another key, which follows as a secret.
    Add { algorithm: String },
    /// Removes a key.
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
    /// With fscrypt: the policy of an inode.
    PolicyOf { ino: u64 },
    /// With fscrypt: a policy for an empty directory, as the kernel has policies.
    SetPolicy { ino: u64, policy: Vec<u8> },
    /// With fscrypt: whether there is this master key.
    MasterState { name: Vec<u8> },
    /// With fscrypt: another master key, which follows as a secret.
    AddMaster { name: Vec<u8> },
    /// With fscrypt: one master key less.
    RemoveMaster { name: Vec<u8> },
}

impl Request {
    /// Returns whether a secret follows.
    pub(super) fn has_secret(&self) -> bool {
        matches!(self, Request::Add { .. } | Request::AddMaster { .. })
    }
}

/// The answer of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ControlAnswer {
    Done,
    Keys(Vec<KeyLine>),
    Algorithm(String),
    /// A policy in the form of the kernel; none for a file that is not encrypted.
    Policy(Option<Vec<u8>>),
    Master(MasterState),
    Failed(Failure),
}

/// True if there is a master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MasterState {
    Absent,
    Present,
    /// The key was removed while files were open.
    Leaving,
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
