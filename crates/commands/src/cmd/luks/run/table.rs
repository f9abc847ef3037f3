//! The line of `dmsetup table` for a mapping.

use std::fmt::Write;
use std::io::IsTerminal;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use console::outcome::{Outcome, Result};
use console::session::Session;
use luks::SECTOR;
use protocol::api::{Failure, MappingRow};
use secret::Secret;

use super::device::look;
use super::key::unlock;
use crate::cmd::luks::args::{LuksContainer, LuksStatusArgs};

/// The lines of these mappings; with their names if there are several.
pub(super) fn show(args: &LuksStatusArgs, rows: &[MappingRow], session: &Session) -> Result {
    if session.json {
        return Err(Failure::usage(
            "a line of a table is not JSON; leave out --json or --table",
        ));
    }
    if args.showkeys && !std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "keys are shown on a terminal only; leave out --showkeys, or do not redirect the output",
        ));
    }
    let mut out = String::new();
    for row in rows {
        check(row)?;
        let key = match args.showkeys {
            true => key(args, row, session)?,
            false => "0".repeat(row.key_bits / 4),
        };
        if args.names.len() != 1 {
            let _ = write!(out, "{}: ", row.name);
        }
        let _ = writeln!(out, "{}", line(row, &key));
    }
    Ok(Outcome::text(out))
}

/// Refuses a mapping that dm-crypt would not have in one line.
fn check(row: &MappingRow) -> Result<()> {
    let name = &row.name;
    if let Some(reason) = &row.waits {
        return Err(Failure::usage(format!(
            "the mapping '{name}' is not open: {reason}"
        )));
    }
    if row.reencryption.is_some() {
        return Err(Failure::usage(format!(
            "the mapping '{name}' is in re-encryption, so it has a line for each of its parts"
        )));
    }
    match row.cipher.contains(' ') {
        false => Ok(()),
        true => Err(Failure::usage(format!(
            "the mapping '{name}' keeps tags of its sectors, for which dm-integrity has a line of its own"
        ))),
    }
}

fn line(row: &MappingRow, key: &str) -> String {
    let options = options(row);
    let mut line = format!(
        "0 {} crypt {} {key} {} {} {}",
        row.size / SECTOR,
        row.cipher,
        row.iv_offset,
        device(&row.device),
        row.offset / SECTOR
    );
    if !options.is_empty() {
        let _ = write!(line, " {} {}", options.len(), options.join(" "));
    }
    line
}

/// The options of dm-crypt that a mapping has, in the order in which dm-crypt prints them.
fn options(row: &MappingRow) -> Vec<String> {
    let is_queued = row.read_workqueue || row.write_workqueue;
    let all = [
        (row.allow_discards, "allow_discards"),
        (is_queued && row.same_cpu, "same_cpu_crypt"),
        (
            row.write_workqueue && !row.sort_writes,
            "submit_from_crypt_cpus",
        ),
        (!row.read_workqueue, "no_read_workqueue"),
        (!row.write_workqueue, "no_write_workqueue"),
    ];
    let given = all.iter().filter(|(is_given, _)| *is_given);
    let mut options: Vec<String> = given.map(|(_, name)| (*name).to_owned()).collect();
    if u64::from(row.sector_size) != SECTOR {
        options.push(format!("sector_size:{}", row.sector_size));
    }
    options
}

/// The number of a disk, or the name of another device.
fn device(name: &str) -> String {
    match std::fs::metadata(name) {
        Ok(found) if found.file_type().is_block_device() => {
            let number = found.rdev();
            let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
            format!("{major}:{minor}")
        }
        _ => name.to_owned(),
    }
}

/// The key of a container, in hexadecimal digits, by a passphrase. The daemon tells no key.
fn key(args: &LuksStatusArgs, row: &MappingRow, session: &Session) -> Result<String> {
    if row.uuid.is_none() {
        return Err(Failure::usage(format!(
            "the mapping '{}' has no header, so nothing is there to read its key from",
            row.name
        )));
    }
    let container = LuksContainer {
        header: row.header.as_ref().map(PathBuf::from),
        device: PathBuf::from(&row.device),
    };
    let header = look(&container, session)?;
    let open = |given: &Secret| header.unlock(given, None);
    let (_, unlocked) = unlock(&args.key, &container, open)?;
    let digits = unlocked.key.expose().iter();
    Ok(digits.map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_that_of_dmsetup() {
        let row = MappingRow {
            cipher: "aes-xts-plain64".into(),
            device: "volume:tank/disk".into(),
            sector_size: 512,
            size: 8_388_608 * SECTOR,
            read_workqueue: true,
            write_workqueue: true,
            sort_writes: true,
            ..MappingRow::default()
        };
        let zeros = "0".repeat(64);
        let begin = format!("0 8388608 crypt aes-xts-plain64 {zeros} 0 volume:tank/disk 0");
        let of = |row: &MappingRow| line(row, &zeros);
        assert_eq!(of(&row), begin);
        let same_cpu = MappingRow {
            same_cpu: true,
            ..row.clone()
        };
        assert_eq!(of(&same_cpu), format!("{begin} 1 same_cpu_crypt"));
        let submits = MappingRow {
            sort_writes: false,
            ..row.clone()
        };
        assert_eq!(of(&submits), format!("{begin} 1 submit_from_crypt_cpus"));
        let inline = MappingRow {
            read_workqueue: false,
            write_workqueue: false,
            sector_size: 4096,
            offset: 16 << 20,
            iv_offset: 3,
            ..row
        };
        let expected = format!(
            "0 8388608 crypt aes-xts-plain64 {zeros} 3 volume:tank/disk 32768 3 no_read_workqueue \
             no_write_workqueue sector_size:4096"
        );
        assert_eq!(of(&inline), expected);
    }
}
