//! Programs that use files, and how their changes become durable.

use std::sync::Arc;

use dataset::SnapshotDirFs;
use vfs::{Error, FileSystem, Kind, ROOT};

use crate::common::Dice;
use crate::common::driver::Driver;
use crate::common::history::{Synced, is_between};
use crate::common::look::{look, read_all, resolve};
use crate::common::model::{Model, assert_same};
use crate::programs::volumes::InUse;
use crate::sim::Sim;

/// The number of states that are remembered before a commit makes one of them.
const MOMENTS_MAX: usize = 60;

/// Returns whether contents are those after a copy as far as that came, to any byte, and from there on those before it.
fn has_begun([before, after]: [&[u8]; 2], contents: &[u8]) -> bool {
    let common = |a: &[u8], b: &[u8]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let done = common(contents, after);
    let rest = before.get(done..).unwrap_or_default();
    contents.len() == before.len().max(done) && contents[done..] == *rest
}

impl Sim {
    pub fn pick<T>(&mut self, from: Vec<T>) -> Option<T> {
        let index = self.dice.below(from.len().max(1) as u64) as usize;
        from.into_iter().nth(index)
    }

    /// A dataset that is in use.
    fn pick_mounted(&mut self) -> Option<u64> {
        let guids = self.mounted.keys().copied().collect();
        self.pick(guids)
    }

    pub fn file_step(&mut self) {
        let Some(guid) = self.pick_mounted() else {
            return self.use_step();
        };
        for _ in 0..1 + self.dice.below(4) {
            if self.is_over {
                return;
            }
            match &self.mounted[&guid] {
                InUse::Files(mounted) => {
                    let fs = Arc::clone(mounted);
                    self.operate(guid, &fs);
                }
                InUse::Volume(volume) => {
                    let volume = Arc::clone(volume);
                    self.request(guid, &volume);
                }
            }
            if !self.is_over && self.dataset_mut(guid).history.len() > MOMENTS_MAX {
                self.commit();
            }
        }
    }

    fn operate(&mut self, guid: u64, fs: &SnapshotDirFs) {
        let before = self.dataset_mut(guid).history.now().clone();
        let dice = Dice(self.dice.below(u64::MAX));
        let mut driver = Driver::on(before.clone(), dice);
        driver.size_max = 200_000;
        let result = driver.step(fs);
        let what = format!("{guid}: {}", driver.log());
        self.say(what);
        let took_steps = driver.in_steps.is_some();
        match result {
            Ok(()) => self
                .dataset_mut(guid)
                .history
                .push(driver.model, took_steps),
            Err(Error::NoSpace | Error::Quota) => {
                let is_synced = fs.head().settings().sync == dataset::SyncMode::Always;
                self.refused(guid, fs, before, driver);
                // What a failed call leaves behind need not be durable.
                if is_synced && !self.is_over {
                    self.commit();
                }
                return;
            }
            Err(error) => {
                assert!(self.may_fail(), "{error}");
                self.say(format!("   {error}"));
                self.dataset_mut(guid)
                    .history
                    .push(driver.model, took_steps);
                self.is_over = true;
                return;
            }
        }
        if fs.head().settings().sync == dataset::SyncMode::Always {
            self.dataset_mut(guid).history.mark(Synced::All);
        }
    }

    /// Handles a lack of free space: nothing has happened, or a part of several steps.
    fn refused(&mut self, guid: u64, fs: &SnapshotDirFs, before: Model, driver: Driver) {
        self.say("   no free space");
        let mut model = before.clone();
        if let Some((id, path)) = driver.in_steps {
            let ino = resolve(fs, &path);
            let Ok(found) = ino.and_then(|ino| read_all(fs, ino, 0, u64::MAX)) else {
                assert!(self.may_fail());
                self.is_over = true;
                return;
            };
            let states = [&before, &driver.model].map(|model| &model.nodes[&id].contents[..]);
            let is_part = is_between(&states, &found) || has_begun(states, &found);
            assert!(is_part, "a part of it that cannot be");
            model.node_mut(id).contents = found;
        } else if let Ok(found) = look(fs) {
            assert_same(&found, &before.picture(), "there was no free space for it");
        }
        self.dataset_mut(guid).history.push(model, true);
    }

    pub fn commit(&mut self) {
        self.say("commit");
        let result = self.pool().commit();
        if self.survive(result).is_some() {
            self.committed();
        }
    }

    pub fn sync_step(&mut self) {
        let Some(guid) = self.pick_mounted() else {
            return self.commit();
        };
        match self.dice.below(12) {
            0..=5 => self.fsync(guid),
            6 => self.sync(guid),
            7 => self.free_dead(guid),
            8 => {
                self.say("give up logs");
                let result = self.pool().give_up_logs();
                self.survive(result);
            }
            9 => self.verify(guid),
            _ => self.commit(),
        }
    }

    fn fsync(&mut self, guid: u64) {
        let fs = match &self.mounted[&guid] {
            InUse::Files(mounted) => Arc::clone(mounted),
            InUse::Volume(volume) => {
                let volume = Arc::clone(volume);
                return self.flush(guid, &volume);
            }
        };
        let dice = Dice(self.dice.below(u64::MAX));
        let model = self.dataset_mut(guid).history.now().clone();
        let picked = Driver::on(model, dice).pick(Some(Kind::File));
        let (path, synced) = match picked {
            Some((id, path)) if self.dice.below(4) > 0 => (path, Synced::File(id)),
            _ => (Vec::new(), Synced::Names),
        };
        self.say(format!("{guid}: fsync {}", String::from_utf8_lossy(&path)));
        let ino = match synced {
            Synced::Names | Synced::All => Ok(ROOT),
            Synced::File(_) => resolve(fs.as_ref(), &path),
        };
        let result = ino.and_then(|ino| fs.fsync(ino, false));
        let is_asked_for = fs.head().settings().sync != dataset::SyncMode::Disabled;
        if self.survive_fs(result).is_some() && is_asked_for {
            self.dataset_mut(guid).history.mark(synced);
        }
    }

    fn sync(&mut self, guid: u64) {
        self.say(format!("{guid}: sync"));
        let result = self.files(guid).sync_all();
        if self.survive_dataset(result).is_some() {
            self.dataset_mut(guid).history.committed();
        }
    }

    fn free_dead(&mut self, guid: u64) {
        self.say(format!("{guid}: free dead slots"));
        let result = self.files(guid).free_dead_slots();
        self.survive_dataset(result);
    }

    fn survive_fs<T>(&mut self, result: vfs::Result<T>) -> Option<T> {
        self.survive_dataset(result.map_err(dataset::Error::Fs))
    }
}
