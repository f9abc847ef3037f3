//! The scope of a token: limits besides the rights of its user.

use protocol::property::Property;
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

/// Permissions that a token has that only receives. The settings that a stream may bring are decided apart.
const RECEIVES: [&str; 4] = ["create", "mount", "receive", "userprop"];

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
    /// Sealed streams are received, and nothing else changes. It needs a dataset.
    pub(crate) receive_only: bool,
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

    /// The id as a number.
    pub(crate) fn number(&self) -> u32 {
        u32::from_str_radix(&self.id, 16).unwrap_or_default()
    }

    /// Returns whether a permission is of no use with this token.
    pub(crate) fn denies(&self, permission: &str) -> bool {
        let is_setting = || Property::find(permission).is_some_and(Property::travels);
        self.has_dataset() && NEVER.contains(&permission)
            || self.scope.receive_only && !RECEIVES.contains(&permission) && !is_setting()
    }

    /// Returns whether the token takes sealed streams, and nothing else.
    pub(crate) fn only_receives(&self) -> bool {
        self.scope.receive_only
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(receive_only: bool) -> PeerToken {
        let dataset = BoundDataset {
            name: "tank/a".into(),
            pool: 1,
            guid: 2,
        };
        PeerToken {
            id: "id".into(),
            scope: BoundScope {
                dataset: Some(dataset),
                receive_only,
                ..BoundScope::default()
            },
            is_of_admin: true,
        }
    }

    #[test]
    fn a_token_that_receives_has_no_permission_for_anything_else() {
        for permission in [
            "allow",
            "bookmark",
            "clone",
            "destroy",
            "diff",
            "hold",
            "key",
            "keychange",
            "keysource",
            "mountpoint",
            "promote",
            "release",
            "rename",
            "reservation",
            "retention",
            "rollback",
            "send",
            "setuid",
            "sharenfs",
            "snapshot",
            "snapshot-schedule",
            "userquota",
            "volsize",
        ] {
            assert!(token(true).denies(permission), "{permission}");
        }
        for permission in [
            "receive",
            "create",
            "mount",
            "userprop",
            "compression",
            "quota",
        ] {
            assert!(!token(true).denies(permission), "{permission}");
        }
        assert!(token(false).denies("allow") && !token(false).denies("destroy"));
    }
}
