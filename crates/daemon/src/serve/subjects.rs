//! The datasets that a decision about a command was about.

use std::collections::{BTreeMap, BTreeSet};

use protocol::api::FailureKind;

use crate::failure::Failure;
use crate::state::callers::decision::DatasetGuid;

/// The datasets that a decision was about.
#[derive(Default)]
pub(crate) struct Subjects {
    /// The datasets that names meant in the first decision.
    named: BTreeMap<String, DatasetGuid>,
    /// The datasets whose permissions allowed the command in the last decision.
    allowed: BTreeSet<DatasetGuid>,
}

impl Subjects {
    /// Enters the meaning of a name. Returns false if the name had another meaning before.
    pub(super) fn enter(&mut self, name: &str, dataset: DatasetGuid) -> bool {
        *self.named.entry(name.to_owned()).or_insert(dataset) == dataset
    }

    /// Enters a dataset whose permissions allow the command.
    pub(super) fn allow(&mut self, dataset: DatasetGuid) {
        self.allowed.insert(dataset);
    }

    pub(super) fn is_allowed(&self, dataset: DatasetGuid) -> bool {
        self.allowed.contains(&dataset)
    }

    /// Forgets what was allowed, for the next decision.
    pub(super) fn begin(&mut self) {
        self.allowed.clear();
    }
}

/// The refusal of a name that means another dataset than before.
pub(super) fn replaced(name: &str) -> Failure {
    Failure::new(
        FailureKind::Busy,
        format!(
            "'{name}' is another dataset than when the command began: datasets were renamed or replaced meanwhile; \
             nothing was changed, try again"
        ),
    )
}
