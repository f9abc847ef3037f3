//! Reads bytes from initiators, for `fuzz/` and for tests of this crate.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use block::{HelperBudget, MemoryDevice, TransferPool, TransferShare};
use parking_lot::Mutex;

use crate::login::chap::{Chap, ChapQuestion};
use crate::login::negotiation::{NewSession, SessionPurpose, login};
use crate::scsi::reservation::{Action, Nexus, Reservations, ReserveOutCommand};
use crate::session::serve;
use crate::targets::portal::Targets;
use crate::targets::target::{IscsiTarget, TargetAccess, Who};
use crate::wire::keys::SessionParameters;
use crate::wire::link::{InitiatorLink, PduBuffer};

/// The name of the target that there is.
const TARGET: &str = "iqn.2026-01.org.example:disk";
/// The name of the target that initiators prove a secret to.
const CLOSED: &str = "iqn.2026-01.org.example:closed";
/// The name of a target for another initiator, which proves no secret.
const HIDDEN: &str = "iqn.2026-01.org.example:hidden";
/// The size of its device.
const SIZE: usize = 64 << 10;

/// An initiator that has said everything. What it is told is kept.
struct ScriptedInitiator {
    rest: Mutex<Vec<u8>>,
    told: Mutex<Vec<u8>>,
}

impl ScriptedInitiator {
    fn new(bytes: &[u8]) -> Arc<ScriptedInitiator> {
        Arc::new(ScriptedInitiator {
            rest: Mutex::new(bytes.to_vec()),
            told: Mutex::default(),
        })
    }
}

impl InitiatorLink for ScriptedInitiator {
    fn receive(&self, out: &mut [u8]) -> io::Result<usize> {
        let mut rest = self.rest.lock();
        let n = out.len().min(rest.len());
        out[..n].copy_from_slice(&rest[..n]);
        rest.drain(..n);
        Ok(n)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.told.lock().extend(bytes);
        Ok(())
    }

    fn begin_session(&self, _: Duration) {}

    fn cut(&self) {
        self.rest.lock().clear();
    }

    fn portal(&self) -> String {
        "192.0.2.1:3260".into()
    }

    fn peer(&self) -> String {
        "192.0.2.2:1024".into()
    }
}

/// Secrets in place of hashes, and a challenge that is always the same.
#[derive(Debug)]
struct FixedChap;

impl FixedChap {
    fn answer(secret: u8, question: &ChapQuestion<'_>) -> Vec<u8> {
        let sum = question
            .challenge
            .iter()
            .fold(secret, |sum, byte| sum.wrapping_add(*byte));
        vec![sum ^ question.id; 16]
    }
}

impl Chap for FixedChap {
    fn answer_len(&self, hash: u8) -> Option<usize> {
        (5..=7).contains(&hash).then_some(16)
    }

    fn random(&self, out: &mut [u8]) -> io::Result<()> {
        out.fill(7);
        Ok(())
    }

    fn has_user(&self, user: &str) -> bool {
        user == "user"
    }

    fn is_answer(&self, user: &str, question: &ChapQuestion<'_>, answer: &[u8]) -> bool {
        user == "user" && answer == FixedChap::answer(1, question)
    }

    fn own_answer(&self, question: &ChapQuestion<'_>) -> Option<(String, Vec<u8>)> {
        Some(("target".into(), FixedChap::answer(2, question)))
    }
}

fn targets(read_only: bool) -> Targets {
    let targets = Targets::default();
    let access = TargetAccess {
        read_only,
        ..TargetAccess::default()
    };
    let closed = TargetAccess {
        chap: Some(Arc::new(FixedChap)),
        ..TargetAccess::default()
    };
    let hidden = TargetAccess {
        initiators: vec!["iqn.other:z".into()],
        ..TargetAccess::default()
    };
    for (name, access) in [(TARGET, access), (CLOSED, closed), (HIDDEN, hidden)] {
        let device = Arc::new(MemoryDevice::new(SIZE));
        let target = IscsiTarget::new(name, 1, device, access).expect("it is aligned");
        targets.insert(Arc::new(target)).expect("there is no such");
    }
    targets
}

