//! Tables: aligned for people, or separated by tabs for scripts.

use super::text;

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub header: String,
    /// True if its cells are aligned to the right, as numbers are.
    pub right: bool,
}

impl Column {
    /// A column of words.
    pub fn left(header: impl Into<String>) -> Column {
        Column {
            header: header.into(),
            right: false,
        }
    }

    /// A column of numbers.
    pub fn right(header: impl Into<String>) -> Column {
        Column {
            header: header.into(),
            right: true,
        }
    }
}

/// A table with a header, or for a script without one and with a tab between columns.
pub fn show(columns: &[Column], rows: &[Vec<String>], script: bool) -> String {
    let clean = |row: &Vec<String>| -> Vec<String> {
        row.iter()
            .map(|cell| text::in_a_cell(cell).into_owned())
            .collect()
    };
    let mut lines: Vec<Vec<String>> = rows.iter().map(clean).collect();
    if script {
        let lines = lines.iter().map(|cells| cells.join("\t") + "\n");
        return lines.collect();
    }
    lines.insert(
        0,
        columns.iter().map(|column| column.header.clone()).collect(),
    );
    aligned(columns, &lines)
}

/// Lines of cells with two spaces between columns, and none at the end of a line.
fn aligned(columns: &[Column], lines: &[Vec<String>]) -> String {
    let width = |at: usize| {
        let cells = lines.iter().map(|line| line[at].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut out = String::new();
    for line in lines {
        let mut text = String::new();
        for ((cell, column), &width) in line.iter().zip(columns).zip(&widths) {
            if !text.is_empty() {
                text += "  ";
            }
            text += &match column.right {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            };
        }
        out += text.trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> (Vec<Column>, Vec<Vec<String>>) {
        let columns = vec![
            Column::left("NAME"),
            Column::right("USED"),
            Column::left("MOUNTPOINT"),
        ];
        let row = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let rows = vec![
            row(["tank", "96K", "/tank"]),
            row(["tank/größe", "1.23G", "a\tb"]),
        ];
        (columns, rows)
    }

    #[test]
    fn for_people() {
        let (columns, rows) = example();
        assert_eq!(
            show(&columns, &rows, false),
            "\
NAME         USED  MOUNTPOINT
tank          96K  /tank
tank/größe  1.23G  a\\tb
"
        );
    }

    #[test]
    fn for_scripts() {
        let (columns, rows) = example();
        assert_eq!(
            show(&columns, &rows, true),
            "tank\t96K\t/tank\ntank/größe\t1.23G\ta\\tb\n"
        );
        assert_eq!(show(&columns, &[], true), "");
    }

    #[test]
    fn an_empty_first_cell_keeps_its_place() {
        let columns = [Column::left("A"), Column::left("B")];
        let rows = [vec![String::new(), "x".into()]];
        assert_eq!(show(&columns, &rows, false), "A  B\n   x\n");
    }
}
