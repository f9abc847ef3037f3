//! `inspect`: the structures of a pool, in the manner of `zdb`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use console::outcome::{Outcome, Result};
use console::session::{Session, answer};
use console::show::{json, size, text, time};
use protocol::api::{
    CheckRow, Failure, FailureKind, InspectTarget, InspectedDataset, Inspection, LogRow,
    PointerRow, command,
};

use super::layouts::device_words::device;
use crate::cmd::pool::args::Inspect;

pub(crate) fn run(args: Inspect, session: &mut Session) -> Result {
    let command = command::Inspect {
        target: target(&args.targets)?,
        detail: args.detail,
        check: args.check,
    };
    let inspection = answer!(session.call(command)?, Inspection)?;
    let text = match session.json {
        true => json::show(&inspection),
        false => report(&inspection, args.detail),
    };
    let failures = inspection
        .check
        .as_ref()
        .and_then(failure)
        .into_iter()
        .collect();
    Ok(Outcome {
        text,
        failures,
        ..Outcome::default()
    })
}

/// A single name that is no path is an imported pool.
fn target(given: &[String]) -> Result<InspectTarget> {
    if let [name] = given
        && !name.contains('/')
        && !Path::new(name).exists()
    {
        return Ok(InspectTarget::Pool(name.clone()));
    }
    let devices: Result<Vec<PathBuf>> = given.iter().map(|path| device(Path::new(path))).collect();
    Ok(InspectTarget::Devices(devices?))
}

fn failure(check: &CheckRow) -> Option<Failure> {
    (check.count > 0).then(|| Failure {
        kind: FailureKind::Damaged,
        message: format!("the check found {} things that are wrong", check.count),
    })
}

fn report(inspection: &Inspection, detail: u8) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(out, "Pool '{}', guid {}", inspection.pool, inspection.guid);
    let (total, free) = (inspection.total, inspection.free);
    let _ = writeln!(
        out,
        "    {} for records, {} free",
        size::human(total),
        size::human(free)
    );
    out += "\nSuperblocks, the newest first:\n";
    for row in &inspection.superblocks {
        let _ = writeln!(
            out,
            "    txg {}  {}  {} on {}{}",
            row.txg,
            time::second(row.time),
            row.state,
            row.host,
            match row.host_id {
                0 => String::new(),
                id => format!(" (hostid {id:08x})"),
            }
        );
    }
    for row in inspection.datasets.iter().filter(|_| detail >= 1) {
        out.push('\n');
        out += &dataset(row, detail);
    }
    if let Some(check) = &inspection.check {
        out.push('\n');
        out += &checked(check);
    }
    text::printable(&out).into_owned()
}

fn dataset(row: &InspectedDataset, detail: u8) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Dataset {} [id {}, guid {}, family {}], created txg {}, {}, {} referenced",
        row.name,
        row.id,
        row.guid,
        row.family,
        row.created_txg,
        row.suite,
        size::human(row.referenced)
    );
    if let Some((bytes, block)) = row.volume {
        let (bytes, block) = (size::human(bytes), size::human(block.into()));
        let _ = writeln!(out, "    volume : {bytes}, in blocks of {block}");
    }
    if detail >= 2 {
        let _ = writeln!(out, "    deadlist : {}", size::human(row.dead));
        let _ = writeln!(out, "    sequence : {}", row.sequence);
        let _ = writeln!(out, "    seal : {}", row.seal);
        out += &pointers("Roots:", &row.roots);
        out += &row.log.as_ref().map_or(String::new(), log);
    }
    if detail >= 3 {
        out += &keychain(row);
        out += &pointers("Records:", &row.records);
    }
    out
}

/// The lines begin as those of Solaris, which scripts know.
fn keychain(row: &InspectedDataset) -> String {
    let mut out = String::new();
    if let Some(error) = &row.keychain_error {
        let _ = writeln!(out, "    Keychain unreadable: {error}");
    }
    if !row.keychain.is_empty() {
        out += "    Keychain entries by txg:\n";
    }
    for entry in &row.keychain {
        let _ = writeln!(
            out,
            "        txg {} : wkeylen = {}, wrapped by {}, generation {}",
            entry.txg, entry.wrapped_len, entry.algorithm, entry.generation
        );
    }
    out
}

