//! The scope of a token: limits besides the rights of its user.

use serde::{Deserialize, Serialize};

/// Permissions that a token with a dataset never has, whatever its user has. With `allow` a stolen token would live on in
/// the rights of others. The other ones concern the machine, and not only the dataset.
const NEVER: [&str; 7] = [
    "allow",
    "devices",
    "keysource",
    "mountpoint",
    "multihost",
    "reservations",
    "setuid",
];

/// The scope of a token, with its dataset bound to the guid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BoundScope {
    /// Commands that change something are refused.
    pub(crate) read_only: bool,
    /// Commands reach this dataset, and those below it.
    pub(crate) dataset: Option<BoundDataset>,
    /// The commands that are accepted; all if empty.
    pub(crate) commands: Vec<String>,
}

/// A dataset that keeps its meaning when it is renamed, and when another one gets its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BoundDataset {
    /// The name of the dataset when the token was made, for people.
    pub(crate) name: String,
    pub(crate) pool: u64,
    pub(crate) guid: u64,
}

impl BoundScope {
    /// Returns whether the scope limits anything.
    pub(crate) fn is_narrow(&self) -> bool {
        *self != BoundScope::default()
    }
}

/// The token that a caller showed.
#[derive(Clone, Debug)]
pub(crate) struct PeerToken {
    pub(crate) id: String,
    pub(crate) scope: BoundScope,
    /// True if the user of the token may do everything. With a dataset in the scope, the caller has permissions on it,
    /// like a delegate.
    pub(crate) is_of_admin: bool,
}

impl PeerToken {
    pub(crate) fn has_dataset(&self) -> bool {
        self.scope.dataset.is_some()
    }

    /// Returns whether the caller has all permissions on the dataset of the scope, and below it.
    pub(crate) fn gives_all(&self) -> bool {
        self.has_dataset() && self.is_of_admin
    }

    /// Returns whether a permission is of no use with this token.
    pub(crate) fn denies(&self, permission: &str) -> bool {
        self.has_dataset() && NEVER.contains(&permission)
    }
}
