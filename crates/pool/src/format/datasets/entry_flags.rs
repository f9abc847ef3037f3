//! Flags of an entry that are stored among its properties, under names that no property can have: that it was received,
//! the size of a volume, and that a snapshot is to be destroyed.

use crate::format::datasets::entry::{DatasetKind, Entry};
use crate::format::datasets::past_seal::PAST;
use crate::format::datasets::sealed_facts::FACTS;
use crate::format::datasets::volume_shape::{VOLUME, VolumeShape};
use crate::format::records::array_kind::ArrayKind;
use crate::format::stream::{self, Begin, Lineage};

/// The dataset that the seal of this state is over, where it is another one.
const SEALED: &str = "@sealed";
/// The transaction group up to which its keyring was made, in the numbers of the pool where the keyring comes from.
const KEYS_TXG: &str = "@txg";
/// The state that it has, if it was received in the clear and sealed again.
const LINEAGE: &str = "@lineage";
/// The property with the state of a receive into the dataset.
const RECEIVING: &str = "@receiving";
/// The state that it will be, as it is sealed at the sender.
const RECEIVING_STATE: &str = "@receiving-state";
/// The state that it will have, if it is received in the clear.
const RECEIVING_PLAIN: &str = "@receiving-plain";

/// A snapshot that is to be destroyed as soon as nothing keeps it.
const DEFERRED: &str = "@deferred";

/// The bytes that are reserved for a dataset itself.
pub(crate) const REFRESERVATION: &str = "refreservation";

/// A name that begins like this is that of a dataset which is being received.
pub(crate) const PARTIAL: char = '%';

/// The state of a receive into a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveState {
    pub(crate) to_guid: u64,
    pub(crate) from_guid: u64,
    /// True if it stays when it is interrupted.
    pub(crate) resumable: bool,
    /// The name of the snapshot where it comes from.
    pub(crate) name: String,
}

impl ReceiveState {
    fn encode(&self) -> String {
        let resumable = u8::from(self.resumable);
        let (to, from, name) = (self.to_guid, self.from_guid, &self.name);
        format!("{to:016x} {from:016x} {resumable} {name}")
    }

    fn decode(text: &str) -> Option<ReceiveState> {
        let mut parts = text.splitn(4, ' ');
        let mut guid = || u64::from_str_radix(parts.next()?, 16).ok();
        Some(ReceiveState {
            to_guid: guid()?,
            from_guid: guid()?,
            resumable: parts.next()? == "1",
            name: parts.next()?.into(),
        })
    }
}

impl Entry {
    /// The dataset that its seal is over: `own`, unless it came with a stream.
    pub(crate) fn sealed_guid(&self, own: u64) -> u64 {
        self.sealed_mark().unwrap_or(own)
    }

    /// The dataset that its seal is over, if it came with a stream. A mark with its own number means nothing: an
    /// attacker could add it without breaking the seal.
    pub fn sealed_mark(&self) -> Option<u64> {
        let guid = u64::from_str_radix(self.props.get(SEALED)?, 16).ok()?;
        (guid != self.guid).then_some(guid)
    }

    /// Says which dataset its seal is over; `None`: its own.
    pub(crate) fn set_sealed_guid(&mut self, guid: Option<u64>) {
        match guid {
            Some(guid) => self.props.insert(SEALED.into(), format!("{guid:016x}")),
            None => self.props.remove(SEALED),
        };
    }

    /// The transaction group up to which a snapshot needs generations of its keyring.
    pub fn keys_txg(&self) -> u64 {
        self.foreign_txg().unwrap_or(self.created_txg)
    }

    /// The transaction group of a generation that is made in `txg`: above all that came with streams, and
    /// another one for each commit, so that generations of clones that rotate apart can be told apart.
    pub(crate) fn next_keys_txg(&self, txg: u64) -> u64 {
        self.foreign_txg().unwrap_or(0).saturating_add(txg)
    }

    /// Says up to which transaction group its keyring was made, if it came with a stream, or an origin.
    pub(crate) fn set_keys_txg(&mut self, txg: u64) {
        self.props.insert(KEYS_TXG.into(), txg.to_string());
    }

    /// Returns the same as [`Entry::keys_txg`], if the keyring came with a stream.
    pub(crate) fn foreign_txg(&self) -> Option<u64> {
        self.props.get(KEYS_TXG)?.parse().ok()
    }

    /// Names the state that a snapshot holds, wherever that is sealed.
    pub(crate) fn lineage(&self) -> Lineage {
        self.state_mark(LINEAGE)
            .unwrap_or_else(|| stream::lineage(self.roots.iter().map(|root| &root.identity)))
    }

