//! Zones.

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, answer};
use console::show::table::Column;
use protocol::api::{Command, ZoneProfile, ZoneRow, command};

use crate::cmd::zone::args::{ZoneCommand, ZoneCreate, ZoneList};

pub(crate) fn run(args: ZoneCommand, session: &mut Session) -> Result {
    match args {
        ZoneCommand::Create(args) => create(args, session),
        ZoneCommand::Set { profile, name } => {
            call_quiet(session, command::ZoneSet { name, profile })
        }
        ZoneCommand::Destroy { name } => call_quiet(session, command::ZoneDestroy { name }),
        ZoneCommand::List(args) => list(&args, session),
    }
}

fn create(args: ZoneCreate, session: &mut Session) -> Result {
    let new = command::ZoneCreate {
        name: args.name,
        dataset: args.dataset,
        alias: args.alias,
        profile: match args.immutable {
            true => ZoneProfile::FixedConfiguration,
            false => args.profile,
        },
        owner: args.owner,
    };
    call_quiet(session, new)
}

fn list(args: &ZoneList, session: &mut Session) -> Result {
    let rows = answer!(session.call(Command::Zones)?, Zones)?;
    let heads = ["NAME", "DATASET", "ALIAS", "PROFILE", "OWNER", "SOCKET"].map(Column::left);
    let absent = || "-".to_owned();
    let cells = |row: ZoneRow| {
        vec![
            row.name,
            row.dataset.unwrap_or_else(absent),
            row.alias,
            row.profile.name().into(),
            row.owner.unwrap_or_else(absent),
            row.socket,
        ]
    };
    Ok(Outcome::rows(
        rows,
        session.json,
        &heads,
        args.script,
        cells,
    ))
}
