//! How many connections there may be: by what the client has shown of itself, and by where it comes from.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::link::Link;

/// Clients that have shown nothing; every host can be one. One more takes the place of the oldest.
const GREETED_MAX: usize = 64;
/// From one address there are so many of them, so that a single machine does not push out all others.
const GREETED_PER_ADDRESS: usize = 8;
/// Clients that have a good certificate and no export yet.
const AUTHENTICATED_MAX: usize = 64;
/// Clients that have an export.
const ATTACHED_MAX: usize = 512;
/// Clients that have an export, from one address.
const ATTACHED_PER_ADDRESS: usize = 256;

/// What a client has shown of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Greeted,
    Authenticated,
    Attached,
}

/// Where a client comes from: an IPv4 address, or the network of an IPv6 address, of which a machine has as many as
/// it likes. `None` for a unix socket.
pub(crate) type Origin = Option<IpAddr>;

/// The origin of a client at this address.
pub(crate) fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// The connections that a server has.
#[derive(Default)]
pub(crate) struct Places {
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    /// Numbers grow, so that the first is the oldest.
    next: u64,
    taken: BTreeMap<u64, Taken>,
}

struct Taken {
    from: Origin,
    phase: Phase,
    link: Arc<dyn Link>,
}

impl All {
    /// How many there are in a phase: of one origin, or of all.
    fn count(&self, phase: Phase, from: Option<IpAddr>) -> usize {
        let mut found = 0;
        for taken in self.taken.values() {
            let is_there = from.is_none() || taken.from == from;
            found += usize::from(taken.phase == phase && is_there);
        }
        found
    }

    /// Closes the oldest connection that has only been greeted: of one origin, or of all.
    fn push_out(&mut self, from: Option<IpAddr>) {
        let oldest = self.taken.iter().find(|(_, taken)| {
            let is_there = from.is_none() || taken.from == from;
            taken.phase == Phase::Greeted && is_there
        });
        let number = oldest.map(|(number, _)| *number);
        if let Some(taken) = number.and_then(|number| self.taken.remove(&number)) {
            tracing::info!(from = ?taken.from, "a client that sent nothing was closed to accept another");
            taken.link.cut();
        }
    }
}

/// One of the connections; it counts while this exists.
pub(crate) struct Place {
    all: Arc<Places>,
    number: u64,
}

impl Place {
    /// A place for a new client.
    pub(crate) fn take(all: &Arc<Places>, from: Origin, link: Arc<dyn Link>) -> Place {
        let mut places = all.all.lock();
        if from.is_some() && places.count(Phase::Greeted, from) >= GREETED_PER_ADDRESS {
            places.push_out(from);
        }
        if places.count(Phase::Greeted, None) >= GREETED_MAX {
            places.push_out(None);
        }
        places.next += 1;
        let number = places.next;
        let phase = Phase::Greeted;
        places.taken.insert(number, Taken { from, phase, link });
        drop(places);
        let all = Arc::clone(all);
        Place { all, number }
    }

    /// The client has a good certificate. False if there are too many such, or it lost its place.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.advance(Phase::Authenticated, AUTHENTICATED_MAX, usize::MAX)
    }

    /// The client has an export. False if there are too many such, or it lost its place.
    pub(crate) fn is_attached(&self) -> bool {
        self.advance(Phase::Attached, ATTACHED_MAX, ATTACHED_PER_ADDRESS)
    }

    fn advance(&self, phase: Phase, max: usize, max_of_origin: usize) -> bool {
        let mut places = self.all.all.lock();
        let Some(taken) = places.taken.get(&self.number) else {
            return false;
        };
        let from = taken.from;
        let is_crowded = from.is_some() && places.count(phase, from) >= max_of_origin;
        if is_crowded || places.count(phase, None) >= max {
            tracing::warn!(?from, "too many clients; one was closed");
            return false;
        }
        if let Some(taken) = places.taken.get_mut(&self.number) {
            taken.phase = phase;
        }
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.all.lock().taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::link::Socket;

    fn come(places: &Arc<Places>, from: Origin) -> (Place, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        let link = Socket::new(OwnedFd::from(here), Duration::from_secs(10));
        (Place::take(places, from, Arc::new(link)), there)
    }

    fn address(last: u8) -> Origin {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    fn has_place(place: &Place) -> bool {
        place.all.all.lock().taken.contains_key(&place.number)
    }

    #[test]
    fn who_says_nothing_gives_way() {
        let places = Arc::default();
        let first = come(&places, address(1));
        let others: Vec<_> = (0..GREETED_PER_ADDRESS)
            .map(|_| come(&places, address(1)))
            .collect();
        assert!(!has_place(&first.0) && !first.0.is_attached());
        assert!(others.iter().all(|(place, _)| has_place(place)));
        let elsewhere = come(&places, address(2));
        assert!(elsewhere.0.is_authenticated() && elsewhere.0.is_attached());
        let many: Vec<_> = (0..=200)
            .map(|n| come(&places, address(10 + n % 50)))
            .collect();
        assert_eq!(places.all.lock().count(Phase::Greeted, None), GREETED_MAX);
        assert!(has_place(&many[200].0) && has_place(&elsewhere.0));
        drop((others, many, elsewhere, first));
        assert!(places.all.lock().taken.is_empty());
    }

    #[test]
    fn who_has_a_certificate_has_places_of_its_own() {
        let places = Arc::default();
        let known: Vec<_> = (0..AUTHENTICATED_MAX)
            .map(|_| come(&places, address(1)))
            .inspect(|(place, _)| assert!(place.is_authenticated()))
            .collect();
        let late = come(&places, address(2));
        assert!(!late.0.is_authenticated());
        assert!(known.iter().all(|(place, _)| place.is_attached()));
        assert!(late.0.is_authenticated());
        let more: Vec<_> = (AUTHENTICATED_MAX..=ATTACHED_PER_ADDRESS)
            .map(|_| come(&places, address(1)))
            .map(|(place, _there)| (place.is_attached(), place))
            .collect();
        let refused = more.iter().filter(|(is_attached, _)| !is_attached).count();
        assert_eq!(refused, 1);
        assert!(late.0.is_attached());
    }

    #[test]
    fn a_network_is_one_origin() {
        let of = |text: &str| origin(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
