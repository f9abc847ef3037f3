//! Computes the facts that seals cover, as `sealed_facts` stores them.

use crate::engine::datasets::table::DatasetTable;
use crate::error::Result;
use crate::format::datasets::entry::Entry;
use crate::format::datasets::sealed_facts::{PROTECTIVE, SealedFacts, short_hash};
use crate::format::superblock::features::FEATURE_SEALED_FACTS;

/// Facts about a dataset that its seal does not cover as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnsealedFacts {
    /// The names of those that were changed: `keyring`, `snapshots`, and properties.
    pub changed: Vec<&'static str>,
    /// True if there are snapshots since the seal.
    pub has_new_snapshots: bool,
}

/// The present facts of a dataset, with the snapshots from before `txg`.
fn facts_of(state: &DatasetTable, entry: &Entry, txg: u64) -> SealedFacts {
    let keyring = entry.keyring.as_ref().map(|keyring| &keyring.checksum[..]);
    let snapshots = state.snapshots(entry);
    let earlier = snapshots.iter().filter(|snap| snap.created_txg < txg);
    let snapshots: Vec<_> = earlier
        .map(|snap| {
            let numbers = [snap.guid, snap.created_txg, snap.sequence];
            (numbers.map(u64::to_le_bytes), snap)
        })
        .collect();
    let parts = snapshots
        .iter()
        .flat_map(|(numbers, snap)| [numbers.as_flattened(), snap.name.as_bytes(), &snap.seal]);
    SealedFacts {
        txg,
        keyring: short_hash(keyring),
        snapshots: short_hash(parts),
        properties: PROTECTIVE.map(|name| {
            let value = state.effective(entry, name).map(|(value, _)| value);
            short_hash(value.map(|value| value.as_bytes()))
        }),
    }
}

/// Puts the present facts of a dataset below its next seal. The caller seals it.
pub(crate) fn renew(state: &mut DatasetTable, id: u64, txg: u64) -> Result<()> {
    let entry = state.entry(id)?;
    let facts =
        (entry.suite != 0 && !entry.is_partial()).then(|| facts_of(state, entry, txg).encode());
    if facts.is_some() {
        state.root.features_required |= FEATURE_SEALED_FACTS;
    }
    state.edit(id)?.set_facts_mark(facts.as_ref());
    Ok(())
}

/// The difference between the facts that the seal of a dataset covers and the present ones. There is none if its seal
/// covers no facts, or came with a stream: then it covers those of the sender.
pub(crate) fn unsealed(state: &DatasetTable, entry: &Entry) -> UnsealedFacts {
    let own = entry
        .sealed_facts()
        .filter(|_| entry.sealed_mark().is_none());
    own.map_or_else(UnsealedFacts::default, |sealed| UnsealedFacts {
        changed: sealed.changed(&facts_of(state, entry, sealed.txg)),
        has_new_snapshots: entry.prev_snap != 0 && entry.prev_snap_txg >= sealed.txg,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::datasets::entry::tests::sample;
    use crate::format::superblock::config::Config;
    use crate::format::superblock::root::PoolRoot;

    #[test]
    fn a_mark_with_its_own_number_hides_nothing() {
        let mut state = DatasetTable::new(PoolRoot::new("tank", 1, 1), 50, Config::default());
        let entry = Entry {
            prev_snap: 0,
            ..sample()
        };
        let (id, guid) = (entry.id, entry.guid);
        state.insert(entry);
        renew(&mut state, id, 20).unwrap();
        assert_eq!(
            unsealed(&state, state.entry(id).unwrap()),
            UnsealedFacts::default()
        );
        let props = &mut state.edit(id).unwrap().props;
        props.insert("setuid".into(), "on".into());
        state.edit(id).unwrap().set_sealed_guid(Some(guid));
        let found = unsealed(&state, state.entry(id).unwrap());
        assert_eq!(found.changed, ["setuid"]);
        // Those of a sender are not compared.
        state.edit(id).unwrap().set_sealed_guid(Some(guid + 1));
        assert_eq!(
            unsealed(&state, state.entry(id).unwrap()),
            UnsealedFacts::default()
        );
    }
}
