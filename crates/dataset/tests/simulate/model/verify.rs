//! Comparing what a pool holds with what it should hold.

use crate::common::history::History;
use crate::common::model::{Picture, assert_same};
use crate::model::world::Snapshot;
use crate::programs::volumes::InUse;
use crate::sim::Sim;

impl Sim {
    /// Checks that nothing is lost, and nothing used twice.
    pub fn check(&mut self) {
        if self.may_fail() {
            return;
        }
        let report = self.pool().check();
        if let Some(report) = self.survive(report) {
            assert!(report.is_clean(), "{:#?}", report.findings);
        }
    }

    /// Compares everything in a dataset that is in use with what it should hold.
    pub fn verify(&mut self, guid: u64) {
        let found = self.mounted[&guid].look();
        if let Some(found) = self.look(found) {
            let (name, dataset) = self.world.by_guid(guid).unwrap();
            assert_same(&found, &dataset.history.now().picture(), name);
        }
        self.verify_counts(guid);
    }

    /// Checks that the counts of users and groups are those of counting anew, and that the blocks of each file
    /// are those of its records.
    fn verify_counts(&mut self, guid: u64) {
        if self.is_over || matches!(self.mounted[&guid], InUse::Volume(_)) {
            return;
        }
        let checked = self.files(guid).check_owners();
        if let Some(wrong) = self.survive_dataset(checked) {
            assert_eq!(wrong, [], "in {guid}");
        }
        let checked = self.files(guid).check_blocks();
        if let Some(wrong) = self.survive_dataset(checked) {
            assert_eq!(wrong, [], "in {guid}");
        }
    }

    /// Finds out what a dataset holds that has come into use again, and whether that can be.
    pub fn settle(&mut self, guid: u64) {
        let found = self.mounted[&guid].look();
        let Some(found) = self.look(found) else {
            return;
        };
        let (name, dataset) = self.world.by_guid(guid).unwrap();
        let Some(model) = dataset.history.settle(&found) else {
            let now = dataset.history.now().picture();
            assert_same(
                &found,
                &now,
                &format!("{name}, beside the last of all states"),
            );
            panic!("{name} is a mixture that it cannot be");
        };
        self.dataset_mut(guid).history = History::new(model);
        self.verify_counts(guid);
    }

    /// Compares a snapshot with what it should hold.
    pub fn verify_snapshot(&mut self, guid: u64, index: usize) {
        let Snapshot { name, history, .. } =
            self.world.by_guid(guid).unwrap().1.snapshots[index].clone();
        self.say(format!("look at @{name}"));
        let Some(found) = self.look_at(guid, &name) else {
            return;
        };
        if let Some(found) = self.look(found) {
            let model = history.settle(&found);
            let model = model.unwrap_or_else(|| {
                assert_same(&found, &history.now().picture(), &name);
                panic!("snapshot {name} is none of {} states", history.len())
            });
            self.dataset_mut(guid).snapshots[index].history = History::new(model);
        }
    }

    fn look(&mut self, found: vfs::Result<Picture>) -> Option<Picture> {
        match found {
            Ok(found) => Some(found),
            Err(error) => {
                assert!(self.may_fail(), "looking: {error}");
                self.is_over = true;
                None
            }
        }
    }
}
