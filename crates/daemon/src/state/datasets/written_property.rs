//! Properties with the bytes written since a named snapshot or bookmark: `written@monday`, `written#sent`.

use pool::{Entry, Pool};
use protocol::api::PropertyValue;

use crate::failure::Result;

/// The earlier state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrittenSince<'a> {
    /// A snapshot: its last part, or its whole name.
    Snapshot(&'a str),
    /// The last part of a bookmark.
    Bookmark(&'a str),
}

impl<'a> WrittenSince<'a> {
    /// Parses the name of a property; `None` for another kind of property.
    pub(crate) fn parse(property: &'a str) -> Option<WrittenSince<'a>> {
        let since = property.strip_prefix("written")?;
        let since = match since.split_at_checked(1)? {
            ("@", name) => WrittenSince::Snapshot(name),
            ("#", name) => WrittenSince::Bookmark(name),
            _ => return None,
        };
        let (WrittenSince::Snapshot(name) | WrittenSince::Bookmark(name)) = since;
        (!name.is_empty()).then_some(since)
    }

    /// The snapshot, if its full name is given. Then it can be a snapshot of the origin of a clone.
    pub(crate) fn of_another(self) -> Option<&'a str> {
        match self {
            WrittenSince::Snapshot(name) if name.contains('@') => Some(name),
            _ => None,
        }
    }

    /// The bytes of an entry that are new since then.
    pub(crate) fn value(self, pool: &Pool, entry: &Entry) -> Result<PropertyValue> {
        let bytes = match self {
            WrittenSince::Snapshot(name) => pool.written_since(entry.id, name)?,
            WrittenSince::Bookmark(name) => pool.written_since_bookmark(entry.id, name)?,
        };
        Ok(bytes.map_or(PropertyValue::None, PropertyValue::Bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_properties_are_told_from_others() {
        let parsed = |name| WrittenSince::parse(name);
        assert_eq!(parsed("written@a"), Some(WrittenSince::Snapshot("a")));
        assert_eq!(parsed("written#a"), Some(WrittenSince::Bookmark("a")));
        assert_eq!(parsed("written@a/b@c").unwrap().of_another(), Some("a/b@c"));
        for other in [
            "written",
            "written@",
            "written#",
            "writtenä",
            "rewritten@a",
            "written:a@b",
        ] {
            assert_eq!(parsed(other), None, "{other}");
        }
    }
}
