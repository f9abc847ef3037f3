//! Features of pools.

use protocol::api::FeatureRow;

/// The newest format of pools; the first is 1.
pub const FORMAT_VERSION: u32 = store::layout::FORMAT_VERSION;

/// Every feature of pools that this program knows.
pub fn known_features() -> Vec<FeatureRow> {
    let features = pool::FEATURES.iter();
    features.map(|feature| row(feature, false)).collect()
}

/// The row for a feature; `active` says whether the pool has it.
pub(crate) fn row(feature: &pool::Feature, active: bool) -> FeatureRow {
    FeatureRow {
        name: feature.name.into(),
        active,
        since: feature.since.into(),
        what: feature.what.into(),
        begins: feature.begins.into(),
    }
}