/// The memory of one session.
fn memory() -> TransferShare {
    TransferPool::new(16 << 20).share(None)
}

/// An initiator that begins with these bytes, up to whatever it comes to. Returns what it is told.
pub fn connection(bytes: &[u8]) -> Vec<u8> {
    connection_to(&targets(false), bytes)
}

fn connection_to(targets: &Targets, bytes: &[u8]) -> Vec<u8> {
    let script = ScriptedInitiator::new(bytes);
    let link: Arc<dyn InitiatorLink> = script.clone();
    let mut input = PduBuffer::new();
    if let Ok(Some(session)) = login(&link, &mut input, targets, &memory(), &|| true, &|| true) {
        let _ = serve(&link, &mut input, session, targets, &HelperBudget::new(0));
    }
    script.told.lock().clone()
}

/// An initiator that has logged in and says these bytes. The first byte is what was agreed on. Returns what it
/// is told.
pub fn commands(bytes: &[u8]) -> Vec<u8> {
    let (how, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let script = ScriptedInitiator::new(bytes);
    let link: Arc<dyn InitiatorLink> = script.clone();
    let targets = targets(how & 1 != 0);
    let target = targets.find(TARGET).expect("it is there");
    let mut agreed = SessionParameters::new();
    agreed.initial_r2t = how & 2 != 0;
    agreed.immediate = how & 4 == 0;
    agreed.digests.data = how & 8 != 0;
    if how & 16 != 0 {
        (agreed.send_max, agreed.burst, agreed.first_burst) = (513, 1024, 512);
    }
    let who = Who {
        initiator: "iqn.x:y".into(),
        isid: [0; 6],
        user: None,
    };
    let attached = target.attach(&link, who);
    let session = NewSession {
        purpose: match how & 32 {
            0 => SessionPurpose::Use(attached.unwrap_or_else(|_| unreachable!("it is open"))),
            _ => SessionPurpose::Discovery(Vec::new()),
        },
        initiator: "iqn.x:y".into(),
        agreed,
        cid: [0; 2],
        numbers: (1, 1),
        memory: memory(),
        reserved: None,
    };
    let _ = serve(
        &link,
        &mut PduBuffer::new(),
        session,
        &targets,
        &HelperBudget::new(0),
    );
    script.told.lock().clone()
}

/// A text with reservations, and then orders that change them: eight bytes each. Returns the text of what is
/// reserved then.
///
/// # Panics
/// If a text is not read as it was written, or one holds a reservation that has not registered.
pub fn reservations(bytes: &[u8]) -> String {
    let (text, orders) = match bytes.iter().position(|byte| *byte == 0) {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[][..]),
    };
    let read = str::from_utf8(text).ok().and_then(Reservations::from_text);
    let mut now = read.unwrap_or_default();
    for order in orders.chunks_exact(8) {
        let nexus = Nexus {
            initiator: format!("iqn.x:{}", order[0] % 4),
            isid: [0, 0, 0, 0, 0, order[0] >> 7],
        };
        let action = match order[1] % 8 {
            0 => Action::Register,
            1 => Action::Reserve,
            2 => Action::Release,
            3 => Action::Clear,
            4 => Action::Preempt { abort: false },
            5 => Action::Preempt { abort: true },
            6 => Action::RegisterAndIgnore,
            _ => {
                let _ = now.simply(&nexus, order[2] & 1 != 0);
                continue;
            }
        };
        let order = ReserveOutCommand {
            action,
            what: order[2],
            key: order[3].into(),
            other: order[4].into(),
            keep: order[5] & 1 != 0,
            all_ports: order[5] & 2 != 0,
        };
        if let Ok((new, _)) = now.after(&nexus, &order) {
            now = new;
        }
        let held = now.summary().1;
        assert!(held.is_none_or(|held| !held.1.is_empty()));
        let again = Reservations::from_text(&now.to_text()).expect("it is one");
        assert_eq!(again.to_text(), now.to_text());
    }
    now.to_text()
}

