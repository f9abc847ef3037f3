//! Logins that are sent elsewhere, and those that take no place from others.

mod common;

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use block::MemoryDevice;
use common::initiator::{GOOD, Initiator};
use common::{Portal, TARGET};
use iscsi::{LoginRedirect, TargetAccess};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

fn portal() -> Portal {
    Portal::new(Arc::new(MemoryDevice::new(1 << 20)), None)
}

#[test]
fn initiators_are_sent_to_other_portals_in_turn() {
    let portal = portal();
    let mut before = portal.log_in("before");
    let target = portal.targets.all().remove(0);
    let send = |permanently| {
        let to = ["[2001:db8::1]:3260", "192.0.2.1:3260", "192.0.2.2:3261"];
        let to = to.map(String::from).to_vec();
        let moved = LoginRedirect { to, permanently };
        portal.targets.set_moved(&target, Some(moved));
    };
    let told = |name: &str| {
        let text = format!("InitiatorName=iqn.x:{name}\0TargetName={TARGET}\0");
        let (_, told) = Initiator::try_log_in(portal.address, 1, &text);
        let text = String::from_utf8(told.data).unwrap();
        ([told.head[36], told.head[37]], text)
    };
    send(false);
    // It came by IPv4.
    let to = |address: &str| format!("TargetAddress={address}\0");
    let (one, two) = (to("192.0.2.1:3260"), to("192.0.2.2:3261"));
    assert_eq!(told("a"), ([1, 1], one.clone()));
    assert_eq!(told("a"), ([1, 1], two));
    send(true);
    assert_eq!(told("a"), ([1, 2], one));
    assert_eq!(before.write(1, 5), GOOD);
    // Who has no access does not learn where the target is.
    let access = TargetAccess {
        initiators: vec!["iqn.x:before".into()],
        ..TargetAccess::default()
    };
    target.set_access(access).unwrap();
    assert_eq!(told("a"), ([2, 3], String::new()));
    portal.targets.set_moved(&target, None);
    before.log_out();
    portal.log_in("before").log_out();
}

/// Requests of a login, each with the stage it is in and the one it wants. Returns the class and detail of the last answer.
fn log_in_by_stages(portal: &Portal, requests: &[(u8, u8, &str)]) -> [u8; 2] {
    let mut own = Initiator::by(TcpStream::connect(portal.address).unwrap());
    let mut status = [0; 2];
    for (now, next, text) in requests {
        let told = own.request_login(1, 0x80 | now << 2 | next, text);
        status = [told.head[36], told.head[37]];
    }
    status
}

/// An initiator that has credentials offers CHAP, is told that none is wanted, and declares its names in the second stage
/// again, as libiscsi does.
#[test]
fn names_may_be_declared_again_in_the_second_stage() {
    let portal = portal();
    let names = format!("InitiatorName=iqn.x:a\0TargetName={TARGET}\0SessionType=Normal\0");
    let offer = format!("{names}AuthMethod=CHAP,None\0");
    let second = |text: &str| log_in_by_stages(&portal, &[(0, 1, &offer), (1, 3, text)]);
    assert_eq!(second(&format!("{names}HeaderDigest=None\0")), [0, 0]);
    // Other names are another initiator, and other keys are said once.
    assert_eq!(second("InitiatorName=iqn.x:b\0"), [2, 0]);
    assert_eq!(second("TargetName=iqn.x:other\0"), [2, 0]);
    assert_eq!(second("SessionType=Discovery\0"), [2, 0]);
    assert_eq!(second("AuthMethod=CHAP,None\0"), [2, 0]);
    assert_eq!(second("HeaderDigest=None\0HeaderDigest=None\0"), [2, 0]);
}

/// Sessions of one address have a limit, which those that only ask do not use up.
#[test]
fn who_only_asks_keeps_no_place() {
    let portal = portal();
    let text = "InitiatorName=iqn.x:asks\0SessionType=Discovery\0";
    let asking: Vec<_> = (0..70)
        .map(|session| Initiator::try_log_in(portal.address, session, text))
        .collect();
    assert!(asking.iter().all(|(_, told)| told.head[36] == 0));
    assert_eq!(portal.log_in("a").write(1, 5), GOOD);
}

/// Connections that say nothing give way, those of the busiest address first.
#[test]
fn silent_connections_end_no_login_of_another_address() {
    let portal = portal();
    let from = |source: &str| {
        let stream = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&stream, &SocketAddr::new(source.parse().unwrap(), 0)).unwrap();
        connect(&stream, &portal.address).unwrap();
        TcpStream::from(stream)
    };
    let text = |name: &str| format!("InitiatorName=iqn.x:{name}\0TargetName={TARGET}\0");
    let mut member = portal.log_in("member");
    let slow = from("127.0.0.1");
    let silent: Vec<TcpStream> = (0..200)
        .map(|n| from(&format!("127.0.1.{}", 1 + n % 20)))
        .collect();
    let (_, told) = Initiator::try_log_in_by(slow, 1, &text("slow"));
    assert_eq!(told.head[36], 0);
    let (_, told) = Initiator::try_log_in_by(from("127.0.1.1"), 2, &text("late"));
    assert_eq!(told.head[36], 0);
    assert_eq!(member.write(1, 5), GOOD);
    drop(silent);
}
