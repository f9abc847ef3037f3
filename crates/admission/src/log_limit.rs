//! The limit of log lines about a source: a client must not fill the log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::source::ClientSource;

/// The log has at most one line about a source in this time.
const QUIET: Duration = Duration::from_secs(60);
/// The largest number of sources that are remembered. The log names no other one meanwhile.
const SOURCES_MAX: usize = 256;

/// The times when the log had a line about each source.
#[derive(Debug, Default)]
pub struct LogLimit(Mutex<BTreeMap<ClientSource, Instant>>);

impl LogLimit {
    /// Returns whether the log may have a line about a source at this moment.
    pub fn may_tell(&self, source: &ClientSource, now: Instant) -> bool {
        let mut told = self.0.lock();
        told.retain(|_, at| now.duration_since(*at) < QUIET);
        if told.len() >= SOURCES_MAX || told.contains_key(source) {
            return false;
        }
        told.insert(source.clone(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_is_named_once_in_a_while() {
        let limit = LogLimit::default();
        let now = Instant::now();
        let may = |uid, now| limit.may_tell(&ClientSource::user(uid), now);
        assert!(may(7, now) && !may(7, now) && may(8, now));
        let later = now + QUIET;
        assert!(may(7, later) && !may(7, later));
        let many = (0..1000).filter(|uid| may(100 + uid, later)).count();
        assert_eq!(many, SOURCES_MAX - 1);
    }
}
