//! Text keys, and what a login agrees on with them (RFC 7143, sections 6 and 13).

use crate::pdu::{Digests, SEGMENT_MAX};

/// A login or a text request has at most so much text.
pub(crate) const TEXT_MAX: usize = 16 << 10;
/// The longest sequence of data, and how much may be sent without being asked for.
const BURST_MAX: u64 = 1 << 20;
const FIRST_BURST_MAX: u64 = 64 << 10;

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

/// What a session follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreed {
    pub(crate) digests: Digests,
    pub(crate) initial_r2t: bool,
    pub(crate) immediate: bool,
    /// What the initiator receives in one PDU at most.
    pub(crate) send_max: usize,
    pub(crate) burst: usize,
    pub(crate) first_burst: usize,
}

impl Agreed {
    /// What holds if nothing is said.
    pub(crate) fn new() -> Agreed {
        Agreed {
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

/// A number, decimal or hexadecimal.
fn number(value: &str, least: u64, most: u64) -> Result<u64, ()> {
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
    fn both_sides_agree_on_the_smaller() {
        let mut agreed = Agreed::new();
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
