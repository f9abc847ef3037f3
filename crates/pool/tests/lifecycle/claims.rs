//! Reserved devices: a host whose device another one has taken writes nothing more, and acknowledges nothing.

use std::sync::Arc;

use crate::common::*;
use block::{BlockDevice, Claimant, Registrar, SharedDisk};
use pool::{Pool, SuspensionEnd};
use store::{CreateOptions, NewGroup, NewMember, Store};

fn host(id: u32) -> Claimant {
    Claimant::new((id, "host"), "boot", 7)
}

/// Disks that two hosts reach.
struct Shared(Vec<SharedDisk>);

impl Shared {
    fn new(count: usize) -> Shared {
        let disk = |_| SharedDisk::new(DEVICE_SIZE);
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

/// The pool says that it is suspended until the next import, and stays so.
fn is_over(pool: &Pool) {
    assert_eq!(pool.suspended_until(), Some(SuspensionEnd::Imported));
    let tried = [
        change(pool),
        pool.commit(),
        pool.resume(&origin()),
        pool.export(),
    ];
    for error in tried.map(Result::unwrap_err) {
        let error = error.to_string();
        assert!(error.contains("another machine has taken it"), "{error}");
    }
}

#[test]
fn a_pool_that_another_host_has_reserved_cannot_be_had() {
    let shared = Shared::new(2);
    let pool = shared.pool();
    let error = shared.open(2, &host(2)).map(drop).unwrap_err();
    assert!(error.to_string().contains("is reserved by another machine"));
    change(&pool).unwrap();
    pool.multihost().check_claims().unwrap();
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
    other.multihost().check_claims().unwrap();
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
    pool.multihost().check_claims().unwrap();
    let view = shared.0[0].seen_by(2);
    let _claim = view.claim(&host(2).by_force()).unwrap();
    pool.multihost().check_claims().unwrap_err();
    is_over(&pool);
}

#[test]
fn devices_that_join_are_reserved_and_those_that_leave_are_not() {
    let shared = Shared::new(2);
    let pool = shared.pool();
    let third = SharedDisk::new(DEVICE_SIZE);
    let new = NewMember {
        device: Arc::new(third.seen_by(1)),
        guid: 20,
        created: 1,
        force: false,
    };
    pool.attach_device(8, &new, false, &origin()).unwrap();
    assert_eq!(holder(&third), Some(host(1).key()));
    resilver(&pool);
    pool.detach_device(20, &origin()).unwrap();
    assert_eq!(holder(&third), None);
    pool.multihost().release_devices();
    assert_eq!(holder(&shared.0[0]), None);
    change(&pool).unwrap();
    pool.multihost().claim_devices(&host(1)).unwrap();
    assert_eq!(holder(&shared.0[1]), Some(host(1).key()));
}

fn holder(disk: &SharedDisk) -> Option<u64> {
    disk.seen_by(9).registered().unwrap().holder
}

#[test]
fn a_device_that_cannot_be_reserved_is_passed_over_if_others_are_enough() {
    let shared = Shared::new(2);
    export(shared.pool());
    shared.0[1].set_silent(true);
    let store = shared.open(1, &host(1)).unwrap();
    assert_eq!(store.members().len(), 1);
    let [reason] = store.passed_over() else {
        panic!("{:?}", store.passed_over());
    };
    assert!(reason.contains("cannot be reserved"), "{reason}");
    let pool = Pool::open(Arc::new(store), TestEnv::new(2), false).unwrap();
    change(&pool).unwrap();
    assert_eq!(holder(&shared.0[0]), Some(host(1).key()));
    // Nor does it hide that another host has the pool.
    let error = shared.open(2, &host(2)).map(drop).unwrap_err();
    assert!(error.to_string().contains("is reserved by another machine"));
    export(pool);
    shared.0[0].set_silent(true);
    let error = shared.open(1, &host(1)).map(drop).unwrap_err();
    assert!(error.to_string().contains("cannot be reserved"), "{error}");
}

#[test]
fn a_store_without_some_devices_keeps_the_reservations() {
    let shared = Shared::new(2);
    export(shared.pool());
    let all = shared.open(1, &host(1)).unwrap();
    let store = all.without(&[9]).unwrap();
    drop(all);
    assert!(store.is_claimed());
    assert_eq!(holder(&shared.0[0]), Some(host(1).key()));
    assert_eq!(holder(&shared.0[1]), None);
    store.check_claims().unwrap();
}

#[test]
fn a_device_that_comes_back_stays_reserved() {
    let shared = Shared::new(2);
    export(shared.pool());
    let store = shared.open(1, &host(1)).unwrap();
    let back = Arc::new(shared.0[1].seen_by(1));
    store.take_back(back, 9).unwrap();
    assert_eq!(holder(&shared.0[1]), Some(host(1).key()));
    store.set_state(9, store::MemberState::Online);
    store.check_claims().unwrap();
}

#[test]
fn a_spare_that_becomes_a_member_keeps_its_reservation() {
    let (mirror, spare) = (Shared::new(2), SharedDisk::new(DEVICE_SIZE));
    let options = CreateOptions {
        pool_guid: 7,
        device_guids: vec![8, 9, 10],
        created: 1,
        force: false,
    };
    let groups = vec![NewGroup::from(mirror.seen_by(1))];
    let spares: Vec<Arc<dyn BlockDevice>> = vec![Arc::new(spare.seen_by(1))];
    let store = Store::create_by(groups, spares, &options, Some(&host(1))).unwrap();
    store.commit_labels().unwrap();
    // If the spare cannot be written, it keeps its reservation.
    spare.set_read_only(true);
    store.enlist(10, 0, 2).unwrap_err();
    assert_eq!(holder(&spare), Some(host(1).key()));
    spare.set_read_only(false);
    store.enlist(10, 0, 2).unwrap();
    assert_eq!(holder(&spare), Some(host(1).key()));
    store.check_claims().unwrap();
}

#[test]
fn only_devices_in_use_are_asked() {
    let shared = Shared::new(2);
    export(shared.pool());
    let store = Arc::new(shared.open(1, &host(1)).unwrap());
    let pool = Pool::open(Arc::clone(&store), TestEnv::new(2), false).unwrap();
    store.set_state(9, store::MemberState::Faulted);
    shared.0[1].forget_registrations();
    pool.multihost().check_claims().unwrap();
    change(&pool).unwrap();
    shared.0[0].forget_registrations();
    let error = pool.multihost().check_claims().unwrap_err().to_string();
    assert!(error.contains("has forgotten it"), "{error}");
    assert_eq!(pool.suspended_until(), Some(SuspensionEnd::Imported));
}

#[test]
fn a_reservation_that_is_left_over_is_seen() {
    let shared = Shared::new(1);
    export(shared.pool());
    let store = Store::open(shared.seen_by(2)).unwrap();
    store.check_unreserved().unwrap();
    std::mem::forget(shared.seen_by(1)[0].claim(&host(1)).unwrap());
    let error = store.check_unreserved().unwrap_err().to_string();
    assert!(error.contains("is reserved by another machine"), "{error}");
}
