//! The commands for delegates, tenants and tokens.

use super::history::JoinedWords;
use crate::api::arguments::{WhoKind, each_once};
use crate::api::reports::TokenScope;
use crate::api::zone_profile::ZoneProfile;

requests! {
    /// List the permissions on a dataset.
    Permissions: Reads, "allow" [name] {
        /// The dataset.
        name: String,
    }

    /// Allow something, or allow it no longer.
    ChangePermissions: Changes, "" [
        verb(), "-l" is_only_local(), "-d" is_only_below(), kind_option(), named(), permissions.list(), name,
    ] {
        /// The dataset.
        name: String,
        /// True if it is to be allowed no longer.
        #[serde(default)]
        remove: bool,
        /// Names or numbers; one, which does not matter, for everyone.
        #[serde(deserialize_with = "each_once")]
        who: Vec<String>,
        /// The kind of the names; users or else groups if absent.
        kind: Option<WhoKind>,
        /// The permissions; with `remove` all if there are none.
        #[serde(deserialize_with = "each_once")]
        permissions: Vec<String>,
        /// On the dataset itself.
        #[serde(default)]
        local: bool,
        /// On what is below it.
        #[serde(default)]
        below: bool,
    }

    /// Give a tenant a socket of its own that reaches one dataset and what is below it.
    #[derive(Default)]
    ZoneCreate: Changes, "zone create" [
        "--alias" alias, "--dataset" dataset, "--owner" owner, "--profile" given_profile(), name,
    ] {
        /// The name of the zone.
        name: String,
        /// The dataset that is its root.
        dataset: String,
        /// The name of the root inside the zone; the last part of its name if absent.
        alias: Option<String>,
        /// The profile, which says which datasets the tenant cannot change.
        #[serde(default)]
        profile: ZoneProfile,
        /// The user besides root that may use the zone, or after a colon a group.
        owner: Option<String>,
    }

    /// Change which datasets the tenant cannot change.
    ZoneSet: Changes, "zone set" ["file-mac-profile=" profile.name(), name] {
        /// The zone.
        name: String,
        /// The new profile.
        profile: ZoneProfile,
    }

    /// Take the socket away.
    ZoneDestroy: Changes, "zone destroy" [name] {
        /// The zone.
        name: String,
    }

    /// Make a token. A caller that shows it has the rights of its user.
    TokenCreate: Changes, "web token create" [
        "--commands" scope.commands.list(), "--dataset" scope.dataset, "--read-only" scope.read_only,
        "--receive-only" scope.receive_only,
        "--user" user, "--zone" zone, label,
    ] {
        /// The user; the caller if absent.
        user: Option<String>,
        /// The purpose of the token.
        label: String,
        /// The zone that it leads into.
        #[serde(default)]
        zone: Option<String>,
        /// The time after which the token ends, in seconds from now on; never if absent.
        expires: Option<u64>,
        /// The limits of the token, besides the rights of the user.
        #[serde(default)]
        scope: TokenScope,
    }

    /// Accept a token no longer.
    TokenRevoke: Changes, "web token revoke" [id] {
        /// The id of the token.
        id: String,
    }
}

impl ChangePermissions {
    fn verb(&self) -> &'static str {
        match self.remove {
            true => "unallow",
            false => "allow",
        }
    }

    fn is_only_local(&self) -> bool {
        self.local && !self.below
    }

    fn is_only_below(&self) -> bool {
        self.below && !self.local
    }

    fn kind_option(&self) -> Option<&'static str> {
        self.kind.map(|kind| match kind {
            WhoKind::User => "-u",
            WhoKind::Group => "-g",
            WhoKind::Everyone => "-e",
            WhoKind::Creator => "-c",
            WhoKind::Set => "-s",
        })
    }

    fn named(&self) -> Option<String> {
        match self.kind {
            Some(WhoKind::Everyone | WhoKind::Creator) => None,
            _ => self.who.list(),
        }
    }
}

impl ZoneCreate {
    fn given_profile(&self) -> Option<&'static str> {
        let profile = Some(self.profile);
        profile
            .filter(|profile| *profile != ZoneProfile::None)
            .map(ZoneProfile::name)
    }
}
