//! The model of an attacker, who can put everything on the devices, and the claims that the attacker must not break.

use super::reader::{follows_anchor, may_seal_head, open, proves_itself, takes_entry};
use super::world::{
    Entry, ModelFiles, ModelGeneration, ModelHead, ModelKeyring, ModelKeys, ModelRecord, ModelStep,
    World,
};

/// Contents that only an attacker writes.
const FORGED: u8 = 200;

/// A sentence of README or THREATS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReadmeClaim {
    /// Without a key, devices show states that existed, or an error.
    NoMixture,
    /// The key of a clone does not change what its origin or a snapshot of that holds, unless the keyring of before the
    /// clone is put back. Only an anchor detects that.
    CloneCannotWrite,
    /// The key of a clone does not read what its origin writes later.
    CloneCannotRead,
    /// `anchor verify` accepts the anchored state and those that grew from it.
    AnchorProvesAncestry,
    /// A stream that a host without keys accepts can be read with the key.
    StreamProvesItself,
}

/// The claims that do not hold in a world.
pub(crate) fn broken(world: &World) -> Vec<ReadmeClaim> {
    let mut broken = Vec::new();
    if !shows_what_existed(world, &world.keyrings, &ModelKeys::default()) {
        broken.push(ReadmeClaim::NoMixture);
    } else if let Some(keys) = &world.clone_keys
        && !shows_what_existed(world, &world.keyrings[world.since_clone..], keys)
    {
        broken.push(ReadmeClaim::CloneCannotWrite);
    }
    // Devices that were put back may have the keys of before the clone, in the hands of a program that cannot know.
    let is_put_back = world
        .steps
        .iter()
        .any(|step| matches!(step, ModelStep::PutBack(_)));
    let newest = world.now.keyring.newest;
    let reads = |keys: &ModelKeys| keys.data.contains(&newest);
    if world.clone_keys.as_ref().is_some_and(reads) && !is_put_back {
        broken.push(ReadmeClaim::CloneCannotRead);
    }
    let head = &world.now.head;
    let is_ancestor =
        |anchor: &ModelHead| anchor.seal == head.seal || head.history.contains(&anchor.seal);
    let mut anchors = world.heads.iter();
    if anchors.any(|anchor| follows_anchor(world.rules, anchor, head) && !is_ancestor(anchor)) {
        broken.push(ReadmeClaim::AnchorProvesAncestry);
    }
    if !streams_prove_themselves(world) {
        broken.push(ReadmeClaim::StreamProvesItself);
    }
    broken
}

/// Returns whether each choice of old and forged parts is refused, or shows contents that were durable once.
fn shows_what_existed(world: &World, keyrings: &[ModelKeyring], keys: &ModelKeys) -> bool {
    let is_known = |files: ModelFiles| world.durable.contains(&files);
    keyrings.iter().all(|keyring| {
        let forges_head = |from: ModelGeneration| {
            let mut generations = from..=keyring.newest;
            generations.any(|of| keys.seal.contains(&of) && keys.data.contains(&of))
        };
        // A snapshot may have the seal of any generation, a head only those that may seal heads.
        !forges_head(1)
            && world.heads.iter().all(|head| {
                let states = contents(world, *keyring, keys, head);
                let mut states = states.into_iter();
                head.generation > keyring.newest
                    || states.all(|files| {
                        is_known(files)
                            && (!may_seal_head(*keyring, head)
                                || replays_to_known(
                                    world,
                                    keys,
                                    (*keyring, head),
                                    head.first_entry,
                                    files,
                                ))
                    })
            })
    })
}

/// Returns the contents that a head may show without its log, with each record that was ever stored or can be forged.
fn contents(
    world: &World,
    keyring: ModelKeyring,
    keys: &ModelKeys,
    head: &ModelHead,
) -> Vec<ModelFiles> {
    let plaintexts = head.identities.each_ref().map(|identity| {
        let forged = keys
            .data
            .contains(&identity.generation)
            .then_some(ModelRecord {
                generation: identity.generation,
                tag: identity.tag,
                plaintext: FORGED,
                is_authentic: true,
            });
        let records = world.records.iter().chain(&forged);
        records
            .filter_map(|record| open(keyring, identity, record))
            .collect::<Vec<u8>>()
    });
    let [first, second] = plaintexts;
    let pairs = first.iter().flat_map(|a| second.iter().map(|b| [*a, *b]));
    pairs.collect()
}

/// Returns whether every log that can be put beside a head replays to contents that were durable once.
fn replays_to_known(
    world: &World,
    keys: &ModelKeys,
    (keyring, head): (ModelKeyring, &ModelHead),
    number: u8,
    files: ModelFiles,
) -> bool {
    let rules = world.rules;
    let can_forge = (keyring.floor..=keyring.newest)
        .any(|of| keys.data.contains(&of) && (!rules.entry_has_seal || keys.seal.contains(&of)));
    if can_forge {
        return false;
    }
    let takes = |entry: &&Entry| takes_entry(rules, keyring, head, number, entry);
    world.entries.iter().filter(takes).all(|entry| {
        let mut replayed = files;
        if entry.txg > head.base {
            replayed[entry.file] = entry.contents;
        }
        world.durable.contains(&replayed)
            && replays_to_known(world, keys, (keyring, head), number + 1, replayed)
    })
}

/// Returns whether a stream of the present state with a flipped bit is refused without a key, if it cannot be read with
/// it.
fn streams_prove_themselves(world: &World) -> bool {
    let ModelHead { identities, .. } = &world.now.head;
    identities
        .iter()
        .zip(&world.now.records)
        .all(|(identity, record)| {
            let flipped = ModelRecord {
                is_authentic: false,
                ..record.clone()
            };
            !proves_itself(identity, &flipped)
                || open(world.now.keyring, identity, &flipped).is_some()
        })
}
