//! How many connections, processes or streams there are, in all and of each user or address.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A table of limits.
pub(crate) struct Places<K> {
    taken: Mutex<HashMap<K, usize>>,
    all_max: usize,
    each_max: usize,
}

/// Counts while it exists.
pub(crate) struct Place<K: Eq + Hash> {
    places: Arc<Places<K>>,
    key: K,
}

impl<K: Clone + Eq + Hash> Places<K> {
    pub(crate) fn new(all_max: usize, each_max: usize) -> Arc<Places<K>> {
        let taken = Mutex::default();
        Arc::new(Places {
            taken,
            all_max,
            each_max,
        })
    }

    /// A place, if one is free.
    pub(crate) fn take(self: &Arc<Self>, key: K) -> Option<Place<K>> {
        let mut taken = self.table();
        let all: usize = taken.values().sum();
        let each = taken.get(&key).copied().unwrap_or(0);
        if all >= self.all_max || each >= self.each_max {
            return None;
        }
        *taken.entry(key.clone()).or_default() += 1;
        let places = Arc::clone(self);
        Some(Place { places, key })
    }

    /// Whether more than half of all places are taken.
    pub(crate) fn is_crowded(&self) -> bool {
        self.table().values().sum::<usize>() > self.all_max / 2
    }
}

impl<K> Places<K> {
    fn table(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.places.table();
        if let Some(count) = taken.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

/// What counts as one address: one of IPv4, one network of IPv6, which a client has to itself.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            Ipv6Addr::from(network).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_and_come_back() {
        let places = Places::new(3, 2);
        let first = [places.take(1), places.take(1)].map(Option::unwrap);
        assert!(places.take(1).is_none() && places.is_crowded());
        let other = places.take(2).unwrap();
        assert!(places.take(3).is_none());
        drop(first);
        assert!(places.take(1).is_some());
        drop(other);
        assert!(places.table().is_empty());
    }

    #[test]
    fn a_network_is_one_address() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}
