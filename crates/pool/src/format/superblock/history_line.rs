//! The lines of the history: what was done to the pool, by whom and when.

use crate::format::codec::{ValueReader, ValueWriter};

/// A line is cut at this many bytes.
const TEXT_MAX: usize = 2000;

/// A line of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryLine {
    /// Seconds since 1970.
    pub time: u64,
    /// The transaction group that did it.
    pub txg: u64,
    /// True if it is what the pool did by itself, and not a command.
    pub internal: bool,
    /// The user, as `user on host`.
    pub who: String,
    /// The text of the line.
    pub text: String,
}

impl HistoryLine {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = ValueWriter::default();
        w.u8(1)
            .u64(self.time)
            .u64(self.txg)
            .u8(self.internal.into());
        w.text(cut(&self.who)).text(cut(&self.text));
        w.bytes
    }

    fn decode(r: &mut ValueReader<'_>) -> Option<HistoryLine> {
        Some(HistoryLine {
            time: r.u64()?,
            txg: r.u64()?,
            internal: r.u8()? != 0,
            who: r.text()?,
            text: r.text()?,
        })
    }
}

fn cut(text: &str) -> &str {
    let mut len = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    &text[..len]
}

/// The lines of a record: each begins with a 1, the first 0 ends them.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<HistoryLine>> {
    let mut r = ValueReader::new(bytes);
    let mut lines = Vec::new();
    while !r.is_at_end() {
        match r.u8()? {
            0 => break,
            1 => lines.push(HistoryLine::decode(&mut r)?),
            _ => return None,
        }
    }
    Some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_round_trip_and_decoding_is_total() {
        let line = |text: &str| HistoryLine {
            time: 1,
            txg: 2,
            internal: true,
            who: "root on host".into(),
            text: text.into(),
        };
        let mut bytes = line("create").encode();
        bytes.extend(line("snapshot").encode());
        let len = bytes.len();
        bytes.resize(4096, 0);
        assert_eq!(decode(&bytes), Some(vec![line("create"), line("snapshot")]));
        for cut in 1..len {
            let _ = decode(&bytes[..cut]);
            let mut bad = bytes.clone();
            bad[cut] ^= 0x55;
            let _ = decode(&bad);
        }
        assert_eq!(cut(&"é".repeat(2000)).len(), TEXT_MAX);
    }
}
