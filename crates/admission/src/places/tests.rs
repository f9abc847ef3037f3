//! The rules of the table, without sockets.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn places() -> Arc<ConnectionPlaces> {
    ConnectionPlaces::new(PlaceLimits {
        strangers: PlaceLimit {
            all: 16,
            site: 6,
            each: 4,
        },
        members: PlaceLimit {
            all: 64,
            site: 16,
            each: 16,
        },
        reserved: 64,
    })
}

fn user(uid: u32) -> ClientSource {
    ClientSource::user(uid)
}

fn root() -> ClientSource {
    user(0).reserved(true)
}

fn address(last: u8) -> ClientSource {
    ClientSource::address(IpAddr::from([192, 0, 2, last]))
}

fn machine(site: u16, machine: u16) -> ClientSource {
    let address = Ipv6Addr::new(0x2001, 0xdb8, site, machine, 0, 0, 0, 1);
    ClientSource::address(address.into())
}

fn greet(places: &Arc<ConnectionPlaces>, source: ClientSource) -> Permit {
    places.greet(source, || {})
}

fn enter(places: &Arc<ConnectionPlaces>, source: ClientSource) -> Result<Permit, NoPlace> {
    places.enter(source, || {})
}

/// The permits that still have a place.
fn valid(permits: &[Permit]) -> Vec<bool> {
    permits.iter().map(Permit::is_valid).collect()
}

#[test]
fn the_oldest_stranger_of_a_source_gives_way() {
    let places = places();
    let cuts = Arc::new(AtomicUsize::new(0));
    let all: Vec<Permit> = (0..6)
        .map(|_| {
            let cuts = Arc::clone(&cuts);
            places.greet(user(1), move || {
                cuts.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    assert_eq!(valid(&all), [false, false, true, true, true, true]);
    assert_eq!(cuts.load(Ordering::Relaxed), 2);
    assert_eq!(all[0].admit(), Err(NoPlace::Closed));
    assert_eq!(all[2].admit(), Ok(()));
}

#[test]
fn a_flood_displaces_itself_and_no_other_stranger() {
    let places = places();
    let slow = greet(&places, address(1));
    let flood: Vec<Permit> = (0..90)
        .map(|n| greet(&places, address(10 + n % 8)))
        .collect();
    assert!(slow.is_valid());
    let late = greet(&places, address(2));
    assert!(slow.is_valid() && late.is_valid());
    assert_eq!(flood.iter().filter(|permit| permit.is_valid()).count(), 14);
}

#[test]
fn of_equal_sources_the_oldest_stranger_gives_way() {
    let places = places();
    let all: Vec<Permit> = (0..20).map(|n| greet(&places, address(n))).collect();
    let expected: Vec<bool> = (0..20).map(|n| n >= 4).collect();
    assert_eq!(valid(&all), expected);
}

#[test]
fn a_site_of_ipv6_is_limited_too() {
    let places = places();
    let other = greet(&places, machine(2, 0));
    let all: Vec<Permit> = (0..9).map(|n| greet(&places, machine(1, n))).collect();
    let expected: Vec<bool> = (0..9).map(|n| n >= 3).collect();
    assert_eq!(valid(&all), expected);
    assert!(other.is_valid());
    // As members too.
    let members: Vec<_> = (0..17).map(|n| enter(&places, machine(3, n))).collect();
    assert_eq!(members.iter().filter(|member| member.is_ok()).count(), 16);
}

#[test]
fn members_and_root_never_give_way() {
    let places = places();
    let member = greet(&places, user(1));
    member.admit().expect("a place");
    let silent_root = greet(&places, root());
    let strangers: Vec<Permit> = (0..500).map(|n| greet(&places, user(1 + n % 50))).collect();
    assert!(member.is_valid() && member.is_member() && silent_root.is_valid());
    let new = greet(&places, root());
    new.admit().expect("a place");
    // Root's own silent connections give way to root's.
    let more: Vec<Permit> = (0..4).map(|_| greet(&places, root())).collect();
    assert!(!silent_root.is_valid() && new.is_valid());
    drop((strangers, more));
}

#[test]
fn a_few_sources_do_not_take_all_places() {
    let places = places();
    let mut all = Vec::new();
    let mut take = |uid| {
        let taken = std::iter::from_fn(|| enter(&places, user(uid)).ok());
        let before = all.len();
        all.extend(taken);
        all.len() - before
    };
    let counts: Vec<usize> = (1..=10).map(&mut take).collect();
    assert_eq!(counts, [16, 16, 2, 2, 2, 2, 2, 2, 2, 2]);
    drop(all);
    assert!(places.table.lock().taken.is_empty());
}

#[test]
fn when_all_places_are_taken_root_still_has_its_own() {
    let places = places();
    let all: Vec<Permit> = (0..1000)
        .filter_map(|uid| enter(&places, user(1 + uid)).ok())
        .collect();
    assert_eq!(all.len(), 64);
    assert_eq!(enter(&places, user(5000)).err(), Some(NoPlace::OfAll));
    let stranger = greet(&places, user(5000));
    assert_eq!(stranger.admit(), Err(NoPlace::OfAll));
    assert!(stranger.is_valid() && !stranger.is_member());
    let roots: Vec<_> = (0..65).map(|_| enter(&places, root())).collect();
    assert_eq!(roots.iter().filter(|root| root.is_ok()).count(), 64);
}

#[test]
fn a_client_becomes_the_user_of_its_token() {
    let places = places();
    let client = greet(&places, address(1));
    let others: Vec<Permit> = (0..16)
        .map(|_| enter(&places, user(7)).expect("a place"))
        .collect();
    assert_eq!(client.admit_as(user(7)), Err(NoPlace::OfSource));
    drop(others);
    client.admit_as(user(7)).expect("a place");
    // Again, and as another one: it counts once.
    client.admit_as(user(7)).expect("a place");
    client.admit_as(root()).expect("a place");
    let own: Vec<_> = (0..16).map(|_| enter(&places, user(7))).collect();
    assert!(own.iter().all(Result::is_ok));
}

#[test]
fn a_closed_table_is_awaited() {
    let places = places();
    let (send, heard) = std::sync::mpsc::channel();
    let member = places
        .enter(user(1), move || send.send(()).unwrap_or(()))
        .expect("a place");
    let ends = std::thread::spawn(move || {
        heard.recv().expect("it is cut");
        drop(member);
    });
    assert!(places.close(Duration::from_secs(60)));
    ends.join().expect("no panic");
    assert_eq!(enter(&places, root()).err(), Some(NoPlace::Closed));
    let late = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&late);
    let stranger = places.greet(user(1), move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(
        (late.load(Ordering::Relaxed), stranger.admit()),
        (1, Err(NoPlace::Closed))
    );
    assert!(!places.close(Duration::ZERO));
}

#[test]
fn strangers_are_cut_and_members_stay() {
    let places = places();
    let cuts = Arc::new(AtomicUsize::new(0));
    let counting = || {
        let cuts = Arc::clone(&cuts);
        move || {
            cuts.fetch_add(1, Ordering::Relaxed);
        }
    };
    let _member = places.enter(user(1), counting()).expect("a place");
    let _stranger = places.greet(user(2), counting());
    places.close_to_strangers();
    assert_eq!(cuts.load(Ordering::Relaxed), 1);
}
