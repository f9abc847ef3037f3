//! Rows of an answer. They are sent in pieces while they are made, so that a long answer needs little memory, and a
//! command ends when its caller has gone.

use protocol::api::{
    AccountRow, AuditRow, DatasetRow, DiffRow, HoldRow, PropertyRow, PropertyValue, ValueSource,
};

use crate::failure::{Failure, Result};
use crate::state::callers::budget::Payer;

/// The size of a piece, in bytes.
const PIECE: u64 = 128 << 10;

/// A row with an estimate of its size, both in memory and as text.
pub(crate) trait SizedRow {
    /// Bytes.
    fn size(&self) -> u64;
}

/// Rows that are sent in pieces.
pub(crate) struct RowStream<'a, T> {
    rows: Vec<T>,
    /// The size of `rows`.
    size: u64,
    /// The size of the rows that may still come.
    left: u64,
    max: u64,
    send: SendRows<'a, T>,
}

/// Sends rows to the caller.
type SendRows<'a, T> = Box<dyn FnMut(Vec<T>) -> Result<()> + 'a>;

impl<'a, T: SizedRow> RowStream<'a, T> {
    /// Rows for a user, whom `send` sends them.
    pub(crate) fn new(payer: Payer, send: impl FnMut(Vec<T>) -> Result<()> + 'a) -> Self {
        RowStream {
            rows: Vec::new(),
            size: 0,
            left: payer.answer_max(),
            max: payer.answer_max(),
            send: Box::new(send),
        }
    }

    pub(crate) fn push(&mut self, row: T) -> Result<()> {
        let size = row.size();
        let left = self.left.checked_sub(size);
        self.left = left.ok_or_else(|| too_large(self.max))?;
        self.size += size;
        self.rows.push(row);
        if self.size >= PIECE {
            self.size = 0;
            (self.send)(std::mem::take(&mut self.rows))?;
        }
        Ok(())
    }

    /// The rows that were not sent. They are the end of the answer.
    pub(crate) fn into_rest(self) -> Vec<T> {
        self.rows
    }
}

fn too_large(max: u64) -> Failure {
    Failure::usage(format!(
        "the answer would be larger than {} MiB; ask for less at a time, such as fewer datasets or properties",
        max >> 20
    ))
}

/// The size of what surrounds the texts of a row.
const FRAME: u64 = 48;

fn text(text: &str) -> u64 {
    FRAME + 2 * text.len() as u64
}

impl SizedRow for DatasetRow {
    fn size(&self) -> u64 {
        let props = self.props.iter().map(size_of_property);
        text(&self.name) + text(&self.kind) + props.sum::<u64>()
    }
}

fn size_of_property(prop: &PropertyRow) -> u64 {
    let value = match &prop.value {
        PropertyValue::Text(value) => text(value),
        _ => FRAME,
    };
    let source = match &prop.source {
        ValueSource::Inherited(from) => text(from),
        _ => FRAME,
    };
    text(&prop.property) + value + source
}

impl SizedRow for HoldRow {
    fn size(&self) -> u64 {
        text(&self.name) + text(&self.tag)
    }
}

impl SizedRow for AuditRow {
    fn size(&self) -> u64 {
        8 * FRAME + text(&self.pool) + text(&self.who) + text(&self.command)
    }
}

impl SizedRow for AccountRow {
    fn size(&self) -> u64 {
        4 * FRAME + self.name.as_deref().map_or(0, text)
    }
}

impl SizedRow for DiffRow {
    fn size(&self) -> u64 {
        2 * FRAME + text(&self.path) + self.new_path.as_deref().map_or(0, text)
    }
}

#[cfg(test)]
mod tests {
    use protocol::api::FailureKind;

    use super::*;

    fn row(at: u64) -> HoldRow {
        HoldRow {
            name: "tank/a@1".into(),
            tag: "t".repeat(100),
            time: at,
            until: None,
        }
    }

    #[test]
    fn rows_are_sent_in_pieces_and_in_order() {
        let mut sent: Vec<HoldRow> = Vec::new();
        let mut pieces = 0;
        let mut rows = RowStream::new(Payer::User(1), |piece| {
            assert!(piece.iter().map(SizedRow::size).sum::<u64>() < 2 * PIECE);
            pieces += 1;
            sent.extend(piece);
            Ok(())
        });
        for at in 0..10_000 {
            rows.push(row(at)).unwrap();
        }
        let rest = rows.into_rest();
        assert!(pieces > 10 && !rest.is_empty());
        sent.extend(rest);
        assert!(sent.iter().map(|row| row.time).eq(0..10_000));
    }

    #[test]
    fn an_answer_has_a_limit_and_ends_with_its_caller() {
        let mut rows = RowStream::new(Payer::User(1), |_| Ok(()));
        let refused = (0..).find_map(|at| rows.push(row(at)).err()).unwrap();
        assert_eq!(refused.kind, FailureKind::Usage);
        let mut rows = RowStream::new(Payer::Root, |_| Err(Failure::other("gone")));
        let lost = (0..).find_map(|at| rows.push(row(at)).err()).unwrap();
        assert_eq!(lost.message, "gone");
    }
}
