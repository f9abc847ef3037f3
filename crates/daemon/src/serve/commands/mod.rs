//! Commands: the work of each, and its permissions.
//!
//! [`Serve`] has everything that the daemon needs to know of a command. Each command has a row, `serve!` or
//! `root_only!`, in the file of its topic. Without a complete row the daemon does not compile.

/// A row of the table of commands: the methods of [`Serve`], in order, as closures that get the command first.
macro_rules! serve {
    ($name:ident, $names:expr, $authorize:expr, $admit:expr, $run:expr) => {
        impl super::Serve for protocol::api::command::$name {
            fn names(&self) -> super::NameEffect {
                let names: fn(&Self) -> super::NameEffect = $names;
                names(self)
            }

            fn authorize(&self, check: &super::PermissionCheck<'_>) -> super::Result<()> {
                let authorize: fn(&Self, &super::PermissionCheck<'_>) -> super::Result<()> =
                    $authorize;
                authorize(self, check)
            }

            fn admit(&mut self, view: &super::ZoneView) -> super::Result<()> {
                let admit: fn(&mut Self, &super::ZoneView) -> super::Result<()> = $admit;
                admit(self, view)
            }

            fn run(
                &self,
                daemon: &super::Arc<super::Daemon>,
                context: &mut super::CallerContext<'_>,
            ) -> super::Result<super::Reply> {
                let run: fn(
                    &Self,
                    &super::Arc<super::Daemon>,
                    &mut super::CallerContext<'_>,
                ) -> super::Result<super::Reply> = $run;
                run(self, daemon, context)
            }
        }
    };
}

/// Rows of commands that neither a delegate nor a tenant may use: the name of each, and how it is carried out.
macro_rules! root_only {
    ($($name:ident: $run:expr;)*) => {
        $(serve!(
            $name,
            |_| super::NameEffect::AsItIs,
            |_, _| Err($crate::serve::authorize::only_root()),
            |_, _| Err($crate::state::zones::rules::refused()),
            $run
        );)*
    };
}

mod daemon;
mod datasets;
mod exports;
mod keys;
mod mounts;
mod people;
mod pools;
mod replication;
mod snapshots;
mod streams;
mod tokens;

use std::sync::Arc;

use protocol::api::{Command, CommandDefinition, Reply};

use crate::failure::Result;
use crate::serve::authorize::PermissionCheck;
use crate::serve::zones::NameEffect;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::zones::view::ZoneView;

/// The daemon's knowledge of a command.
pub(crate) trait Serve: CommandDefinition {
    /// The other commands of its zone that may run at the same time.
    fn names(&self) -> NameEffect;

    /// Refuses a delegate without a permission that the command needs. It is not called for root.
    fn authorize(&self, check: &PermissionCheck<'_>) -> Result<()>;

    /// Refuses a tenant, or translates the tenant's names into the daemon's.
    fn admit(&mut self, view: &ZoneView) -> Result<()>;

    /// Carries out the command.
    fn run(&self, daemon: &Arc<Daemon>, context: &mut CallerContext<'_>) -> Result<Reply>;
}

/// The command in a request.
pub(crate) fn served(command: Command) -> Box<dyn Serve> {
    protocol::with_command!(command, each => Box::new(each))
}

/// The reply of a command without a result.
fn done(_: ()) -> Reply {
    Reply::Nothing
}

#[cfg(test)]
mod tests;
