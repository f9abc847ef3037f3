//! The bytes of answers, which are the same from one version of this program to the next.
//!
//! `answers.txt` has requests and their answers. A line that begins with `==` names the unit. The others are a CDB, `+` and its
//! parameter list, `=` and the status of the answer, and its data: for a failure the length of the sense, and the sense.
//! `ANSWERS=overwrite cargo test -p strongroom-iscsi --test answers` writes the answers of this version.

mod common;

use std::sync::Arc;

use block::MemoryDevice;
use common::initiator::Initiator;
use common::{Kept, Portal, TARGET};
use iscsi::{LogicalUnit, ReservationStore};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/answers.txt");

/// Bytes in hexadecimal; four and more of the same one with their count.
fn write_bytes(bytes: &[u8]) -> String {
    let runs = bytes.chunk_by(|a, b| a == b).map(|run| match run.len() {
        len @ 0..4 => vec![format!("{:02x}", run[0]); len].join(" "),
        len => format!("{:02x}*{len}", run[0]),
    });
    runs.collect::<Vec<_>>().join(" ")
}

/// Reads bytes as [`write_bytes`] writes them.
fn read_bytes(text: &str) -> Vec<u8> {
    let runs = text.split_whitespace().flat_map(|word| {
        let (byte, count) = word.split_once('*').unwrap_or((word, "1"));
        vec![u8::from_str_radix(byte, 16).unwrap(); count.parse().unwrap()]
    });
    runs.collect()
}

/// The unit of a section at a portal.
fn portal(unit: &str) -> Portal {
    let keeper: Option<Arc<dyn ReservationStore>> = match unit {
        "writable" => Some(Arc::new(Kept::default())),
        _ => None,
    };
    let device = Arc::new(MemoryDevice::new(64 << 20));
    let read_only = unit == "read-only";
    let made = LogicalUnit::with_keeper("disk", 1, device, read_only, keeper).unwrap();
    let luns = match unit {
        "absent" => vec![7, 300],
        _ => vec![0, 300],
    };
    let views = luns.iter().map(|lun| made.view(*lun, None, false).unwrap());
    Portal::with_views(views.collect())
}

fn answer(initiator: &mut Initiator, request: &str) -> String {
    let (cdb, list) = request.split_once('+').unwrap_or((request, ""));
    let (cdb, list) = (read_bytes(cdb), read_bytes(list));
    let (flags, expected) = match list.len() {
        0 => (0x40, 1 << 20),
        len => (0x20, len),
    };
    initiator.send(flags | 1, &cdb, &list, expected);
    let mut data = Vec::new();
    loop {
        let pdu = initiator.hear();
        data.extend(&pdu.data);
        if pdu.opcode() == 0x21 || pdu.head[1] & 1 != 0 {
            let answer = format!("{:02x}: {}", pdu.head[3], write_bytes(&data));
            return answer.trim_end().to_owned();
        }
    }
}

#[test]
fn answers_have_the_bytes_that_they_always_had() {
    let expected = std::fs::read_to_string(PATH).unwrap();
    let (mut all, mut session) = (Vec::new(), None);
    for line in expected.lines() {
        let request = line.split(" =").next().unwrap();
        if let Some(unit) = line.strip_prefix("== ") {
            let portal = portal(unit);
            let initiator = Initiator::log_in(portal.address, "iqn.x:a", 1, TARGET);
            session = Some((portal, initiator));
            all.push(line.to_owned());
        } else if line.starts_with('#') {
            all.push(line.to_owned());
        } else {
            let (_, initiator) = session.as_mut().expect("a unit is named first");
            let answer = answer(initiator, request);
            all.push(format!("{request} = {answer}"));
        }
    }
    if std::env::var_os("ANSWERS").is_some_and(|mode| mode == "overwrite") {
        std::fs::write(PATH, all.join("\n") + "\n").unwrap();
        return;
    }
    for (number, (now, before)) in all.iter().zip(expected.lines()).enumerate() {
        assert_eq!(now, before, "{PATH}:{}", number + 1);
    }
}
