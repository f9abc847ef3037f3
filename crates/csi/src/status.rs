//! The status of a failed call: a code of gRPC, and a reason for people.

use protocol::api::{Failure, FailureKind};

/// The result of a call.
pub(crate) type Result<T> = std::result::Result<T, GrpcStatus>;

/// The codes of gRPC that the specification of CSI uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrpcCode {
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
pub(crate) struct GrpcStatus {
    pub(crate) code: GrpcCode,
    pub(crate) message: String,
}

impl GrpcStatus {
    pub(crate) fn new(code: GrpcCode, message: impl Into<String>) -> GrpcStatus {
        let message = message.into();
        GrpcStatus { code, message }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> GrpcStatus {
        GrpcStatus::new(GrpcCode::InvalidArgument, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> GrpcStatus {
        GrpcStatus::new(GrpcCode::NotFound, message)
    }

    /// The state of the volume or of the machine does not allow it.
    pub(crate) fn precondition(message: impl Into<String>) -> GrpcStatus {
        GrpcStatus::new(GrpcCode::FailedPrecondition, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> GrpcStatus {
        GrpcStatus::new(GrpcCode::Internal, message)
    }
}

impl From<Failure> for GrpcStatus {
    fn from(failure: Failure) -> GrpcStatus {
        let code = match failure.kind {
            FailureKind::NotFound => GrpcCode::NotFound,
            FailureKind::Exists => GrpcCode::AlreadyExists,
            FailureKind::Usage => GrpcCode::InvalidArgument,
            FailureKind::Permission => GrpcCode::PermissionDenied,
            FailureKind::NoSpace => GrpcCode::ResourceExhausted,
            FailureKind::Busy | FailureKind::WrongKey | FailureKind::NoKey => {
                GrpcCode::FailedPrecondition
            }
            FailureKind::NoDaemon => GrpcCode::Unavailable,
            FailureKind::Other
            | FailureKind::Damaged
            | FailureKind::ForeignLog
            | FailureKind::TooNew
            | FailureKind::Device => GrpcCode::Internal,
        };
        GrpcStatus::new(code, failure.message)
    }
}

impl From<std::io::Error> for GrpcStatus {
    fn from(error: std::io::Error) -> GrpcStatus {
        GrpcStatus::internal(error.to_string())
    }
}
