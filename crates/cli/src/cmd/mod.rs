//! Commands: requests made of arguments, and reports made of answers.
//!
//! A command returns what it prints instead of printing it, so that nothing is printed by one that
//! fails, and a closed pipe is dealt with in one place.

mod anchor;
mod bench;
mod clone;
mod completion;
mod copy;
mod crypto;
mod dataset;
mod delegation;
mod devices;
mod diff;
mod get;
mod inspect;
mod iostat;
mod key;
mod list;
mod luks;
mod manual;
mod mount;
mod nbd;
mod pool;
mod repeat;
mod scrub;
mod select;
mod service;
mod shred;
mod status;
mod sure;
mod transfer;
mod upgrade;
mod userspace;
mod zone;

use daemon::api::OwnerKind;

use crate::args::Command;
use crate::outcome::Result;
use crate::session::Session;

/// Carries out a command.
pub(crate) fn run(command: Command, session: &mut Session) -> Result {
    match command {
        Command::Pool(args) => pool::run(args, session),
        Command::Create(args) => dataset::create(args, session),
        Command::Destroy(args) => dataset::destroy(args, session),
        Command::Rename(args) => dataset::rename(args, session),
        Command::List(args) => list::run(args, session),
        Command::Get(args) => get::run(args, session),
        Command::Set(args) => dataset::set(args, session),
        Command::Inherit(args) => dataset::inherit(args, session),
        Command::Userspace(args) => userspace::run(&args.how, OwnerKind::User, session),
        Command::Groupspace(args) => userspace::run(&args.how, OwnerKind::Group, session),
        Command::Mount(args) => mount::mount(args, session),
        Command::Unmount(args) => mount::unmount(args, session),
        Command::Snapshot(args) => dataset::snapshot(args, session),
        Command::Rollback(args) => dataset::rollback(args, session),
        Command::Clone(args) => clone::clone(args, session),
        Command::Promote(args) => clone::promote(args, session),
        Command::Hold(args) => clone::hold(args, session),
        Command::Holds(args) => clone::holds(args, session),
        Command::Release(args) => clone::release(args, session),
        Command::Diff(args) => diff::run(args, session),
        Command::Cp(args) => copy::run(&args),
        Command::Send(args) => transfer::send(args, session),
        Command::Receive(args) => transfer::receive(args, session),
        Command::Key(args) => key::run(args, session),
        Command::Keygen(args) => key::keygen(&args),
        Command::Allow(args) => delegation::allow(args, session),
        Command::Unallow(args) => delegation::unallow(args, session),
        Command::Luks(args) => luks::run(*args, session),
        Command::Zone(args) => zone::run(args, session),
        Command::Nbd(args) => nbd::run(args, session),
        Command::Bench(args) => bench::run(args, session.json),
        Command::Inspect(args) => inspect::run(args, session),
        Command::Anchor(args) => anchor::run(args, session),
        Command::Crypto(args) => crypto::run(args, session),
        Command::Daemon(args) => service::run(args, session),
        Command::Completion(args) => completion::run(&args),
        Command::Man(args) => manual::run(&args),
    }
}
