//! Follows what an initiator sees of its target.

use std::sync::Arc;

use super::SessionConnection;
use super::units::{Units, VisibleUnit};
use crate::scsi::execute::lun_of;
use crate::scsi::sense::Sense;
use crate::scsi::unit::ScsiUnit;

impl SessionConnection<'_, '_> {
    /// Returns the unit that the initiator sees under a number.
    pub(super) fn seen(&self, lun: [u8; 8]) -> Option<&VisibleUnit> {
        self.units.all.get(&lun_of(lun)?)
    }

    /// The unit with a number, if the initiator sees one.
    pub(super) fn unit(&self, lun: [u8; 8]) -> Option<Arc<ScsiUnit>> {
        self.seen(lun)?.unit.upgrade()
    }

    /// Notices that the initiator sees other units now. Commands for those that it does not see any more are
    /// forgotten.
    pub(super) fn follow_views(&mut self) {
        let Some(attached) = self.shared.attached() else {
            return;
        };
        if attached.target.version() == self.units.version {
            return;
        }
        let (now, has_changed) = Units::of(&attached.target, &attached.nexus, &mut self.units);
        if has_changed {
            let all = now.all.values();
            all.for_each(|seen| seen.seat.tell(Sense::LUNS));
        }
        let gone = std::mem::replace(&mut self.units, now).all;
        self.forget(|_, lun| lun_of(lun).is_some_and(|lun| gone.contains_key(&lun)));
    }

    /// Notices what others did to a unit.
    pub(super) fn look(&mut self, lun: [u8; 8]) {
        let seen = lun_of(lun).and_then(|lun| self.units.all.get_mut(&lun));
        let Some((unit, seen)) = seen.and_then(|seen| Some((seen.unit.upgrade()?, seen))) else {
            return;
        };
        let (aborts, blocks) = (seen.seat.aborts(), unit.blocks());
        if blocks != seen.blocks {
            seen.blocks = blocks;
            seen.seat.tell(Sense::CAPACITY);
        }
        if aborts != seen.aborts {
            seen.aborts = aborts;
            self.forget(|_, of| of == lun);
        }
    }

    /// Resets all units that the initiator sees.
    pub(super) fn reset_all(&mut self) {
        let all = self.units.all.values();
        let all: Vec<_> = all.filter_map(|seen| seen.unit.upgrade()).collect();
        all.iter().for_each(|unit| unit.reset());
        for seen in self.units.all.values_mut() {
            seen.aborts = seen.seat.aborts();
        }
        self.forget(|_, _| true);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};
    use std::io;
    use std::time::Duration;

    use block::{BlockDevice, HelperBudget, MemoryDevice, TransferPool};
    use parking_lot::Mutex;

    use super::*;
    use crate::login::negotiation::{NewSession, SessionPurpose};
    use crate::session::serve;
    use crate::targets::logical_unit::LogicalUnit;
    use crate::targets::portal::Targets;
    use crate::targets::target::IscsiTarget;
    use crate::targets::target::{TargetAccess, Who};
    use crate::wire::keys::SessionParameters;
    use crate::wire::link::{InitiatorLink, PduBuffer};
    use crate::wire::pdu::{
        FINAL, HEAD, PduHeader, command, command_response, common, request, sent,
    };

    type Step<'a> = Box<dyn FnMut() -> Vec<u8> + Send + 'a>;

    /// An initiator that says one thing after the other, and does something before.
    struct ScriptedInitiator {
        steps: Mutex<VecDeque<Step<'static>>>,
        rest: Mutex<Vec<u8>>,
        told: Mutex<Vec<u8>>,
    }

    impl InitiatorLink for ScriptedInitiator {
        fn receive(&self, out: &mut [u8]) -> io::Result<usize> {
            let mut rest = self.rest.lock();
            if rest.is_empty()
                && let Some(mut step) = self.steps.lock().pop_front()
            {
                *rest = step();
            }
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

        fn cut(&self) {}

        fn portal(&self) -> String {
            String::new()
        }

        fn peer(&self) -> String {
            String::new()
        }
    }

