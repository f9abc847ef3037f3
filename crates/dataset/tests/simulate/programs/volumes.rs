//! Volumes: to the model a directory with one file, which is as long as the volume.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;

use block::BlockDevice;
use dataset::{Dataset, SnapshotDirFs, SyncMode, Volume};
use pool::{DatasetKind, NewDataset, VolumeShape};
use vfs::{FileSystem, Kind};

use crate::common::history::{History, Synced, is_between};
use crate::common::look::{look, look_from, resolve};
use crate::common::model::{Id, Model, Picture};
use crate::common::{Dice, origin};
use crate::model::world::ModelDataset;
use crate::sim::Sim;

/// The file's number.
const FILE: Id = 1;
const NAME: &[u8] = b"volume";
const BLOCK_SIZES: [u64; 2] = [4096, 16_384];

/// A dataset in use.
pub enum InUse {
    Files(Arc<SnapshotDirFs>),
    Volume(Arc<Volume>),
}

impl InUse {
    pub fn head(&self) -> &Arc<Dataset> {
        match self {
            InUse::Files(mounted) => mounted.head(),
            InUse::Volume(volume) => volume.dataset(),
        }
    }

    pub fn close_snapshots(&self) {
        if let InUse::Files(mounted) = self {
            mounted.close_snapshots();
        }
    }

    /// Returns all that can be seen in it.
    pub fn look(&self) -> vfs::Result<Picture> {
        match self {
            InUse::Files(mounted) => look(mounted.as_ref()),
            InUse::Volume(volume) => picture(volume),
        }
    }
}

fn model(contents: Vec<u8>) -> Model {
    let mut model = Model::new();
    assert_eq!(model.add(0, NAME, Kind::File, 0o600), FILE);
    model.node_mut(FILE).contents = contents;
    model
}

fn picture(volume: &Volume) -> vfs::Result<Picture> {
    let mut contents = vec![0; volume.size() as usize];
    let read = volume.read_at(0, &mut contents);
    read.map_err(|_| vfs::Error::Io)?;
    Ok(model(contents).picture())
}

/// The property that says that a dataset is a volume.
pub fn volume_mark() -> String {
    VolumeShape::new(4096, 4096).unwrap().mark().0
}

/// Makes a volume of what was to be a dataset of files.
pub fn make_volume(dice: &mut Dice, new: &mut NewDataset, dataset: &mut ModelDataset) {
    let block = BLOCK_SIZES[dice.below(2) as usize];
    let size = (1 + dice.below(16)) * block;
    let mark = VolumeShape::new(size, block as u32).unwrap().mark();
    new.kind = DatasetKind::Volume;
    new.props.extend([mark.clone()]);
    dataset.props.extend([mark]);
    dataset.block_size = Some(block);
    dataset.history = History::new(model(vec![0; size as usize]));
}

impl ModelDataset {
    /// Says how large it is, if it is a volume: as large as the model's file.
    pub fn follow_size(&mut self) {
        if let Some(block) = self.block_size {
            let size = self.history.now().nodes[&FILE].contents.len() as u64;
            let shape = VolumeShape::new(size, block as u32).unwrap();
            self.props.extend([shape.mark()]);
        }
    }
}

impl Sim {
    /// A request to a volume in use.
    pub fn request(&mut self, guid: u64, volume: &Volume) {
        let mut after = self.dataset_mut(guid).history.now().clone();
        let contents = &mut after.node_mut(FILE).contents;
        let size = contents.len() as u64;
        let offset = match self.dice.below(2) {
            0 => self.dice.below(size / 4096) * 4096,
            _ => self.dice.below(size),
        };
        let len = match self.dice.below(4) {
            0 => 1 + self.dice.below(600),
            1 => 4096,
            2 => 16_384,
            _ => 1 + self.dice.below(size),
        };
        let len = len.min(size - offset);
        let range = offset as usize..(offset + len) as usize;
        let (what, result) = match self.dice.below(6) {
            0 => {
                contents[range].fill(0);
                ("discard", volume.discard(offset, len))
            }
            1 => {
                contents[range].fill(0);
                ("zero", volume.zero(offset, len))
            }
            _ => {
                let byte = self.dice.below(255) as u8;
                let mut data: Vec<u8> = (0..len).map(|n| byte.wrapping_add(n as u8)).collect();
                // So that there is something to compress, and something to share.
                data[len as usize / 2..].fill(byte);
                contents[range].copy_from_slice(&data);
                ("write", volume.write_at(offset, &[IoSlice::new(&data)]))
            }
        };
        self.say(format!("{guid}: {what} {offset}+{len}"));
        match result {
            Ok(()) => self.dataset_mut(guid).history.push(after, what != "write"),
            Err(error) if error.is_no_space() => self.had_no_space(guid, volume, after),
            Err(error) => {
                assert!(self.may_fail(), "{error}");
                self.say(format!("   {error}"));
                self.dataset_mut(guid).history.push(after, true);
                self.is_over = true;
                return;
            }
        }
        if volume.dataset().settings().sync == SyncMode::Always {
            self.dataset_mut(guid).history.mark(Synced::All);
        }
        if self.dice.below(2) == 0 {
            self.say(format!("{guid}: settle"));
            self.survive_sync(volume.settle());
        }
    }

