//! Names in directories.
//!
//! Entries are ordered by a keyed hash of their names. So a position in a listing is a number that stays valid while
//! names are added and removed, and an attacker cannot choose names with equal hashes. Names with equal hashes share a
//! value.

use vfs::{Ino, Kind};

use crate::layout::{NameEntry, decode_names, encode_names, entry_key};
use crate::tree::{CELL_MAX, TreeStep, TreeView, TreeWriter};

/// The longest name.
pub(crate) const NAME_MAX: usize = 255;

/// The bits of a hash. With six bits for the place among equal hashes they fit into a positive cookie.
const HASH_BITS: u32 = 56;
const PLACE_BITS: u32 = 6;

/// The cookie of `.`; the next one is that of `..`.
pub(crate) const COOKIE_DOT: u64 = 1;
pub(crate) const COOKIE_DOT_DOT: u64 = 2;
const COOKIE_BASE: u64 = 3;

/// The hash of a name, which determines its order.
pub(crate) fn hash(name_key: &[u8; 32], name: &[u8]) -> u64 {
    cipher::keyed_hash64(name_key, name) >> (u64::BITS - HASH_BITS)
}

/// Returns whether `names` names with this hash can all have cookies.
pub(crate) fn can_be(hash: u64, names: usize) -> bool {
    hash < 1 << HASH_BITS && names <= 1 << PLACE_BITS
}

/// The cookie at which a listing continues behind an entry.
pub(crate) fn cookie(hash: u64, place: usize) -> u64 {
    (hash << PLACE_BITS | place as u64) + COOKIE_BASE
}

/// The hash and the place at which a listing continues.
pub(crate) fn after_cookie(cookie: u64) -> (u64, usize) {
    let Some(at) = cookie.checked_sub(COOKIE_BASE) else {
        return (0, 0);
    };
    let place = (at & ((1 << PLACE_BITS) - 1)) as usize;
    (at >> PLACE_BITS, place + 1)
}

/// Refuses an invalid name.
pub(crate) fn check(name: &[u8]) -> TreeStep<()> {
    if name.len() > NAME_MAX {
        return Err(vfs::Error::NameTooLong.into());
    }
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0)
    {
        return Err(vfs::Error::Invalid.into());
    }
    Ok(())
}

/// The entry with a name.
pub(crate) fn find(
    view: &dyn TreeView,
    name_key: &[u8; 32],
    dir: Ino,
    name: &[u8],
) -> TreeStep<Option<NameEntry>> {
    let Some(value) = view.get(&entry_key(dir, hash(name_key, name)))? else {
        return Ok(None);
    };
    let names = decode_names(value).ok_or(vfs::Error::Io)?;
    Ok(names.into_iter().find(|entry| entry.name == name))
}

/// The entry with a name, after the changes of this operation.
pub(crate) fn find_in(w: &TreeWriter<'_>, dir: Ino, name: &[u8]) -> TreeStep<Option<NameEntry>> {
    let names = equals(w, dir, name)?;
    Ok(names.into_iter().find(|entry| entry.name == name))
}

fn equals(w: &TreeWriter<'_>, dir: Ino, name: &[u8]) -> TreeStep<Vec<NameEntry>> {
    match w.get(&entry_key(dir, hash(&w.header.name_key, name)))? {
        Some(value) => Ok(decode_names(value).ok_or(vfs::Error::Io)?),
        None => Ok(Vec::new()),
    }
}

/// Puts a name. Replaces an equal name.
pub(crate) fn put(
    w: &mut TreeWriter<'_>,
    dir: Ino,
    name: &[u8],
    ino: Ino,
    kind: Kind,
) -> TreeStep<()> {
    let mut names = equals(w, dir, name)?;
    let entry = NameEntry {
        ino,
        kind,
        name: name.to_vec(),
    };
    match names.iter_mut().find(|entry| entry.name == name) {
        Some(same) => *same = entry,
        None => names.push(entry),
    }
    store(w, dir, name, &names)
}

pub(crate) fn remove(w: &mut TreeWriter<'_>, dir: Ino, name: &[u8]) -> TreeStep<()> {
    let mut names = equals(w, dir, name)?;
    names.retain(|entry| entry.name != name);
    store(w, dir, name, &names)
}

fn store(w: &mut TreeWriter<'_>, dir: Ino, name: &[u8], names: &[NameEntry]) -> TreeStep<()> {
    let key = entry_key(dir, hash(&w.header.name_key, name));
    if names.is_empty() {
        w.delete(key);
        return Ok(());
    }
    let value = encode_names(names);
    if names.len() > 1 << PLACE_BITS || key.len() + value.len() > CELL_MAX {
        // Twenty names with one hash cannot happen by chance, and the key of the hash is secret.
        return Err(vfs::Error::NoSpace.into());
    }
    w.put(key, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_positive_and_lead_back() {
        for hash in [0, 1, (1 << HASH_BITS) - 1] {
            for place in [0, 63] {
                let cookie = cookie(hash, place);
                assert!(cookie > COOKIE_DOT_DOT && cookie < 1 << 63);
                assert_eq!(after_cookie(cookie), (hash, place + 1));
            }
        }
        assert_eq!(after_cookie(COOKIE_DOT_DOT), (0, 0));
        assert!(hash(&[0; 32], b"name") < 1 << HASH_BITS);
        assert_ne!(hash(&[0; 32], b"name"), hash(&[1; 32], b"name"));
    }

    #[test]
    fn names_are_checked() {
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0b", &[b'x'; 256]] {
            assert!(check(bad).is_err());
        }
        check(&[0xff; 255]).unwrap();
    }
}
