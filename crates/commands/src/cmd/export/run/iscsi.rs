//! Targets of iSCSI.

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, answer};
use console::show::table::Column;
use protocol::api::{Command, SessionRow, command};

use super::nbd::{device_name, show_exports};
use crate::cmd::export::args::{Iscsi, IscsiExportArgs};

pub(crate) fn run(args: Iscsi, session: &mut Session) -> Result {
    match args {
        Iscsi::Export(args) => export(args, session),
        Iscsi::Unexport(args) => call_quiet(session, request!(args, IscsiUnexport: name, force)),
        Iscsi::List(args) => {
            let rows = answer!(session.call(Command::IscsiExports)?, Exports)?;
            show_exports(rows, session.json, args.script, "SESSIONS")
        }
        Iscsi::Sessions(args) => match (args.kick, args.target) {
            (Some(number), Some(target)) => {
                call_quiet(session, command::IscsiKick { target, number })
            }
            (_, target) => sessions(args.script, target.as_deref(), session),
        },
    }
}

fn export(args: IscsiExportArgs, session: &mut Session) -> Result {
    let mut portals = args.portals.into_iter();
    let new = command::IscsiExport {
        device: device_name(args.device)?,
        name: args.name,
        read_only: args.read_only,
        portal: portals.next(),
        more_portals: portals.collect(),
        initiators: args.initiators,
        chap: args.chap,
        own_chap: args.mutual_chap,
        open: args.no_authentication,
        forget_reservations: args.forget_reservations,
        serial: args.serial,
        naa: args.naa,
        block_size: args.block_size,
    };
    call_quiet(session, new)
}

fn sessions(script: bool, target: Option<&str>, session: &mut Session) -> Result {
    let mut rows = answer!(session.call(Command::IscsiSessions)?, Sessions)?;
    rows.retain(|row| target.is_none_or(|target| row.target == target));
    let heads = [
        Column::left("TARGET"),
        Column::right("NUMBER"),
        Column::left("INITIATOR"),
        Column::left("ADDRESS"),
    ];
    let cells = |row: SessionRow| {
        let number = row.number.to_string();
        vec![row.target, number, row.initiator, row.address]
    };
    Ok(Outcome::rows(rows, session.json, &heads, script, cells))
}
