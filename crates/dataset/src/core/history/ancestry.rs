//! Decides whether the present state of a dataset grew from an earlier one.

use keys::DataKeys;
use pool::{Entry, PastSeal, Pool};

use super::pages::SealPages;
use crate::core::sealed_state::{check_seal, read_header};
use crate::error::Result;
use crate::seal::Sealer;

/// The number of times that a state is read again after a commit has replaced it.
const TRIES: usize = 32;

/// The relation of the present state of a dataset to an earlier state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ancestry {
    /// The present state is the earlier state.
    Same,
    /// The present state grew from the earlier state: its history has the seal.
    Later,
    /// The present state is older than the other state.
    RolledBack,
    /// The history has another seal in the place of the earlier state, or none.
    Forked,
    /// The history begins after the earlier state.
    BeginsLater,
    /// A part of its history is damaged.
    Unreadable,
}

/// A state of a dataset that had a seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedState {
    /// Counts the states of the dataset.
    pub sequence: u64,
    /// The seal over this one.
    pub seal: [u8; 32],
}

/// Compares the present state of an encrypted dataset with an earlier state, with the keys of its keyring. Checks the
/// seal over the present state first. Returns the entry of the present state too.
///
/// # Errors
/// As [`verify_seal`](crate::verify_seal).
pub fn ancestry(
    pool: &Pool,
    id: u64,
    keys: Vec<DataKeys>,
    earlier: &SealedState,
) -> Result<(std::sync::Arc<Entry>, Ancestry)> {
    let mut entry = pool.entry(id)?;
    let sealer = Sealer::new(entry.family, keys)?;
    let mut tries = TRIES;
    loop {
        let found = compare(pool, &entry, &sealer, earlier);
        let is_certain = !matches!(found, Err(_) | Ok(Ancestry::Unreadable));
        let now = pool.entry(id)?;
        tries -= 1;
        if is_certain || now.sequence == entry.sequence || tries == 0 {
            return Ok((entry, found?));
        }
        // A commit has replaced the state that was being read.
        entry = now;
    }
}

fn compare(pool: &Pool, entry: &Entry, sealer: &Sealer, earlier: &SealedState) -> Result<Ancestry> {
    let name = pool.name_of(entry.id)?;
    check_seal(pool, entry, sealer, &name)?;
    if earlier.sequence >= entry.sequence {
        return Ok(match earlier.sequence == entry.sequence {
            true if earlier.seal == entry.seal => Ancestry::Same,
            true => Ancestry::Forked,
            false => Ancestry::RolledBack,
        });
    }
    if earlier.sequence == 0 {
        // The state before the first commit.
        return Ok(Ancestry::Later);
    }
    let wanted = PastSeal::new(earlier.sequence, &earlier.seal);
    let waiting = entry.waiting_seals();
    if waiting.contains(&wanted) {
        return Ok(Ancestry::Later);
    }
    let open = pool.state_of(entry)?;
    let runs = match entry.volume() {
        Some(_) => None,
        None => read_header(&open, sealer, &name)?.map(|header| header.seal_runs),
    };
    let pages = SealPages {
        open: &open,
        sealer,
        name: &name,
        runs,
    };
    let stored = if entry.volume().is_some() || runs.is_some() {
        find(&pages, &wanted)?
    } else {
        StoredSeal::None
    };
    // Seals may be missing before the first that waits: of a dataset that was received, or resealed very often.
    let first = waiting.iter().find(|seal| !seal.is_gap());
    let is_in_gap = waiting.first().is_some_and(PastSeal::is_gap)
        && first.is_none_or(|first| wanted.sequence < first.sequence);
    Ok(match stored {
        StoredSeal::Found => Ancestry::Later,
        StoredSeal::Damaged => Ancestry::Unreadable,
        StoredSeal::Other if is_in_gap => Ancestry::BeginsLater,
        StoredSeal::Other => Ancestry::Forked,
        StoredSeal::None => match first {
            Some(first) if first.sequence <= wanted.sequence => Ancestry::Forked,
            _ => Ancestry::BeginsLater,
        },
    })
}

/// The facts about a state in the pages of a history.
enum StoredSeal {
    /// The seal of the state.
    Found,
    /// Another seal for its sequence, or none although the history has older ones.
    Other,
    /// No seal, because the history begins after the state.
    None,
    /// A page cannot be read.
    Damaged,
}

fn find(pages: &SealPages<'_>, wanted: &PastSeal) -> Result<StoredSeal> {
    let count = pages.count()?;
    let Some(last) = count.checked_sub(1) else {
        return Ok(StoredSeal::None);
    };
    let Some(mut page) = pages.page(last) else {
        return Ok(StoredSeal::Damaged);
    };
    // The last page that begins at or before the wanted seal.
    let (mut least, mut most) = (page.base, last);
    let begins_before = |page: &super::page::SealPage| {
        page.seals
            .first()
            .is_some_and(|first| first.sequence <= wanted.sequence)
    };
    if !begins_before(&page) {
        while least < most {
            let middle = least + (most - least) / 2;
            let Some(read) = pages.page(middle) else {
                return Ok(StoredSeal::Damaged);
            };
            match begins_before(&read) {
                true => (least, page) = (middle + 1, read),
                false => most = middle,
            }
        }
    }
    if !begins_before(&page) {
        return Ok(StoredSeal::None);
    }
    Ok(match page.seals.contains(wanted) {
        true => StoredSeal::Found,
        false => StoredSeal::Other,
    })
}
