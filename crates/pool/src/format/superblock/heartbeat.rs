//! A heartbeat: which host uses the pool, and the interval of its heartbeats.

use crate::format::superblock::root::Host;

/// The contents of a heartbeat. Its number is that of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    /// Drawn at each import.
    pub(crate) session: u64,
    /// Seconds since 1970.
    pub(crate) time: u64,
    /// Milliseconds from one to the next; 0: no more follow, and the pool is not watched.
    pub(crate) interval: u32,
    /// After this many intervals without one the host gives the pool up.
    pub(crate) fails: u32,
    pub(crate) host: Host,
}

/// The fixed part.
const HEAD: usize = 28;
/// The longest name of a host.
const NAME_MAX: usize = 256;

impl Heartbeat {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + NAME_MAX);
        bytes.extend(self.session.to_le_bytes());
        bytes.extend(self.time.to_le_bytes());
        bytes.extend(self.interval.to_le_bytes());
        bytes.extend(self.fails.to_le_bytes());
        bytes.extend(self.host.id.to_le_bytes());
        let name = &self.host.name;
        bytes.extend(&name.as_bytes()[..name.floor_char_boundary(NAME_MAX)]);
        bytes
    }

    /// `None` if the bytes are no heartbeat.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Heartbeat> {
        let (session, rest) = bytes.split_first_chunk()?;
        let (time, rest) = rest.split_first_chunk()?;
        let (interval, rest) = rest.split_first_chunk()?;
        let (fails, rest) = rest.split_first_chunk()?;
        let (id, name) = rest.split_first_chunk()?;
        let name = std::str::from_utf8(name).ok()?;
        (name.len() <= NAME_MAX).then(|| Heartbeat {
            session: u64::from_le_bytes(*session),
            time: u64::from_le_bytes(*time),
            interval: u32::from_le_bytes(*interval),
            fails: u32::from_le_bytes(*fails),
            host: Host {
                id: u32::from_le_bytes(*id),
                name: name.into(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let beat = Heartbeat {
            session: 1 << 63,
            time: 2,
            interval: 1000,
            fails: 10,
            host: Host {
                id: 5,
                name: "ä".repeat(200),
            },
        };
        let read = Heartbeat::decode(&beat.encode()).unwrap();
        assert_eq!((read.session, read.host.id), (1 << 63, 5));
        assert_eq!(read.host.name, "ä".repeat(128));
        assert_eq!(Heartbeat::decode(&beat.encode()[..27]), None);
        assert_eq!(Heartbeat::decode(&[0xff; 40]), None);
    }
}
