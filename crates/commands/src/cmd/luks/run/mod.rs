//! LUKS containers. What looks at headers or changes them runs here; mappings are the daemon's.

mod benchmark;
mod change;
mod device;
mod format;
mod key;
mod look;
mod mapping;
mod reencryption;
mod remote_device;
mod table;
mod token_open;

use console::outcome::Result;
use console::session::Session;

use crate::cmd::luks::args::Luks;

pub(crate) fn run(args: Luks, session: &mut Session) -> Result {
    Ok(match args {
        Luks::Format(args) => format::run(&args, session)?,
        Luks::Open(args) => mapping::open(args, session)?,
        Luks::Close(args) => mapping::close(args, session)?,
        Luks::Status(args) => mapping::status(args, session)?,
        Luks::Refresh(args) => mapping::refresh(args, session)?,
        Luks::Resize(args) => mapping::resize(args, session)?,
        Luks::Suspend(args) => mapping::suspend(args, session)?,
        Luks::Resume(args) => mapping::resume(args, session)?,
        Luks::Dump(args) => look::dump(&args, session)?,
        Luks::AddKey(args) => change::add_key(&args, session)?,
        Luks::ChangeKey(args) => change::change_key(&args, session)?,
        Luks::RemoveKey(args) => change::remove_key(&args, session)?,
        Luks::KillSlot(args) => change::kill_slot(&args, session)?,
        Luks::SetPriority(args) => change::set_priority(&args, session)?,
        Luks::Token(args) => change::token(&args, session)?,
        Luks::HeaderBackup(args) => change::header_backup(&args, session)?,
        Luks::HeaderRestore(args) => change::header_restore(&args, session)?,
        Luks::Erase(args) => change::erase(&args, session)?,
        Luks::Uuid(args) => look::uuid(&args, session)?,
        Luks::Is(args) => look::is_luks(&args, session)?,
        Luks::Convert(args) => change::convert(&args, session)?,
        Luks::Reencrypt(args) => reencryption::reencrypt::run(&args, session)?,
        Luks::Repair(args) => change::repair(&args, session)?,
        Luks::Benchmark(args) => benchmark::run(&args, session.json)?,
    })
}
