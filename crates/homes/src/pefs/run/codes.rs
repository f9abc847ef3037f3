//! The exit codes of pefs.

use protocol::api::FailureKind;

pub(super) fn of(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::Usage => 2,
        FailureKind::Device | FailureKind::NoKey | FailureKind::NoSpace => 3,
        FailureKind::Permission => 4,
        FailureKind::NotFound => 5,
        FailureKind::Exists => 6,
        FailureKind::WrongKey | FailureKind::Damaged => 7,
        _ => 1,
    }
}

/// The code for one of other commands.
pub(super) fn instead_of(code: u8) -> u8 {
    let kinds = [
        FailureKind::Exists,
        FailureKind::Usage,
        FailureKind::Device,
        FailureKind::NoSpace,
        FailureKind::Permission,
        FailureKind::NotFound,
    ];
    let kind = kinds.into_iter().find(|kind| kind.exit_code() == code);
    of(kind.unwrap_or(FailureKind::Other))
}
