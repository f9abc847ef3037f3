//! The requests to the daemon: a struct for each command, and [`Command`], which is one of them.

/// The effect of a command, for tokens that only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The command shows something, or sends a copy.
    Reads,
    /// The command changes data, settings, keys, mounts or other users' access.
    Changes,
}

/// The definition of a command besides its fields.
pub trait CommandDefinition {
    /// The effect of the command.
    fn effect(&self) -> Effect;

    /// The command line, for history and log. It is made from the command itself, so that no caller chooses the text.
    /// Options have a fixed order, and properties are sorted by name. Secrets are left out: `is_key_source` says
    /// whether a text is a source of keys, which may be shown.
    fn line(&self, is_key_source: fn(&str) -> bool) -> String;
}

/// The form of the command line of a request.
#[derive(Clone, Copy, Debug)]
pub struct HistoryForm {
    /// The words after the name of the program.
    pub command: &'static str,
    /// The options that a line can have.
    pub options: &'static [&'static str],
}

/// Defines requests, each by a row: its effect, its line in the history, and its fields.
///
/// `Changes(field)` stands for a change only where that field is true. The line is the words of the command, and in
/// order each option with the field that it shows, or the field alone. A method may follow a field, or be in its place.
macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident: $effect:ident $(($field_that_changes:ident))?, $command:literal
       [$($($option:literal)? $shown:ident $(($($argument:tt)*))?
          $(.$then:ident $(($($then_argument:tt)*))?)*),* $(,)?]
       { $($(#[$of:meta])* $field:ident: $type:ty,)* })*) => {
        $($(#[$doc])*
        #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$of])* pub $field: $type,)*
        }

        impl $name {
            /// The form of its command line.
            pub const FORM: $crate::api::command::HistoryForm = $crate::api::command::HistoryForm {
                command: $command,
                options: &[$($($option,)?)*],
            };
        }

        impl $crate::api::command::CommandDefinition for $name {
            fn effect(&self) -> $crate::api::command::Effect {
                $(if !self.$field_that_changes {
                    return $crate::api::command::Effect::Reads;
                })?
                $crate::api::command::Effect::$effect
            }

            fn line(&self, is_key_source: fn(&str) -> bool) -> String {
                #[allow(unused_mut)]
                let mut line = $crate::api::command::history::HistoryText::new($command, is_key_source);
                $($crate::api::command::history::HistoryValue::write(
                    &self.$shown $(($($argument)*))? $(.$then $(($($then_argument)*))?)*,
                    concat!($($option)?),
                    &mut line,
                );)*
                line.into_text()
            }
        })*
    };
}

/// Makes the enum of all commands, and the macro `with_command`. Commands without fields come first, each with its
/// effect and its line. `$d` is a dollar sign for the macro inside.
macro_rules! commands {
    (($d:tt)
     { $($(#[$alone_doc:meta])* $alone:ident: $alone_effect:ident, $command:literal;)* }
     { $($name:ident,)* }) => {
        /// A command to the daemon.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Command {
            $($(#[$alone_doc])* $alone,)*
            $(#[doc = concat!("See [`", stringify!($name), "`](struct@", stringify!($name), ").")] $name($name),)*
        }

        impl Command {
            /// The name of the command, as requests and the HTTP API have it.
            pub fn name(&self) -> String {
                kebab(match self {
                    $(Command::$alone => stringify!($alone),)*
                    $(Command::$name(_) => stringify!($name),)*
                })
            }
        }

        /// The names of all commands.
        pub fn names() -> Vec<String> {
            vec![$(kebab(stringify!($alone)),)* $(kebab(stringify!($name)),)*]
        }

        /// The forms of the lines of all commands.
        pub const FORMS: &[HistoryForm] = &[
            $(HistoryForm { command: $command, options: &[] },)*
            $($name::FORM,)*
        ];

        $($(#[$alone_doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $alone;

        impl CommandDefinition for $alone {
            fn effect(&self) -> Effect {
                Effect::$alone_effect
            }

            fn line(&self, _: fn(&str) -> bool) -> String {
                concat!("strongroom ", $command).into()
            }
        }

        impl From<$alone> for Command {
            fn from(_: $alone) -> Command {
                Command::$alone
            }
        })*

        $(impl From<$name> for Command {
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
                    $($crate::api::Command::$name($d each) => $d do,)*
                }
            };
        }

        impl CommandDefinition for Command {
            fn effect(&self) -> Effect {
                with_command!(self, command => command.effect())
            }

            fn line(&self, is_key_source: fn(&str) -> bool) -> String {
                with_command!(self, command => command.line(is_key_source))
            }
        }
    };
}

mod datasets;
mod devices;
mod history;
mod keys;
mod mounts;
mod name;
mod people;
mod pools;
mod replication;
mod reply_kinds;
mod snapshots;
mod streams;

use serde::{Deserialize, Serialize};

pub use datasets::*;
pub use devices::*;
pub use keys::*;
pub use mounts::*;
use name::kebab;
pub use people::*;
pub use pools::*;
pub use replication::*;
pub use reply_kinds::reply_kinds;
pub use snapshots::*;
pub use streams::*;

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
        Mounts: Reads, "mount";
        /// List the zones.
        Zones: Reads, "zone list";
        /// List the exports by NBD.
        NbdExports: Reads, "nbd list";
        /// List the devices of the kernel that are attached by ublk.
        UblkDevices: Reads, "ublk list";
        /// List the targets of iSCSI.
        IscsiExports: Reads, "iscsi list";
        /// List the sessions of initiators.
        IscsiSessions: Reads, "iscsi sessions";
        /// Tell the user that the daemon takes the caller for.
        Whoami: Reads, "whoami";
        /// List the tokens.
        Tokens: Reads, "web token list";
        /// The page of metrics.
        Metrics: Reads, "metrics";
        /// List the wrong keys of the last hour.
        KeyTries: Reads, "key tries";
        /// Show the state of the daemon.
        DaemonStatus: Reads, "daemon status";
        /// Unmount everything and end.
        DaemonStop: Changes, "daemon stop";
        /// Unmount everything, also what is in use, and end.
        DaemonStopForced: Changes, "daemon stop -f";
    }
    {
        NbdExport, NbdUnexport, NbdAttach, NbdDetach, UblkAttach, UblkDetach, IscsiExport, IscsiUnexport, IscsiKick, HaStart,
        HaStop, HaVerify,
        HaCheck, HaStatus, LuksOpen, LuksClose, LuksStatus, LuksRefresh, LuksResize, LuksReencrypt, LuksSuspend,
        LuksResume, LuksBorrow, PoolCreate, PoolImportable, PoolImport, PoolExport, PoolRefresh, PoolDestroy, PoolStatus, PoolIo,
        PoolDevices, PoolSplit, PoolReguid, PoolSync, PoolSweep, PoolCheckpoint, PoolScrub, PoolFeatures, PoolHistory, Audit, AuditVerify,
        PoolEvents, PoolLabelClear, ObjectsProbe, KeyLoad, KeyUnload, KeyChange, KeyRotate, KeyGenerations, KeyAdd, KeyRemove,
        KeySlots, KeyBackup, KeyRestore, KeyAccept, KeyStatus, Create, Prune, Destroy, DestroyLater, Shred, Clone,
        Promote, Hold, Release, Holds, Bookmark, DestroyBookmark, Send, Receive, Verify, Diff, ReceiveAbandon, Rename, Get, Set,
        Userspace, Inherit, Mount, Home, Remount, Unmount, Snapshot, Rollback, Inspect, Anchor, AnchorVerify,
        AnchorAccept, Permissions, ChangePermissions, ZoneCreate, ZoneSet, ZoneDestroy, TokenCreate, TokenRevoke,
        ReplicateAdd, ReplicateChange, ReplicateRun, ReplicateVerify, ReplicateDrilled, ReplicateList,
    }
}
