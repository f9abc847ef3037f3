//! Changes that a re-encryption makes in a header.

use serde_json::{Map, Value, json};

use super::reencryption::{
    Course, DataExtent, DataPart, FINAL, HOT, MOVED, PREVIOUS, REQUIREMENT, REQUIREMENT_SHIFT,
    ReencryptionMode, ReencryptionState, Resilience, State, area_json,
};
use crate::keyslots::slot_refs::{forget, push};
use crate::model::{SECTOR, Segment};

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

/// A re-encryption as a header describes it.
pub(crate) struct ReencryptionPlan<'a> {
    pub(crate) mode: ReencryptionMode,
    pub(crate) course: Course,
    /// The old and the new segment of all data, each with the number of the digest of its key.
    pub(crate) old: (&'a Segment, Option<u32>),
    pub(crate) new: (&'a Segment, Option<u32>),
    /// The first part of the data, where it was moved to.
    pub(crate) moved: Option<&'a Segment>,
    pub(crate) resilience: Resilience,
    /// The protection of the moved part, if it differs.
    pub(crate) resilience_of_moved: Option<Resilience>,
}

/// The fields that a header gets when a re-encryption begins.
pub(crate) struct ReencryptionEntry<'a> {
    pub(crate) plan: &'a ReencryptionPlan<'a>,
    /// The number of the key slot of the re-encryption.
    pub(crate) id: u32,
    /// The number of its digest, and the digest.
    pub(crate) proof: (u32, Value),
    /// The address and the length of the area for the hot zone, in bytes.
    pub(crate) area: (u64, u64),
}

/// Adds a key slot of the new key beside one of the old key.
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

/// Enters a re-encryption of which no part is done.
pub(super) fn begin(json: &mut Map<String, Value>, entry: ReencryptionEntry<'_>) {
    let plan = entry.plan;
    let direction = match plan.course {
        Course::Forward | Course::Down => "forward",
        Course::Backward | Course::Up => "backward",
    };
    json["keyslots"][entry.id.to_string()] = json!({
        "type": "reencrypt",
        "key_size": 1,
        "area": area_json(plan.resilience, plan.resilience_of_moved, entry.area),
        "mode": plan.mode.name(),
        "direction": direction,
        "priority": 0,
    });
    // What this program does not know of the segment stays in it.
    let like = json["segments"]["0"].clone();
    let segment_json = |segment: &Segment| segment_json(&like, segment);
    let mut segments = Vec::new();
    let of = |digest: Option<u32>| digest.into_iter().collect::<Vec<_>>();
    let (old, old_digest) = plan.old;
    match plan.moved {
        None => segments.push((of(old_digest), segment_json(old))),
        Some(moved) => {
            let first = moved.len.unwrap_or_default();
            segments.push((of(old_digest), segment_json(moved)));
            let rest = old.len.map(|len| len.saturating_sub(first));
            if rest != Some(0) {
                segments.push((of(old_digest), segment_json(&old.part(first, rest))));
            }
        }
    }
    let mut keep = |segment: &Segment, digest, flag: &str| {
        let mut kept = segment_json(segment);
        kept["flags"] = json!([flag]);
        segments.push((of(digest), kept));
    };
    keep(old, old_digest, PREVIOUS);
    keep(plan.new.0, plan.new.1, FINAL);
    if let Some(moved) = plan.moved {
        keep(moved, old_digest, MOVED);
    }
    json["digests"][entry.proof.0.to_string()] = entry.proof.1;
    set_segments(json, segments);
    let required = match plan.course {
        Course::Down => REQUIREMENT_SHIFT,
        _ => REQUIREMENT,
    };
    json["config"]["requirements"] = json!({"mandatory": [required]});
}

/// A segment as it stands in the JSON area, like another one.
fn segment_json(like: &Value, segment: &Segment) -> Value {
    let size = match segment.len {
        None => "dynamic".to_owned(),
        Some(len) => len.to_string(),
    };
    let offset = segment.offset.to_string();
    if segment.is_linear() {
        return json!({"type": "linear", "offset": offset, "size": size});
    }
    let mut made = match like["type"] == "crypt" {
        true => like.clone(),
        false => json!({"type": "crypt"}),
    };
    made["offset"] = offset.into();
    made["size"] = size.into();
    made["iv_tweak"] = segment.iv_offset.to_string().into();
    made["encryption"] = segment.cipher.as_str().into();
    made["sector_size"] = segment.sector_size.into();
    made
}

/// Replaces all segments by these, each with the numbers of its digests.
fn set_segments(json: &mut Map<String, Value>, segments: Vec<(Vec<u32>, Value)>) {
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

/// Enters that `done` of `total` bytes are new, and that a part is hot.
pub(super) fn advance(
    json: &mut Map<String, Value>,
    state: &ReencryptionState,
    total: u64,
    done: u64,
    hot: Option<&DataPart>,
) {
    let layout = state.layout(total, done, hot);
    let mut segments: Vec<_> = layout
        .iter()
        .map(|extent| (state.digests_of(extent.state), regular(json, extent)))
        .collect();
    let backups = [
        (PREVIOUS, State::Old),
        (FINAL, State::New),
        (MOVED, State::Moved),
    ];
    for (flag, like) in backups {
        let kept = backup(json, flag);
        if !kept.is_null() {
            segments.push((state.digests_of(like), kept));
        }
    }
    set_segments(json, segments);
}

/// Enters that all data is new, and removes the re-encryption.
pub(super) fn finish(json: &mut Map<String, Value>, state: &ReencryptionState) {
    let all = DataExtent {
        state: State::New,
        at: 0,
        len: state.new.segment.len,
    };
    let last = regular(json, &all);
    for id in state.passing_slots() {
        forget(json, id);
    }
    json["segments"] = json!({"0": last});
    if let Some(digests) = json["digests"].as_object_mut() {
        if let Some(old) = state.passing_digest() {
            digests.remove(&old.id.to_string());
        }
        if let Some(new) = &state.new.digest {
            digests[&new.id.to_string()]["segments"] = json!(["0"]);
        }
    }
    if let Some(config) = json["config"].as_object_mut() {
        config.remove("requirements");
    }
}

/// A regular segment: a part of a backup segment, with everything in it that this program does not know.
fn regular(json: &Map<String, Value>, extent: &DataExtent) -> Value {
    let mut made = backup(
        json,
        match extent.state {
            State::New | State::Hot => FINAL,
            State::Old => PREVIOUS,
            State::Moved => MOVED,
        },
    );
    if extent.state == State::Hot {
        made["flags"] = json!([HOT]);
    } else if let Some(map) = made.as_object_mut() {
        map.remove("flags");
    }
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
    for (member, more) in [("offset", extent.at), ("iv_tweak", extent.at / SECTOR)] {
        if let Some(begin) = number(&made[member]) {
            made[member] = begin.saturating_add(more).to_string().into();
        }
    }
    made["size"] = match extent.len {
        None => json!("dynamic"),
        Some(len) => json!(len.to_string()),
    };
    made
}
