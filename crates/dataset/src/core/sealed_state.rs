//! Reads the sealed records of a state, and checks the seal over the whole.

use std::cell::RefCell;

use keys::DataKeys;
use pool::{ArrayKind, Entry, OpenDataset, Pool, RecordPtr, SealInput};

use crate::buffer::RecordBuffer;
use crate::error::{Error, Result};
use crate::seal::{HeadSeal, OpenError, Sealer};
use crate::tree::{HEADER_SIZE, Header};

thread_local! {
    static SEALED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn read_record(
    open: &OpenDataset,
    sealer: &Sealer,
    name: &str,
    array: ArrayKind,
    (slot, ptr): (u64, RecordPtr),
) -> Result<Option<(RecordPtr, RecordBuffer)>> {
    // Taken and not borrowed: the device below may be a volume, and then this thread comes here again.
    let mut sealed = SEALED.take();
    let (mut opened, mut failure) = (None, None);
    let result = open.read_found(array, slot, ptr, &mut sealed, &mut |ptr, bytes| {
        match sealer.open(array, ptr, bytes) {
            Ok(buffer) => opened = Some(buffer),
            Err(error) => {
                let generation = ptr.identity.generation();
                failure = Some(((error, generation), open.is_undamaged(ptr, bytes)));
            }
        }
        opened.is_some()
    });
    // Kept for the next record of this thread.
    SEALED.set(sealed);
    match (result, failure) {
        (Ok(ptr), _) => Ok(ptr.zip(opened)),
        (Err(_), Some((error, true))) => Err(Error::Damaged {
            dataset: name.into(),
            what: what_it_is(error),
        }),
        (Err(error), _) => Err(error.into()),
    }
}

/// Describes a record that could not be opened although its checksum is right.
fn what_it_is((error, generation): (OpenError, u32)) -> String {
    match error {
        OpenError::NoSuchKey => format!(
            "a record that names generation {generation} of its keys, which its keyring lacks or its key does \
             not open,"
        ),
        OpenError::Unauthentic => "a record that someone has replaced".into(),
        OpenError::Malformed => "a record that was never one of its own".into(),
    }
}

pub(crate) fn read_header(
    open: &OpenDataset,
    sealer: &Sealer,
    name: &str,
) -> Result<Option<Header>> {
    let header = (0, open.get(ArrayKind::Pages, 0)?);
    let Some((_, buffer)) = read_record(open, sealer, name, ArrayKind::Pages, header)? else {
        return Ok(None);
    };
    let header = Header::decode(&buffer).filter(|_| buffer.len() == HEADER_SIZE);
    header.map(Some).ok_or_else(|| Error::Damaged {
        dataset: name.into(),
        what: "its header".into(),
    })
}

/// Checks the seal over a dataset or snapshot with the keys of its keyring.
///
/// # Errors
/// [`Error::Damaged`] if the key holder did not make the seal; [`Error::OldSeal`] if older keys made the seal over a
/// dataset; [`Error::KeyringCut`] if the keyring lacks the keys that seal the dataset.
pub fn verify_seal(pool: &Pool, entry: &Entry, keys: Vec<DataKeys>) -> Result<()> {
    let sealer = Sealer::new(entry.family, keys)?;
    check_seal(pool, entry, &sealer, &pool.name_of(entry.id)?)
}

/// Checks seals over states of a dataset that need not be in a pool here, with the keys of its keyring.
pub struct SealChecker {
    sealer: Sealer,
}

impl SealChecker {
    /// A checker with the keys of a dataset of this family.
    ///
    /// # Errors
    /// The keys cannot be used.
    pub fn new(family: u64, keys: Vec<DataKeys>) -> Result<SealChecker> {
        let sealer = Sealer::new(family, keys)?;
        Ok(SealChecker { sealer })
    }

    /// Returns whether any of the keys made the seal over a state.
    pub fn is_right(&self, input: &SealInput, seal: &[u8; 32]) -> bool {
        self.sealer.is_encrypted() && self.sealer.is_sealed(input, seal)
    }
}

/// Checks the seal over the whole dataset, so that no mixture of old and new parts is opened.
pub(crate) fn check_seal(pool: &Pool, entry: &Entry, sealer: &Sealer, name: &str) -> Result<()> {
    let dataset = name.to_owned();
    if let Some(newest) = sealer.cut_after().filter(|_| !entry.is_snapshot()) {
        return Err(Error::KeyringCut { dataset, newest });
    }
    let is_new = entry.sequence == 0 && entry.roots.iter().all(RecordPtr::is_empty);
    if !sealer.is_encrypted() || is_new {
        return Ok(());
    }
    let guid = if entry.is_snapshot() {
        pool.entry(entry.parent)?.guid
    } else {
        entry.guid
    };
    let input = SealInput::of(entry, guid);
    let found = match entry.is_snapshot() {
        true if sealer.is_sealed(&input, &entry.seal) => HeadSeal::Right,
        true => HeadSeal::Foreign,
        false => sealer.head_seal(&input, &entry.seal),
    };
    Err(match found {
        HeadSeal::Right => return Ok(()),
        HeadSeal::Old { generation, floor } => Error::OldSeal {
            dataset,
            generation,
            floor,
        },
        HeadSeal::KeyringCut(newest) => Error::KeyringCut { dataset, newest },
        HeadSeal::Foreign => Error::Damaged {
            dataset,
            what:
                "the seal over the dataset: parts of it are not of the same moment, or not its own;"
                    .into(),
        },
    })
}
