//! The commands, by group: `args` defines the command line, `run` sends requests and prints replies.
//!
//! A command returns its output instead of printing it. So a command that fails prints nothing, and one
//! place handles a closed pipe.

pub(crate) mod cli;
mod csi;
mod dataset;
mod doctor;
mod export;
mod generate;
mod ha;
#[cfg(test)]
mod help_rules;
mod key;
mod luks;
mod pool;
mod send;
mod service;
mod snapshot;
mod sure;
mod web;
mod zone;

use console::outcome::Result;
use console::session::Session;
use protocol::api::OwnerKind;

use crate::cmd::cli::Command;

/// Returns whether `help` explains this word as `explain` does.
pub(crate) fn is_topic(word: &str) -> bool {
    service::run::explain::is_topic(word)
}

/// Carries out a command line without a command, typed at a terminal.
pub(crate) fn welcome(session: &mut Session) -> Result {
    service::run::welcome::run(session)
}

/// Carries out a command.
pub(crate) fn run(command: Command, session: &mut Session) -> Result {
    let is_cipher_user = matches!(
        command,
        Command::Luks(_) | Command::Stack(_) | Command::Fscrypt(_) | Command::Pefs(_)
    );
    if is_cipher_user {
        bench::crypto::run::begin(session)?;
    }
    match command {
        Command::Pool(args) => pool::run::run(args, session),
        Command::Create(args) => dataset::run::create(args, session),
        Command::Destroy(args) => dataset::run::destroy(args, session),
        Command::Rename(args) => dataset::run::rename(args, session),
        Command::List(args) => dataset::run::list::run(args, session),
        Command::Get(args) => dataset::run::get::run(args, session),
        Command::Set(args) => dataset::run::set(args, session),
        Command::Inherit(args) => dataset::run::inherit(args, session),
        Command::Properties(args) => dataset::run::properties::run(&args, session.json),
        Command::Userspace(args) => {
            dataset::run::userspace::run(&args.how, OwnerKind::User, session)
        }
        Command::Groupspace(args) => {
            dataset::run::userspace::run(&args.how, OwnerKind::Group, session)
        }
        Command::Mount(args) => export::run::mount::mount(args, session),
        Command::Unmount(args) => export::run::mount::unmount(args, session),
        Command::Snapshot(args) => snapshot::run::snapshot(args, session),
        Command::Bookmark(args) => snapshot::run::bookmark(args, session),
        Command::Rollback(args) => snapshot::run::rollback(args, session),
        Command::Clone(args) => snapshot::run::clone(args, session),
        Command::Promote(args) => snapshot::run::promote(args, session),
        Command::Hold(args) => snapshot::run::hold(args, session),
        Command::Holds(args) => snapshot::run::holds(args, session),
        Command::Release(args) => snapshot::run::release(args, session),
        Command::Diff(args) => snapshot::run::diff::run(args, session),
        Command::Cp(args) => dataset::run::copy::run(&args),
        Command::Adopt(args) => adopt::run(&args, session.json),
        Command::Send(args) => send::run::send(args, session),
        Command::Receive(args) => send::run::receive(args, session),
        Command::Key(args) => key::run::run(args, session),
        Command::Keygen(args) => key::run::keygen(&args),
        Command::Allow(args) => dataset::run::delegation::allow(args, session),
        Command::Unallow(args) => dataset::run::delegation::unallow(args, session),
        Command::Login(args) => homes::login::run::run(&args),
        Command::Luks(args) => luks::run::run(*args, session),
        Command::Stack(args) => homes::stack::run::run(args, session.json),
        Command::Fscrypt(args) => homes::fscrypt::run::run(args, session.json),
        Command::Pefs(args) => Ok(homes::pefs::run::run(&args, session.json)),
        Command::Zone(args) => zone::run::run(args, session),
        Command::Web(args) => web::run::run(args, session),
        Command::Csi(args) => csi::run::run(args, session),
        Command::Iscsi(args) => export::run::iscsi::run(args, session),
        Command::Ha(args) => ha::run::run(args, session),
        Command::Nbd(args) => export::run::nbd::run(args, session),
        Command::Doctor(args) => doctor::run::run(&args, session),
        Command::Explain(args) => service::run::explain::run(&args, session.json),
        Command::Bench(args) => bench::storage::run::run(args, session.json),
        Command::Generate(args) => generate::run::run(args),
        Command::Inspect(args) => pool::run::inspect::run(args, session),
        Command::Anchor(args) => service::run::anchor::run(args, session),
        Command::Crypto(args) => bench::crypto::run::run(args, session),
        Command::Daemon(args) => service::run::run(args, session),
        Command::Completion(args) => service::run::completion::run(&args),
        Command::Man(args) => service::run::manual::run(&args),
    }
}
