//! The model of a program that reads the devices with the key, and of a host that has no key.

use super::world::{Entry, FormatRules, ModelHead, ModelIdentity, ModelKeyring, ModelRecord};

/// The plaintext of a record, if it is the one that an identity names. Of a generation that may seal heads the tag is
/// enough: who has its data key has its seal key too.
pub(crate) fn open(
    keyring: ModelKeyring,
    identity: &ModelIdentity,
    record: &ModelRecord,
) -> Option<u8> {
    let is_named = record.generation == identity.generation && record.tag == identity.tag;
    let is_right = identity.generation >= keyring.floor || proves_itself(identity, record);
    (is_named && record.is_authentic && is_right).then_some(record.plaintext)
}

/// Returns whether a host without keys accepts a record: where the identity has no checksum, it has nothing to compare.
pub(crate) fn proves_itself(identity: &ModelIdentity, record: &ModelRecord) -> bool {
    identity
        .checksum
        .as_ref()
        .is_none_or(|checksum| checksum == record)
}

/// Returns whether the seal of a head is of a generation that may seal heads.
pub(crate) fn may_seal_head(keyring: ModelKeyring, head: &ModelHead) -> bool {
    (keyring.floor..=keyring.newest).contains(&head.generation)
}

/// Returns whether the replay of a log takes an entry as the next one. What it does not take ends the replay, or
/// refuses the mount.
pub(crate) fn takes_entry(
    rules: FormatRules,
    keyring: ModelKeyring,
    head: &ModelHead,
    number: u8,
    entry: &Entry,
) -> bool {
    let is_state = entry.state == head.seal || head.history.last() == Some(&entry.state);
    entry.number == number
        && entry.log == head.log
        && (keyring.floor..=keyring.newest).contains(&entry.generation)
        && (!rules.entry_names_state || is_state)
}

/// Returns whether `anchor verify` says that a head is the anchored state or a later one.
pub(crate) fn follows_anchor(rules: FormatRules, anchor: &ModelHead, head: &ModelHead) -> bool {
    if head.seal == anchor.seal {
        true
    } else if rules.seal_has_history {
        head.history.contains(&anchor.seal)
    } else {
        head.sequence > anchor.sequence
    }
}
