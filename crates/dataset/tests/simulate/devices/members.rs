//! Devices fail, vanish, rot, come back, join and leave; what keeps the pool whole runs now and then.

use std::collections::BTreeSet;
use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use pool::{DeviceInfo, DeviceState, Purpose};
use store::NewMember;

use crate::common::{assert_clean, open_devices, origin};
use crate::model::device::SimDevice;
use crate::sim::Sim;

/// The size of the header of a device.
const HEADER: u64 = 320 << 10;

impl Sim {
    pub fn device(&self, guid: u64) -> Arc<SimDevice> {
        let found = self.devices.iter().find(|device| device.guid == guid);
        Arc::clone(found.unwrap())
    }

    fn info(&self) -> Vec<DeviceInfo> {
        self.pool().devices()
    }

    pub fn members(&self) -> Vec<DeviceInfo> {
        let mut members = self.info();
        members.retain(|device| device.group.is_some());
        members
    }

    /// Members without which every group is still whole, by others that are there to stay.
    pub fn dispensable(&self) -> Vec<DeviceInfo> {
        let all = self.members();
        let leaving: Vec<u64> = all.iter().map(|device| device.replaces).collect();
        let is_whole = |device: &DeviceInfo| {
            device.state == DeviceState::Online
                && !self.rotten.contains(&device.guid)
                && !leaving.contains(&device.guid)
        };
        let others = |one: &DeviceInfo| {
            let others = all.iter().filter(|other| other.guid != one.guid);
            let whole = others.filter(|other| other.group == one.group && is_whole(other));
            let columns: BTreeSet<u16> = whole.map(|other| other.column).collect();
            columns.len() >= one.shape.needed()
        };
        all.iter()
            .filter(|device| others(device))
            .cloned()
            .collect()
    }

    fn pick_dispensable(&mut self) -> Option<DeviceInfo> {
        let from = self.dispensable();
        self.pick(from)
    }

    pub fn device_step(&mut self) {
        match self.dice.below(38) {
            0..=2 => self.hurt(),
            3 | 4 => self.rot(),
            5..=7 => self.bring_back(),
            8 => self.offline(),
            9 => self.join(true),
            10 => self.join(false),
            11 => self.detach(),
            12 => self.add_group(),
            13 => self.spare(),
            14..=16 => {
                self.say("use spares");
                let used = self.pool().resilverer().use_spares();
                self.survive(used);
            }
            17..=19 => {
                self.say("heal");
                let healed = self.pool().scrubber().heal();
                self.survive(healed);
            }
            20 => self.hurt_what_is_needed(),
            21 => {
                self.scrub_all();
                self.check();
            }
            22 => self.start_or_stop_scrub(),
            23..=25 => {
                self.say("scrub step");
                let stepped = self.pool().scrubber().step(self.budget());
                self.survive(stepped);
            }
            26 => self.check(),
            27 | 28 => self.remove_or_keep_group(),
            29..=31 => {
                self.say("removal step");
                let stepped = self.pool().removal().step(self.budget());
                self.survive(stepped);
            }
            34 => self.hurt_log_device(),
            35 => self.offline_log_device(),
            36 | 37 => self.add_or_remove_logs(),
            _ => {
                self.say("resilver step");
                let stepped = self.pool().resilverer().step(self.budget());
                self.survive(stepped);
            }
        }
    }

    fn budget(&self) -> u64 {
        50 << 10
    }

    fn fail(&mut self, guid: u64, how: u64, writes: u64) {
        let at = HEADER + self.dice.below(8 << 20);
        self.device(guid).fail(|faults| match how {
            0 => faults.dead_after = Some(writes),
            1 => faults.short_after = Some(writes),
            2 => faults.bad_flush_after = Some(writes % 4),
            _ => faults.bad_reads.push(at..at + (1 << 20)),
        });
    }

    /// A device that others can stand in for fails, now or soon.
    fn hurt(&mut self) {
        let Some(info) = self.pick_dispensable() else {
            return;
        };
        let writes = self.dice.below(30);
        let how = self.dice.below(4);
        self.say(format!("hurt {} in {writes} writes ({how})", info.guid));
        // Until it has failed for certain it is no help to others.
        self.rotten.insert(info.guid);
        self.fail(info.guid, how, writes);
    }

