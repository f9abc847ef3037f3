//! `verify`: reads snapshots, and shows what is damaged.

use clap::Args;
use console::outcome::{Outcome, Result};
use console::session::{Session, answer};
use console::show::table::{self, Column};
use console::show::{json, size};
use protocol::api::{Failure, FailureKind, LostRecords, VerifiedSnapshot, command};

/// Read snapshots, and check that they are whole
///
/// Reads every record of the snapshots from the devices. Checks each, up to the state under the seal of the dataset.
/// No key is needed, so a host can check copies that it cannot open. `pool scrub` checks whole pools, repairs
/// copies, and knows nothing of seals. A record that several snapshots share is read once.
///
/// With --challenge the host also proves that it has the records: it prints a hash of them with the challenge as its
/// key. Another host with the same snapshots prints the same hash for the same names in the same order. Draw a new
/// challenge each time. `replicate verify` does this for the copies of a job, and compares everything.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All snapshots of a copy; one of them:
    strongroom verify backup/home
    strongroom verify backup/home@monday

  A proof that two hosts hold the same:
    c=$(openssl rand -hex 32)
    strongroom verify --json --challenge $c tank/home@monday
    ssh backup strongroom verify --json --challenge $c backup/home@monday

JSON
  [{\"name\", \"guid\", \"created\", \"encrypted\", \"seal\", \"sealed\", \"records\", \"bytes\", \"unchecked\",
  \"lost\": [{\"array\": pages|data, \"slot\", \"slots\", \"why\"}, ...], \"lost_count\", \"proof\"}, ...], where
  \"sealed\" is what the seal is made over.

EXIT CODES
  2 if a dataset has no snapshot; 3 if there is no such snapshot; 5 if many of your verifications
  run already; 6 if a right is missing; 9 if a record is damaged or cannot be read.")]
pub(crate) struct VerifyArgs {
    /// Print a hash of what was read, with this key of 64 hexadecimal digits
    #[arg(long, value_name = "HEX")]
    pub(crate) challenge: Option<String>,
    /// The snapshots, or datasets with all their snapshots
    #[arg(value_name = "DATASET|SNAPSHOT", required = true)]
    pub(crate) names: Vec<String>,
}

pub(crate) fn run(args: VerifyArgs, session: &mut Session) -> Result {
    let VerifyArgs { names, challenge } = args;
    let rows = answer!(
        session.call_while_read(command::Verify { names, challenge })?,
        Verified
    )?;
    let text = match session.json {
        true => json::show(&rows),
        false => shown(&rows),
    };
    Ok(Outcome {
        text,
        failures: failure(&rows).into_iter().collect(),
        ..Outcome::default()
    })
}

fn shown(rows: &[VerifiedSnapshot]) -> String {
    let columns = [
        Column::left("SNAPSHOT"),
        Column::right("RECORDS"),
        Column::right("READ"),
        Column::right("UNCHECKED"),
        Column::left("STATE"),
        Column::left("PROOF"),
    ];
    let cells = rows.iter().map(|row| {
        let state = match row.lost_count {
            0 => "whole",
            _ => "damaged",
        };
        vec![
            row.name.clone(),
            row.records.to_string(),
            size::show(row.bytes, false),
            row.unchecked.to_string(),
            state.into(),
            row.proof.clone().unwrap_or_else(|| "-".into()),
        ]
    });
    let lost = rows.iter().flat_map(|row| {
        let line = |lost: &LostRecords| format!("{}: {}\n", row.name, lost_part(lost));
        row.lost.iter().map(line)
    });
    let lost: String = lost.collect();
    table::show(&columns, &cells.collect::<Vec<_>>(), false) + &lost
}

/// A lost part, for people.
pub(crate) fn lost_part(lost: &LostRecords) -> String {
    let (array, slot, why) = (&lost.array, lost.slot, &lost.why);
    match lost.slots {
        0 | 1 => format!("record {slot} of {array}: {why}"),
        slots => {
            // The numbers may be those of a hostile host.
            let last = slot.saturating_add(slots - 1);
            format!("records {slot} to {last} of {array}: {why}")
        }
    }
}

fn failure(rows: &[VerifiedSnapshot]) -> Option<Failure> {
    let bad = rows.iter().filter(|row| row.lost_count > 0).count();
    (bad > 0).then(|| Failure {
        kind: FailureKind::Damaged,
        message: format!(
            "{bad} of {} snapshots are damaged; take a copy back to its last whole snapshot with 'strongroom rollback -r', \
             and receive the rest again",
            rows.len()
        ),
    })
}
