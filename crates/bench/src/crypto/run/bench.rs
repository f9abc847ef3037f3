//! The tables of speeds: this process, one without the processor's features, and OpenSSL, in turn.

use std::process::Command;

use cipher::Provider;
use console::outcome::{Outcome, Result};
use console::session::other;
use console::show::json;
use console::show::table::{self, Column};

use super::chart;
use super::measure::{CipherTask, RunSpeed, gigahertz};
use super::openssl::OpenSsl;
use super::report::{CipherReport, CipherRow};
use super::tables::{Memory, decrypt_large};
use crate::crypto::args::{BenchTable, CryptoBench};

/// The processor features that the generic path does not use.
const GENERIC: &str = "-aes,-pclmul,-ssse3,-sha";

pub(super) fn run(args: &CryptoBench, json: bool) -> Result {
    let report = measure(args)?;
    if let Some(path) = &args.svg {
        std::fs::write(path, chart::draw(&report))
            .map_err(|error| other(format!("{} cannot be written: {error}", path.display())))?;
    }
    Ok(Outcome::text(match json {
        true => json::show(&report),
        false => show(&report),
    }))
}

fn measure(args: &CryptoBench) -> Result<CipherReport> {
    let openssl = match args.alone {
        true => None,
        false => OpenSsl::find(),
    };
    let generic = match args.alone {
        true => None,
        false => Some(without_features(args)?),
    };
    let ghz = gigahertz();
    let mut rows = Vec::new();
    for task in args.tables().into_iter().flat_map(BenchTable::tasks) {
        let mut row = measure_task(&task, args.runs, ghz, openssl.as_ref())?;
        let is_this = |other: &&CipherRow| {
            (&other.table, &other.name, other.size) == (&row.table, &row.name, row.size)
        };
        let there = generic
            .as_ref()
            .and_then(|report| report.rows.iter().find(is_this));
        row.generic = there.and_then(|row| row.fast.clone());
        rows.push(row);
    }
    Ok(CipherReport {
        hardware: cipher::hardware().to_string(),
        ghz,
        openssl: openssl.map(|openssl| openssl.version),
        rows,
        memory: match args.tables().contains(&BenchTable::Memory) && !args.alone {
            true => Some(decrypt_large()?),
            false => None,
        },
    })
}

/// The providers take turns, so that a change of the clock hits all alike.
fn measure_task(
    task: &CipherTask,
    runs: u32,
    ghz: f64,
    openssl: Option<&OpenSsl>,
) -> Result<CipherRow> {
    let (mut fast, mut portable, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        fast.extend(task.run(Provider::AwsLc)?);
        portable.extend(task.run(Provider::Portable)?);
        if let (Some(openssl), Some(name)) = (openssl, task.openssl) {
            theirs.extend(openssl.speed(name, task.size));
        }
    }
    Ok(CipherRow {
        table: task.table,
        name: format!("{}{}", task.name, task.layout.suffix()),
        size: task.size,
        generic: None,
        portable: RunSpeed::of(portable),
        fast: RunSpeed::of(fast),
        openssl: RunSpeed::of(theirs),
        limit: task.rounds.map(|rounds| ghz * 16e3 / f64::from(rounds)),
    })
}

/// Measures in a process of its own, with features of the processor switched off.
fn without_features(args: &CryptoBench) -> Result<CipherReport> {
    let failed = |why: String| other(format!("the generic path cannot be measured: {why}"));
    let output = Command::new("/proc/self/exe")
        .args(["crypto", "bench", "--alone", "--json", "--runs"])
        .arg(args.runs.to_string())
        .args(args.tables().iter().map(|table| table.name()))
        .env("STRONGROOM_HWCAP", GENERIC)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(
            String::from_utf8_lossy(&output.stderr).trim().into(),
        ));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

fn show(report: &CipherReport) -> String {
    let mut out = format!("{}\nclock: {:.2} GHz\n", report.hardware, report.ghz);
    if let Some(version) = &report.openssl {
        out += &format!("{version}\n");
    }
    let mut rest = &report.rows[..];
    while let Some(first) = rest.first() {
        let len = rest
            .iter()
            .take_while(|row| row.table == first.table)
            .count();
        let (rows, after) = rest.split_at(len);
        let unit = match first.table.has_times() {
            true => "nanoseconds",
            false => "MB/s",
        };
        out += &format!("\n{}, {unit}\n{}", first.table.title(), show_table(rows));
        rest = after;
    }
    if let Some(memory) = &report.memory {
        out += &show_memory(memory);
    }
    out
}

fn show_memory(memory: &Memory) -> String {
    let Memory {
        message,
        growth,
        seconds,
    } = memory;
    let gib = message >> 30;
    let grows = growth.map_or(
        "by an amount that the kernel does not count".into(),
        |growth| format!("by {:.1} MiB", growth as f64 / f64::from(1 << 20)),
    );
    format!(
        "\n{}\nAES-128-GCM decrypts a message of {gib} GiB in {seconds:.1} s, and releases nothing before all of it is \
         authentic; the process grows {grows}.\n",
        BenchTable::Memory.title()
    )
}

fn show_table(rows: &[CipherRow]) -> String {
    let mut columns = vec![Column::left("")];
    let headers = [
        "BYTES",
        "GENERIC",
        "PORTABLE",
        "FAST",
        "OPENSSL",
        "FAST/GENERIC",
        "FAST/OPENSSL",
        "OF LIMIT",
    ];
    columns.extend(headers.map(Column::right));
    let rows: Vec<Vec<String>> = rows.iter().map(show_row).collect();
    table::show(&columns, &rows, false)
}

fn show_row(row: &CipherRow) -> Vec<String> {
    let median = |speed: &Option<RunSpeed>| speed.as_ref().map(|speed| speed.median);
    let number = |speed: Option<f64>| match (speed, row.table.has_times()) {
        (Some(speed), false) => format!("{speed:.0}"),
        (Some(speed), true) => format!("{:.0}", row.size as f64 / speed * 1e3),
        (None, _) => "-".into(),
    };
    let ratio = |other: Option<f64>| match (median(&row.fast), other) {
        (Some(fast), Some(other)) => format!("{:.2}", fast / other),
        _ => "-".into(),
    };
    let share = match (median(&row.fast), row.limit) {
        (Some(fast), Some(limit)) => format!("{:.0} %", 100.0 * fast / limit),
        _ => "-".into(),
    };
    vec![
        row.name.clone(),
        row.size.to_string(),
        number(median(&row.generic)),
        number(median(&row.portable)),
        number(median(&row.fast)),
        number(median(&row.openssl)),
        ratio(median(&row.generic)),
        ratio(median(&row.openssl)),
        share,
    ]
}