    /// A device that nothing can stand in for fails: errors, but never anything wrong.
    fn hurt_what_is_needed(&mut self) {
        let all = self.members();
        let is_alone = |device: &DeviceInfo| {
            let mut others = all.iter().filter(|other| other.guid != device.guid);
            others.all(|other| other.group != device.group)
        };
        let alone = all
            .iter()
            .filter(|device| is_alone(device) && device.purpose.holds_data())
            .cloned();
        let Some(info) = self.pick(alone.collect()) else {
            return;
        };
        let writes = self.dice.below(30);
        let how = self.dice.below(4);
        self.say(format!(
            "hurt {}, which is needed, in {writes} writes ({how})",
            info.guid
        ));
        self.is_hostile = true;
        self.fail(info.guid, how, writes);
    }

    /// Bits flip on a device that others can stand in for.
    fn rot(&mut self) {
        let Some(info) = self.pick_dispensable() else {
            return;
        };
        // A spare that has stood in goes as soon as the device is back that it stood in for, of which only that
        // is read again which is new.
        let stands_in = |device: &DeviceInfo| device.was_spare && device.replaces != 0;
        let mut members = self.members().into_iter();
        if members.any(|device| device.group == info.group && stands_in(&device)) {
            return;
        }
        self.say(format!("{} rots", info.guid));
        self.rotten.insert(info.guid);
        let device = self.device(info.guid);
        for _ in 0..self.dice.below(400) {
            let at = HEADER + self.dice.below((info.size - 2 * HEADER) / 2);
            device.flip(at, 1 << self.dice.below(8));
        }
    }

    /// Devices that are there for logs.
    pub fn log_devices(&self) -> Vec<u64> {
        let mut all = self.members();
        all.retain(|device| device.purpose == Purpose::Logs);
        all.iter().map(|device| device.guid).collect()
    }

    /// The only members of groups that are there for logs. The pool can do without them while it is in use,
    /// and what they hold is nowhere else.
    pub fn sole_log_devices(&self) -> Vec<DeviceInfo> {
        let all = self.members();
        let is_alone = |one: &&DeviceInfo| {
            let others = all.iter().filter(|other| other.guid != one.guid);
            others.filter(|other| other.group == one.group).count() == 0
        };
        let logs = all.iter().filter(|device| device.purpose == Purpose::Logs);
        logs.filter(is_alone).cloned().collect()
    }

    fn pick_log_device(&mut self) -> Option<DeviceInfo> {
        let mut logs = self.sole_log_devices();
        logs.retain(|device| device.state == DeviceState::Online);
        self.pick(logs)
    }

    /// Makes a log device refuse writes, now or soon. Its contents can be read again later.
    fn hurt_log_device(&mut self) {
        let Some(info) = self.pick_log_device() else {
            return;
        };
        let writes = self.dice.below(30);
        let how = self.dice.below(3);
        self.say(format!(
            "hurt log device {} in {writes} writes ({how})",
            info.guid
        ));
        self.device(info.guid).fail(|faults| match how {
            0 => faults.dead_after = Some(writes),
            1 => faults.short_after = Some(writes),
            _ => faults.bad_flush_after = Some(writes % 4),
        });
    }

    fn offline_log_device(&mut self) {
        if let Some(info) = self.pick_log_device() {
            let temporary = self.dice.below(2) == 0;
            self.say(format!("offline log device {}", info.guid));
            match self.pool().offline_device(info.guid, temporary, &origin()) {
                // It failed just now, and a log waits on it.
                Err(error @ pool::Error::Refused { .. }) => self.say(format!("   {error}")),
                done => {
                    if self.survive(done).is_some() {
                        self.committed();
                    }
                }
            }
        }
    }

    /// Makes devices a group for logs; none if there are to be none.
    pub fn add_logs(&mut self, count: usize) {
        if count > 0 {
            let new: Vec<NewMember> = (0..count).map(|_| self.new_device().1).collect();
            self.say(format!("add {count} log devices"));
            let added = self.pool().log_devices().add(&new, &origin());
            self.survive(added);
        }
    }

    fn add_or_remove_logs(&mut self) {
        let mut all = self.members();
        all.retain(|device| device.purpose == Purpose::Logs);
        match all.first() {
            None => {
                let count = 1 + self.dice.below(2) as usize;
                self.add_logs(count);
            }
            // What waits on one that failed cannot move.
            Some(first) if all.iter().all(|d| d.state == DeviceState::Online) => {
                let group = first.group.expect("a member");
                self.say(format!("remove the log devices of group {group}"));
                let removed = self.pool().log_devices().remove(group, &origin());
                self.survive(removed);
            }
            Some(_) => {}
        }
    }

