//! Text keys, and what a login agrees on with them (RFC 7143, sections 6 and 13).

use crate::wire::pdu::{DATA_KEPT, Digests, SEGMENT_MAX};

/// A login or a text request has at most so much text.
pub(crate) const TEXT_MAX: usize = 16 << 10;
/// The longest sequence of data, and how much may be sent without being asked for.
const BURST_MAX: u64 = 1 << 20;
const FIRST_BURST_MAX: u64 = 64 << 10;

// Data that were agreed on are kept.
const _: () = assert!(FIRST_BURST_MAX as usize <= DATA_KEPT);

/// `key=value` pairs, as they were sent.
pub(crate) fn pairs(text: &[u8]) -> Option<Vec<(&str, &str)>> {
    let text = str::from_utf8(text).ok()?;
    let pairs = text.split('\0').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=')).collect()
}

/// Appends one pair.
pub(crate) fn put(out: &mut Vec<u8>, key: &str, value: &str) {
    out.extend(key.as_bytes());
    out.push(b'=');
    out.extend(value.as_bytes());
    out.push(0);
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionParameters {
    pub(crate) digests: Digests,
    pub(crate) initial_r2t: bool,
    pub(crate) immediate: bool,
    /// The largest data segment that the initiator receives.
    pub(crate) send_max: usize,
    pub(crate) burst: usize,
    pub(crate) first_burst: usize,
}

impl SessionParameters {
    /// Returns the parameters that hold if no key is negotiated.
    pub(crate) fn new() -> SessionParameters {
        SessionParameters {
            digests: Digests::default(),
            initial_r2t: true,
            immediate: true,
            send_max: 8192,
            burst: 256 << 10,
            first_burst: 64 << 10,
        }
    }

    /// Takes what the initiator says of a key of the operational stage, and answers it. `Err` if that cannot be
    /// meant.
    pub(crate) fn negotiate(&mut self, key: &str, value: &str) -> Result<Option<String>, ()> {
        let answer = match key {
            "HeaderDigest" => digest(value, &mut self.digests.head),
            "DataDigest" => digest(value, &mut self.digests.data),
            "InitialR2T" => {
                self.initial_r2t = truth(value)?;
                value.into()
            }
            "ImmediateData" => {
                self.immediate = truth(value)?;
                value.into()
            }
            "MaxRecvDataSegmentLength" => {
                self.send_max = number(value, 512, 0xff_ffff)?.min(SEGMENT_MAX as u64) as usize;
                return Ok(None);
            }
            "MaxBurstLength" => {
                self.burst = number(value, 512, 0xff_ffff)?.min(BURST_MAX) as usize;
                self.burst.to_string()
            }
            "FirstBurstLength" => {
                self.first_burst = number(value, 512, 0xff_ffff)?.min(FIRST_BURST_MAX) as usize;
                self.first_burst.to_string()
            }
            "MaxConnections" | "MaxOutstandingR2T" => {
                number(value, 1, 0xffff)?;
                "1".into()
            }
            "DefaultTime2Wait" => number(value, 0, 3600)?.max(2).to_string(),
            "DefaultTime2Retain" => number(value, 0, 3600).map(|_| "0".into())?,
            "ErrorRecoveryLevel" => number(value, 0, 2).map(|_| "0".into())?,
            "DataPDUInOrder" | "DataSequenceInOrder" => truth(value).map(|_| "Yes".into())?,
            "IFMarker" | "OFMarker" => truth(value).map(|_| "No".into())?,
            "TaskReporting" => "RFC3720".into(),
            "iSCSIProtocolLevel" => number(value, 0, 31)?.min(1).to_string(),
            _ => "NotUnderstood".into(),
        };
        Ok(Some(answer))
    }
}

/// The first of the offered ones that is known.
fn digest(offered: &str, is_on: &mut bool) -> String {
    for one in offered.split(',') {
        match one {
            "CRC32C" | "None" => {
                *is_on = one == "CRC32C";
                return one.into();
            }
            _ => {}
        }
    }
    "Reject".into()
}

fn truth(value: &str) -> Result<bool, ()> {
    match value {
        "Yes" => Ok(true),
        "No" => Ok(false),
        _ => Err(()),
    }
}

/// Bytes, as digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    format!("0x{}", encoding::hex(bytes))
}

