//! The rows that `strongroom --json verify` printed on another host, which may be hostile.

use encoding::unhex_lower;
use protocol::api::{LostRecords, VerifiedSnapshot};
use protocol::characters::is_hidden;
use serde::Deserialize;

use super::compare::input_of;

/// The most lost parts of a snapshot that are kept.
const LOST_MAX: usize = 100;
/// The longest text of a lost part, in characters.
const TEXT_MAX: usize = 200;

/// A row, as it is printed. Other members are left out.
#[derive(Deserialize)]
struct PrintedSnapshot {
    name: String,
    /// Commands print guids as text.
    guid: String,
    created: u64,
    encrypted: bool,
    seal: String,
    sealed: String,
    records: u64,
    bytes: u64,
    unchecked: u64,
    lost: Vec<LostRecords>,
    lost_count: u64,
    proof: Option<String>,
}

impl PrintedSnapshot {
    fn parse(self) -> Option<VerifiedSnapshot> {
        Some(VerifiedSnapshot {
            guid: self.guid.parse().ok()?,
            name: self.name,
            created: self.created,
            encrypted: self.encrypted,
            seal: self.seal,
            sealed: self.sealed,
            records: self.records,
            bytes: self.bytes,
            unchecked: self.unchecked,
            lost: self.lost,
            lost_count: self.lost_count,
            proof: self.proof,
        })
    }
}

/// The answer of the HTTP API, as far as it matters.
#[derive(Deserialize)]
struct AnsweredSnapshots {
    value: Vec<PrintedSnapshot>,
}

/// The rows in an answer of the HTTP API.
pub(crate) fn answered_of(text: &str, names: &[String]) -> Option<Vec<VerifiedSnapshot>> {
    let answer: AnsweredSnapshots = serde_json::from_str(text).ok()?;
    checked(answer.value, names)
}

/// The rows of the snapshots with these names, in this order. `None` if the text is anything else.
pub(crate) fn verified_of(text: &str, names: &[String]) -> Option<Vec<VerifiedSnapshot>> {
    checked(serde_json::from_str(text).ok()?, names)
}

fn checked(printed: Vec<PrintedSnapshot>, names: &[String]) -> Option<Vec<VerifiedSnapshot>> {
    let rows = printed.into_iter().map(PrintedSnapshot::parse);
    let rows: Vec<VerifiedSnapshot> = rows.collect::<Option<_>>()?;
    let is_asked = rows.iter().map(|row| &row.name).eq(names);
    (is_asked && rows.iter().all(is_valid)).then(|| rows.into_iter().map(bounded).collect())
}

fn is_valid(row: &VerifiedSnapshot) -> bool {
    let is_hash = |text: &String| text.len() == 64 && unhex_lower(text).is_some();
    let is_count = (row.lost.len() as u64) <= row.lost_count;
    is_hash(&row.seal) && row.proof.iter().all(is_hash) && input_of(row).is_some() && is_count
}

/// The row with short texts that a terminal shows as they are.
fn bounded(mut row: VerifiedSnapshot) -> VerifiedSnapshot {
    let shown = |text: String| -> String {
        let shown = text.chars().filter(|c| !is_hidden(*c));
        shown.take(TEXT_MAX).collect()
    };
    row.lost.truncate(LOST_MAX);
    row.lost = row
        .lost
        .into_iter()
        .map(|lost| LostRecords {
            array: shown(lost.array),
            slots: lost.slots.max(1),
            why: shown(lost.why),
            ..lost
        })
        .collect();
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, seal: &str, sealed: &str, why: &str) -> String {
        format!(
            r#"[{{"name": "{name}", "guid": "18446744073709551615", "created": 1, "encrypted": true, "seal": "{seal}",
            "sealed": "{sealed}", "records": 1, "bytes": 2, "unchecked": 0, "lost_count": 1, "proof": null,
            "lost": [{{"array": "data", "slot": 1, "slots": 0, "why": "{why}"}}], "more": [[]]}}]"#
        )
    }

    #[test]
    fn an_answer_is_checked_and_bounded() {
        let seal = "0a".repeat(32);
        let sealed = "00".repeat(282);
        let asked = ["b/a@1".to_owned()];
        let long = "x".repeat(5000);
        let rows = verified_of(&text("b/a@1", &seal, &sealed, &long), &asked).unwrap();
        assert_eq!(rows[0].guid, u64::MAX);
        assert_eq!(
            (rows[0].lost[0].why.len(), rows[0].lost[0].slots),
            (TEXT_MAX, 1)
        );
        let told = text("b/a@1", &seal, &sealed, "a\\u001b[2Jb");
        assert_eq!(verified_of(&told, &asked).unwrap()[0].lost[0].why, "a[2Jb");
        for wrong in [
            "",
            "[]",
            "{}",
            "Welcome to host",
            &text("b/a@2", &seal, &sealed, ""),
            &text("b/a@1", &seal[1..], &sealed, ""),
            &text("b/a@1", &seal, &sealed[2..], ""),
        ] {
            assert!(verified_of(wrong, &asked).is_none(), "{wrong}");
        }
    }
}
