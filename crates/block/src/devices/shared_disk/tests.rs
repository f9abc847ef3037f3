use std::io::IoSlice;

use super::*;

fn machine(id: u32, boot: &str) -> Claimant {
    Claimant::new((id, "host"), boot, 7)
}

fn writes(view: &DiskView) -> bool {
    view.write_at(0, &[IoSlice::new(&[1; 512])]).is_ok()
}

#[test]
fn keys_tell_machines_apart_and_their_boots() {
    let one = machine(1, "a");
    // Other versions of the program know them.
    assert_eq!(one.key(), 0x5352_0635_e09d_acba);
    assert_eq!(one, machine(1, "a"));
    let again = machine(1, "b");
    assert!(again != one && again.is_self(one.key()));
    let other_pool = Claimant::new((1, "host"), "a", 8);
    assert!(other_pool != one && other_pool.is_self(one.key()));
    assert!(!one.is_self(machine(2, "a").key()));
    assert!(!one.is_self(Claimant::new((1, "other"), "a", 7).key()));
}

#[test]
fn a_disk_is_of_one_machine_at_a_time() {
    let disk = SharedDisk::new(1 << 20);
    let (a, b) = (disk.seen_by(1), disk.seen_by(2));
    let (one, two) = (machine(1, "a"), machine(2, "a"));
    assert!(writes(&a) && writes(&b));
    let first = a.claim(&one).unwrap();
    assert!(writes(&a) && !writes(&b));
    first.check().unwrap();
    // One that is refused leaves nothing behind.
    assert!(matches!(b.claim(&two), Err(Error::Reserved { .. })));
    assert!(writes(&a) && !writes(&b));
    first.check().unwrap();
    let second = b.claim(&two.by_force()).unwrap();
    assert!(!writes(&a) && writes(&b));
    assert!(matches!(first.check(), Err(Error::ClaimLost { .. })));
    // It takes nothing with it that is the other's now.
    drop(first);
    second.check().unwrap();
    assert!(!writes(&a) && writes(&b));
    drop(second);
    assert!(writes(&a) && writes(&b));
    a.claim(&one).unwrap().check().unwrap();
}

#[test]
fn a_machine_takes_back_what_it_had_before_it_was_booted() {
    let disk = SharedDisk::new(1 << 20);
    let (a, b) = (disk.seen_by(1), disk.seen_by(2));
    // A crash ends no claim.
    std::mem::forget(a.claim(&machine(1, "a")).unwrap());
    a.claim(&machine(1, "a")).unwrap().check().unwrap();
    std::mem::forget(a.claim(&machine(1, "a")).unwrap());
    let claim = a.claim(&machine(1, "b")).unwrap();
    assert!(writes(&a) && !writes(&b));
    claim.check().unwrap();
}

#[test]
fn a_machine_takes_over_what_it_had_by_another_path() {
    let disk = SharedDisk::new(1 << 20);
    let (old, new) = (disk.seen_by(1), disk.seen_by(2));
    let before = old.claim(&machine(1, "a")).unwrap();
    let after = new.claim(&machine(1, "b")).unwrap();
    before.check().unwrap_err();
    after.check().unwrap();
}

#[test]
fn of_two_that_take_it_by_force_the_last_one_has_it() {
    let disk = SharedDisk::new(1 << 20);
    let claims = [1, 2, 3].map(|id| {
        let by = machine(id, "a").by_force();
        disk.seen_by(id).claim(&by).unwrap()
    });
    assert_eq!(
        claims.each_ref().map(|it| it.check().is_ok()),
        [false, false, true]
    );
    assert_eq!(
        [1, 2, 3].map(|id| writes(&disk.seen_by(id))),
        [false, false, true]
    );
}

#[test]
fn others_that_are_registered_are_shut_out() {
    let disk = SharedDisk::new(1 << 20);
    let (a, b) = (disk.seen_by(1), disk.seen_by(2));
    b.register(Some(0), machine(2, "a").key()).unwrap();
    let claim = a.claim(&machine(1, "a")).unwrap();
    assert!(writes(&a) && !writes(&b));
    claim.check().unwrap();
}

