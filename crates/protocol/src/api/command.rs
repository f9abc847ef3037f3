//! Everything that can be asked for: a struct for each command, and [`Command`], which is one of them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use super::device_commands::{
    HaStart, HaStatus, HaStop, HaVerify, IscsiExport, IscsiKick, IscsiUnexport, LuksBorrow,
    LuksClose, LuksOpen, LuksReencrypt, LuksRefresh, LuksResize, LuksStatus, NbdAttach, NbdDetach,
    NbdExport, NbdUnexport,
};
use super::report::OwnerKind;
use super::wanted::{
    Allowed, DeviceChange, InspectTarget, NewVolume, Props, ReceiveName, Rotation, SendWhat,
    WhoKind,
};

/// Makes of one list the structs, the enum, and the macro `with_command`. Commands without
/// fields come first, then those whose structs are in `device_commands`. `$d` is a dollar sign for the macro inside.
macro_rules! commands {
    (($d:tt)
     { $($(#[$alone_doc:meta])* $alone:ident;)* }
     { $($there:ident;)* }
     $($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $field:ident: $type:ty,)* })*) => {
        /// What is wanted.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Command {
            $($(#[$alone_doc])* $alone,)*
            $(#[doc = concat!("See [`", stringify!($there), "`](struct@", stringify!($there), ").")] $there($there),)*
            $($(#[$doc])* $name($name),)*
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

commands! {
    ($)
    {
        /// What is mounted where.
        Mounts;
        /// Which zones there are.
        Zones;
        /// Which exports there are.
        NbdExports;
        /// Which targets of iSCSI there are.
        IscsiExports;
        /// Which sessions initiators have.
        IscsiSessions;
        /// Whether the daemon runs, and with what.
        DaemonStatus;
        /// Unmount everything and end.
        DaemonStop;
    }
    {
        NbdExport;
        NbdUnexport;
        NbdAttach;
        NbdDetach;
        IscsiExport;
        IscsiUnexport;
        IscsiKick;
        HaStart;
        HaStop;
        HaVerify;
        HaStatus;
        LuksOpen;
        LuksClose;
        LuksStatus;
        LuksRefresh;
        LuksResize;
        LuksReencrypt;
        LuksBorrow;
    }
    /// Make a pool with a root dataset.
    PoolCreate {
        /// Its name.
        pool: String,
        /// Files and disks, absolute.
        devices: Box<super::PoolDevices>,
        /// Make the files first, of this many bytes.
        size: Option<u64>,
        /// Overwrite what the devices hold.
        force: bool,
        /// Properties of the root dataset.
        props: Props,
        /// Leave the root dataset unmounted.
        no_mount: bool,
        /// Only say whether it could be made.
        #[serde(default)]
        dry_run: bool,
        /// The directory before all mountpoints.
        #[serde(default)]
        altroot: Option<PathBuf>,
        /// Its name until the export, if that is another one.
        #[serde(default)]
        temporary_name: Option<String>,
    }
    /// Say which pools could be imported.
    PoolImportable {
        /// Files, disks, or directories of such; the usual places if empty.
        search: Vec<PathBuf>,
    }
    /// Import a pool, or all.
    PoolImport {
        /// As above.
        search: Vec<PathBuf>,
        /// Name or guid; all pools if absent.
        pool: Option<String>,
        /// Another name for it.
        new_name: Option<String>,
        /// The other name is for this import only, and is not stored.
        #[serde(default)]
        temporary_name: bool,
        /// The next start of the daemon does not import it.
        #[serde(default)]
        temporary: bool,
        /// Change nothing on the devices.
        read_only: bool,
        /// Even if another host has it.
        force: bool,
        /// Leave its datasets unmounted.
        no_mount: bool,
        /// Load the keys that need no typing.
        load_keys: bool,
        /// Give up what waits in logs on devices that are not there.
        without_logs: bool,
        /// Read keys from where the pool says, now and later.
        #[serde(default)]
        accept: bool,
        /// What stands before the mountpoints of its datasets; absolute.
        #[serde(default)]
        altroot: Option<PathBuf>,
        /// What becomes of its checkpoint.
        #[serde(default)]
        checkpoint: super::CheckpointUse,
    }
    /// Let go of a pool.
    PoolExport {
        /// Its name.
        pool: String,
        /// Unmount what is in use.
        force: bool,
    }
    /// Destroy a pool.
    PoolDestroy {
        /// Its name.
        pool: String,
        /// Unmount what is in use.
        force: bool,
    }
    /// The state of pools; of all if none is named.
    PoolStatus {
        /// Their names.
        pools: Vec<String>,
    }
    /// What the devices of pools did; of all pools if none is named.
    PoolIo {
        /// Their names.
        pools: Vec<String>,
    }
    /// Change which devices a pool is made of.
    PoolDevices {
        /// The pool.
        pool: String,
        /// How.
        change: DeviceChange,
    }
    /// Make a member of each mirror of a pool a pool of its own.
    PoolSplit {
        /// The pool.
        pool: String,
        /// The name of the new one.
        new: String,
        /// The members, of those mirrors where it is not to be the last one.
        devices: Vec<String>,
        /// Only say which these are.
        dry_run: bool,
        /// Import the new pool, with this directory before all mountpoints.
        altroot: Option<PathBuf>,
        /// Load its keys that need no typing.
        load_keys: bool,
    }
    /// Give a pool another guid.
    PoolReguid {
        /// The pool.
        pool: String,
        /// Load its keys again that need no typing.
        load_keys: bool,
    }
    /// Make everything durable that was written to pools; to all if none is named.
    PoolSync {
        /// Their names.
        pools: Vec<String>,
    }
    /// Begin, pause or end work on the free space of a pool.
    PoolSweep {
        /// The pool.
        pool: String,
        /// Which.
        what: super::Sweep,
        /// One device only.
        device: Option<String>,
        /// End it instead.
        stop: bool,
        /// Pause it instead.
        pause: bool,
    }
    /// Keep the state of a pool as it is now.
    PoolCheckpoint {
        /// The pool.
        pool: String,
        /// Discard the one that is kept instead.
        discard: bool,
    }
    /// Begin, pause or stop reading everything.
    PoolScrub {
        /// The pool.
        pool: String,
        /// Stop it instead.
        stop: bool,
        /// Pause it instead.
        #[serde(default)]
        pause: bool,
    }
    /// What pools have that not every program knows; of all if none is named.
    PoolFeatures {
        /// Their names.
        pools: Vec<String>,
    }
    /// What was done to a pool.
    PoolHistory {
        /// The pool.
        pool: String,
        /// Also what the pool did by itself.
        internal: bool,
    }
    /// What happened to pools lately.
    PoolEvents {
        /// Only those with greater numbers.
        after: u64,
        /// Forget all, and tell none.
        clear: bool,
    }
    /// Make a device that belonged to a pool one that belongs to none.
    PoolLabelClear {
        /// The device.
        device: PathBuf,
        /// Also of a pool that was exported, or that another host may use.
        force: bool,
    }
    /// Make a dataset.
    Create {
        /// Its name.
        name: String,
        /// Its properties.
        props: Props,
        /// Make the datasets above it too.
        parents: bool,
        /// Leave it unmounted.
        no_mount: bool,
        /// Make it a volume.
        #[serde(default)]
        volume: Option<NewVolume>,
        /// Only say what would be made.
        #[serde(default)]
        dry_run: bool,
    }
    /// Destroy the snapshots that the schedules of datasets no longer keep.
    Prune {
        /// The datasets.
        names: Vec<String>,
        /// With everything below them.
        recursive: bool,
        /// Only say what would go.
        dry_run: bool,
    }
    /// Destroy datasets or snapshots.
    Destroy {
        /// Its name.
        name: String,
        /// With everything below it.
        recursive: bool,
        /// With everything below it and all clones.
        clones: bool,
        /// Unmount what is in use.
        force: bool,
        /// Only say what would go.
        dry_run: bool,
    }
    /// Destroy datasets together with their keys, and prove it.
    Shred {
        /// The dataset.
        name: String,
        /// With everything below it.
        recursive: bool,
        /// With everything below it and all clones.
        clones: bool,
        /// Unmount what is in use.
        force: bool,
        /// Only say what would go, and what would stay readable.
        dry_run: bool,
    }
    /// Make a dataset that begins as a snapshot.
    Clone {
        /// The snapshot.
        snapshot: String,
        /// The name of the clone.
        name: String,
        /// Its properties.
        props: Props,
        /// With data keys of its own for what is written to it.
        rekey: bool,
        /// Make the datasets above it too.
        parents: bool,
        /// Leave it unmounted.
        no_mount: bool,
    }
    /// Have a clone own what it shares with its origin.
    Promote {
        /// The clone.
        name: String,
    }
    /// Put a tag on snapshots, which keeps them from being destroyed.
    Hold {
        /// The snapshots.
        names: Vec<String>,
        /// The tag.
        tag: String,
        /// Of the same names below, too.
        recursive: bool,
    }
    /// Take a tag away.
    Release {
        /// The snapshots.
        names: Vec<String>,
        /// The tag.
        tag: String,
        /// Of the same names below, too.
        recursive: bool,
    }
    /// Which tags snapshots have.
    Holds {
        /// The snapshots.
        names: Vec<String>,
        /// Of the same names below, too.
        recursive: bool,
    }
    /// Make a bookmark.
    Bookmark {
        /// A snapshot, or a bookmark.
        of: String,
        /// The new bookmark, of the same dataset.
        name: String,
    }
    /// Destroy a bookmark.
    DestroyBookmark {
        /// Its name.
        name: String,
    }
    /// Send a snapshot: data follows.
    Send {
        /// What.
        what: SendWhat,
        /// As it is stored.
        raw: bool,
        /// With the properties of the dataset.
        props: bool,
        /// Send nothing: tell what would be sent.
        estimate: bool,
    }
    /// Receive what is sent: data follows once the daemon is ready.
    Receive {
        /// A dataset, or a snapshot of one by its whole name.
        target: String,
        /// What it says of the names of what is received.
        naming: ReceiveName,
        /// Take it back to where the stream goes on.
        force: bool,
        /// Keep what came if it is interrupted.
        resumable: bool,
        /// Do not mount it again.
        no_mount: bool,
        /// Change nothing: tell what would be received.
        dry_run: bool,
        /// Properties for it, in the place of those that came.
        props: Props,
        /// Properties that are left out.
        exclude: Vec<String>,
    }
    /// Tell what differs between a snapshot and a later one.
    Diff {
        /// The snapshot.
        from: String,
        /// A later one, `@name` for one of the same dataset, or a dataset; its own if it is left out.
        to: Option<String>,
    }
    /// Throw away what an interrupted receive left.
    ReceiveAbandon {
        /// The dataset.
        target: String,
    }
    /// Give a dataset or snapshot another name.
    Rename {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    }
    /// Look at properties.
    Get {
        /// Datasets and snapshots; all if none is named.
        names: Vec<String>,
        /// How many levels below them too; `None` is all.
        depth: Option<u32>,
        /// Also show snapshots of what is listed, where they were not named.
        snapshots: bool,
        /// Bookmarks too.
        bookmarks: bool,
        /// Which properties; all if empty.
        props: Vec<String>,
    }
    /// Set properties.
    Set {
        /// Datasets.
        names: Vec<String>,
        /// Which, and to what.
        props: Props,
        /// Also a smaller size of a volume.
        #[serde(default)]
        force: bool,
    }
    /// What users or groups have in a dataset and may have.
    Userspace {
        /// The dataset.
        name: String,
        /// Which of the two.
        kind: OwnerKind,
        /// Count anew first, and fail if something else was counted.
        check: bool,
    }
    /// Unset a property, so that it is inherited.
    Inherit {
        /// Datasets.
        names: Vec<String>,
        /// Which.
        prop: String,
        /// Below them too.
        recursive: bool,
    }
    /// Mount a dataset or snapshot, or all.
    Mount {
        /// What; everything that mounts by itself if absent.
        name: Option<String>,
        /// Where, instead of where the property says.
        dir: Option<PathBuf>,
        /// Load the key first.
        load_keys: bool,
        /// Refuse changes.
        read_only: bool,
        /// Over a directory that is not empty.
        overlay: bool,
        /// What else it allows, where that is not as the properties say.
        #[serde(default)]
        allowed: Allowed,
    }
    /// Change what a mount allows.
    Remount {
        /// The dataset or snapshot that is mounted.
        name: String,
        /// Refuse changes, or allow them.
        read_only: Option<bool>,
        /// What else changes.
        allowed: Allowed,
    }
    /// Unmount a dataset by its name or its directory, or all.
    Unmount {
        /// What; everything if absent.
        target: Option<String>,
        /// Even if it is in use.
        force: bool,
    }
    /// Make snapshots of one moment.
    Snapshot {
        /// `dataset@snapshot`
        names: Vec<String>,
        /// Below them too.
        recursive: bool,
    }
    /// Take a dataset back to a snapshot.
    Rollback {
        /// `dataset@snapshot`
        name: String,
        /// Destroy later snapshots.
        recursive: bool,
        /// Unmount what is in use.
        force: bool,
    }
    /// Load keys.
    KeyLoad {
        /// Datasets; all if none is named.
        names: Vec<String>,
        /// Below them too.
        recursive: bool,
        /// Where the key is, instead of where the property says.
        location: Option<String>,
        /// Format and place of the key, `FORMAT,LOCATION`, instead of where the property says.
        keysource: Option<String>,
        /// Only try whether the key is the right one.
        dry_run: bool,
    }
    /// Unload keys.
    KeyUnload {
        /// Datasets; all if none is named.
        names: Vec<String>,
        /// Below them too.
        recursive: bool,
        /// Unmount what is in use.
        force: bool,
    }
    /// Put another key in the place of a dataset's.
    KeyChange {
        /// The dataset.
        name: String,
        /// Where the new key comes from; as before if absent.
        keysource: Option<String>,
        /// Put it into this slot only.
        slot: Option<u32>,
        /// In the place of all slots.
        only: bool,
        /// Use the key of the dataset above instead.
        inherit: bool,
    }
    /// Give a dataset new data keys.
    KeyRotate {
        /// The dataset.
        name: String,
        /// How.
        how: Rotation,
    }
    /// Which data keys there are, and what needs them.
    KeyGenerations {
        /// The dataset.
        name: String,
    }
    /// Add a slot to a dataset's key.
    KeyAdd {
        /// The dataset.
        name: String,
        /// Where the new key comes from.
        keysource: Option<String>,
        /// Slots with a higher one are tried first.
        priority: u8,
    }
    /// Remove a slot.
    KeyRemove {
        /// The dataset.
        name: String,
        /// Its number.
        slot: u32,
        /// Where the key comes from then.
        keysource: Option<String>,
        /// Even if that opens nothing.
        force: bool,
    }
    /// Which slots there are.
    KeySlots {
        /// The dataset.
        name: String,
    }
    /// Copy keyrings.
    KeyBackup {
        /// The dataset; with it those that have their key from it.
        name: String,
    }
    /// Put keyrings back.
    KeyRestore {
        /// The dataset.
        name: String,
        /// The backup, in hexadecimal digits.
        backup: String,
        /// Where the key that opens it comes from; from where it did if absent.
        keysource: Option<String>,
    }
    /// Accept where the keys of datasets come from, as their properties say now.
    KeyAccept {
        /// Datasets with keys of their own.
        names: Vec<String>,
        /// With those below them.
        recursive: bool,
    }
    /// Whether keys are loaded.
    KeyStatus {
        /// Datasets; all if none is named.
        names: Vec<String>,
    }
    /// Look at the structures of a pool.
    Inspect {
        /// An imported pool's name, or the devices of one that is not.
        target: InspectTarget,
        /// How much to show.
        detail: u8,
        /// Check that every unit belongs to exactly one thing.
        check: bool,
    }
    /// What to keep elsewhere of the state of datasets.
    Anchor {
        /// With everything below them; all if none is named.
        names: Vec<String>,
    }
    /// Compare datasets with what was kept.
    AnchorVerify {
        /// What was kept.
        anchors: Vec<super::Anchor>,
    }
    /// Who may do what to a dataset.
    Permissions {
        /// The dataset.
        name: String,
    }
    /// Allow something, or allow it no longer.
    ChangePermissions {
        /// The dataset.
        name: String,
        /// Whether it is to be allowed no longer.
        remove: bool,
        /// Names or numbers; one, which does not matter, for everyone.
        who: Vec<String>,
        /// What they are names of; of users or else of groups if absent.
        kind: Option<WhoKind>,
        /// Which permissions; with `remove` all if there are none.
        permissions: Vec<String>,
        /// On the dataset itself.
        local: bool,
        /// On what is below it.
        below: bool,
    }
    /// Give a tenant a socket of its own that reaches one dataset and what is below it.
    ZoneCreate {
        /// Its name.
        name: String,
        /// The dataset that is its root.
        dataset: String,
        /// What the root is called in the zone; the last part of its name if absent.
        alias: Option<String>,
        /// Whether the tenant cannot change the root itself.
        immutable: bool,
        /// Who besides root may use it: a user, or after a colon a group.
        owner: Option<String>,
    }
    /// Take the socket away.
    ZoneDestroy {
        /// The zone.
        name: String,
    }
}