fn pointers(title: &str, rows: &[PointerRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut out = format!("    {title}\n");
    for row in rows {
        let _ = writeln!(
            out,
            "        {} L{} {} {}/{} birth {} generation {}",
            row.what,
            row.level,
            row.places.join(" "),
            row.logical_size,
            row.disk_size,
            row.birth,
            row.generation
        );
        let _ = writeln!(out, "            checksum {}", row.checksum);
        let _ = writeln!(out, "            identity {}", row.identity);
    }
    out
}

fn log(row: &LogRow) -> String {
    let mut out = String::new();
    let end = match row.is_damaged {
        true => ", then a damaged one",
        false => "",
    };
    let _ = writeln!(
        out,
        "    Log: chain {}, {} entries from {} on{end}, behind txg {}",
        row.chain, row.count, row.sequence, row.base
    );
    for (n, chunk) in row.chunks.iter().enumerate() {
        let first = match n {
            0 => format!(", the first entry at {:#x}", row.offset),
            _ => String::new(),
        };
        let _ = writeln!(
            out,
            "        chunk {} {}{first}",
            chunk.place,
            size::human(u64::from(chunk.size))
        );
    }
    for entry in &row.entries {
        let _ = writeln!(
            out,
            "        entry {} {} {} records {} generation {} flushed {}",
            entry.sequence,
            entry.place,
            size::human(u64::from(entry.size)),
            entry.records,
            entry.generation,
            entry.flushed
        );
        let _ = writeln!(out, "            identity {}", entry.identity);
    }
    out
}

fn checked(check: &CheckRow) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Checked {} datasets, {} records, {} nodes, {}:",
        check.datasets,
        check.records,
        check.nodes,
        size::human(check.bytes)
    );
    if check.count == 0 {
        out += "    every unit belongs to exactly one thing\n";
    }
    for finding in &check.findings {
        let _ = writeln!(out, "    {finding}");
    }
    let more = check.count.saturating_sub(check.findings.len() as u64);
    if more > 0 {
        let _ = writeln!(out, "    and {more} more");
    }
    out
}

#[cfg(test)]
mod tests {
    use protocol::api::{ChunkRow, KeychainRow, LogEntryRow};

    use super::*;

    #[test]
    fn pools_and_devices_are_told_apart() {
        let of = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(ToString::to_string).collect();
            match target(&given).unwrap() {
                InspectTarget::Pool(name) => vec![name],
                InspectTarget::Devices(paths) => paths
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect(),
            }
        };
        assert_eq!(of(&["tank"]), ["tank"]);
        assert_eq!(of(&["/dev/null"]), ["/dev/null"]);
        let here = std::env::current_dir().unwrap().display().to_string();
        assert_eq!(of(&["src"]), [format!("{here}/src")]);
        assert_eq!(of(&["./tank"]), [format!("{here}/tank")]);
    }

    #[test]
    fn keychain_has_the_shape_that_scripts_know() {
        let row = InspectedDataset {
            name: "tank/home".into(),
            id: 2,
            guid: 3,
            family: 4,
            created_txg: 5,
            suite: "xaes-256-gcm".into(),
            volume: None,
            referenced: 98_304,
            dead: 0,
            sequence: 1,
            seal: "00ff".into(),
            roots: Vec::new(),
            keychain: vec![
                KeychainRow {
                    generation: 1,
                    txg: 5,
                    wrapped_len: 136,
                    algorithm: "xaes-256-gcm".into(),
                },
                KeychainRow {
                    generation: 2,
                    txg: 9,
                    wrapped_len: 136,
                    algorithm: "xaes-256-gcm".into(),
                },
            ],
            keychain_error: None,
            records: Vec::new(),
            log: Some(LogRow {
                chain: "00000000000000ff".into(),
                sequence: 7,
                base: 41,
                offset: 4096,
                chunks: vec![ChunkRow {
                    place: "0/3:0x10000".into(),
                    size: 65_536,
                }],
                count: 1,
                is_damaged: true,
                entries: vec![LogEntryRow {
                    sequence: 7,
                    flushed: 6,
                    place: "0/3:0x11000".into(),
                    size: 8_192,
                    records: 2,
                    generation: 1,
                    identity: "aa bb".into(),
                }],
            }),
        };
        assert!(dataset(&row, 2).ends_with(
            "    Log: chain 00000000000000ff, 1 entries from 7 on, then a damaged one, behind txg 41
        chunk 0/3:0x10000 64K, the first entry at 0x1000
        entry 7 0/3:0x11000 8K records 2 generation 1 flushed 6
            identity aa bb
"
        ));
        assert_eq!(
            keychain(&row),
            "    Keychain entries by txg:
        txg 5 : wkeylen = 136, wrapped by xaes-256-gcm, generation 1
        txg 9 : wkeylen = 136, wrapped by xaes-256-gcm, generation 2
"
        );
        let shown = |detail| dataset(&row, detail);
        assert!(!shown(2).contains("Keychain") && shown(3).contains("Keychain"));
        assert!(!shown(1).contains("seal") && shown(2).contains("    seal : 00ff\n"));
    }
}
