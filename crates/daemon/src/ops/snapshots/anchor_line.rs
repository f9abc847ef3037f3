//! Anchors as lines of text, for users.

use cipher::hash;
use protocol::api::DatasetAnchor;

const FIRST: &str = "strongroom-anchor-1";

/// The anchor as a line. It ends with a checksum against typing errors, and the name.
pub fn write(anchor: &DatasetAnchor) -> String {
    let head = format!(
        "{FIRST} pool={:016x} txg={} dataset={:016x} sequence={} seal={}",
        anchor.pool_guid, anchor.txg, anchor.guid, anchor.sequence, anchor.seal
    );
    let check = check_of(&head);
    format!("{head} check={check} name={}", anchor.dataset)
}

/// Reads a line; `None` if it is not an anchor, or has a typing error.
pub fn read(line: &str) -> Option<DatasetAnchor> {
    let (head, rest) = line.trim().split_once(" check=")?;
    let (check, name) = rest.split_once(" name=")?;
    let mut words = head.split(' ');
    if words.next() != Some(FIRST) || check != check_of(head) {
        return None;
    }
    let mut field = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
    let guid = |text: &str| u64::from_str_radix(text, 16).ok();
    let anchor = DatasetAnchor {
        dataset: name.to_owned(),
        pool_guid: guid(field("pool")?)?,
        txg: field("txg")?.parse().ok()?,
        guid: guid(field("dataset")?)?,
        sequence: field("sequence")?.parse().ok()?,
        seal: field("seal")?.to_owned(),
    };
    let is_seal = anchor.seal.len() == 64 && anchor.seal.bytes().all(|b| b.is_ascii_hexdigit());
    is_seal.then_some(anchor)
}

fn check_of(head: &str) -> String {
    let sum = hash(head.as_bytes());
    encoding::hex(&sum[..4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_round_trip_and_mistyped_ones_are_refused() {
        let anchor = DatasetAnchor {
            dataset: "tank/home of ann".into(),
            pool_guid: 0x123,
            txg: 45,
            guid: u64::MAX,
            sequence: 6,
            seal: "0a".repeat(32),
        };
        let line = write(&anchor);
        assert_eq!(read(&line), Some(anchor));
        assert_eq!(read("strongroom-anchor-1"), None);
        let up_to_name = line.find(" name=").unwrap();
        for at in 0..up_to_name {
            let mut typed = line.clone().into_bytes();
            typed[at] ^= 1;
            let typed = String::from_utf8(typed).unwrap();
            assert_eq!(read(&typed), None, "{typed}");
        }
    }
}