#[cfg(test)]
mod logins;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::pdu::{
        FINAL, HEAD, NO_TAG, PduHeader, command, command_response, common, data, ready, request,
        response, sent,
    };

    /// A PDU with its padding.
    pub(super) fn pdu(mut head: PduHeader, data: &[u8]) -> Vec<u8> {
        head.set_data_len(data.len());
        let mut bytes = head.0.to_vec();
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn command(number: u32, flags: u8, expected: u32, cdb: &[u8], data: &[u8]) -> Vec<u8> {
        let mut head = PduHeader::new(request::COMMAND, flags);
        head.set(common::TAG, 100 + number);
        head.set(command::EXPECTED_LEN, expected);
        head.set(sent::COMMAND_NUMBER, number);
        head.set_cdb(cdb);
        pdu(head, data)
    }

    fn data_out(tag: u32, transfer: u32, flags: u8, offset: u32, data: &[u8]) -> Vec<u8> {
        let mut head = PduHeader::new(request::DATA, flags);
        head.set(common::TAG, tag);
        head.set(common::TRANSFER_TAG, transfer);
        head.set(data::OFFSET, offset);
        pdu(head, data)
    }

    /// The heads and the data of what was told.
    pub(super) fn heads(mut told: &[u8]) -> Vec<(PduHeader, Vec<u8>)> {
        let mut all = Vec::new();
        while !told.is_empty() {
            let head = PduHeader(*told.first_chunk().unwrap());
            let len = head.data_len();
            all.push((head, told[HEAD..HEAD + len].to_vec()));
            told = &told[HEAD + len.next_multiple_of(4)..];
        }
        all
    }

    const READ: u8 = FINAL | 0x40;
    const WRITE: u8 = FINAL | 0x20;
    /// Says what the unit attention after a login is, and has it go.
    pub(super) fn ready() -> Vec<u8> {
        command(1, FINAL, 0, &[0], &[])
    }

    /// The status and the sense of the last answer.
    fn last(told: &[u8]) -> (u8, [u8; 3]) {
        let (head, data) = heads(told).pop().unwrap();
        let sense = match data.len() {
            20 => [data[4], data[14], data[15]],
            _ => [0; 3],
        };
        (head.get(command_response::STATUS), sense)
    }

    #[test]
    fn a_write_is_asked_for_and_can_be_read() {
        let block = [7; 1024];
        let mut said = vec![2 | 4];
        said.extend(ready());
        let write = [0x2a, 0, 0, 0, 0, 3, 0, 0, 2, 0];
        said.extend(command(2, WRITE, 1024, &write, &[]));
        said.extend(data_out(102, 0, 0, 0, &block[..512]));
        let mut second = data_out(102, 0, FINAL, 512, &block[512..]);
        second[39] = 1;
        said.extend(second);
        let read = [0x28, 0, 0, 0, 0, 3, 0, 0, 2, 0];
        said.extend(command(3, READ, 1024, &read, &[]));
        let told = heads(&commands(&said));
        assert_eq!(told[0].1[4..].first(), Some(&6), "a unit attention");
        let ready = &told[1].0;
        assert_eq!(
            (ready.opcode(), ready.get(ready::WANTED_LEN)),
            (response::READY, 1024)
        );
        assert_eq!(
            (told[2].0.opcode(), told[2].0.get(command_response::STATUS)),
            (response::COMMAND, 0)
        );
        assert_eq!(told[3].0.opcode(), response::DATA);
        assert!(told[3].1 == block);
    }

    #[test]
    fn what_does_not_lie_on_the_unit_is_refused() {
        let say = |how: u8, flags, expected, cdb: &[u8], data: &[u8]| {
            let mut said = vec![how];
            said.extend(ready());
            said.extend(command(2, flags, expected, cdb, data));
            last(&commands(&said))
        };
        let beyond = [0x28, 0, 0, 0, 0, 127, 0, 0, 2, 0];
        assert_eq!(say(0, READ, 1024, &beyond, &[]), (2, [5, 0x21, 0]));
        let far = [
            0x88, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 1, 0, 0,
        ];
        assert_eq!(say(0, READ, 512, &far, &[]), (2, [5, 0x21, 0]));
        assert_eq!(say(0, READ, 512, &[0xc0], &[]), (2, [5, 0x20, 0]));
        let write = [0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        assert_eq!(say(1, WRITE, 512, &write, &[1; 512]), (2, [7, 0x27, 0]));
        assert_eq!(say(0, WRITE, 512, &write, &[1; 512]), (0, [0; 3]));
        // Half a block is not written.
        assert_eq!(say(0, WRITE, 256, &write, &[1; 256]), (2, [5, 0x0e, 3]));
        let mut unmap = vec![0, 22, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 127];
        unmap.extend([0, 0, 0, 2, 0, 0, 0, 0]);
        let list = [0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0];
        assert_eq!(say(0, WRITE, 24, &list, &unmap), (2, [5, 0x21, 0]));
        unmap[19] = 1;
        assert_eq!(say(0, WRITE, 24, &list, &unmap), (0, [0; 3]));
    }

    /// Each row of the table of commands, with nothing else in it.
    #[test]
    fn a_read_only_view_gets_no_command_that_changes_something() {
        use crate::scsi::table::{COMMANDS, Right};
        for known in COMMANDS {
            let mut cdb = [0; 16];
            cdb[0] = known.opcode();
            cdb[1] = known.action.unwrap_or(0) as u8;
            let mut said = vec![1];
            said.extend(ready());
            said.extend(command(2, FINAL, 0, &cdb, &[]));
            let is_protected = last(&commands(&said)) == (2, [7, 0x27, 0]);
            assert_eq!(is_protected, known.right == Right::Change, "{cdb:02x?}");
        }
    }

    #[test]
    fn data_that_were_not_asked_for_have_no_effect() {
        let write = [0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        for (transfer, offset, number) in [(9, 0, 0), (0, 512, 0), (0, 0, 5), (NO_TAG, 0, 0)] {
            let mut said = vec![2 | 4];
            said.extend(ready());
            said.extend(command(2, WRITE, 512, &write, &[]));
            let mut data = data_out(102, transfer, FINAL, offset, &[9; 512]);
            data[39] = number;
            said.extend(data);
            assert_eq!(last(&commands(&said)), (2, [11, 0x0c, 0x0d]));
        }
    }

    /// Input that resembles commands, and input that does not. The fuzzer tries more of it.
    #[test]
    fn nothing_that_is_said_makes_it_panic() {
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 40) as u8
        };
        let codes: Vec<u8> = crate::scsi::opcodes().collect();
        for _ in 0..5000 {
            let mut said = vec![next()];
            for number in 1..=u32::from(next() % 8) {
                let mut cdb = [0; 16];
                cdb[0] = codes[usize::from(next()) % codes.len()];
                for byte in &mut cdb[1..] {
                    *byte = if next() % 4 == 0 { next() } else { 0 };
                }
                let data = vec![next(); usize::from(next()) * 8];
                let flags = next() & 0xe0;
                let expected = if next() % 8 == 0 {
                    u32::from(next()) << 20
                } else {
                    data.len() as u32
                };
                said.extend(command(number, flags, expected, &cdb, &data));
                let offset = u32::from(next() % 3) * 512;
                said.extend(data_out(
                    100 + number,
                    u32::from(next() % 3),
                    next() & 0x80,
                    offset,
                    &data,
                ));
            }
            commands(&said);
            connection(&said[1..]);
            let mut orders = vec![0];
            orders.extend((0..400).map(|_| next() % 10));
            reservations(&orders);
        }
    }
}
