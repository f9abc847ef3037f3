//! Persistent reservations of targets: what the daemon keeps, and where.

use std::fs::File;
use std::net::TcpListener;

use crate::common::*;
use crate::initiator::{CONFLICT, GOOD, Initiator};

const NAME: &str = "iqn.2026-01.org.example:shared";
const REGISTER_AND_IGNORE: u8 = 6;
const RESERVE: u8 = 1;
const EXCLUSIVE_ACCESS: u8 = 3;
const KEY: u64 = 0x1234;
const APTPL: u8 = 1;

fn export(place: &Place, portal: &str, device: &str, more: &str) {
    place.ok(&format!(
        "iscsi export --no-authentication --portal {portal} --name {NAME} {more} {device}"
    ));
}

/// Logs in and is told of the unit attention.
fn log_in(portal: &str, name: &str) -> Initiator {
    let mut initiator = Initiator::log_in(portal.parse().unwrap(), name, 1, NAME);
    assert_eq!(initiator.attentions().len(), 1);
    initiator
}

fn reserve(portal: &str, flags: u8) -> Initiator {
    let mut owner = log_in(portal, "iqn.x:owner");
    assert_eq!(
        owner
            .reserve_out(REGISTER_AND_IGNORE, 0, 0, KEY, flags)
            .status,
        GOOD
    );
    assert_eq!(
        owner
            .reserve_out(RESERVE, EXCLUSIVE_ACCESS, KEY, 0, 0)
            .status,
        GOOD
    );
    owner
}

/// Returns whether the reservation of the owner is in effect.
fn is_reserved(portal: &str) -> bool {
    let (mut owner, mut other) = (log_in(portal, "iqn.x:owner"), log_in(portal, "iqn.x:other"));
    assert_eq!(owner.write(1, 7), GOOD);
    let status = other.write(1, 8);
    assert!([GOOD, CONFLICT].contains(&status));
    let kept = owner.reserve_in(1).data;
    let keys = owner.reserve_in(0).data;
    let is_held = kept.len() == 24 && kept[8..16] == KEY.to_be_bytes();
    assert_eq!(is_held, status == CONFLICT);
    assert_eq!(keys.len() == 16, is_held);
    is_held
}

#[test]
fn they_are_kept_over_a_restart_if_that_is_asked_for() {
    let mut place = Place::new();
    let disk = place.arg("disk.img");
    File::create(&disk).unwrap().set_len(16 << 20).unwrap();
    place.pool("tank");
    place.ok("create -V 16M tank/disk");
    for device in [disk.as_str(), "tank/disk"] {
        let portal = free_portal();
        export(&place, &portal, device, "");
        for (flags, kept) in [(0, false), (APTPL, true)] {
            let owner = reserve(&portal, flags);
            let rows = place.ok("--json iscsi list");
            has(&rows, "\"type\": \"exclusive-access\"");
            has(&rows, "iqn.x:owner");
            place.says("--json iscsi sessions", "\"registered\": true");
            // A daemon that is killed has time for nothing.
            place.kill();
            drop(owner);
            place.start();
            // Commands wait until everything is exported again.
            place.says("iscsi list -H", "\t16M\t");
            assert_eq!(is_reserved(&portal), kept, "{device}");
        }
        place.ok(&format!("iscsi unexport --force {NAME}"));
        export(&place, &portal, device, "");
        assert!(is_reserved(&portal));
        place.ok(&format!("iscsi unexport --force {NAME}"));
        export(&place, &portal, device, "--forget-reservations");
        assert!(!is_reserved(&portal));
        place.ok(&format!("iscsi unexport --force {NAME}"));
    }
    lacks(&place.ok("get all tank/disk"), "@scsi");
    // Initiators do not fill the history.
    lacks(&place.ok("pool history -il tank"), "reservations");
    place.terminate();
}

#[test]
fn those_of_a_volume_move_with_its_pool() {
    let mut place = Place::new();
    place.pool("tank");
    place.ok("create -V 16M tank/disk");
    let portal = free_portal();
    export(&place, &portal, "tank/disk", "");
    drop(reserve(&portal, APTPL));
    // Clones are other devices.
    place.ok("snapshot tank/disk@now");
    place.ok("clone tank/disk@now tank/clone");
    place.ok(&format!("iscsi unexport --force {NAME}"));
    place.ok("rename tank/disk tank/renamed");
    place.ok("pool export tank");
    place.terminate();

    let mut other = Place::new();
    other.ok(&format!("pool import -d {} tank", place.root().display()));
    export(&other, &portal, "tank/renamed", "");
    assert!(is_reserved(&portal));
    other.ok(&format!("iscsi unexport --force {NAME}"));
    export(&other, &portal, "tank/clone", "");
    assert!(!is_reserved(&portal));
    other.terminate();
}

#[test]
fn they_hold_at_all_portals() {
    let place = Place::new();
    let disk = place.arg("disk.img");
    File::create(&disk).unwrap().set_len(16 << 20).unwrap();
    let (first, second) = (free_portal(), free_portal());
    export(&place, &first, &disk, &format!("--portal {second}"));
    let _owner = reserve(&first, 0);
    let mut other = log_in(&second, "iqn.x:other");
    assert_eq!(other.write(1, 8), CONFLICT);
    has(&place.ok("--json iscsi list"), &format!("{first},{second}"));
    place.ok(&format!("iscsi unexport --force {NAME}"));
    // Nothing listens at either.
    TcpListener::bind(&first).unwrap();
    TcpListener::bind(&second).unwrap();
    // A portal that cannot be used leaves nothing behind at the others.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    place.fails(
        &format!("iscsi export --no-authentication --portal {first} --portal {taken} {disk}"),
        BUSY,
    );
    TcpListener::bind(&first).unwrap();
    place.fails(
        &format!("iscsi export --no-authentication --portal {first} --portal {first} {disk}"),
        USAGE,
    );
}
