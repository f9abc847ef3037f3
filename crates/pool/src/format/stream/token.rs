//! Resume tokens: they name the position from which an interrupted stream continues.

use std::fmt;

use super::StreamPosition;
use crate::format::codec::{ValueReader, ValueWriter};
use crate::format::records::pointer::checksum;
use crate::names::DatasetName;

/// The version of tokens for streams of sealed records.
const VERSION_SEALED: u8 = 1;
/// The version of tokens for streams in the clear.
const VERSION_PLAIN: u8 = 2;

/// The name of a stream that was received in part, and the position that the receiver reached. As text it can be
/// carried to the sender; it holds nothing that a stream does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeToken {
    /// The snapshot that is to come.
    pub to_guid: u64,
    /// The snapshot that it began at, or 0.
    pub from_guid: u64,
    /// The name of the snapshot where it came from.
    pub name: String,
    /// The position of the next record.
    pub next: StreamPosition,
    /// True if the stream is in the clear.
    pub plain: bool,
}

impl fmt::Display for ResumeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut w = ValueWriter::default();
        let version = match self.plain {
            false => VERSION_SEALED,
            true => VERSION_PLAIN,
        };
        w.u8(version).u64(self.to_guid).u64(self.from_guid);
        w.u8(self.next.array).u64(self.next.slot).text(&self.name);
        let sum = checksum(&w.bytes);
        w.bytes.extend_from_slice(&sum[..4]);
        f.write_str(&encoding::hex(&w.bytes))
    }
}

impl ResumeToken {
    /// Reads a token; `None` if the text is none.
    pub fn parse(text: &str) -> Option<ResumeToken> {
        if text.len() > 1024 {
            return None;
        }
        let bytes = encoding::unhex(text)?;
        let (bytes, sum) = bytes.split_last_chunk::<4>()?;
        if checksum(bytes)[..4] != *sum {
            return None;
        }
        let mut r = ValueReader::new(bytes);
        let plain = match r.u8()? {
            VERSION_SEALED => false,
            VERSION_PLAIN => true,
            _ => return None,
        };
        let (to_guid, from_guid) = (r.u64()?, r.u64()?);
        let next = StreamPosition::checked(r.u8()?, r.u64()?)?;
        let name = r.text()?;
        let is_snapshot = DatasetName::parse(&name).is_ok_and(|name| name.snapshot.is_some());
        (r.is_at_end() && is_snapshot).then_some(ResumeToken {
            to_guid,
            from_guid,
            name,
            next,
            plain,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip_and_others_are_refused() {
        for plain in [false, true] {
            round_trip(plain);
        }
    }

    fn round_trip(plain: bool) {
        let token = ResumeToken {
            plain,
            to_guid: 0x1234,
            from_guid: u64::MAX,
            name: "tank/a@s".into(),
            next: StreamPosition { array: 1, slot: 77 },
        };
        let text = token.to_string();
        assert_eq!(ResumeToken::parse(&text), Some(token));
        for at in 0..text.len() {
            assert_eq!(ResumeToken::parse(&text[..at]), None);
            let mut other = text.clone().into_bytes();
            other[at] = if other[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(
                ResumeToken::parse(std::str::from_utf8(&other).unwrap()),
                None
            );
        }
        for odd in ["", "zz", "+1", "é", "00000000"] {
            assert_eq!(ResumeToken::parse(odd), None);
        }
    }
}
