//! POSIX access control lists: their relation to the mode, and the inheritance of a directory's default ACL by new
//! files.
//!
//! The kernel checks access. It passes ACLs in the form of the extended attributes
//! `system.posix_acl_access` and `system.posix_acl_default` (see acl(5) and `linux/posix_acl_xattr.h`).

/// The ACL for access.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The ACL that new files in a directory begin with.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    perm: u16,
    id: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl {
    entries: Vec<Entry>,
}

impl Acl {
    /// Decodes an ACL; `None` if it is not valid.
    pub(crate) fn decode(value: &[u8]) -> Option<Acl> {
        let (version, rest) = value.split_at_checked(4)?;
        if u32::from_le_bytes(version.try_into().ok()?) != VERSION || !rest.len().is_multiple_of(8)
        {
            return None;
        }
        let entries: Vec<Entry> = rest
            .chunks_exact(8)
            .map(|e| Entry {
                tag: u16::from_le_bytes([e[0], e[1]]),
                perm: u16::from_le_bytes([e[2], e[3]]),
                id: u32::from_le_bytes([e[4], e[5], e[6], e[7]]),
            })
            .collect();
        let acl = Acl { entries };
        acl.is_valid().then_some(acl)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            value.extend_from_slice(&entry.tag.to_le_bytes());
            value.extend_from_slice(&entry.perm.to_le_bytes());
            value.extend_from_slice(&entry.id.to_le_bytes());
        }
        value
    }

    fn is_valid(&self) -> bool {
        let count = |tag| self.entries.iter().filter(|entry| entry.tag == tag).count();
        let named = count(USER) + count(GROUP);
        let known = [USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER];
        let ordered = |entry: &Entry| (known.iter().position(|tag| *tag == entry.tag), entry.id);
        count(USER_OBJ) == 1
            && count(GROUP_OBJ) == 1
            && count(OTHER) == 1
            && (count(MASK) == 1 || named == 0 && count(MASK) == 0)
            && self
                .entries
                .iter()
                .all(|e| known.contains(&e.tag) && e.perm <= 7)
            && self.entries.windows(2).all(|pair| {
                let same = pair[0].tag == pair[1].tag;
                ordered(&pair[0]).0 <= ordered(&pair[1]).0 && (!same || pair[0].id != pair[1].id)
            })
    }

    fn perm(&self, tag: u16) -> Option<u16> {
        self.entries
            .iter()
            .find(|entry| entry.tag == tag)
            .map(|entry| entry.perm)
    }

    fn set(&mut self, tag: u16, perm: u16) {
        for entry in self.entries.iter_mut().filter(|entry| entry.tag == tag) {
            entry.perm = perm;
        }
    }

    /// The entry that corresponds to the group bits of the mode.
    fn group_class(&self) -> u16 {
        if self.perm(MASK).is_some() {
            MASK
        } else {
            GROUP_OBJ
        }
    }

    /// The nine permission bits that this ACL shows as a mode.
    pub(crate) fn mode(&self) -> u16 {
        let perm = |tag| self.perm(tag).unwrap_or(0);
        perm(USER_OBJ) << 6 | perm(self.group_class()) << 3 | perm(OTHER)
    }

    /// Returns whether the mode can express this ACL completely.
    pub(crate) fn is_just_mode(&self) -> bool {
        self.entries.len() == 3
    }

    /// Applies a change of the mode.
    pub(crate) fn set_mode(&mut self, mode: u16) {
        let class = self.group_class();
        self.set(USER_OBJ, mode >> 6 & 7);
        self.set(class, mode >> 3 & 7);
        self.set(OTHER, mode & 7);
    }

    /// The access ACL of a new file with `mode`, if this is the default ACL of its directory. It allows only what both
    /// allow.
    pub(crate) fn inherit(&self, mode: u16) -> Acl {
        let mut acl = self.clone();
        acl.set_mode(self.mode() & mode);
        acl
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u16, u16, u32)]) -> Acl {
        Acl {
            entries: entries
                .iter()
                .map(|(tag, perm, id)| Entry {
                    tag: *tag,
                    perm: *perm,
                    id: *id,
                })
                .collect(),
        }
    }

    const NO_ID: u32 = u32::MAX;

    fn full() -> Acl {
        acl(&[
            (USER_OBJ, 7, NO_ID),
            (USER, 6, 1000),
            (GROUP_OBJ, 5, NO_ID),
            (GROUP, 7, 50),
            (MASK, 6, NO_ID),
            (OTHER, 1, NO_ID),
        ])
    }

    #[test]
    fn round_trip_and_total() {
        let bytes = full().encode();
        assert_eq!(Acl::decode(&bytes), Some(full()));
        for len in 0..bytes.len() {
            assert_eq!(Acl::decode(&bytes[..len]), None, "{len}");
        }
        assert_eq!(
            Acl::decode(&acl(&[(USER_OBJ, 7, 0), (GROUP_OBJ, 7, 0), (OTHER, 9, 0)]).encode()),
            None
        );
        let no_mask = acl(&[
            (USER_OBJ, 7, 0),
            (USER, 7, 1),
            (GROUP_OBJ, 7, 0),
            (OTHER, 7, 0),
        ]);
        assert_eq!(Acl::decode(&no_mask.encode()), None);
    }

    #[test]
    fn mode_and_acl_follow_each_other() {
        let mut acl = full();
        assert_eq!(acl.mode(), 0o761);
        acl.set_mode(0o640);
        assert_eq!(acl.perm(MASK), Some(4));
        assert_eq!(acl.perm(GROUP_OBJ), Some(5), "the mask limits it");
        assert_eq!(acl.mode(), 0o640);
        assert_eq!(full().inherit(0o600).mode(), 0o600);
        assert_eq!(full().inherit(0o777).mode(), 0o761);
        assert!(!full().is_just_mode());
    }
}