    fn away(&self) -> Vec<DeviceInfo> {
        let mut away = self.info();
        away.retain(|device| {
            use DeviceState::{Faulted, Missing, Offline};
            matches!(device.state, Faulted | Missing | Offline)
        });
        away
    }

    fn bring_back(&mut self) {
        let away = self.away();
        if let Some(info) = self.pick(away) {
            self.online(&info);
        }
    }

    fn online(&mut self, info: &DeviceInfo) {
        self.say(format!("online {}", info.guid));
        let device = self.device(info.guid);
        device.repair();
        let pool = self.pool();
        if self.survive(pool.release_device(info.guid)).is_none() {
            return;
        }
        let device = device as Arc<dyn BlockDevice>;
        let back = pool.online_device(info.guid, device, &origin());
        if self.survive(back).is_some() {
            self.committed();
        }
    }

    fn offline(&mut self) {
        if let Some(info) = self.pick_dispensable()
            && info.state != DeviceState::Offline
        {
            let temporary = self.dice.below(2) == 0;
            self.say(format!("offline {}, temporary: {temporary}", info.guid));
            let done = self.pool().offline_device(info.guid, temporary, &origin());
            self.survive(done);
        }
    }

    fn new_device(&mut self) -> (Arc<SimDevice>, NewMember) {
        let largest = self.devices.iter().map(|device| device.size()).max();
        let size = largest.unwrap() as usize + (self.dice.below(2) << 20) as usize;
        self.device_of(size)
    }

    pub fn device_of(&mut self, size: usize) -> (Arc<SimDevice>, NewMember) {
        let device = SimDevice::new(self.number(), size, &self.power);
        self.devices.push(Arc::clone(&device));
        let new = NewMember {
            device: Arc::clone(&device) as Arc<dyn BlockDevice>,
            guid: device.guid,
            created: 2,
            force: true,
        };
        (device, new)
    }

    /// A new device joins a group, beside the others or in the place of one.
    fn join(&mut self, replaces: bool) {
        let mut members = self.members();
        if members.len() > 7 {
            return;
        }
        let taken: Vec<u64> = members.iter().map(|device| device.replaces).collect();
        members.retain(|device| device.purpose != Purpose::Leaving);
        members.retain(|device| match replaces {
            true => !taken.contains(&device.guid),
            false => !device.shape.has_parity(),
        });
        if let Some(beside) = self.pick(members) {
            let (device, new) = self.new_device();
            let (old, guid) = (beside.guid, device.guid);
            self.say(format!("{guid} joins {old}, replaces: {replaces}"));
            let joined = self.pool().attach_device(old, &new, replaces, &origin());
            self.survive(joined);
        }
    }

    fn detach(&mut self) {
        let members = self.members();
        let place = |device: &DeviceInfo| (device.group, device.column);
        let has_other =
            |one: &DeviceInfo| members.iter().filter(|d| place(d) == place(one)).count() > 1;
        if members.len() > 3
            && let Some(device) = self.pick_dispensable()
            && (!device.shape.has_parity() || has_other(&device))
        {
            self.say(format!("detach {}", device.guid));
            let detached = self.pool().detach_device(device.guid, &origin());
            self.survive(detached);
        }
    }

    fn add_group(&mut self) {
        let groups = self
            .members()
            .iter()
            .filter_map(|device| device.group)
            .max();
        if groups.unwrap_or(0) >= 2 {
            return;
        }
        let (count, parity) = [(1, 0), (2, 0), (3, 1)][self.dice.below(3) as usize];
        let new: Vec<NewMember> = (0..count).map(|_| self.new_device().1).collect();
        self.say(format!("add a group of {count}, parity {parity}"));
        let added = self.pool().add_group(&new, parity, &origin());
        self.survive(added);
    }

    /// A group that holds data is to go, or after all to stay. It may be too full for that, or not well.
    fn remove_or_keep_group(&mut self) {
        let mut members = self.members();
        let is_leaving = |device: &DeviceInfo| device.purpose == Purpose::Leaving;
        if members.iter().any(is_leaving) {
            if self.dice.below(4) == 0 {
                self.say("keep the group");
                let stopped = self.pool().removal().stop(&origin());
                self.survive(stopped);
            }
            return;
        }
        members.retain(|device| device.purpose == Purpose::Data);
        if let Some(group) = self.pick(members).and_then(|device| device.group) {
            self.say(format!("remove group {group}"));
            match self.pool().removal().begin(group, &origin()) {
                Err(error @ pool::Error::Device { .. }) => self.say(format!("   {error}")),
                removed => drop(self.survive(removed)),
            }
        }
    }

