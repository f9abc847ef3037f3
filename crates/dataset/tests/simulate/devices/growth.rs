//! Devices that become larger, and the space that their pool gains.

use pool::{DeviceInfo, DeviceState, Purpose};

use crate::common::origin;
use crate::sim::Sim;

/// No device becomes larger than this.
const SIZE_MAX: u64 = 48 << 20;

impl Sim {
    pub fn growth_step(&mut self) {
        match self.dice.below(3) {
            0 => self.enlarge(),
            1 => self.expand_one(),
            _ => self.use_what_was_gained(),
        }
    }

    /// A device has more bytes than before, or all of its group have. The pool does not know yet.
    fn enlarge(&mut self) {
        let members = self.members();
        let Some(one) = self.pick(members.clone()) else {
            return;
        };
        let bytes = ((1 + self.dice.below(5)) << 20) | (self.dice.below(3) * 1000);
        let is_alone = self.dice.below(3) == 0;
        let group = members.into_iter().filter(|other| match is_alone {
            true => other.guid == one.guid,
            false => other.group == one.group,
        });
        for info in group {
            let device = self.device(info.guid);
            if block::BlockDevice::size(device.as_ref()) + bytes <= SIZE_MAX {
                self.say(format!("{} has {bytes} bytes more", info.guid));
                device.grow(bytes as usize);
            }
        }
    }

    /// Has the pool use all of any device: also of one that cannot grow now, or has not.
    fn expand_one(&mut self) {
        let members = self.members();
        if let Some(info) = self.pick(members) {
            self.expand(&info);
        }
    }

    /// Lets the pool use all the space that it can, like autoexpand=on.
    pub fn use_what_was_gained(&mut self) {
        for guid in self.pool().expandable().iter().map(|found| found.guid) {
            let members = self.members();
            let info = members.iter().find(|info| info.guid == guid);
            self.expand(info.expect("a member"));
            if self.is_over {
                return;
            }
        }
    }

    fn expand(&mut self, info: &DeviceInfo) {
        let guid = info.guid;
        self.say(format!("use all of {guid}"));
        let pool = self.pool();
        let may_fail = self.may_fail() || self.device(guid).has_faults();
        let can_grow = info.state == DeviceState::Online && info.purpose == Purpose::Data;
        let before = (pool.space().total, pool.expandable());
        match pool.expand_device(guid, &origin()) {
            Ok(gained) => {
                assert!(can_grow, "{info:?} cannot grow");
                self.committed();
                self.say(format!("   {gained:?}"));
                self.tally.grown += u64::from(gained.records > 0);
                let left = pool.expandable();
                let promised = before.1.iter().find(|found| found.guid == guid);
                let unused = promised.map_or(0, |found| found.unused);
                // All but a piece of a block.
                let rest = unused.checked_sub(gained.device);
                assert!(rest.is_some_and(|rest| rest < 4096), "{unused}: {gained:?}");
                assert!(
                    left.iter()
                        .all(|found| found.guid != guid || found.unused == 0)
                );
                assert!(pool.space().total >= before.0);
            }
            Err(error @ pool::Error::Device { .. }) if !can_grow => {
                self.say(format!("   {error}"));
            }
            Err(error) if may_fail && !self.may_fail() => self.say(format!("   {error}")),
            Err(error) => drop(self.survive::<()>(Err(error))),
        }
    }
}
