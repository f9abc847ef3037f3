//! Holds: tags on a snapshot that keep it from being destroyed, for ever or until a time.
//!
//! They are stored with the snapshot's properties, under names that no property can have.

use crate::format::datasets::entry::Entry;

const PREFIX: &str = "@hold ";

/// A tag on a snapshot, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldMark<'a> {
    /// The name of the hold.
    pub(crate) tag: &'a str,
    /// The time when it was made, in seconds since 1970.
    pub(crate) time: u64,
    /// The end of the hold by the time of the pool, before which it cannot be released.
    pub(crate) until: Option<u64>,
}

impl<'a> HoldMark<'a> {
    fn parse(tag: &'a str, value: &str) -> HoldMark<'a> {
        let (time, until) = match value.split_once(' ') {
            None => (value, None),
            Some((time, until)) => (time, until.parse().ok()),
        };
        HoldMark {
            tag,
            time: time.parse().unwrap_or(0),
            until,
        }
    }

    /// Returns whether it keeps the snapshot at this time of the pool.
    pub(crate) fn keeps(&self, time: impl FnOnce() -> u64) -> bool {
        self.until.is_none_or(|until| until > time())
    }
}

impl Entry {
    /// The tags on a snapshot.
    pub(crate) fn holds(&self) -> impl Iterator<Item = HoldMark<'_>> {
        self.props.iter().filter_map(|(key, value)| {
            let tag = key.strip_prefix(PREFIX)?;
            Some(HoldMark::parse(tag, value))
        })
    }

    /// The tag of this name.
    pub(crate) fn hold_named(&self, tag: &str) -> Option<HoldMark<'_>> {
        self.holds().find(|mark| mark.tag == tag)
    }

    /// Puts a tag on a snapshot, or replaces it.
    pub(crate) fn put_hold(&mut self, tag: &str, time: u64, until: Option<u64>) {
        let value = match until {
            None => time.to_string(),
            Some(until) => format!("{time} {until}"),
        };
        self.props.insert(format!("{PREFIX}{tag}"), value);
    }

    /// Removes a tag.
    pub(crate) fn remove_hold(&mut self, tag: &str) {
        self.props.remove(&format!("{PREFIX}{tag}"));
    }

    /// The latest end of the holds of a snapshot, by the time of the pool; 0 if none has an end.
    pub fn retained_until(&self) -> u64 {
        let ends = self.holds().filter_map(|mark| mark.until);
        ends.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_written() {
        let parse = |value| HoldMark::parse("a", value);
        assert_eq!((parse("5").time, parse("5").until), (5, None));
        assert_eq!((parse("5 9").time, parse("5 9").until), (5, Some(9)));
        assert!(parse("5 9").keeps(|| 8) && !parse("5 9").keeps(|| 9));
        // One that cannot be read has no end: it keeps the snapshot.
        assert!(parse("5 soon").keeps(|| u64::MAX) && parse("").keeps(|| u64::MAX));
    }
}
