//! Why a re-encryption is not taken up.

/// Why a re-encryption cannot be taken up.
#[derive(Debug)]
pub(crate) enum Refusal {
    Unsupported(String),
    Damaged(String),
}

impl From<String> for Refusal {
    fn from(what: String) -> Refusal {
        Refusal::Damaged(what)
    }
}

pub(super) fn unsupported<T>(what: impl Into<String>) -> std::result::Result<T, Refusal> {
    Err(Refusal::Unsupported(what.into()))
}
