//! The source of a client: the unit that limits are for.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The source of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientSource {
    key: SourceKey,
    is_reserved: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum SourceKey {
    User(u32),
    Tenant(u32, String),
    Token(u32),
    /// An IPv4 address, or a network of IPv6 with a length of its prefix.
    Network(IpAddr, u8),
}

/// A machine has a network of this prefix, and as many addresses in it as it likes.
const MACHINE: u8 = 64;
/// A customer of a provider has at most a network of this prefix.
const SITE: u8 = 48;

impl ClientSource {
    /// A user.
    pub fn user(uid: u32) -> ClientSource {
        ClientSource::of(SourceKey::User(uid))
    }

    /// A user of this machine, as the kernel tells it. Root and the user of this process have reserved places.
    pub fn local_user(uid: u32) -> ClientSource {
        let own = rustix::process::geteuid().as_raw();
        ClientSource::user(uid).reserved(uid == 0 || uid == own)
    }

    /// A user in a zone.
    pub fn tenant(uid: u32, zone: &str) -> ClientSource {
        ClientSource::of(SourceKey::Tenant(uid, zone.to_owned()))
    }

    /// A token that is counted apart from its user, by its id.
    pub fn token(id: u32) -> ClientSource {
        ClientSource::of(SourceKey::Token(id))
    }

    /// An address: one of IPv4, or the /64 network of one of IPv6.
    pub fn address(address: IpAddr) -> ClientSource {
        match address.to_canonical() {
            IpAddr::V6(address) => ClientSource::of(network(address, MACHINE)),
            address => ClientSource::of(SourceKey::Network(address, 32)),
        }
    }

    /// The same source, with or without reserved places.
    pub fn reserved(mut self, is_reserved: bool) -> ClientSource {
        self.is_reserved = is_reserved;
        self
    }

    /// Returns whether the source has reserved places.
    pub fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// The network of an address; `None` for a user.
    pub fn network(&self) -> Option<IpAddr> {
        match self.key {
            SourceKey::Network(address, _) => Some(address),
            _ => None,
        }
    }

    /// The largest group that one party may have to itself: the /48 network of an IPv6 address, else the source.
    pub(crate) fn site(&self) -> ClientSource {
        let key = match self.key {
            SourceKey::Network(IpAddr::V6(address), _) => network(address, SITE),
            _ => return self.clone(),
        };
        ClientSource::of(key).reserved(self.is_reserved)
    }

    fn of(key: SourceKey) -> ClientSource {
        let is_reserved = false;
        ClientSource { key, is_reserved }
    }
}

fn network(address: Ipv6Addr, prefix: u8) -> SourceKey {
    let mask = u128::MAX << (128 - u32::from(prefix));
    let network = Ipv6Addr::from_bits(address.to_bits() & mask);
    SourceKey::Network(network.into(), prefix)
}

impl fmt::Display for ClientSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            SourceKey::User(uid) => write!(f, "uid {uid}"),
            SourceKey::Tenant(uid, zone) => write!(f, "uid {uid} in zone {zone}"),
            SourceKey::Token(id) => write!(f, "token {id:08x}"),
            SourceKey::Network(IpAddr::V4(address), _) => write!(f, "{address}"),
            SourceKey::Network(network, prefix) => write!(f, "{network}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_one_source() {
        let of = |text: &str| ClientSource::address(text.parse().expect("an address"));
        assert_eq!(of("192.0.2.7").to_string(), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), of("192.0.2.7"));
        assert_eq!(of("2001:db8:1:2:3:4:5:6").to_string(), "2001:db8:1:2::/64");
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("2001:db8::1").site(), of("2001:db8:0:1::1").site());
        assert_ne!(of("2001:db8::1").site(), of("2001:db8:1::1").site());
        assert_eq!(of("192.0.2.7").site(), of("192.0.2.7"));
    }

    #[test]
    fn root_and_the_own_user_have_reserved_places() {
        let own = rustix::process::geteuid().as_raw();
        assert!(
            ClientSource::local_user(0).is_reserved()
                && ClientSource::local_user(own).is_reserved()
        );
        assert!(!ClientSource::local_user(own + 1).is_reserved());
    }
}
