//! What a re-encryption changes in a header.

use serde_json::{Map, Value, json};

use super::reencrypt::{FINAL, HOT, PREVIOUS, REQUIREMENT, Reencryption, Resilience, Side};
use crate::model::SECTOR;
use crate::slot_refs::{forget, push};

/// A part of the data that is about to be written.
pub(crate) struct Hot {
    pub(crate) len: u64,
    /// Whether nothing is left behind it.
    pub(crate) is_last: bool,
}

/// The backup segment of this flag, as the header has it.
fn backup(json: &Map<String, Value>, flag: &str) -> Value {
    let mut all = json["segments"]
        .as_object()
        .into_iter()
        .flat_map(Map::values);
    all.find(|of| of["flags"] == json!([flag]))
        .cloned()
        .unwrap_or_default()
}

/// What a header gets when a re-encryption begins.
pub(crate) struct Beginning<'a> {
    /// Its encryption of the data in the end.
    pub(crate) cipher: &'a str,
    pub(crate) sector_size: u32,
    /// The number of the digest of the new key.
    pub(crate) new: u32,
    /// The number of the key slot of the re-encryption.
    pub(crate) id: u32,
    /// The number of its digest, and the digest.
    pub(crate) proof: (u32, Value),
    pub(crate) resilience: Resilience,
    /// Where the area for the hot zone is, in bytes, and how long.
    pub(crate) area: (u64, u64),
}

/// Lets a key slot of the new key, as it stands in the JSON area, follow one of the old key.
pub(super) fn follow(
    json: &mut Map<String, Value>,
    (old, new): (u32, u32),
    mut slot: Value,
    digest: u32,
) {
    if let Some(priority) = json["keyslots"][old.to_string()].get("priority") {
        slot["priority"] = priority.clone();
    }
    json["keyslots"][new.to_string()] = slot;
    push(&mut json["digests"][digest.to_string()]["keyslots"], new);
    let tokens = json["tokens"].as_object_mut();
    for token in tokens.into_iter().flat_map(Map::values_mut) {
        let slots = &mut token["keyslots"];
        let of_it = slots.as_array();
        if of_it.is_some_and(|all| all.contains(&json!(old.to_string()))) {
            push(slots, new);
        }
    }
}

/// Lets a re-encryption begin of a container with one segment.
pub(super) fn begin(json: &mut Map<String, Value>, how: Beginning<'_>) {
    let mut area = json!({
        "type": how.resilience.name(),
        "offset": how.area.0.to_string(),
        "size": how.area.1.to_string(),
    });
    if let Resilience::Checksum { hash, block } = how.resilience {
        area["hash"] = hash.name().into();
        area["sector_size"] = block.into();
    }
    json["keyslots"][how.id.to_string()] = json!({
        "type": "reencrypt",
        "key_size": 1,
        "area": area,
        "mode": "reencrypt",
        "direction": "forward",
        "priority": 0,
    });
    let mut previous = json["segments"]["0"].clone();
    previous["flags"] = json!([PREVIOUS]);
    let mut last = previous.clone();
    last["flags"] = json!([FINAL]);
    last["encryption"] = how.cipher.into();
    last["sector_size"] = how.sector_size.into();
    json["segments"]["1"] = previous;
    json["segments"]["2"] = last;
    let digests = json["digests"].as_object_mut();
    for digest in digests.into_iter().flat_map(Map::values_mut) {
        if digest["segments"] == json!(["0"]) {
            push(&mut digest["segments"], 1);
        }
    }
    json["digests"][how.new.to_string()]["segments"] = json!(["2"]);
    json["digests"][how.proof.0.to_string()] = how.proof.1;
    json["config"]["requirements"] = json!({"mandatory": [REQUIREMENT]});
}

/// Lets the first `done` bytes be encrypted anew, then `hot` bytes be in between, and what follows, if anything
/// does, be as it was.
pub(super) fn advance(
    json: &mut Map<String, Value>,
    state: &Reencryption,
    done: u64,
    hot: Option<&Hot>,
) {
    let (previous, last) = (backup(json, PREVIOUS), backup(json, FINAL));
    let (old, new) = (&state.old, &state.new);
    let (of_old, of_new) = (vec![old.digest.id], vec![new.digest.id]);
    let mut segments = Vec::new();
    if done > 0 {
        let mut first = regular(&last, new, 0);
        first["size"] = done.to_string().into();
        segments.push((of_new.clone(), first));
    }
    if let Some(hot) = hot {
        let mut between = regular(&last, new, done);
        between["size"] = hot.len.to_string().into();
        between["flags"] = json!([HOT]);
        segments.push((vec![old.digest.id, new.digest.id], between));
    }
    if hot.is_none_or(|hot| !hot.is_last) {
        let at = done + hot.map_or(0, |hot| hot.len);
        segments.push((of_old.clone(), regular(&previous, old, at)));
    }
    segments.push((of_old, previous));
    segments.push((of_new, last));
    if let Some(digests) = json["digests"].as_object_mut() {
        for (id, digest) in digests {
            let all = segments.iter().enumerate();
            let of_it = all.filter(|(_, (of, _))| of.iter().any(|of| of.to_string() == *id));
            digest["segments"] = of_it.map(|(n, _)| n.to_string()).collect();
        }
    }
    let numbered = segments.into_iter().enumerate();
    let numbered: Map<_, _> = numbered.map(|(n, (_, s))| (n.to_string(), s)).collect();
    json["segments"] = numbered.into();
}

/// Lets all data be encrypted anew, and the re-encryption be over.
pub(super) fn finish(json: &mut Map<String, Value>, state: &Reencryption) {
    let (old, new) = (&state.old.digest, &state.new.digest);
    let last = backup(json, FINAL);
    for id in state.passing_slots() {
        forget(json, id);
    }
    json["segments"] = json!({"0": regular(&last, &state.new, 0)});
    if let Some(digests) = json["digests"].as_object_mut() {
        if old.id != new.id {
            digests.remove(&old.id.to_string());
        }
        digests[&new.id.to_string()]["segments"] = json!(["0"]);
    }
    if let Some(config) = json["config"].as_object_mut() {
        config.remove("requirements");
    }
}

/// A regular segment from `at` to the end, of the same encryption as a backup.
fn regular(backup: &Value, side: &Side, at: u64) -> Value {
    let mut made = backup.clone();
    if let Some(map) = made.as_object_mut() {
        map.remove("flags");
    }
    made["offset"] = (side.segment.offset + at).to_string().into();
    made["iv_tweak"] = (side.segment.iv_offset + at / SECTOR).to_string().into();
    if let Some(len) = side.segment.len {
        made["size"] = json!((len - at).to_string());
    }
    made
}
