//! The reasons why a re-encryption cannot be continued.

/// The reason why a re-encryption cannot be continued.
#[derive(Debug)]
pub(crate) enum ReencryptionRefusal {
    Unsupported(String),
    Damaged(String),
}

impl From<String> for ReencryptionRefusal {
    fn from(what: String) -> ReencryptionRefusal {
        ReencryptionRefusal::Damaged(what)
    }
}

pub(super) fn unsupported<T>(
    what: impl Into<String>,
) -> std::result::Result<T, ReencryptionRefusal> {
    Err(ReencryptionRefusal::Unsupported(what.into()))
}
