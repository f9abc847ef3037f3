//! The definition of the command line, from which the parser, the help texts, the man pages and the shell completion
//! are made.
//!
//! The first line of a comment on a command is its summary in lists, the rest its description.
//! Examples stand below each command, because people copy them. Options have the names and letters of
//! `zpool` and `zfs`, where these have such an option.

use std::ffi::OsString;
use std::path::PathBuf;

use adopt::args::Adopt;
use adopt::versions::args::VersionsArgs;
use bench::crypto::args::Crypto;
use bench::storage::args::Bench;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use console::outcome::{Outcome, call_quiet};
use console::session::Session;
use homes::fscrypt::args::Fscrypt;
use homes::login::args::LoginArgs;
use homes::pefs::args::Pefs;
use homes::stack::args::Stack;
use notify::args::Notify;
use protocol::api::{Failure, OwnerKind};

use crate::cmd::audit::args::Audit;
use crate::cmd::csi::args::Csi;
use crate::cmd::dataset::args::{
    Allow, Cp, CreateArgs, DestroyArgs, Get, Groupspace, Inherit, List, Properties, RenameArgs,
    Set, Unallow, Userspace,
};
use crate::cmd::doctor::args::Doctor;
use crate::cmd::export::args::{Iscsi, Mount, Nbd, Ublk, Unmount};
use crate::cmd::generate::args::Generate;
use crate::cmd::ha::args::Ha;
use crate::cmd::key::args::{KeyCommand, Keygen};
use crate::cmd::luks::args::Luks;
use crate::cmd::objects::args::Objects;
use crate::cmd::pool::args::{Inspect, PoolCommand};
use crate::cmd::replicate::args::ReplicateCommand;
use crate::cmd::send::args::{Receive, Send};
use crate::cmd::send::verify::VerifyArgs;
use crate::cmd::service::args::{AnchorArgs, Completion, DaemonArgs, Explain, Manual, VersionArgs};
use crate::cmd::snapshot::args::{
    BookmarkArgs, Clone, DiffArgs, HoldArgs, Holds, Promote, Release, Rollback, Snapshot,
};
use crate::cmd::web::args::Web;
use crate::cmd::zone::args::ZoneCommand;
use crate::cmd::{
    audit, csi, dataset, doctor, export, generate, ha, key, luks, objects, pool, replicate, send,
    service, snapshot, web, zone,
};

macro_rules! socket_help {
    () => {
        "The socket of the daemon: /run/strongroom/socket for root, else strongroom/socket in \
         $XDG_RUNTIME_DIR"
    };
}

/// Encrypted storage in user space: pools, datasets, keys
///
/// A pool keeps datasets on files or disks. A dataset is a file system or a volume, with properties and
/// snapshots. It can be encrypted with a key of its own. A daemon owns the pools, the loaded keys and the
/// mounts. Commands start the daemon when they need it, and it needs no configuration.
///
/// `strongroom help pool create` explains the command `pool create`, with examples. `strongroom help 9`
/// explains the exit code 9, and `strongroom help errors` what to do when something goes wrong.
#[derive(Debug, Parser)]
#[command(
    name = "strongroom",
    version,
    max_term_width = 100,
    after_help = EXAMPLES,
    after_long_help = EXAMPLES_AND_EXIT_CODES,
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,

    #[command(subcommand)]
    pub(crate) command: Command,
}

// The options of every command. (A comment for documentation would become the help of the program.)
#[derive(Args, Debug)]
pub(crate) struct Global {
    /// Print JSON with exact numbers; print nothing where nothing is listed
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,

    /// The socket of the daemon
    // Not `env = `: usage lines would then name the option wherever the variable is set.
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        help = concat!(socket_help!(), " [env: STRONGROOM_SOCKET]"),
        long_help = concat!(socket_help!(), "\n\n[env: STRONGROOM_SOCKET]"),
        help_heading = "Global options"
    )]
    pub(crate) socket: Option<PathBuf>,
}

impl Cli {
    /// Reads a command line. The whole definition takes milliseconds to build. So it is built only for help, for errors
    /// and for words that are no name of a command.
    pub(crate) fn read(args: &[OsString]) -> Result<Cli, clap::Error> {
        let typed = args.get(1).and_then(|word| Command::alone(word.to_str()?));
        if let Some(command) = typed {
            let program =
                Global::augment_args(clap::Command::new("strongroom")).subcommand(command);
            let matches = program.try_get_matches_from(args);
            if let Ok(cli) = matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
                return Ok(cli);
            }
        }
        Cli::try_parse_from(args)
    }
}

/// The definition of one command, as the derived one of [`Command`] has it.
macro_rules! alone {
    ($name:expr, $args:ty, subcommand) => {
        <$args>::augment_subcommands(clap::Command::new($name))
            .subcommand_required(true)
            .arg_required_else_help(true)
    };
    ($name:expr, $args:ty $(, $($other:tt)*)?) => {
        <$args>::augment_args(clap::Command::new($name))
    };
}

