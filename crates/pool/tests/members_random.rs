//! Members of groups fail, vanish, rot, leave and come back, in any order, while others write: as
//! long as each mirror has a member that is whole, and each group with parity enough of them, nothing
//! is lost, and in the end all is whole.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use block::fault::{Fault, FaultClock, FaultDevice};
use common::model::*;
use common::*;
use pool::{DeviceInfo, DeviceState};

struct Run {
    seed: u64,
    clock: FaultClock,
    workload: Workload,
    dice: Dice,
    /// Every device there ever was, by its guid.
    devices: Vec<(u64, Arc<FaultDevice>)>,
    /// Whose bits were flipped since they were last whole.
    rotten: BTreeSet<u64>,
    next_guid: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let clock = FaultClock::new();
        let shapes: [&[(usize, usize)]; 10] = [
            &[(2, 0)],
            &[(3, 1)],
            &[(3, 0)],
            &[(4, 2)],
            &[(2, 0), (2, 0)],
            &[(5, 1)],
            &[(1, 0), (2, 0)],
            &[(3, 2)],
            &[(3, 1), (2, 0)],
            &[(6, 2)],
        ];
        let shape = shapes[seed as usize % shapes.len()];
        let members: usize = shape.iter().map(|(members, _)| members).sum();
        let devices = fault_devices(members + seed as usize % 3 / 2, &clock);
        let pool = create_groups(&devices, shape);
        Run {
            seed,
            clock,
            workload: Workload::new(pool, seed),
            dice: Dice(seed ^ 0x5eed),
            devices: (10..).zip(devices).collect(),
            rotten: BTreeSet::new(),
            next_guid: 100,
        }
    }

    fn device(&self, guid: u64) -> Arc<FaultDevice> {
        let found = self.devices.iter().find(|(own, _)| *own == guid);
        Arc::clone(&found.unwrap().1)
    }

    fn info(&self) -> Vec<DeviceInfo> {
        self.workload.pool.devices()
    }

    /// Members without which every group is still whole.
    fn dispensable(&self) -> Vec<DeviceInfo> {
        let all = self.info();
        // One that is being replaced leaves when the other one is as it should be, as far as is known.
        let is_leaving =
            |device: &DeviceInfo| all.iter().any(|other| other.replaces == device.guid);
        let is_whole = |device: &DeviceInfo| {
            device.state == DeviceState::Online
                && !self.rotten.contains(&device.guid)
                && !is_leaving(device)
        };
        let others = |one: &DeviceInfo| {
            let others = all.iter().filter(|other| {
                other.group == one.group && other.guid != one.guid && is_whole(other)
            });
            let columns: BTreeSet<u16> = others.map(|other| other.column).collect();
            columns.len() >= one.shape.needed()
        };
        let members = all.iter().filter(|device| device.group.is_some());
        members.filter(|device| others(device)).cloned().collect()
    }

    fn pick(&mut self, from: Vec<DeviceInfo>) -> Option<DeviceInfo> {
        let index = self.dice.below(from.len().max(1) as u64) as usize;
        from.into_iter().nth(index)
    }

    fn pick_dispensable(&mut self, state: Option<DeviceState>) -> Option<DeviceInfo> {
        let mut from = self.dispensable();
        from.retain(|device| state.is_none_or(|state| state == device.state));
        self.pick(from)
    }

    fn step(&mut self) {
        match self.dice.below(30) {
            0..=12 => drop(self.workload.step()),
            13 | 14 => self.kill(),
            15 | 16 => self.rot(),
            17 | 18 => self.bring_back(),
            19 => self.offline(),
            20 => self.reopen(),
            21 => self.replace(),
            22 => self.attach(),
            23 => self.detach(),
            24 => drop(self.workload.pool.use_spares().unwrap()),
            25 => self.scrub(),
            26 => drop(self.workload.pool.heal().unwrap()),
            _ => drop(self.workload.pool.resilver_step(50 << 10).unwrap()),
        }
        assert_eq!(self.workload.pool.suspended(), None, "seed {}", self.seed);
    }

    fn kill(&mut self) {
        if let Some(device) = self.pick_dispensable(None) {
            let from = self.clock.now() + self.dice.below(30);
            self.device(device.guid).inject(Fault::DeadFrom(from));
            // Until it has failed for certain it is no help to others.
            self.rotten.insert(device.guid);
        }
    }

    /// Of everything behind the first header and before the second.
    fn rot(&mut self) {
        let Some(info) = self.pick_dispensable(None) else {
            return;
        };
        self.rotten.insert(info.guid);
        let device = self.device(info.guid);
        let header = 320 << 10;
        for _ in 0..self.dice.below(400) {
            let at = header + self.dice.below((DEVICE_SIZE as u64 - 2 * header) / 2);
            device.flip(at, 1 << self.dice.below(8));
        }
    }

    fn bring_back(&mut self) {
        let mut away = self.info();
        away.retain(|device| {
            use DeviceState::{Faulted, Missing, Offline};
            matches!(device.state, Faulted | Missing | Offline)
        });
        let Some(info) = self.pick(away) else { return };
        let device = self.device(info.guid);
        device.heal();
        self.workload.pool.release_device(info.guid).unwrap();
        self.workload
            .pool
            .online_device(info.guid, device, &origin())
            .unwrap();
    }

    fn offline(&mut self) {
        if let Some(device) = self.pick_dispensable(None)
            && device.state != DeviceState::Offline
        {
            let temporary = self.dice.below(2) == 0;
            let pool = &self.workload.pool;
            pool.offline_device(device.guid, temporary, &origin())
                .unwrap();
        }
    }

    /// Imports the pool again, after an export or a crash, perhaps without some devices.
    fn reopen(&mut self) {
        self.workload.pool.commit().unwrap();
        if self.dice.below(2) == 0 {
            self.workload.pool.record(&origin()).unwrap();
        }
        let listed: Vec<u64> = self.info().iter().map(|device| device.guid).collect();
        let absent = match self.dice.below(2) {
            0 => self.pick_dispensable(None).map(|device| device.guid),
            _ => None,
        };
        let there = listed.iter().filter(|guid| Some(**guid) != absent);
        let there: Vec<_> = there.map(|guid| self.device(*guid)).collect();
        let seed = self.dice.below(u64::MAX);
        self.workload.reopened(|| {
            let store = store::Store::open(dynamic(&there)).unwrap();
            pool::Pool::open(Arc::new(store), TestEnv::new(seed), false).unwrap()
        });
    }

    fn new_device(&mut self) -> (u64, Arc<FaultDevice>) {
        let size = DEVICE_SIZE + (self.dice.below(3) << 20) as usize;
        let device = Arc::new(FaultDevice::new(size, &self.clock));
        self.next_guid += 1;
        self.devices.push((self.next_guid, Arc::clone(&device)));
        (self.next_guid, device)
    }

    fn replace(&mut self) {
        let mut members = self.info();
        let taken: Vec<u64> = members.iter().map(|device| device.replaces).collect();
        members.retain(|device| device.group.is_some() && !taken.contains(&device.guid));
        if members.len() > 9 {
            return;
        }
        if let Some(old) = self.pick(members) {
            let (guid, device) = self.new_device();
            let new = new_member(&device, guid);
            let pool = &self.workload.pool;
            pool.attach_device(old.guid, &new, true, &origin()).unwrap();
        }
    }

    fn attach(&mut self) {
        let mut members = self.info();
        members.retain(|device| device.group.is_some() && !device.shape.has_parity());
        if members.len() > 5 {
            return;
        }
        if let Some(beside) = self.pick(members) {
            let (guid, device) = self.new_device();
            let new = new_member(&device, guid);
            let pool = &self.workload.pool;
            pool.attach_device(beside.guid, &new, false, &origin())
                .unwrap();
        }
    }

    fn detach(&mut self) {
        let info = self.info();
        let members = info.iter().filter(|d| d.group.is_some()).count();
        let place = |device: &DeviceInfo| (device.group, device.column);
        if members > 3
            && let Some(device) = self.pick_dispensable(None)
            && (!device.shape.has_parity()
                || info.iter().filter(|d| place(d) == place(&device)).count() > 1)
        {
            self.workload
                .pool
                .detach_device(device.guid, &origin())
                .unwrap();
        }
    }

    /// Afterwards those that are online are whole.
    fn scrub(&mut self) {
        resilver(&self.workload.pool);
        self.workload.pool.commit().unwrap();
        let status = scrub_all(&self.workload.pool);
        assert_eq!(status.errors, 0, "seed {}: {status:?}", self.seed);
        self.workload.pool.commit().unwrap();
        self.workload.pool.commit().unwrap();
        let devices = self.info();
        self.rotten.retain(|guid| {
            let mut same = devices.iter().filter(|device| device.guid == *guid);
            same.any(|device| device.state != DeviceState::Online)
        });
        // One that is to die later is no help either.
        for (guid, device) in &self.devices {
            if device.has_faults() {
                self.rotten.insert(*guid);
            }
        }
    }

    fn finish(mut self) {
        let seed = self.seed;
        for _ in 0..self.info().len() {
            self.workload.pool.commit().unwrap();
            self.devices.iter().for_each(|(_, device)| device.heal());
            self.bring_back();
        }
        self.scrub();
        let Run {
            workload, devices, ..
        } = self;
        let (pool, model) = workload.close();
        settle(&pool);
        let status = scrub_all(&pool);
        assert_eq!((status.errors, status.repaired), (0, 0), "seed {seed}");
        assert_clean(&pool);
        assert_eq!(read_pool(&pool), normal(model.clone()), "seed {seed}");
        let listed = pool.devices();
        let members = listed.iter().filter(|device| device.group.is_some());
        assert!(
            members
                .clone()
                .all(|device| device.state == DeviceState::Online)
        );
        pool.export().unwrap();
        drop(pool);
        // The first of each group, or the last, as many as it needs, are enough.
        for last in [false, true] {
            let mut ordered: Vec<&DeviceInfo> = members.clone().collect();
            if last {
                ordered.reverse();
            }
            let mut enough: Vec<&DeviceInfo> = Vec::new();
            for device in ordered {
                let same = enough.iter().filter(|other| other.group == device.group);
                let columns: BTreeSet<u16> = same.map(|other| other.column).collect();
                if columns.len() < device.shape.needed() && !columns.contains(&device.column) {
                    enough.push(device);
                }
            }
            let clock = FaultClock::new();
            let copies = devices
                .iter()
                .filter(|(guid, _)| enough.iter().any(|device| device.guid == *guid));
            let copies: Vec<_> = copies
                .map(|(_, device)| Arc::new(FaultDevice::from_bytes(device.to_bytes(), &clock)))
                .collect();
            let pool = open_on(&copies).unwrap();
            assert_eq!(read_pool(&pool), normal(model.clone()), "seed {seed}");
        }
    }
}

#[test]
fn nothing_is_lost_while_enough_is_whole() {
    for seed in seeds(0, 30) {
        let mut run = Run::new(seed);
        for _ in 0..150 {
            run.step();
        }
        run.finish();
    }
}
