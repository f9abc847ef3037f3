//! `audit export`: records as lines of JSON, to the standard output or the log of the system.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use console::outcome::{Outcome, Result};
use console::session::{Session, answer, other};
use console::show::text;
use protocol::api::{AuditAnchor, AuditRow, Failure, FailureKind, command};

use super::args::AuditExportArgs;
use super::report::failure;

/// The socket of syslog. The journal of systemd listens there too.
const SYSLOG: &str = "/dev/log";
/// The priority of a record: `notice` of the facility `authpriv`.
const PRIORITY: u8 = 10 << 3 | 5;
/// A file with a position is not longer.
const POSITION_MAX: u64 = 1024;

pub(super) fn run(args: &AuditExportArgs, session: &mut Session) -> Result {
    let check = command::AuditVerify {
        pool: args.pool.clone(),
        anchor: None,
    };
    let report = answer!(session.call(check)?, AuditReport)?;
    if let Some(failure) = failure(&report) {
        return Err(failure);
    }
    let position = args.position.as_deref();
    let last = position.map(read_position).transpose()?.flatten();
    let from = last.as_ref().map_or(0, |last| last.sequence);
    let mut rows = records(&args.pool, from, session)?;
    if let Some(last) = &last {
        rows = after(rows, last, &args.pool)?;
    }
    match args.syslog {
        true => send(&rows, Path::new(SYSLOG))?,
        false => print(&rows)?,
    }
    let newest = rows.iter().rev().find_map(AuditRow::anchor);
    if let (Some(file), Some(newest)) = (position, newest) {
        write_position(file, &newest)?;
    }
    Ok(Outcome::done())
}

/// The records of a pool from a number on.
pub(super) fn records(pool: &str, from: u64, session: &mut Session) -> Result<Vec<AuditRow>> {
    let pool = pool.to_owned();
    answer!(session.call(command::Audit { pool, from })?, Audit)
}

/// The records after the last exported one, which has to be the first that the log has.
fn after(rows: Vec<AuditRow>, last: &AuditAnchor, pool: &str) -> Result<Vec<AuditRow>> {
    let damaged = |why: &str| {
        let record = last.sequence;
        let message = format!(
            "the log of '{pool}' {why} record {record}, which was exported before; look into it, and remove the file \
             with the position to export all again"
        );
        Failure::new(FailureKind::Damaged, message)
    };
    let mut rows = rows.into_iter().skip_while(|row| row.sequence.is_none());
    match rows.next().and_then(|row| row.anchor()) {
        Some(first) if first == *last => Ok(rows.collect()),
        Some(first) if first.sequence == last.sequence => Err(damaged("has something else as")),
        Some(_) => Err(damaged("has dropped")),
        None => Err(damaged("ends before")),
    }
}

fn line(row: &AuditRow) -> Result<String> {
    serde_json::to_string(row).map_err(|error| other(error.to_string()))
}

fn print(rows: &[AuditRow]) -> Result<()> {
    let mut out = String::new();
    for row in rows {
        out += &line(row)?;
        out += "\n";
    }
    text::print(&out).map_err(|error| other(format!("cannot write the records: {error}")))
}

fn send(rows: &[AuditRow], log: &Path) -> Result<()> {
    let cannot = |error| {
        other(format!(
            "cannot write to the log of the system at {}: {error}",
            log.display()
        ))
    };
    let socket = UnixDatagram::unbound().map_err(cannot)?;
    socket.connect(log).map_err(cannot)?;
    for row in rows {
        let message = format!("<{PRIORITY}>strongroom-audit: {}", line(row)?);
        socket.send(message.as_bytes()).map_err(cannot)?;
    }
    Ok(())
}

/// The position in a file; `None` if there is no file yet.
fn read_position(path: &Path) -> Result<Option<AuditAnchor>> {
    let shown = path.display();
    let text = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Ok(meta) if meta.is_file() && meta.len() <= POSITION_MAX => fs::read_to_string(path),
        Ok(_) => return Err(other(format!("'{shown}' is no file with a position"))),
        Err(error) => Err(error),
    };
    let text = text.map_err(|error| other(format!("cannot read '{shown}': {error}")))?;
    let position = text.trim().parse();
    position
        .map(Some)
        .map_err(|error| other(format!("'{shown}' has no position: {error}")))
}

/// Writes a position: after a crash either the old or the new one is there.
fn write_position(path: &Path, position: &AuditAnchor) -> Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let write = || {
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        writeln!(file, "{position}")?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(|error| other(format!("cannot write '{}': {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(sequence: u64, hash: &str) -> AuditRow {
        AuditRow {
            pool: "tank".into(),
            sequence: Some(sequence),
            hash: Some(hash.into()),
            time: 5,
            txg: 6,
            who: "ann on host".into(),
            uid: Some(1000),
            object: None,
            internal: false,
            command: "strongroom create tank/a".into(),
            result: "done".into(),
        }
    }

    #[test]
    fn an_export_goes_on_only_where_it_was() {
        let last = row(7, "aa").anchor().unwrap();
        let rest = after(vec![row(7, "aa"), row(8, "bb")], &last, "tank").unwrap();
        assert_eq!(rest[0].sequence, Some(8));
        for (rows, why) in [
            (vec![row(7, "ab"), row(8, "bb")], "something else"),
            (vec![row(9, "bb")], "has dropped"),
            (vec![], "ends before"),
        ] {
            let refused = after(rows, &last, "tank").unwrap_err();
            assert_eq!(refused.kind, FailureKind::Damaged);
            assert!(refused.message.contains(why), "{}", refused.message);
        }
    }

    #[test]
    fn each_record_is_a_message_to_the_log_of_the_system() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let socket = UnixDatagram::bind(&log).unwrap();
        send(&[row(7, "aa"), row(8, "bb")], &log).unwrap();
        for number in [7, 8] {
            let mut bytes = [0; 4096];
            let len = socket.recv(&mut bytes).unwrap();
            let text = str::from_utf8(&bytes[..len]).unwrap();
            let json = text.strip_prefix("<85>strongroom-audit: ").unwrap();
            let read: AuditRow = serde_json::from_str(json).unwrap();
            assert_eq!(read.sequence, Some(number));
        }
    }
}