/// Bytes, as hexadecimal digits or in base 64; at most `most`.
pub(crate) fn binary(value: &str, most: usize) -> Option<Vec<u8>> {
    let (base, digits) = value.split_at_checked(2)?;
    if digits.len() > 2 * most {
        return None;
    }
    let bytes = match base {
        "0x" | "0X" => from_hex(digits),
        "0b" | "0B" => from_base64(digits),
        _ => None,
    };
    bytes.filter(|bytes| bytes.len() <= most)
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let mut bytes = Vec::with_capacity(digits.len() / 2 + 1);
    // A zero at the front may be left out.
    let (first, pairs) = digits.as_bytes().split_at(digits.len() % 2);
    for pair in std::iter::once(first)
        .filter(|it| !it.is_empty())
        .chain(pairs.chunks(2))
    {
        let byte = pair
            .iter()
            .try_fold(0, |sum, digit| Some(sum << 4 | value(*digit)?))?;
        bytes.push(byte as u8);
    }
    Some(bytes)
}

fn from_base64(digits: &str) -> Option<Vec<u8>> {
    let text = digits.trim_end_matches('=');
    if !digits.len().is_multiple_of(4) || digits.len() - text.len() > 2 {
        return None;
    }
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for digit in text.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, count) = ((bits << 6 | u32::from(value)) & 0xffff, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

/// A number, decimal or hexadecimal.
pub(crate) fn number(value: &str, least: u64, most: u64) -> Result<u64, ()> {
    let number = match value
        .strip_prefix("0x")
        .or_else(|| value.strip_prefix("0X"))
    {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse(),
    };
    number.ok().filter(|n| (least..=most).contains(n)).ok_or(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_two_ways() {
        assert_eq!(hex(&[0, 0xa5]), "0x00a5");
        assert_eq!(binary("0x00A5", 2), Some(vec![0, 0xa5]));
        assert_eq!(binary("0x1a5", 2), Some(vec![1, 0xa5]));
        assert_eq!(binary("0bAKU=", 2), Some(vec![0, 0xa5]));
        assert_eq!(binary("0b/+/+", 3), Some(vec![0xff, 0xef, 0xfe]));
        assert_eq!(binary("0x", 2), Some(vec![]));
        for wrong in [
            "", "0", "1234", "0xg0", "0x+1", "0bAKU", "0b====", "0bA===", "é", "0x010203",
        ] {
            assert_eq!(binary(wrong, 2), None, "{wrong}");
        }
    }

    #[test]
    fn both_sides_agree_on_the_smaller() {
        let mut agreed = SessionParameters::new();
        let mut say = |key, value| agreed.negotiate(key, value).map(Option::unwrap_or_default);
        assert_eq!(say("MaxBurstLength", "16776192"), Ok("1048576".into()));
        assert_eq!(say("FirstBurstLength", "0x200"), Ok("512".into()));
        assert_eq!(say("HeaderDigest", "X-1,CRC32C,None"), Ok("CRC32C".into()));
        assert_eq!(say("DataDigest", "X-1"), Ok("Reject".into()));
        assert_eq!(say("InitialR2T", "No"), Ok("No".into()));
        assert_eq!(say("MaxConnections", "8"), Ok("1".into()));
        assert_eq!(say("X-unknown", "1"), Ok("NotUnderstood".into()));
        assert_eq!(say("MaxRecvDataSegmentLength", "65536"), Ok(String::new()));
        assert_eq!(say("MaxRecvDataSegmentLength", "511"), Err(()));
        assert_eq!(say("ImmediateData", "maybe"), Err(()));
        assert_eq!((agreed.burst, agreed.first_burst), (1 << 20, 512));
        assert_eq!((agreed.send_max, agreed.initial_r2t), (65536, false));
        assert!(agreed.digests.head && !agreed.digests.data);
    }
}
