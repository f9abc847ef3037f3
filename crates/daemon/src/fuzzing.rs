//! The decoders of untrusted text, for `fuzz/`.

pub use crate::ops::users::delegation::read_grants as grants;
use crate::serve::metrics::server::check_request;
use crate::state::memory::RememberedPools;
use crate::state::replication::job::ReplicationJob;

/// Reads a request for the metrics.
pub fn metrics_request(mut bytes: &[u8]) {
    let _ = check_request(&mut bytes);
}

/// Reads the list of pools that were imported.
pub fn remembered(bytes: &[u8]) {
    if let Ok(remembered) = serde_json::from_slice::<RememberedPools>(bytes) {
        let text = serde_json::to_vec(&remembered).expect("it was read just now");
        serde_json::from_slice::<RememberedPools>(&text).expect("it was written just now");
    }
}

/// Reads the jobs of a dataset, which a pool stores.
pub fn jobs(text: &str) {
    let jobs = ReplicationJob::parse_all(text);
    let again = ReplicationJob::to_text(&jobs).expect("it was read just now");
    assert_eq!(ReplicationJob::parse_all(&again), jobs);
}
