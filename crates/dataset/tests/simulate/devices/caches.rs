//! Cache devices: they join, leave, fail, rot and lose what they hold, and reads only become slower.

use std::sync::Arc;

use block::BlockDevice;
use pool::{CacheInfo, CacheState};
use store::ErrorCounts;

use crate::common::origin;
use crate::sim::Sim;

/// The size of the part of a cache device that is not for records.
const HEADER: u64 = 128 << 10;
const CACHES_MAX: usize = 3;

impl Sim {
    pub fn cache_step(&mut self) {
        match self.dice.below(10) {
            0 => self.add_cache(),
            1 => self.remove_cache(),
            2 => self.put_cache_away(),
            3 | 4 => self.use_caches(),
            5 => self.hurt_cache(),
            6 => self.spoil_cache(),
            7 => self.spoil_all_caches(),
            8 => self.take_another_for_a_cache(),
            _ => self.check_caches(),
        }
    }

    /// Lets records that were read be written to the cache devices. Often they are full.
    pub fn feed_caches(&mut self) {
        if self.dice.below(4) == 0
            && let Some(pool) = &self.pool
        {
            pool.cache_devices().drain();
        }
    }

    fn pick_cache(&mut self) -> Option<CacheInfo> {
        let caches = self.pool().cache_devices().list();
        self.pick(caches)
    }

    pub fn add_cache(&mut self) {
        if self.world.caches.len() >= CACHES_MAX {
            return;
        }
        let size = [2 << 20, 3 << 20, 8 << 20][self.dice.below(3) as usize];
        let (device, new) = self.device_of(size);
        self.say(format!("add cache {} of {size} bytes", device.guid));
        let added = self.pool().cache_devices().add(&new, &origin());
        let mut after = self.world.clone();
        after.caches.insert(device.guid);
        if !self.command(after, added) {
            // The pool took its label back, and may list it all the same.
            self.unlabelled.insert(device.guid);
        }
    }

    fn remove_cache(&mut self) {
        let Some(cache) = self.pick_cache() else {
            return;
        };
        self.say(format!("remove cache {}", cache.guid));
        let removed = self.pool().cache_devices().remove(cache.guid, &origin());
        let mut after = self.world.clone();
        after.caches.remove(&cache.guid);
        self.command(after, removed);
    }

    fn put_cache_away(&mut self) {
        if let Some(cache) = self.pick_cache() {
            self.say(format!("cache {} is put away", cache.guid));
            self.pool().cache_devices().take_offline(cache.guid);
            assert_eq!(self.state_of(cache.guid), CacheState::Away);
        }
    }

    fn state_of(&self, guid: u64) -> CacheState {
        let caches = self.pool().cache_devices().list();
        let cache = caches.iter().find(|cache| cache.guid == guid);
        cache.expect("it is listed").state
    }

    /// All cache devices are used again, with what they hold.
    pub fn use_caches(&mut self) {
        for cache in self.pool().cache_devices().list() {
            if cache.state == CacheState::Online {
                continue;
            }
            self.say(format!("use cache {}", cache.guid));
            let device = self.device(cache.guid);
            device.repair();
            let device = device as Arc<dyn BlockDevice>;
            match self
                .pool()
                .cache_devices()
                .bring_online(cache.guid, &device)
            {
                Ok(()) => {
                    assert_eq!(self.state_of(cache.guid), CacheState::Online);
                }
                Err(error) => {
                    self.say(format!("   {error}"));
                    let is_known = self.unlabelled.contains(&cache.guid);
                    assert!(is_known || self.may_fail(), "{error}");
                }
            }
        }
    }

    /// The device at the place of a cache is another one.
    fn take_another_for_a_cache(&mut self) {
        let Some(cache) = self.pick_cache() else {
            return;
        };
        let others = self.devices.iter().filter(|other| other.guid != cache.guid);
        let others = others.map(Arc::clone).collect();
        if let Some(other) = self.pick(others) {
            self.say(format!("{} is taken for cache {}", other.guid, cache.guid));
            let other = other as Arc<dyn BlockDevice>;
            let taken = self.pool().cache_devices().bring_online(cache.guid, &other);
            assert!(taken.is_err(), "it is another one");
        }
    }

    fn hurt_cache(&mut self) {
        let Some(cache) = self.pick_cache() else {
            return;
        };
        let (how, writes) = (self.dice.below(3), self.dice.below(4));
        self.say(format!(
            "hurt cache {} in {writes} writes ({how})",
            cache.guid
        ));
        self.spoilt.insert(cache.guid);
        let at = HEADER + self.dice.below(cache.size - HEADER);
        self.device(cache.guid).fail(|faults| match how {
            0 => faults.dead_after = Some(writes),
            1 => faults.short_after = Some(writes),
            _ => faults.bad_reads.push(at..at + (1 << 20)),
        });
    }

    /// Some bits of what it holds flip.
    fn spoil_cache(&mut self) {
        if let Some(cache) = self.pick_cache() {
            self.say(format!("cache {} rots", cache.guid));
            self.spoilt.insert(cache.guid);
            let device = self.device(cache.guid);
            for _ in 0..self.dice.below(400) {
                let at = HEADER + self.dice.below(cache.size - HEADER);
                device.flip(at, 1 << self.dice.below(8));
            }
        }
    }

    /// Spoils all of them, so that nothing is found there.
    fn spoil_all_caches(&mut self) {
        let pool = self.pool();
        pool.cache_devices().drain();
        let mut held = 0;
        for cache in pool.cache_devices().list() {
            self.say(format!("all of cache {} rots", cache.guid));
            self.spoilt.insert(cache.guid);
            let device = self.device(cache.guid);
            for unit in (HEADER..cache.size).step_by(4096) {
                device.flip(unit + self.dice.below(4096), 1 << self.dice.below(8));
            }
            held += cache.held;
        }
        let before = pool.cache_devices().totals().hits;
        for guid in self.mounted.keys().copied().collect::<Vec<_>>() {
            if !self.is_over {
                self.verify(guid);
            }
        }
        assert_eq!(
            pool.cache_devices().totals().hits,
            before,
            "of {held} bytes, all wrong"
        );
    }

    /// A cache that nothing happened to has no errors, and one that has them is done without.
    pub fn check_caches(&mut self) {
        for cache in self.pool().cache_devices().list() {
            let is_well =
                cache.errors == ErrorCounts::default() && cache.state != CacheState::Faulted;
            let is_spoilt = self.spoilt.contains(&cache.guid) || self.may_fail();
            assert!(is_well || is_spoilt, "{cache:?}");
            assert!(
                cache.errors.write == 0 || cache.state == CacheState::Faulted,
                "{cache:?}"
            );
            assert!(cache.held <= cache.size - HEADER);
        }
    }

    /// At the end of a life.
    pub fn count_caches(&mut self) {
        if let Some(pool) = &self.pool {
            self.tally.hits += pool.cache_devices().totals().hits;
        }
    }
}
