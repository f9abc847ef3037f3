//! Names of states and entries, by which the entries of a log are bound to what they continue.

/// Names a state of a dataset in its log: the beginning of a hash of what the seal is over. Zeros stand for none.
pub(crate) type State = [u8; 16];

/// The state of `hasher`, which has what the name is made of.
pub(crate) fn state_of(hasher: &blake3::Hasher) -> State {
    *hasher
        .finalize()
        .as_bytes()
        .first_chunk()
        .expect("32 bytes")
}

/// Names the state before a head, together with the last entry that the head contains.
pub(crate) fn before(state: &State, link: &Link) -> State {
    let mut hasher = blake3::Hasher::new_derive_key("strongroom 2026-11 log state before v1");
    state_of(hasher.update(state).update(link))
}

/// The tag of an entry. Zeros stand for no entry.
pub(crate) type Link = [u8; 16];

/// The state that an entry continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrecedingState {
    /// The state of the dataset that was durable when the entry was written.
    pub(crate) state: State,
    /// The entry before it in the chain.
    pub(crate) link: Link,
}