#[test]
fn the_registration_of_other_programs_stays() {
    let disk = SharedDisk::new(1 << 20);
    let a = disk.seen_by(1);
    a.register(Some(0), 0xabc).unwrap();
    a.reserve(0xabc).unwrap();
    for by in [machine(1, "a"), machine(1, "a").by_force()] {
        let error = a.claim(&by).map(drop).unwrap_err().to_string();
        assert!(
            error.contains("another program (key 0x0000000000000abc)"),
            "{error}"
        );
    }
    assert_eq!(a.registered().unwrap().holder, Some(0xabc));
    // On another machine force takes it.
    let b = disk.seen_by(2);
    let refused = b.claim(&machine(2, "a")).map(drop).unwrap_err();
    assert!(refused.to_string().contains("another program"), "{refused}");
    b.claim(&machine(2, "a").by_force()).unwrap();
}

#[test]
fn a_lost_reservation_says_whether_another_machine_has_it() {
    let disk = SharedDisk::new(1 << 20);
    let a = disk.seen_by(1);
    let lost = |claim: &Claim| claim.check().unwrap_err().to_string();
    let claim = a.claim(&machine(1, "a")).unwrap();
    let _other = disk.seen_by(2).claim(&machine(2, "a").by_force()).unwrap();
    assert!(lost(&claim).contains("another machine has taken it"));
    drop(claim);
    disk.forget_registrations();
    let claim = a.claim(&machine(1, "a")).unwrap();
    disk.forget_registrations();
    assert!(lost(&claim).contains("has forgotten it"));
    // It stays lost, for the same reason.
    let _other = disk.seen_by(2).claim(&machine(2, "a")).unwrap();
    assert!(lost(&claim).contains("has forgotten it"));
}

#[test]
fn a_disk_that_does_not_tell_who_is_registered_is_refused_and_left_alone() {
    let disk = SharedDisk::new(1 << 20);
    let (a, b) = (disk.seen_by(1), disk.seen_by(2));
    let refused = |view: &DiskView, by: Claimant| {
        let error = view.claim(&by).map(drop).unwrap_err();
        assert!(matches!(error, Error::NoReservations { .. }), "{error}");
    };
    disk.set_silent(true);
    refused(&a, machine(1, "a"));
    disk.set_silent(false);
    assert_eq!(a.registered().unwrap(), Registrations::default());
    // Force takes nothing from an owner that it cannot see.
    let claim = a.claim(&machine(1, "a")).unwrap();
    disk.set_silent(true);
    refused(&b, machine(2, "a").by_force());
    assert!(writes(&a) && !writes(&b));
    // A conflict that cannot be explained is no loss, for example on a second path.
    let second = Claim::take(Box::new(b.clone()), b.name(), &machine(1, "a"));
    assert!(second.is_err());
    disk.set_silent(false);
    drop(claim);
    let claim = b.claim(&machine(2, "a")).unwrap();
    let _taken = a.claim(&machine(1, "a").by_force()).unwrap();
    disk.set_silent(true);
    claim.check().unwrap();
    disk.set_silent(false);
    assert!(matches!(claim.check(), Err(Error::ClaimLost { .. })));
}

#[test]
fn a_multipath_disk_is_taken_back_after_a_crash() {
    let disk = SharedDisk::new(1 << 20);
    let (a, b) = (disk.seen_by_paths_of(1), disk.seen_by(2));
    for boot in ["a", "a", "b"] {
        let claim = a.claim(&machine(1, boot)).unwrap();
        claim.check().unwrap();
        assert!(writes(&a) && !writes(&b));
        std::mem::forget(claim);
    }
}

#[test]
fn a_reservation_for_a_pool_is_seen_without_one() {
    let disk = SharedDisk::new(1 << 20);
    let (a, b) = (disk.seen_by(1), disk.seen_by(2));
    a.check_unreserved().unwrap();
    let claim = a.claim(&machine(1, "a")).unwrap();
    for view in [&a, &b] {
        let error = view.check_unreserved().unwrap_err().to_string();
        assert!(error.contains("key 0x5352"), "{error}");
    }
    drop(claim);
    // One of another program is its own business.
    a.register(Some(0), 0xabc).unwrap();
    a.reserve(0xabc).unwrap();
    b.check_unreserved().unwrap();
    disk.set_silent(true);
    b.check_unreserved().unwrap();
}
