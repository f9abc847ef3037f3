//! The speeds as a chart: a group of bars for each line of the tables.

use std::fmt::Write;

use super::measure::RunSpeed;
use super::report::{CipherReport, CipherRow};

const WIDTH: usize = 900;
const LABELS: usize = 220;
const BAR: usize = 12;
const GAP: usize = 10;
const HEAD: usize = 60;

/// A series: its name, its colour, and where it is in a line.
type Series = (
    &'static str,
    &'static str,
    fn(&CipherRow) -> &Option<RunSpeed>,
);

const SERIES: [Series; 4] = [
    ("generic", "#b0b7c3", |row| &row.generic),
    ("portable", "#e0a458", |row| &row.portable),
    ("fast", "#2f6f9f", |row| &row.fast),
    ("OpenSSL", "#7a4f8c", |row| &row.openssl),
];

/// The chart as SVG.
pub(super) fn draw(report: &CipherReport) -> String {
    let bars = |row: &CipherRow| {
        SERIES
            .iter()
            .filter(|series| series.2(row).is_some())
            .count()
    };
    let height: usize = HEAD
        + report
            .rows
            .iter()
            .map(|row| BAR * bars(row) + GAP)
            .sum::<usize>();
    let most = report
        .rows
        .iter()
        .flat_map(|row| SERIES.iter().filter_map(|series| series.2(row).as_ref()))
        .map(|speed| speed.median)
        .fold(1.0, f64::max);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"14\">Ciphers and hashes, MB/s on one thread</text>\n"
    );
    for (i, (name, colour, _)) in SERIES.iter().enumerate() {
        let x = 10 + 110 * i;
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"32\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"42\">{name}</text>",
            x + 17
        );
    }
    let mut y = HEAD;
    for row in &report.rows {
        y = draw_row(&mut out, row, y, most);
    }
    out + "</svg>\n"
}

fn draw_row(out: &mut String, row: &CipherRow, mut y: usize, most: f64) -> usize {
    let table = row.table.title();
    let label = match table.split_once(' ') {
        Some((head, _)) => format!("{} {}, {}", head.trim_end_matches(','), row.name, row.size),
        None => format!("{}, {}", row.name, row.size),
    };
    let _ = writeln!(out, "<text x=\"10\" y=\"{}\">{label}</text>", y + BAR - 2);
    for (_, colour, speed) in SERIES {
        let Some(speed) = speed(row) else { continue };
        let space = (WIDTH - LABELS - 70) as f64;
        let width = (speed.median / most * space).max(1.0);
        let _ = writeln!(
            out,
            "<rect x=\"{LABELS}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{}\">{:.0}</text>",
            BAR - 2,
            LABELS as f64 + width + 4.0,
            y + BAR - 2,
            speed.median
        );
        y += BAR;
    }
    y + GAP
}