    /// Returns the responses to the initiator: status or opcode, and data.
    fn say(
        target: &Arc<IscsiTarget>,
        initiator: &str,
        steps: Vec<Step<'static>>,
    ) -> Vec<(u8, Vec<u8>)> {
        let script = Arc::new(ScriptedInitiator {
            steps: Mutex::new(steps.into()),
            rest: Mutex::default(),
            told: Mutex::default(),
        });
        let link: Arc<dyn InitiatorLink> = script.clone();
        let who = Who {
            initiator: initiator.into(),
            isid: [0; 6],
            user: None,
        };
        let attached = target.attach(&link, who);
        let session = NewSession {
            purpose: SessionPurpose::Use(attached.unwrap_or_else(|_| unreachable!("it is open"))),
            initiator: initiator.into(),
            agreed: SessionParameters::new(),
            cid: [0; 2],
            numbers: (1, 1),
            memory: TransferPool::new(16 << 20).share(None),
            reserved: None,
        };
        let served = serve(
            &link,
            &mut PduBuffer::new(),
            session,
            &Targets::default(),
            &HelperBudget::new(0),
        );
        assert!(served.is_ok());
        let told = script.told.lock().clone();
        let (mut told, mut all) = (&told[..], Vec::new());
        while !told.is_empty() {
            let head = PduHeader(*told.first_chunk().unwrap());
            let len = head.data_len();
            all.push((
                head.get(command_response::STATUS),
                told[HEAD..HEAD + len].to_vec(),
            ));
            told = &told[HEAD + len.next_multiple_of(4)..];
        }
        all
    }

    fn command(number: u32, lun: u16, flags: u8, cdb: &[u8], data: &[u8]) -> Vec<u8> {
        let mut head = PduHeader::new(request::COMMAND, FINAL | flags);
        let [high, low] = lun.to_be_bytes();
        let method = if high == 0 { 0 } else { 0x40 };
        head.set(common::LUN, [method | high, low, 0, 0, 0, 0, 0, 0]);
        head.set_data_len(data.len());
        head.set(common::TAG, 100 + number);
        head.set(command::EXPECTED_LEN, 512);
        head.set(sent::COMMAND_NUMBER, number);
        head.set_cdb(cdb);
        [&head.0[..], data].concat()
    }

