//! The output: a table, JSON, and a page with a chart.

use std::fmt::Write;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use console::outcome::{Outcome, Result};
use console::show::json;
use console::show::table::{self, Column};
use serde::Serialize;

use super::load::{Figures, MEASURES, Measure};
use super::work::cannot;
use crate::storage::args::BenchHow;

/// The results.
#[derive(Default)]
pub(super) struct PartFigures {
    pub(super) disk: Figures,
    pub(super) cipher: Figures,
    pub(super) fuse: Figures,
    pub(super) reached: Figures,
}

#[derive(Serialize)]
struct StorageReport {
    what: &'static str,
    place: String,
    bytes: u64,
    rows: Vec<MeasureRow>,
}

#[derive(Serialize)]
struct MeasureRow {
    measure: &'static str,
    unit: &'static str,
    disk: Option<f64>,
    cipher: Option<f64>,
    fuse: Option<f64>,
    allowed: f64,
    /// The part that allows least.
    limit: &'static str,
    reached: f64,
    ratio: f64,
}

impl MeasureRow {
    fn new(at: usize, measure: &Measure, found: &PartFigures) -> Option<MeasureRow> {
        let (disk, cipher, fuse) = (found.disk[at], found.cipher[at], found.fuse[at]);
        let parts = [("disk", disk), ("cipher", cipher), ("FUSE", fuse)];
        let known = parts
            .iter()
            .filter_map(|(name, rate)| Some((*name, (*rate)?)));
        let (limit, least) = known.clone().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let allowed = match measure.waits {
            true => 1.0 / known.map(|(_, rate)| 1.0 / rate).sum::<f64>(),
            false => least,
        };
        let reached = found.reached[at]?;
        Some(MeasureRow {
            measure: measure.name,
            unit: measure.unit,
            disk,
            cipher,
            fuse,
            allowed,
            limit,
            reached,
            ratio: reached / allowed,
        })
    }
}

/// Shows it, and writes the page if one is wanted. What was measured is shown in any case.
pub(super) fn outcome(
    what: &'static str,
    dir: &Path,
    how: &BenchHow,
    found: &PartFigures,
    as_json: bool,
) -> Result {
    let rows = MEASURES.iter().enumerate();
    let report = StorageReport {
        what,
        place: dir.display().to_string(),
        bytes: how.size,
        rows: rows
            .filter_map(|(at, measure)| MeasureRow::new(at, measure, found))
            .collect(),
    };
    let mut outcome = Outcome::text(match as_json {
        true => json::show(&report),
        false => text(&report),
    });
    if let Some(path) = &how.report
        && let Err(error) =
            File::create_new(path).and_then(|mut file| file.write_all(page(&report).as_bytes()))
    {
        outcome.failures.push(cannot(path, &error));
    }
    Ok(outcome)
}

fn text(report: &StorageReport) -> String {
    let headers = ["DISK", "CIPHER", "FUSE", "ALLOWED", "REACHED"].map(Column::right);
    let mut columns = vec![Column::left("MEASURE"), Column::left("UNIT")];
    columns.extend(headers);
    columns.extend([Column::right("RATIO"), Column::left("SLOWEST")]);
    let cells = |row: &MeasureRow| {
        let part = |rate: Option<f64>| rate.map_or_else(|| "-".into(), rounded);
        vec![
            row.measure.to_owned(),
            row.unit.to_owned(),
            part(row.disk),
            part(row.cipher),
            part(row.fuse),
            rounded(row.allowed),
            rounded(row.reached),
            format!("{:.2}", row.ratio),
            row.limit.to_owned(),
        ]
    };
    let rows: Vec<_> = report.rows.iter().map(cells).collect();
    table::show(&columns, &rows, false)
}

/// Whole numbers, but for small ones.
fn rounded(rate: f64) -> String {
    match rate < 10.0 {
        true => format!("{rate:.1}"),
        false => format!("{rate:.0}"),
    }
}

const LABELS: f64 = 230.0;
const SPACE: f64 = 420.0;
const BAR: f64 = 14.0;
const ROW: f64 = 40.0;

/// A page of HTML with a chart and the table.
fn page(report: &StorageReport) -> String {
    let height = 10.0 + ROW * report.rows.len() as f64;
    let title = format!("strongroom bench {} {}", report.what, report.place);
    let mut chart = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"780\" height=\"{height}\" font-size=\"12\">\n"
    );
    for (n, row) in report.rows.iter().enumerate() {
        let (y, most) = (8.0 + ROW * n as f64, row.allowed.max(row.reached));
        let label = y + 11.0;
        // Writing to a string does not fail.
        let _ = writeln!(
            chart,
            "<text x=\"4\" y=\"{label}\">{}, {}</text>",
            row.measure, row.unit
        );
        for (y, rate, colour) in [
            (y, row.allowed, "#b0b7c3"),
            (y + BAR, row.reached, "#2f6f9f"),
        ] {
            let width = (rate / most * SPACE).max(1.0);
            let (x, label) = (LABELS + width + 5.0, y + 11.0);
            let _ = writeln!(
                chart,
                "<rect x=\"{LABELS}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" fill=\"{colour}\"/>\
                 <text x=\"{x:.1}\" y=\"{label}\">{}</text>",
                BAR - 1.0,
                rounded(rate)
            );
        }
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <body style=\"font-family: sans-serif; max-width: 60em; margin: 2em auto\">\n<h1>{title}</h1>\n\
         <p>Grey is what this machine allows, blue is what Strongroom reached. Each pair of bars has a scale of its \
         own.</p>\n{chart}</svg>\n<pre>{table}</pre>\n<p>Strongroom {version}; {hardware}</p>\n</body>\n</html>\n",
        title = escaped(&title),
        table = escaped(&text(report)),
        version = env!("CARGO_PKG_VERSION"),
        hardware = escaped(&cipher::hardware().to_string()),
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
