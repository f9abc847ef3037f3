//! The requests to the daemon: a struct for each command, and [`Command`], which is one of them.

mod devices;
mod keys;
mod name;
mod pools;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::api::arguments::{
    HomeStep, InspectTarget, MountPermissions, NewVolume, Props, ReceiveName, SendScope, WhoKind,
    each_once,
};
use crate::api::reports::{OwnerKind, TokenScope};
use crate::api::zone_profile::ZoneProfile;
pub use devices::{
    HaCheck, HaStart, HaStatus, HaStop, HaVerify, IscsiExport, IscsiKick, IscsiUnexport,
    LuksBorrow, LuksClose, LuksOpen, LuksReencrypt, LuksRefresh, LuksResize, LuksResume,
    LuksStatus, LuksSuspend, NbdAttach, NbdDetach, NbdExport, NbdUnexport,
};
pub use keys::{
    KeyAccept, KeyAdd, KeyBackup, KeyChange, KeyGenerations, KeyLoad, KeyRemove, KeyRestore,
    KeyRotate, KeySlots, KeyStatus, KeyUnload,
};
use name::kebab;
pub use pools::{
    PoolCheckpoint, PoolCreate, PoolDestroy, PoolDevices, PoolEvents, PoolExport, PoolFeatures,
    PoolHistory, PoolImport, PoolImportable, PoolIo, PoolLabelClear, PoolReguid, PoolScrub,
    PoolSplit, PoolStatus, PoolSweep, PoolSync,
};

/// The effect of a command, for tokens that only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The command shows something, or sends a copy.
    Reads,
    /// The command changes data, settings, keys, mounts or other users' access.
    Changes,
}

