//! References between slots, digests and tokens in the JSON of a LUKS2 header.

use serde_json::Value;

pub(crate) fn push(list: &mut Value, id: u32) {
    if let Some(list) = list.as_array_mut() {
        list.push(id.to_string().into());
    }
}

/// Removes a slot and all references to it. The digest of a key that only this slot had goes too, if it encrypts no
/// data.
pub(crate) fn forget(json: &mut serde_json::Map<String, Value>, id: u32) {
    let name = id.to_string();
    if let Some(slots) = json["keyslots"].as_object_mut() {
        slots.remove(&name);
    }
    if let Some(digests) = json["digests"].as_object_mut() {
        let alone = serde_json::json!([name]);
        digests.retain(|_, digest| {
            digest["keyslots"] != alone || digest["segments"] != serde_json::json!([])
        });
    }
    for part in ["digests", "tokens"] {
        for member in json[part]
            .as_object_mut()
            .into_iter()
            .flat_map(|map| map.values_mut())
        {
            if let Some(list) = member["keyslots"].as_array_mut() {
                list.retain(|item| item != &name);
            }
        }
    }
}

/// Replaces a slot; its priority stays.
pub(crate) fn replace(json: &mut serde_json::Map<String, Value>, id: u32, mut slot: Value) {
    let there = &mut json["keyslots"][id.to_string()];
    if let Some(priority) = there.get("priority") {
        slot["priority"] = priority.clone();
    }
    *there = slot;
}

/// Exchanges what two slots are, but for their priorities; tokens go with the number.
pub(crate) fn exchange(json: &mut serde_json::Map<String, Value>, one: u32, two: u32) {
    let Some(slots) = json["keyslots"].as_object_mut() else {
        return;
    };
    let (one, two) = (one.to_string(), two.to_string());
    if let (Some(mut a), Some(mut b)) = (slots.remove(&one), slots.remove(&two)) {
        let priority = |slot: &mut Value| slot.as_object_mut()?.remove("priority");
        let (of_a, of_b) = (priority(&mut a), priority(&mut b));
        for (slot, priority) in [(&mut b, of_a), (&mut a, of_b)] {
            if let Some(priority) = priority {
                slot["priority"] = priority;
            }
        }
        slots.insert(one, b);
        slots.insert(two, a);
    }
}
