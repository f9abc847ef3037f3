//! Devices of the kernel by ublk.

use console::outcome::{Result, call_quiet};
use console::session::{Session, answer};
use protocol::api::{Command, command};

use crate::cmd::export::args::{Ublk, UblkAttachArgs, UblkList};
use crate::cmd::export::run::nbd::{device_name, show_attached, show_exports};

pub(crate) fn run(args: Ublk, session: &mut Session) -> Result {
    match args {
        Ublk::Attach(args) => attach(args, session),
        Ublk::Detach(args) => {
            let (device, force) = (device_name(args.device)?, args.force);
            call_quiet(session, command::UblkDetach { device, force })
        }
        Ublk::List(args) => list(&args, session),
    }
}

fn attach(args: UblkAttachArgs, session: &mut Session) -> Result {
    let new = command::UblkAttach {
        device: device_name(args.device)?,
        kernel: args.kernel,
        read_only: args.read_only,
    };
    let rows = answer!(session.call(Command::UblkAttach(new))?, Exports)?;
    show_attached(&rows, session)
}

fn list(args: &UblkList, session: &mut Session) -> Result {
    let rows = answer!(session.call(Command::UblkDevices)?, Exports)?;
    show_exports(rows, session.json, args.script, "SERVED")
}
