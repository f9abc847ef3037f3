//! Exports over NBD.

use std::path::Path;

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, absolute, answer, usage};
use console::show::json;
use console::show::size;
use console::show::table::Column;
use protocol::api::{Command, ExportRow, command};

use crate::cmd::export::args::{Nbd, NbdAttachArgs, NbdDetachArgs, NbdExportArgs, NbdList};

pub(crate) fn run(args: Nbd, session: &mut Session) -> Result {
    match args {
        Nbd::Export(args) => export(args, session),
        Nbd::Unexport(args) => call_quiet(session, request!(args, NbdUnexport: name, force)),
        Nbd::Attach(args) => attach(args, session),
        Nbd::Detach(args) => detach(args, session),
        Nbd::List(args) => list(&args, session),
    }
}

fn export(args: NbdExportArgs, session: &mut Session) -> Result {
    // A relative path would mean something else to the daemon.
    let listen = match args.listen {
        Some(text) => Some(match text.strip_prefix("unix:") {
            Some(path) => format!("unix:{}", text_of(&absolute(Path::new(path))?)?),
            None => text,
        }),
        None => None,
    };
    let certificates = args.tls_certificates.as_deref().map(absolute);
    let new = command::NbdExport {
        device: device_name(args.device)?,
        name: args.name,
        description: args.description,
        read_only: args.read_only,
        listen,
        tls_certificates: certificates.transpose()?,
    };
    call_quiet(session, new)
}

fn attach(args: NbdAttachArgs, session: &mut Session) -> Result {
    let new = command::NbdAttach {
        device: device_name(args.device)?,
        kernel: args.kernel,
        read_only: args.read_only,
    };
    let rows = answer!(session.call(Command::NbdAttach(new))?, Exports)?;
    show_attached(&rows, session)
}

/// The block device of a volume that was attached.
pub(super) fn show_attached(rows: &Vec<ExportRow>, session: &Session) -> Result {
    if session.json {
        return Ok(Outcome::text(json::show(rows)));
    }
    let lines = rows.iter().map(|row| format!("{}\n", row.uri));
    Ok(Outcome::text(lines.collect::<String>()))
}

fn detach(args: NbdDetachArgs, session: &mut Session) -> Result {
    let (device, force) = (device_name(args.device)?, args.force);
    call_quiet(session, command::NbdDetach { device, force })
}

/// The name of a device in the daemon: a relative path would mean something else to it.
pub(super) fn device_name(typed: String) -> Result<String> {
    match typed.starts_with(['/', '.']) {
        true => text_of(&absolute(Path::new(&typed))?),
        false => Ok(typed),
    }
}

fn text_of(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| usage(format!("{} is not UTF-8", path.display())))
}

fn list(args: &NbdList, session: &mut Session) -> Result {
    let rows = answer!(session.call(Command::NbdExports)?, Exports)?;
    show_exports(rows, session.json, args.script, "CONNECTIONS")
}

/// A table of exports; `users` is what connections are called.
pub(super) fn show_exports(
    rows: Vec<ExportRow>,
    as_json: bool,
    script: bool,
    users: &'static str,
) -> Result {
    let heads = [
        Column::left("NAME"),
        Column::left("DEVICE"),
        Column::right("SIZE"),
        Column::left("ACCESS"),
        Column::right(users),
        Column::left("URI"),
    ];
    let cells = |row: ExportRow| {
        vec![
            row.name,
            row.device,
            row.size.map_or_else(|| "-".into(), size::human),
            if row.read_only {
                "read-only"
            } else {
                "read-write"
            }
            .into(),
            row.connections.to_string(),
            row.uri,
        ]
    };
    Ok(Outcome::rows(rows, as_json, &heads, script, cells))
}