    /// Goes on with a removal as far as there is space for it.
    pub fn remove_all(&mut self) {
        self.say("remove everything that is to go");
        let pool = self.pool();
        let done = || -> pool::Result<()> {
            while pool.removal().step(1 << 20)? {}
            Ok(())
        };
        self.survive(done());
    }

    fn spare(&mut self) {
        let spares = self.info();
        let spare = spares.iter().find(|device| device.group.is_none());
        match spare.map(|spare| spare.guid) {
            Some(guid) if self.dice.below(2) == 0 => {
                self.say(format!("remove spare {guid}"));
                let removed = self.pool().remove_spare(guid, &origin());
                self.survive(removed);
            }
            Some(_) => {}
            None => {
                let (_, new) = self.new_device();
                self.say(format!("add spare {}", new.guid));
                let added = self.pool().add_spare(&new, &origin());
                self.survive(added);
            }
        }
    }

    fn start_or_stop_scrub(&mut self) {
        self.say("start or stop a scrub");
        let pool = self.pool();
        let done = match self.dice.below(4) {
            0 => pool.scrubber().stop(),
            1 => pool.scrubber().pause(),
            _ => pool.scrubber().start(),
        };
        self.survive(done);
    }

    /// Resilvers and scrubs to the end. Afterwards those that are online are whole.
    pub fn scrub_all(&mut self) {
        if self.is_hostile {
            return;
        }
        self.say("resilver and scrub everything");
        let pool = self.pool();
        let whole = || -> pool::Result<Option<u64>> {
            // One that waits for a log tries again after a while.
            for _ in 0..100 {
                while pool.resilverer().step(1 << 20)? {}
            }
            pool.commit()?;
            if pool.resilverer().status().waits.is_some() {
                return Ok(None);
            }
            // One that was under way has passed what went bad since.
            pool.scrubber().start()?;
            while pool.scrubber().step(u64::MAX)? {}
            pool.scrubber().start()?;
            while pool.scrubber().step(u64::MAX)? {}
            pool.commit()?;
            pool.commit()?;
            Ok(Some(pool.scrubber().status().errors))
        };
        let Some(errors) = self.survive(whole()).flatten() else {
            return;
        };
        assert_eq!(errors, 0, "{:?}", self.pool().scrubber().status());
        let devices = self.info();
        let is_whole = |guid: u64| {
            let mut same = devices.iter().filter(|device| device.guid == guid);
            same.any(|device| device.state == DeviceState::Online)
        };
        let failing: Vec<u64> = self
            .devices
            .iter()
            .filter(|device| device.has_faults())
            .map(|device| device.guid)
            .collect();
        self.rotten
            .retain(|guid| !is_whole(*guid) || failing.contains(guid));
    }

    /// Every device is there again, and whole.
    pub fn bring_all_back(&mut self) {
        while let Some(info) = self.away().first().cloned() {
            self.online(&info);
            assert!(!self.is_over);
        }
        self.scrub_all();
        let online = self
            .members()
            .iter()
            .all(|d| d.state == DeviceState::Online);
        assert!(online, "{:?}", self.members());
        assert!(self.rotten.is_empty() || self.devices.len() > self.members().len());
    }

    /// The first members of each group, or the last, as many as it needs, hold everything.
    pub fn check_with_few(&self, mut members: Vec<DeviceInfo>) {
        for _ in 0..2 {
            members.reverse();
            let mut few: Vec<&DeviceInfo> = Vec::new();
            for one in &members {
                let same = few.iter().filter(|other| other.group == one.group);
                let columns: BTreeSet<u16> = same.map(|other| other.column).collect();
                if columns.len() < one.shape.needed() && !columns.contains(&one.column) {
                    few.push(one);
                }
            }
            let copy = |one: &&DeviceInfo| {
                let bytes = self.device(one.guid).to_bytes();
                Arc::new(MemoryDevice::from_bytes(bytes)) as Arc<dyn BlockDevice>
            };
            let pool = open_devices(few.iter().map(copy).collect()).unwrap();
            assert_clean(&pool);
            pool.scrubber().start().unwrap();
            while pool.scrubber().step(u64::MAX).unwrap() {}
            assert_eq!(pool.scrubber().status().errors, 0, "{few:?}");
        }
    }
}