    /// Handles a lack of free space: nothing has happened, or a part of several steps.
    fn had_no_space(&mut self, guid: u64, volume: &Volume, after: Model) {
        self.say("   no free space");
        let Ok(found) = picture(volume) else {
            assert!(self.may_fail());
            self.is_over = true;
            return;
        };
        let found = &found[&[b"/", NAME].concat()].contents;
        let before = self.dataset_mut(guid).history.now().clone();
        let states = [&before, &after].map(|model| &model.nodes[&FILE].contents[..]);
        assert!(is_between(&states, found), "a part of it that cannot be");
        let now = model(found.clone());
        self.dataset_mut(guid).history.push(now, true);
    }

    pub fn flush(&mut self, guid: u64, volume: &Volume) {
        self.say(format!("{guid}: flush"));
        let is_asked_for = volume.dataset().settings().sync != SyncMode::Disabled;
        if self.survive_sync(volume.flush()) && is_asked_for {
            self.dataset_mut(guid).history.mark(Synced::All);
        }
    }

    /// Returns whether changes were written to the devices.
    fn survive_sync(&mut self, written: block::Result<()>) -> bool {
        match written {
            Ok(()) => return true,
            Err(error) if error.is_no_space() => self.say("   no free space"),
            Err(error) => {
                assert!(self.may_fail(), "{error}");
                self.say(format!("   {error}"));
                self.is_over = true;
            }
        }
        false
    }

    /// Gives a volume in use another size.
    pub fn resize(&mut self, name: &str) {
        let guid = self.world.datasets[name].guid;
        let Some(InUse::Volume(volume)) = self.mounted.get(&guid) else {
            return;
        };
        let volume = Arc::clone(volume);
        let size = (1 + self.dice.below(16)) * u64::from(volume.block_size());
        self.say(format!("{name}: {size} bytes"));
        let resized = volume.resize(size, &origin());
        let mut after = self.world.clone();
        let dataset = after.datasets.get_mut(name).unwrap();
        let mut now = dataset.history.now().clone();
        now.node_mut(FILE).contents.resize(size as usize, 0);
        dataset.history.push(now, false);
        dataset.history.committed();
        dataset.follow_size();
        let resized = match resized {
            Err(dataset::Error::Pool(error)) => Err(error),
            Err(error) => panic!("{error}"),
            Ok(()) => Ok(()),
        };
        // What was cut off goes when there is space for that.
        let resized = match resized {
            Err(pool::Error::NoSpace) if volume.size() == size => Ok(()),
            other => other,
        };
        self.command(after, resized);
    }

    /// Looks at a snapshot of what is in use.
    pub fn look_at(&mut self, guid: u64, snapshot: &str) -> Option<vfs::Result<Picture>> {
        if let InUse::Files(mounted) = &self.mounted[&guid] {
            // The snapshot is open as long as its root is looked up.
            let dir = resolve(mounted.as_ref(), vfs::SNAPSHOT_DIR);
            let root = dir.and_then(|dir| mounted.lookup(dir, snapshot.as_bytes()));
            return Some(root.and_then(|root| {
                let found = look_from(mounted.as_ref(), root.ino);
                mounted.forget(root.ino, 1);
                found
            }));
        }
        let (name, dataset) = self.world.by_guid(guid).unwrap();
        let (name, dataset) = (format!("{name}@{snapshot}"), dataset.clone());
        let pool = self.pool();
        let entry = pool.find(&name).unwrap();
        let keys = self.data_keys(&entry, &dataset)?;
        let settings = dataset::Settings::default();
        let opened = Volume::open(self.engine(), &pool, entry.id, keys, settings);
        let volume = self.survive_dataset(opened)?;
        Some(picture(&volume))
    }
}

/// The datasets in use, by guid.
pub type AllInUse = BTreeMap<u64, InUse>;