    /// Names the state of the contents of a volume that was committed last, in hexadecimal: another one has another name.
    /// The history of its seals, which grows when it is closed, does not count.
    pub fn contents_mark(&self) -> String {
        let data = &self.roots[ArrayKind::Data as usize].identity;
        let root = stream::lineage(std::iter::once(data));
        let size = self.volume().map_or(0, |shape| shape.size());
        format!("{}-{size}", blake3::Hash::from_bytes(root).to_hex())
    }

    /// Stores the state of a snapshot that was received in the clear.
    pub(crate) fn set_lineage(&mut self, lineage: &Lineage) {
        let (key, mark) = state_mark(LINEAGE, lineage);
        self.props.insert(key, mark);
    }

    fn state_mark(&self, key: &str) -> Option<Lineage> {
        let mark = blake3::Hash::from_hex(self.props.get(key)?).ok()?;
        Some(*mark.as_bytes())
    }

    /// Copies these marks from `other`.
    pub(crate) fn copy_marks(&mut self, other: &Entry) {
        for key in [SEALED, KEYS_TXG, VOLUME, PAST, FACTS] {
            match other.props.get(key) {
                Some(value) => self.props.insert(key.into(), value.clone()),
                None => self.props.remove(key),
            };
        }
    }

    /// Returns whether it is a snapshot that is to be destroyed as soon as nothing keeps it.
    pub fn is_deferred(&self) -> bool {
        self.is_snapshot() && self.props.contains_key(DEFERRED)
    }

    /// Has a snapshot destroyed as soon as nothing keeps it.
    pub(crate) fn defer(&mut self) {
        self.props.insert(DEFERRED.into(), "1".into());
    }

    /// Leaves it to its new dataset when the snapshot is destroyed.
    pub(crate) fn undefer(&mut self) {
        self.props.remove(DEFERRED);
    }

    /// Returns whether it is a dataset that is being received, and hidden.
    pub fn is_partial(&self) -> bool {
        self.props.contains_key(RECEIVING)
    }

    /// Returns the state of a receive into the dataset.
    pub(crate) fn receiving(&self) -> Option<ReceiveState> {
        ReceiveState::decode(self.props.get(RECEIVING)?)
    }

    /// The state that it will have when all is received. Older programs did not always store it.
    pub(crate) fn receiving_state(&self) -> Option<Lineage> {
        self.state_mark(RECEIVING_STATE)
    }

    /// The state that it will have, if it is received in the clear.
    pub(crate) fn receiving_plain(&self) -> Option<Lineage> {
        self.state_mark(RECEIVING_PLAIN)
    }

    /// The properties about the data that is being received.
    pub(crate) fn receiving_marks(
        receiving: &ReceiveState,
        begin: &Begin,
    ) -> impl Iterator<Item = (String, String)> {
        let sealed = begin.sealed_state();
        let sealed = sealed.map(|state| state_mark(RECEIVING_STATE, &state));
        let plain = begin.plain_state();
        let plain = plain.map(|state| state_mark(RECEIVING_PLAIN, &state));
        [(RECEIVING.into(), receiving.encode())]
            .into_iter()
            .chain(sealed)
            .chain(plain)
    }
}

impl Entry {
    /// Returns the size, if it is a volume or a snapshot of one.
    pub fn volume(&self) -> Option<VolumeShape> {
        VolumeShape::parse(self.props.get(VOLUME)?)
    }

    /// Says how large it is. Where space is reserved for all of it, it is so afterwards.
    pub(crate) fn set_volume(&mut self, shape: Option<VolumeShape>) {
        let reserved = |shape: VolumeShape| shape.reservation().to_string();
        let was = self.volume().map(reserved);
        if let (Some(size), Some(shape)) = (self.props.get_mut(REFRESERVATION), shape)
            && was.as_ref() == Some(size)
        {
            *size = reserved(shape);
        }
        match shape {
            Some(shape) => self.props.extend([shape.mark()]),
            None => drop(self.props.remove(VOLUME)),
        }
    }

    /// Returns whether it says how large it is if it is a volume, and only then.
    pub(crate) fn volume_fits(&self) -> bool {
        let says = self.props.contains_key(VOLUME);
        match self.kind {
            DatasetKind::FileSystem => !says,
            DatasetKind::Volume => self.volume().is_some(),
            DatasetKind::Snapshot => !says || self.volume().is_some(),
        }
    }
}

fn state_mark(key: &str, state: &Lineage) -> (String, String) {
    let mark = blake3::Hash::from_bytes(*state).to_hex();
    (key.into(), mark.as_str().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_received_round_trips() {
        let receiving = ReceiveState {
            to_guid: 5,
            from_guid: u64::MAX,
            resumable: true,
            name: "tank/my files@a b".into(),
        };
        let text = receiving.encode();
        assert_eq!(ReceiveState::decode(&text), Some(receiving));
        assert_eq!(ReceiveState::decode("1 2"), None);
        assert_eq!(ReceiveState::decode(""), None);
    }
}
