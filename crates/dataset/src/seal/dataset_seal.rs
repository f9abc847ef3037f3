//! The seal over the state of a dataset.

use cipher::Mac;
use pool::SealInput;
use secret::Key;
use zerocopy::IntoBytes;

/// The seal over a state.
pub(super) fn dataset_seal(key: &Key, input: &SealInput) -> [u8; 32] {
    let mut mac = Mac::new(key.expose());
    mac.update(b"strongroom dataset seal v1")
        .update(&input.guid.to_le_bytes())
        .update(&input.sequence.to_le_bytes())
        .update(input.roots[0].as_bytes())
        .update(input.roots[1].as_bytes());
    // Nothing is added without a log: these seals are the same as before logs existed.
    if input.log != [0; 3] {
        let mut log = input.log.map(u64::to_le_bytes).concat();
        if input.log_states != [[0; 16]; 2] {
            log.extend(input.log_states.as_flattened());
        }
        mac.update(&log);
    }
    // The length differs from that of the log, so that neither is taken for the other.
    if input.volume != [0; 2] {
        mac.update(b"volume")
            .update(&input.volume.map(u64::to_le_bytes).concat());
    }
    if let Some(waiting) = &input.waiting {
        mac.update(b"waiting seals").update(waiting);
    }
    if let Some(facts) = &input.facts {
        mac.update(b"sealed facts").update(facts);
    }
    mac.finish()
}
