//! The status of a failed call: a code of gRPC, and a reason for people.

use protocol::api::{Failure, FailureKind};

/// The result of a call.
pub(crate) type Result<T> = std::result::Result<T, Status>;

/// The codes of gRPC that the specification of CSI uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    InvalidArgument = 3,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

/// The code and the reason of a failed call.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Status {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Status {
        let message = message.into();
        Status { code, message }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Status {
        Status::new(Code::InvalidArgument, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Status {
        Status::new(Code::NotFound, message)
    }

    /// The state of the volume or of the machine does not allow it.
    pub(crate) fn precondition(message: impl Into<String>) -> Status {
        Status::new(Code::FailedPrecondition, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Status {
        Status::new(Code::Internal, message)
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Status {
        let code = match failure.kind {
            FailureKind::NotFound => Code::NotFound,
            FailureKind::Exists => Code::AlreadyExists,
            FailureKind::Usage => Code::InvalidArgument,
            FailureKind::Permission => Code::PermissionDenied,
            FailureKind::NoSpace => Code::ResourceExhausted,
            FailureKind::Busy | FailureKind::WrongKey | FailureKind::NoKey => {
                Code::FailedPrecondition
            }
            FailureKind::NoDaemon => Code::Unavailable,
            FailureKind::Other
            | FailureKind::Damaged
            | FailureKind::ForeignLog
            | FailureKind::TooNew
            | FailureKind::Device => Code::Internal,
        };
        Status::new(code, failure.message)
    }
}

impl From<std::io::Error> for Status {
    fn from(error: std::io::Error) -> Status {
        Status::internal(error.to_string())
    }
}