    fn step(bytes: Vec<u8>) -> Step<'static> {
        Box::new(move || bytes.clone())
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).into()).collect()
    }

    fn unit(fill: u8) -> LogicalUnit {
        let device = MemoryDevice::new(1 << 20);
        let written = device.write_at(0, &[io::IoSlice::new(&[fill; 512])]);
        written.expect("it is there");
        LogicalUnit::new("disk", fill.into(), Arc::new(device), false).expect("it is aligned")
    }

    const READS: u8 = 0x40;
    const WRITES: u8 = 0x20;
    const READ: &[u8] = &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    const WRITE: &[u8] = &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    const READY: &[u8] = &[0];
    const REGISTER: &[u8] = &[0x5f, 6, 0, 0, 0, 0, 0, 0, 24, 0];
    const RESERVE: &[u8] = &[0x16];
    const REPORT_LUNS: &[u8] = &[0xa0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0];

    fn sense(answer: &(u8, Vec<u8>)) -> [u8; 3] {
        let data = &answer.1;
        [data[4], data[14], data[15]]
    }

    #[test]
    fn initiators_see_their_own_units() {
        let (one, two) = (unit(1), unit(2));
        let (a, b) = (names(&["iqn.x:A"]), names(&["iqn.x:b"]));
        let views = vec![
            one.view(0, Some(&a), false).unwrap(),
            two.view(300, Some(&a), true).unwrap(),
            two.view(0, Some(&b), false).unwrap(),
        ];
        assert!(one.view(0x4000, None, false).is_err());
        let target = IscsiTarget::with_views("iqn.x:t", TargetAccess::default(), views).unwrap();
        let target = Arc::new(target);
        let told = |initiator| {
            let steps = vec![
                step(command(1, 5, READS, REPORT_LUNS, &[])),
                step(command(2, 0, 0, READY, &[])),
                step(command(3, 0, READS, READ, &[])),
                step(command(4, 300, 0, READY, &[])),
                step(command(5, 300, READS, READ, &[])),
                step(command(6, 300, WRITES, WRITE, &[9; 512])),
                step(command(7, 1, READS, READ, &[])),
                // Who may only read keeps nobody out.
                step(command(8, 300, WRITES, REGISTER, &[0; 24])),
                step(command(9, 300, 0, RESERVE, &[])),
            ];
            say(&target, initiator, steps)
        };
        let all = told("iqn.x:a");
        let luns = [
            &[0, 0, 0, 16, 0, 0, 0, 0][..],
            &[0; 8],
            &[0x41, 44, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(all[0].1, luns.concat());
        assert_eq!(sense(&all[1]), [6, 0x29, 0]);
        assert_eq!(all[2].1, [1; 512]);
        // Each unit has attentions of its own.
        assert_eq!(sense(&all[3]), [6, 0x29, 0]);
        assert_eq!(all[4].1, [2; 512]);
        assert_eq!(sense(&all[5]), [7, 0x27, 0]);
        assert_eq!(sense(&all[6]), [5, 0x25, 0]);
        assert_eq!(sense(&all[7]), [7, 0x27, 0]);
        assert_eq!(sense(&all[8]), [7, 0x27, 0]);
        let all = told("iqn.x:b");
        assert_eq!(all[0].1.len(), 16);
        assert_eq!(all[2].1, [2; 512]);
        assert_eq!(sense(&all[4]), [5, 0x25, 0]);
        let all = told("iqn.x:c");
        assert_eq!(all[0].1, [0; 8]);
        assert_eq!(sense(&all[2]), [5, 0x25, 0]);
    }

    /// The session stays, and does not keep the unit from going.
    #[test]
    fn a_unit_that_is_not_shown_any_more_goes() {
        let (one, two) = (unit(1), unit(2));
        let first = one.view(0, None, false).unwrap();
        let views = vec![first.clone(), two.view(1, None, false).unwrap()];
        let target = IscsiTarget::with_views("iqn.x:t", TargetAccess::default(), views).unwrap();
        let target = Arc::new(target);
        let (own, mut two) = (Arc::clone(&target), Some(two));
        let device = Arc::downgrade(two.as_ref().unwrap().device());
        let steps = vec![
            step(command(1, 0, 0, READY, &[])),
            step(command(2, 1, 0, READY, &[])),
            // It waits for its data when its unit goes.
            step(command(3, 1, WRITES, WRITE, &[])),
            Box::new(move || {
                own.set_views(vec![first.clone()]);
                two.take().unwrap().close().unwrap();
                assert_eq!(device.strong_count(), 0);
                command(4, 1, READS, READ, &[])
            }),
            step(command(5, 0, READS, READ, &[])),
            step(command(6, 0, READS, READ, &[])),
        ];
        let all = say(&target, "iqn.x:a", steps);
        assert_eq!(sense(&all[3]), [5, 0x25, 0]);
        assert_eq!(sense(&all[4]), [6, 0x3f, 0x0e]);
        assert_eq!(all[5].1, [1; 512]);
    }

    #[test]
    fn a_reset_is_of_one_unit() {
        let (one, two) = (unit(1), unit(2));
        let views = vec![
            one.view(0, None, false).unwrap(),
            two.view(1, None, false).unwrap(),
        ];
        let target = IscsiTarget::with_views("iqn.x:t", TargetAccess::default(), views).unwrap();
        let mut reset = PduHeader::new(request::TASK, FINAL | 5);
        reset.set(sent::COMMAND_NUMBER, 4);
        let steps = vec![
            step(command(1, 0, 0, READY, &[])),
            step(command(2, 1, 0, READY, &[])),
            step(command(3, 1, WRITES, WRITE, &[])),
            step(reset.0.to_vec()),
            step({
                let mut data = PduHeader::new(request::DATA, FINAL);
                data.set_data_len(512);
                data.set(common::TAG, 103);
                [&data.0[..], &[7; 512]].concat()
            }),
            step(command(5, 0, 0, READY, &[])),
            step(command(6, 1, READS, READ, &[])),
        ];
        let all = say(&Arc::new(target), "iqn.x:a", steps);
        // Asked for, reset, and written.
        assert_eq!((all[3].0, all[4].0), (0, 0));
        assert_eq!(sense(&all[5]), [6, 0x29, 3]);
        assert_eq!(all[6].1, [7; 512]);
    }
}
