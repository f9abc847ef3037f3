//! A bookmark: the data about a snapshot that an incremental stream needs after the snapshot is destroyed.

use zerocopy::{FromBytes, IntoBytes};

use crate::format::datasets::entry::Entry;
use crate::format::records::pointer::{LEVEL_MAX, RecordIdentity};
use crate::format::stream::Lineage;
use encoding::hex;

/// The properties of a dataset that are bookmarks begin like this. The name follows.
const PREFIX: &str = "@bookmark ";

/// The data about a snapshot that a stream needs to start from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotBookmark {
    /// The guid of the snapshot.
    pub guid: u64,
    /// The transaction group that made it.
    pub created_txg: u64,
    /// The time when it was made, in seconds since 1970.
    pub created: u64,
    /// The state that it held, wherever that is sealed.
    pub(crate) lineage: Lineage,
    pub(crate) roots: [RecordIdentity; 2],
}

impl SnapshotBookmark {
    pub(crate) fn of(snapshot: &Entry) -> SnapshotBookmark {
        SnapshotBookmark {
            guid: snapshot.guid,
            created_txg: snapshot.created_txg,
            created: snapshot.created,
            lineage: snapshot.lineage(),
            roots: snapshot.roots.map(|root| root.identity),
        }
    }

    pub(crate) fn encode(&self) -> String {
        let (guid, txg, created) = (self.guid, self.created_txg, self.created);
        let lineage = blake3::Hash::from_bytes(self.lineage).to_hex();
        let [pages, data] = self.roots.map(|root| hex(root.as_bytes()));
        format!("{guid:016x} {txg} {created} {lineage} {pages} {data}")
    }

    /// Reads what [`SnapshotBookmark::encode`] made; `None` for any other text.
    pub(crate) fn decode(text: &str) -> Option<SnapshotBookmark> {
        let mut parts = text.split(' ');
        let mut next = || parts.next();
        let bookmark = SnapshotBookmark {
            guid: u64::from_str_radix(next()?, 16).ok()?,
            created_txg: next()?.parse().ok()?,
            created: next()?.parse().ok()?,
            lineage: *blake3::Hash::from_hex(next()?).ok()?.as_bytes(),
            roots: [identity(next()?)?, identity(next()?)?],
        };
        // So every text has one meaning.
        (bookmark.encode() == text).then_some(bookmark)
    }
}

fn identity(text: &str) -> Option<RecordIdentity> {
    let identity = RecordIdentity::read_from_bytes(&encoding::unhex(text)?).ok()?;
    (identity.level <= LEVEL_MAX).then_some(identity)
}

impl Entry {
    /// Returns the bookmarks of a dataset with their names, by name. Invalid values are left out.
    pub(crate) fn bookmarks(&self) -> impl Iterator<Item = (&str, SnapshotBookmark)> {
        self.props.iter().filter_map(|(key, value)| {
            let name = key.strip_prefix(PREFIX)?;
            Some((name, SnapshotBookmark::decode(value)?))
        })
    }

    pub(crate) fn bookmark(&self, name: &str) -> Option<SnapshotBookmark> {
        SnapshotBookmark::decode(self.props.get(&key(name))?)
    }

    pub(crate) fn set_bookmark(&mut self, name: &str, bookmark: &SnapshotBookmark) {
        self.props.insert(key(name), bookmark.encode());
    }

    /// Removes a bookmark, readable or not. False if there is none.
    pub(crate) fn remove_bookmark(&mut self, name: &str) -> bool {
        self.props.remove(&key(name)).is_some()
    }

    /// Takes away the bookmarks of states that the dataset no longer goes on from: it was taken back to one that was
    /// made in `txg`.
    pub(crate) fn forget_bookmarks_after(&mut self, txg: u64) {
        self.props.retain(|key, value| {
            !key.starts_with(PREFIX)
                || SnapshotBookmark::decode(value)
                    .is_some_and(|bookmark| bookmark.created_txg <= txg)
        });
    }
}

fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SnapshotBookmark {
        SnapshotBookmark {
            guid: 1,
            created_txg: 2,
            created: 3,
            lineage: [4; 32],
            roots: [
                RecordIdentity::node(1, &[5; 32]),
                RecordIdentity::record([6; 24], [7; 16], 8, 9, 10, 4096),
            ],
        }
    }

    #[test]
    fn bookmarks_round_trip_and_nothing_else_is_one() {
        let text = sample().encode();
        assert_eq!(SnapshotBookmark::decode(&text), Some(sample()));
        for len in 0..text.len() {
            assert_eq!(SnapshotBookmark::decode(&text[..len]), None, "{len}");
        }
        for bad in [
            format!("{text} "),
            format!("+{text}"),
            text.replacen(' ', "  ", 1),
            text.to_uppercase(),
            text.replacen("04", "é", 1),
        ] {
            assert_eq!(SnapshotBookmark::decode(&bad), None, "{bad}");
        }
        let mut deep = sample();
        deep.roots[0].level = LEVEL_MAX + 1;
        assert_eq!(SnapshotBookmark::decode(&deep.encode()), None);
    }
}
