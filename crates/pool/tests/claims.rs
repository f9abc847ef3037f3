//! Reserved devices: a host whose device another one has taken writes nothing more, and acknowledges nothing.
#![allow(missing_docs)]

mod common;

use std::sync::Arc;

use block::{BlockDevice, Claimant, Registrar, SharedDisk};
use common::*;
use pool::{Pool, Until};
use store::{CreateOptions, NewGroup, NewMember, Store};

fn host(id: u32) -> Claimant {
    Claimant::new((id, "host"), "boot", 7)
}

/// Disks that two hosts reach.
struct Shared(Vec<SharedDisk>);

impl Shared {
    fn new(count: usize) -> Shared {
        let disk = |_| SharedDisk::new(DEVICE_SIZE, true);
        Shared((0..count).map(disk).collect())
    }

    fn seen_by(&self, host: u32) -> Vec<Arc<dyn BlockDevice>> {
        let views = self.0.iter().map(|disk| disk.seen_by(host));
        views.map(|view| Arc::new(view) as _).collect()
    }

    /// A pool, with all disks in one mirror, that host 1 has imported and reserved.
    fn pool(&self) -> Pool {
        let options = CreateOptions {
            pool_guid: 7,
            device_guids: (8..).take(self.0.len()).collect(),
            created: 1,
            force: false,
        };
        let groups = vec![NewGroup::from(self.seen_by(1))];
        let store = Store::create_by(groups, Vec::new(), &options, Some(&host(1))).unwrap();
        let store = Arc::new(store);
        let pool =
            Pool::create(Arc::clone(&store), TestEnv::new(1), "tank", new_dataset(1)).unwrap();
        store.commit_labels().unwrap();
        pool
    }

    fn open(&self, by: u32, claimant: &Claimant) -> store::Result<Store> {
        Store::open_claimed(self.seen_by(by), claimant)
    }
}

/// Changes something, durably.
fn change(pool: &Pool) -> pool::Result<()> {
    let change = ("a:b".to_owned(), Some("c".to_owned()));
    pool.set_props(&["tank".into()], &[change], &origin())
}

/// It says that it is suspended until the next import, and stays so.
fn is_over(pool: &Pool) {
    assert_eq!(pool.suspended_until(), Some(Until::Imported));
    let tried = [
        change(pool),
        pool.commit(),
        pool.resume(&origin()),
        pool.export(),
    ];
    for error in tried.map(Result::unwrap_err) {
        let error = error.to_string();
        assert!(error.contains("taken the reservation"), "{error}");
    }
}

#[test]
fn a_pool_that_another_host_has_reserved_cannot_be_had() {
    let shared = Shared::new(2);
    let pool = shared.pool();
    let error = shared.open(2, &host(2)).map(drop).unwrap_err();
    assert!(error.to_string().contains("is reserved by another machine"));
    change(&pool).unwrap();
    pool.check_claims().unwrap();
    export(pool);
    let other = shared.open(2, &host(2)).unwrap();
    assert!(other.is_claimed());
    shared.open(1, &host(1)).map(drop).unwrap_err();
    drop(other);
    shared.open(1, &host(1)).unwrap();
}

#[test]
fn what_is_taken_by_force_acknowledges_nothing_more() {
    let shared = Shared::new(1);
    let pool = shared.pool();
    change(&pool).unwrap();
    let other = shared.open(2, &host(2).by_force()).unwrap();
    let other = Pool::open(Arc::new(other), TestEnv::new(2), false).unwrap();
    let before = other.committed_txg();
    // The first change notices it by the failure of the device.
    change(&pool).unwrap_err();
    is_over(&pool);
    assert_eq!(pool.committed_txg(), before);
    drop(pool);
    change(&other).unwrap();
    assert!(other.check().unwrap().is_clean());
    other.check_claims().unwrap();
}

#[test]
fn one_device_of_a_mirror_is_enough() {
    let shared = Shared::new(2);
    let pool = shared.pool();
    let view = shared.0[1].seen_by(2);
    let _claim = view.claim(&host(2).by_force()).unwrap();
    change(&pool).unwrap_err();
    is_over(&pool);
    // It is not a device that failed, and that the pool goes on without.
    let states = pool.devices().into_iter().map(|device| device.state);
    assert!(states.into_iter().all(|it| it == pool::DeviceState::Online));
}

#[test]
fn a_pool_without_work_notices_it_too() {
    let shared = Shared::new(2);
    let pool = shared.pool();
    pool.check_claims().unwrap();
    let view = shared.0[0].seen_by(2);
    let _claim = view.claim(&host(2).by_force()).unwrap();
    pool.check_claims().unwrap_err();
    is_over(&pool);
}

#[test]
fn devices_that_join_are_reserved_and_those_that_leave_are_not() {
    let shared = Shared::new(2);
    let pool = shared.pool();
    let third = SharedDisk::new(DEVICE_SIZE, true);
    let new = NewMember {
        device: Arc::new(third.seen_by(1)),
        guid: 20,
        created: 1,
        force: false,
    };
    pool.attach_device(8, &new, false, &origin()).unwrap();
    let holder = |disk: &SharedDisk| disk.seen_by(9).registered().unwrap().unwrap().holder;
    assert_eq!(holder(&third), Some(host(1).key()));
    resilver(&pool);
    pool.detach_device(20, &origin()).unwrap();
    assert_eq!(holder(&third), None);
    pool.release_devices();
    assert_eq!(holder(&shared.0[0]), None);
    change(&pool).unwrap();
    pool.claim_devices(&host(1)).unwrap();
    assert_eq!(holder(&shared.0[1]), Some(host(1).key()));
}