/// The name of a command from that of its variant.
const fn lowercase<const N: usize>(word: &str) -> [u8; N] {
    let mut bytes = *word.as_bytes().first_chunk().expect("its own length");
    bytes.make_ascii_lowercase();
    bytes
}

/// Defines the commands, each with the function that carries it out.
macro_rules! commands {
    ($($(#[command($($how:tt)*)])? $name:ident($args:ty) => $run:expr,)*) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(#[command($($how)*)])? $name($args),)*
        }

        impl Command {
            /// The definition of the command with this name, without the others.
            fn alone(name: &str) -> Option<clap::Command> {
                $({
                    const BYTES: [u8; stringify!($name).len()] = lowercase(stringify!($name));
                    const NAME: &str = match std::str::from_utf8(&BYTES) {
                        Ok(name) => name,
                        Err(_) => panic!("a name is no text"),
                    };
                    if name == NAME {
                        return Some(alone!(NAME, $args $(, $($how)*)?));
                    }
                })*
                None
            }

            /// Carries out the command.
            pub(crate) fn run(self, session: &mut Session) -> Result<Outcome, Failure> {
                match self {
                    $(Command::$name(args) => {
                        let run: fn($args, &mut Session) -> Result<Outcome, Failure> = $run;
                        run(args, session)
                    })*
                }
            }
        }
    };
}

commands! {
    #[command(subcommand)]
    Pool(PoolCommand) => pool::run::run,
    Create(CreateArgs) => dataset::run::create,
    Destroy(DestroyArgs) => dataset::run::destroy,
    Rename(RenameArgs) => dataset::run::rename,
    List(List) => dataset::run::list::run,
    Get(Get) => dataset::run::get::run,
    Set(Set) => dataset::run::set,
    Inherit(Inherit) => dataset::run::inherit,
    #[command(alias = "property")]
    Properties(Properties) => |args, session| dataset::run::properties::run(&args, session.json),
    Userspace(Userspace) => |args, session| dataset::run::userspace::run(&args.how, OwnerKind::User, session),
    Groupspace(Groupspace) => |args, session| dataset::run::userspace::run(&args.how, OwnerKind::Group, session),
    Mount(Mount) => export::run::mount::mount,
    Unmount(Unmount) => export::run::mount::unmount,
    Snapshot(Snapshot) => snapshot::run::snapshot,
    Bookmark(BookmarkArgs) => snapshot::run::bookmark,
    Rollback(Rollback) => sends!(Rollback: name, recursive, clones, force),
    Clone(Clone) => sends!(Clone: snapshot, name, props, rekey, parents, no_mount),
    Promote(Promote) => sends!(Promote: name),
    Hold(HoldArgs) => snapshot::run::hold,
    Holds(Holds) => snapshot::run::holds,
    Release(Release) => |args, session| call_quiet(session, request!(args.tagged, Release: names, tag, recursive)),
    Diff(DiffArgs) => snapshot::run::diff::run,
    Versions(VersionsArgs) => |args, session| adopt::versions::run(&args, session.json),
    Cp(Cp) => |args, _| dataset::run::copy::run(&args),
    Adopt(Adopt) => |args, session| adopt::run(&args, session.json),
    Send(Send) => send::run::send,
    #[command(alias = "recv")]
    Receive(Receive) => send::run::receive,
    Verify(VerifyArgs) => send::verify::run,
    #[command(subcommand)]
    Replicate(ReplicateCommand) => replicate::run::run,
    #[command(subcommand)]
    Key(KeyCommand) => key::run::run,
    Keygen(Keygen) => |args, _| key::run::keygen(&args),
    Allow(Allow) => dataset::run::delegation::allow,
    Unallow(Unallow) => dataset::run::delegation::unallow,
    #[command(subcommand)]
    Luks(Box<Luks>) => |args, session| luks::run::run(*args, session),
    #[command(subcommand)]
    Stack(Stack) => |args, session| homes::stack::run::run(args, session.json),
    #[command(subcommand)]
    Fscrypt(Fscrypt) => |args, session| homes::fscrypt::run::run(args, session.json),
    #[command(subcommand)]
    Pefs(Pefs) => |args, session| Ok(homes::pefs::run::run(&args, session.json)),
    #[command(subcommand)]
    Zone(ZoneCommand) => zone::run::run,
    #[command(subcommand)]
    Nbd(Nbd) => export::run::nbd::run,
    #[command(subcommand)]
    Iscsi(Iscsi) => export::run::iscsi::run,
    #[command(subcommand)]
    Ublk(Ublk) => export::run::ublk::run,
    #[command(subcommand)]
    Ha(Ha) => ha::run::run,
    #[command(subcommand)]
    Objects(Objects) => objects::run::run,
    #[command(subcommand)]
    Notify(Notify) => |args, session| notify::run(&args, session),
    Inspect(Inspect) => pool::run::inspect::run,
    Doctor(Doctor) => |args, session| doctor::run::run(&args, session),
    Explain(Explain) => |args, session| service::run::explain::run(&args, session.json),
    #[command(subcommand)]
    Bench(Bench) => |args, session| bench::storage::run::run(args, session.json),
    Anchor(AnchorArgs) => service::run::anchor::run,
    #[command(subcommand)]
    Audit(Audit) => audit::run::run,
    #[command(subcommand)]
    Crypto(Crypto) => |args, session| bench::crypto::run::run(args, session),
    Daemon(DaemonArgs) => service::run::run,
    Web(Web) => web::run::run,
    Csi(Csi) => csi::run::run,
    #[command(subcommand)]
    Generate(Generate) => |args, _| generate::run::run(args),
    Completion(Completion) => |args, _| service::run::completion::run(&args),
    #[command(hide = true)]
    Login(LoginArgs) => |args, _| homes::login::run::run(&args),
    Man(Manual) => |args, _| service::run::manual::run(&args, Cli::command()),
    Version(VersionArgs) => |_, session| Ok(service::run::version::run(session.json)),
}

macro_rules! examples {
    () => {
        "\
EXAMPLES
  A pool in a file of 4 GiB, and an encrypted dataset in it; asks twice for a passphrase:
    strongroom pool create -s 4G tank /var/lib/tank.pool
    strongroom create -o encryption=on tank/home

  After a restart: import the pools, load the keys and mount all datasets:
    strongroom pool import -a
    strongroom mount -a -l

  Show the datasets, and the health of the pools:
    strongroom list
    strongroom pool status"
    };
}

const EXAMPLES: &str = examples!();

const EXAMPLES_AND_EXIT_CODES: &str = concat!(
    examples!(),
    "

EXIT CODES
   0  done
   1  another failure
   2  a wrong command line, or a wrong value in it
   3  no such pool, dataset, snapshot or property
   4  the name is taken
   5  a dataset, pool, device or file is in use
   6  not permitted
   7  the key or passphrase is wrong
   8  the key is not loaded, or cannot be read from its location
   9  data, keys or structures are damaged
  10  written by a newer version of this program
  11  not enough free space
  12  a device failed
  13  the daemon cannot be reached
  14  the log of a dataset is not of its present state

A refused command changes nothing. An error is one line on the standard error that begins with
`strongroom: `, with --json too. If that is a terminal and there is no --json, a second line
names the page that says more. Only an error in the form of the command line has several
lines, which begin with `error: `.

FILES
  /run/strongroom/socket
      The socket of root's daemon. Other users have daemons of their own. A command starts
      the daemon if none is running, but not if --socket names the socket."
);

#[cfg(test)]
mod tests {
    use protocol::api::FailureKind;

    use super::*;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The definition of one command is the same as in the whole definition.
    #[test]
    fn a_command_alone_is_the_same() {
        fn same(alone: &clap::Command, whole: &clap::Command) {
            let args = |command: &clap::Command| {
                let args = command.get_arguments().map(|arg| format!("{arg:?}"));
                args.collect::<Vec<_>>()
            };
            assert_eq!(args(alone), args(whole), "{}", whole.get_name());
            let names = |command: &clap::Command| {
                let below = command.get_subcommands();
                below
                    .map(|one| one.get_name().to_owned())
                    .collect::<Vec<_>>()
            };
            assert_eq!(names(alone), names(whole), "{}", whole.get_name());
            for (alone, whole) in alone.get_subcommands().zip(whole.get_subcommands()) {
                same(alone, whole);
            }
        }
        for whole in Cli::command().get_subcommands() {
            let alone = Command::alone(whole.get_name()).expect("a command of its own");
            same(&alone, whole);
            let settings = |command: &clap::Command| {
                (
                    command.is_subcommand_required_set(),
                    command.is_arg_required_else_help_set(),
                )
            };
            assert_eq!(settings(&alone), settings(whole), "{}", whole.get_name());
        }
    }

    /// Options before the command, an alias, and what is wrong are read by the whole definition.
    #[test]
    fn every_command_line_is_read() {
        let read = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            Cli::read(&words).map(|cli| format!("{cli:?}"))
        };
        for (line, other) in [
            ("strongroom list --json tank", "strongroom --json list tank"),
            ("strongroom receive tank/a", "strongroom recv tank/a"),
            (
                "strongroom pool list --socket /a",
                "strongroom --socket=/a pool list",
            ),
        ] {
            assert_eq!(read(line).unwrap(), read(other).unwrap());
        }
        for wrong in [
            "strongroom pool",
            "strongroom list --no-such",
            "strongroom lisst",
        ] {
            let said = read(wrong).unwrap_err().to_string();
            assert!(said.contains("Usage: strongroom"), "{wrong}: {said}");
        }
    }

    #[test]
    fn exit_codes_are_documented() {
        use FailureKind::*;
        let all = [
            Other, Usage, NotFound, Exists, Busy, Permission, WrongKey, NoKey, Damaged, TooNew,
            NoSpace, Device, NoDaemon, ForeignLog,
        ];
        for kind in all {
            let line = format!("\n{:4}  ", kind.exit_code());
            assert!(EXAMPLES_AND_EXIT_CODES.contains(&line), "{kind:?}");
        }
    }
}