/// Makes of one list the structs, the enum, and the macro `with_command`. Commands without
/// fields come first, then those whose structs are in a file of their own. Each command has its effect;
/// `Changes(field)` stands for a change only where that field is true. `$d` is a dollar sign for the macro inside.
macro_rules! commands {
    (($d:tt)
     { $($(#[$alone_doc:meta])* $alone:ident: $alone_effect:ident;)* }
     { $($there:ident: $there_effect:ident $(($field_that_changes:ident))?;)* }
     $($(#[$doc:meta])* $name:ident: $effect:ident { $($(#[$of:meta])* $field:ident: $type:ty,)* })*) => {
        /// A command to the daemon.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Command {
            $($(#[$alone_doc])* $alone,)*
            $(#[doc = concat!("See [`", stringify!($there), "`](struct@", stringify!($there), ").")] $there($there),)*
            $($(#[$doc])* $name($name),)*
        }

        impl Command {
            /// The name of the command, as requests and the HTTP API have it.
            pub fn name(&self) -> String {
                kebab(match self {
                    $(Command::$alone => stringify!($alone),)*
                    $(Command::$there(_) => stringify!($there),)*
                    $(Command::$name(_) => stringify!($name),)*
                })
            }

            /// The effect of the command.
            pub fn effect(&self) -> Effect {
                match self {
                    $(Command::$alone => Effect::$alone_effect,)*
                    $(
                        $(Command::$there(of) if !of.$field_that_changes => Effect::Reads,)?
                        Command::$there(_) => Effect::$there_effect,
                    )*
                    $(Command::$name(_) => Effect::$effect,)*
                }
            }
        }

        /// The names of all commands.
        pub fn names() -> Vec<String> {
            vec![
                $(kebab(stringify!($alone)),)*
                $(kebab(stringify!($there)),)*
                $(kebab(stringify!($name)),)*
            ]
        }

        $(impl From<$there> for Command {
            fn from(command: $there) -> Command {
                Command::$there(command)
            }
        })*

        $($(#[$alone_doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $alone;

        impl From<$alone> for Command {
            fn from(_: $alone) -> Command {
                Command::$alone
            }
        })*

        $($(#[$doc])*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$of])* pub $field: $type,)*
        }

        impl From<$name> for Command {
            fn from(command: $name) -> Command {
                Command::$name(command)
            }
        })*

        /// Does the same with the struct of a command, whichever it is: `with_command!(command, each => f(each))`.
        #[macro_export]
        macro_rules! with_command {
            ($d command:expr, $d each:ident => $d do:expr) => {
                match $d command {
                    $($crate::api::Command::$alone => {
                        let $d each = $crate::api::command::$alone;
                        $d do
                    })*
                    $($crate::api::Command::$there($d each) => $d do,)*
                    $($crate::api::Command::$name($d each) => $d do,)*
                }
            };
        }
    };
}

impl Command {
    /// Returns whether the daemon ends when it has done this.
    pub fn ends_daemon(&self) -> bool {
        matches!(self, Command::DaemonStop | Command::DaemonStopForced)
    }
}

commands! {
    ($)
    {
        /// List the mounts.
        Mounts: Reads;
        /// List the zones.
        Zones: Reads;
        /// List the exports by NBD.
        NbdExports: Reads;
        /// List the targets of iSCSI.
        IscsiExports: Reads;
        /// List the sessions of initiators.
        IscsiSessions: Reads;
        /// Tell the user that the daemon takes the caller for.
        Whoami: Reads;
        /// List the tokens.
        Tokens: Reads;
        /// The page of metrics.
        Metrics: Reads;
        /// Show the state of the daemon.
        DaemonStatus: Reads;
        /// Unmount everything and end.
        DaemonStop: Changes;
        /// Unmount everything, also what is in use, and end.
        DaemonStopForced: Changes;
    }
    {
        NbdExport: Changes;
        NbdUnexport: Changes;
        NbdAttach: Changes;
        NbdDetach: Changes;
        IscsiExport: Changes;
        IscsiUnexport: Changes;
        IscsiKick: Changes;
        HaStart: Changes;
        HaStop: Changes;
        HaVerify: Changes;
        HaCheck: Changes;
        HaStatus: Reads;
        LuksOpen: Changes;
        LuksClose: Changes;
        LuksStatus: Reads;
        LuksRefresh: Changes;
        LuksResize: Changes;
        LuksReencrypt: Changes;
        LuksSuspend: Changes;
        LuksResume: Changes;
        LuksBorrow: Changes;
        PoolCreate: Changes;
        PoolImportable: Reads;
        PoolImport: Changes;
        PoolExport: Changes;
        PoolDestroy: Changes;
        PoolStatus: Reads;
        PoolIo: Reads;
        PoolDevices: Changes;
        PoolSplit: Changes;
        PoolReguid: Changes;
        PoolSync: Changes;
        PoolSweep: Changes;
        PoolCheckpoint: Changes;
        PoolScrub: Changes;
        PoolFeatures: Reads;
        PoolHistory: Reads;
        PoolEvents: Changes(clear);
        PoolLabelClear: Changes;
        KeyLoad: Changes;
        KeyUnload: Changes;
        KeyChange: Changes;
        KeyRotate: Changes;
        KeyGenerations: Reads;
        KeyAdd: Changes;
        KeyRemove: Changes;
        KeySlots: Reads;
        // Wrapped keys outlive a later change of the passphrase.
        KeyBackup: Changes;
        KeyRestore: Changes;
        KeyAccept: Changes;
        KeyStatus: Reads;
    }
    /// Make a dataset.
    Create: Changes {
        /// The name of the new dataset.
        name: String,
        /// The properties of the new dataset.
        props: Props,
        /// Make the datasets above it too.
        #[serde(default)]
        parents: bool,
        /// Leave it unmounted.
        #[serde(default)]
        no_mount: bool,
        /// Make it a volume.
        #[serde(default)]
        volume: Option<NewVolume>,
        /// Only say what would be made.
        #[serde(default)]
        dry_run: bool,
    }
    /// Destroy the snapshots that the schedules of datasets no longer keep.
    Prune: Changes {
        /// The datasets.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// With everything below them.
        #[serde(default)]
        recursive: bool,
        /// Only say what would go.
        #[serde(default)]
        dry_run: bool,
    }
    /// Destroy datasets or snapshots.
    Destroy: Changes {
        /// The name of the dataset.
        name: String,
        /// With everything below it.
        #[serde(default)]
        recursive: bool,
        /// With everything below it and all clones.
        #[serde(default)]
        clones: bool,
        /// Unmount what is in use.
        #[serde(default)]
        force: bool,
        /// Only say what would go.
        #[serde(default)]
        dry_run: bool,
    }
    /// Destroy snapshots now or, where something keeps them, as soon as nothing does.
    DestroyLater: Changes {
        /// A snapshot, or what stands for several.
        name: String,
        /// True for the same names on datasets below, too.
        #[serde(default)]
        recursive: bool,
        /// Unmount what is in use.
        #[serde(default)]
        force: bool,
        /// Only say what would go.
        #[serde(default)]
        dry_run: bool,
    }
    /// Destroy datasets together with their keys, and prove it.
    Shred: Changes {
        /// The dataset.
        name: String,
        /// With everything below it.
        #[serde(default)]
        recursive: bool,
        /// With everything below it and all clones.
        #[serde(default)]
        clones: bool,
        /// Unmount what is in use.
        #[serde(default)]
        force: bool,
        /// Only say what would go, and what would stay readable.
        #[serde(default)]
        dry_run: bool,
    }
    /// Make a dataset that begins as a snapshot.
    Clone: Changes {
        /// The snapshot.
        snapshot: String,
        /// The name of the clone.
        name: String,
        /// The properties of the clone.
        props: Props,
        /// With data keys of its own for what is written to it.
        #[serde(default)]
        rekey: bool,
        /// Make the datasets above it too.
        #[serde(default)]
        parents: bool,
        /// Leave it unmounted.
        #[serde(default)]
        no_mount: bool,
    }
    /// Have a clone own what it shares with its origin.
    Promote: Changes {
        /// The clone.
        name: String,
    }
    /// Add a tag to snapshots, which keeps them from being destroyed.
    Hold: Changes {
        /// The snapshots.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// The tag.
        tag: String,
        /// True for the same names on datasets below, too.
        #[serde(default)]
        recursive: bool,
    }
    /// Take a tag away.
    Release: Changes {
        /// The snapshots.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// The tag.
        tag: String,
        /// True for the same names on datasets below, too.
        #[serde(default)]
        recursive: bool,
    }
    /// List the tags of snapshots.
    Holds: Reads {
        /// The snapshots.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// True for the same names on datasets below, too.
        #[serde(default)]
        recursive: bool,
    }
    /// Make a bookmark.
    Bookmark: Changes {
        /// A snapshot, or a bookmark.
        of: String,
        /// The new bookmark, of the same dataset.
        name: String,
    }
    /// Destroy a bookmark.
    DestroyBookmark: Changes {
        /// The name of the snapshot.
        name: String,
    }
    /// Send a snapshot: data follows.
    Send: Reads {
        /// The states that are sent.
        what: SendScope,
        /// True if records are sent as they are stored.
        #[serde(default)]
        raw: bool,
        /// With the properties of the dataset.
        #[serde(default)]
        props: bool,
        /// Send nothing: tell what would be sent.
        #[serde(default)]
        estimate: bool,
    }
    /// Receive what is sent: data follows once the daemon is ready.
    Receive: Changes {
        /// A dataset, or a snapshot of one by its whole name.
        target: String,
        /// The rule by which the names of received datasets are made.
        naming: ReceiveName,
        /// Take it back to where the stream goes on.
        #[serde(default)]
        force: bool,
        /// Keep what came if it is interrupted.
        #[serde(default)]
        resumable: bool,
        /// Do not mount it again.
        #[serde(default)]
        no_mount: bool,
        /// Change nothing: tell what would be received.
        #[serde(default)]
        dry_run: bool,
        /// Properties for it, in the place of those that came.
        props: Props,
        /// Properties that are left out.
        #[serde(deserialize_with = "each_once")]
        exclude: Vec<String>,
    }
    /// Tell what differs between a snapshot and a later one.
    Diff: Reads {
        /// The snapshot.
        from: String,
        /// A later one, `@name` for one of the same dataset, or a dataset; its own if it is left out.
        to: Option<String>,
    }
    /// Throw away what an interrupted receive left.
    ReceiveAbandon: Changes {
        /// The dataset.
        target: String,
    }
    /// Give a dataset or snapshot another name.
    Rename: Changes {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
        /// True for a snapshot also for those of the same name below its dataset.
        #[serde(default)]
        recursive: bool,
        /// Make the datasets above the new name too.
        #[serde(default)]
        parents: bool,
        /// Unmount what is in use.
        #[serde(default)]
        force: bool,
    }
    /// Look at properties.
    Get: Reads {
        /// Datasets and snapshots; all if none is named.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// The number of levels below them too; `None` is all.
        depth: Option<u32>,
        /// Also show snapshots of what is listed, where they were not named.
        #[serde(default)]
        snapshots: bool,
        /// Bookmarks too.
        #[serde(default)]
        bookmarks: bool,
        /// The properties to show; all if empty.
        #[serde(deserialize_with = "each_once")]
        props: Vec<String>,
    }
    /// Set properties.
    Set: Changes {
        /// Datasets.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// The properties and their new values.
        props: Props,
        /// Also a smaller size of a volume.
        #[serde(default)]
        force: bool,
    }
    // The first look begins to count.
    /// List the space and the quotas of users or groups in a dataset.
    Userspace: Changes {
        /// The dataset.
        name: String,
        /// The kind of accounts.
        kind: OwnerKind,
        /// Count anew first, and fail if something else was counted.
        #[serde(default)]
        check: bool,
    }
    /// Unset a property, so that it is inherited.
    Inherit: Changes {
        /// Datasets.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// The name of the property.
        prop: String,
        /// Below them too.
        #[serde(default)]
        recursive: bool,
    }
    /// Mount a dataset or snapshot, or all.
    Mount: Changes {
        /// What; everything that mounts by itself if absent.
        name: Option<String>,
        /// The directory, in place of the property's.
        dir: Option<PathBuf>,
        /// Load the key first.
        #[serde(default)]
        load_keys: bool,
        /// Refuse changes.
        #[serde(default)]
        read_only: bool,
        /// Over a directory that is not empty.
        #[serde(default)]
        overlay: bool,
        /// Give up the entries of its log that are not of its present state. A volume is not mounted then, only its log
        /// is replayed.
        #[serde(default)]
        give_up_log: bool,
        /// The permissions of the mount, where they differ from the properties.
        #[serde(default)]
        allowed: MountPermissions,
    }
    /// Find, open or close the dataset that is a home, for a login.
    Home: Changes {
        /// The step to take.
        step: HomeStep,
        /// The home directory.
        dir: String,
        /// The user whose home it is.
        uid: u32,
        /// The dataset, by guid. Without one: each that may be the home, and that the passphrase opens.
        dataset: Option<u64>,
    }
    /// Change what a mount allows.
    Remount: Changes {
        /// The dataset or snapshot that is mounted.
        name: String,
        /// Refuse changes, or allow them.
        read_only: Option<bool>,
        /// The permissions of the mount that change.
        allowed: MountPermissions,
    }
    /// Unmount a dataset by its name or its directory, or all.
    Unmount: Changes {
        /// What; everything if absent.
        target: Option<String>,
        /// Even if it is in use.
        #[serde(default)]
        force: bool,
    }
    /// Make snapshots of one moment.
    Snapshot: Changes {
        /// `dataset@snapshot`
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// Below them too.
        #[serde(default)]
        recursive: bool,
    }
    /// Take a dataset back to a snapshot.
    Rollback: Changes {
        /// `dataset@snapshot`
        name: String,
        /// Destroy later snapshots.
        #[serde(default)]
        recursive: bool,
        /// Destroy their clones, too.
        #[serde(default)]
        clones: bool,
        /// Unmount what is in use.
        #[serde(default)]
        force: bool,
    }
    /// Look at the structures of a pool.
    Inspect: Reads {
        /// An imported pool's name, or the devices of one that is not.
        target: InspectTarget,
        /// The amount of detail.
        detail: u8,
        /// Check that every unit belongs to exactly one thing.
        #[serde(default)]
        check: bool,
    }
    /// Make anchors of the state of datasets, to keep elsewhere.
    Anchor: Reads {
        /// With everything below them; all if none is named.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
    }
    /// Compare datasets with what was kept.
    AnchorVerify: Reads {
        /// The anchors that were kept.
        anchors: Vec<crate::api::DatasetAnchor>,
    }
    /// Accept the present states of datasets, although this machine has seen later ones.
    AnchorAccept: Changes {
        /// The datasets.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
    }
    /// List the permissions on a dataset.
    Permissions: Reads {
        /// The dataset.
        name: String,
    }
    /// Allow something, or allow it no longer.
    ChangePermissions: Changes {
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
    ZoneCreate: Changes {
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
    ZoneSet: Changes {
        /// The zone.
        name: String,
        /// The new profile.
        profile: ZoneProfile,
    }
    /// Take the socket away.
    ZoneDestroy: Changes {
        /// The zone.
        name: String,
    }
    /// Make a token. A caller that shows it has the rights of its user.
    TokenCreate: Changes {
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
    TokenRevoke: Changes {
        /// The id of the token.
        id: String,
    }
}
