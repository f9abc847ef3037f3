//! The meaning of a failure for a caller, and the advice for a user.

use std::error::Error;

use http::StatusCode;

use crate::store::address::StoreProvider;
use crate::store::cloud::answer::{FailureCause, FailureOrigin, StatusAnswer, StoreFailure};

/// A request to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Create,
    Replace,
    Get,
    List,
    Delete,
}

/// The meaning of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// An object has that name already, or another request makes it.
    Exists,
    /// No object has that name.
    Missing,
    /// The range begins behind the end of the object. Some stores say which size it has.
    PastEnd(Option<u64>),
    /// The request can succeed later.
    Unanswered(String),
    /// The request fails until a user acts.
    Refused(String),
}

impl Verb {
    /// The name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Replace => "replace",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Delete => "delete",
        }
    }

    /// The right that a provider demands for the request.
    fn right(self, provider: StoreProvider) -> &'static str {
        match (provider, self) {
            (StoreProvider::Gcs, Verb::Create | Verb::Replace) => {
                "storage.objects.create and storage.objects.delete"
            }
            (StoreProvider::Gcs, Verb::Get) => "storage.objects.get",
            (StoreProvider::Gcs, Verb::List) => "storage.objects.list",
            (StoreProvider::Gcs, Verb::Delete) => "storage.objects.delete",
            (StoreProvider::Azure, Verb::Create | Verb::Replace) => {
                "write and create (role Storage Blob Data Contributor)"
            }
            (StoreProvider::Azure, Verb::Get) => "read (role Storage Blob Data Contributor)",
            (StoreProvider::Azure, Verb::List) => "list (role Storage Blob Data Contributor)",
            (StoreProvider::Azure, Verb::Delete) => "delete (role Storage Blob Data Contributor)",
            (_, Verb::Create | Verb::Replace) => "s3:PutObject",
            // Without the second one a missing object looks forbidden.
            (_, Verb::Get) => "s3:GetObject, and s3:ListBucket for the bucket",
            (_, Verb::List) => "s3:ListBucket",
            (_, Verb::Delete) => "s3:DeleteObject",
        }
    }
}

/// The meaning of an error of a request.
pub(super) fn judge(provider: StoreProvider, verb: Verb, error: &object_store::Error) -> Verdict {
    let Some(failure) = failure(error) else {
        // A file of credentials of this machine.
        if let object_store::Error::Unauthenticated { .. } = error {
            return Verdict::Refused(last_cause(error));
        }
        // The answer is a success that does not say what it has to say.
        let reason = format!("its answer cannot be understood: {}", last_cause(error));
        return Verdict::Unanswered(reason);
    };
    if let FailureOrigin::Credentials { is_new } = failure.origin {
        return credentials(provider, failure, is_new);
    }
    match &failure.kind {
        FailureCause::Status(answer) => status(provider, verb, answer),
        FailureCause::Connection(_) => Verdict::Unanswered(failure.to_string()),
        FailureCause::Certificate(_) => Verdict::Refused(format!(
            "{failure}; {} names a file with the certificate of its authority",
            match provider {
                StoreProvider::S3 => "AWS_CA_BUNDLE",
                _ => "SSL_CERT_FILE",
            }
        )),
        FailureCause::PlainHttp => Verdict::Refused(format!(
            "{failure}; use https, or allow http with {}_ALLOW_HTTP=true",
            prefix(provider)
        )),
    }
}

/// The first word of the settings of a provider.
pub(super) fn prefix(provider: StoreProvider) -> &'static str {
    match provider {
        StoreProvider::Gcs => "GOOGLE",
        StoreProvider::Azure => "AZURE",
        _ => "AWS",
    }
}

fn failure(error: &object_store::Error) -> Option<&StoreFailure> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(failure) = error.downcast_ref() {
            return Some(failure);
        }
        cause = error.source();
    }
    None
}

fn last_cause(error: &object_store::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string().chars().take(200).collect()
}

/// No credentials, now or ever.
fn credentials(provider: StoreProvider, failure: &StoreFailure, is_new: bool) -> Verdict {
    let is_refusal =
        matches!(&failure.kind, FailureCause::Status(answer) if !answer.status.is_server_error());
    if !is_new && !is_refusal {
        return Verdict::Unanswered(format!("no new credentials: {failure}"));
    }
    let ways = match provider {
        StoreProvider::Gcs => "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account",
        StoreProvider::Azure => "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY",
        _ => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write a profile in ~/.aws/credentials"
        }
    };
    Verdict::Refused(format!(
        "there are no credentials; {ways}. This machine gives none: {failure}"
    ))
}

/// The meaning of an answer without success.
fn status(provider: StoreProvider, verb: Verb, answer: &StatusAnswer) -> Verdict {
    let code = answer.code.as_str();
    match answer.status {
        StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED
            if verb == Verb::Create && !is_of_bucket(code) =>
        {
            Verdict::Exists
        }
        StatusCode::NOT_FOUND
            if matches!(verb, Verb::Get | Verb::Delete) && !is_of_bucket(code) =>
        {
            Verdict::Missing
        }
        StatusCode::NOT_FOUND => Verdict::Refused(format!(
            "there is no such {}; make it first, or correct the address",
            match provider {
                StoreProvider::Azure => "container",
                _ => "bucket",
            }
        )),
        StatusCode::RANGE_NOT_SATISFIABLE if verb == Verb::Get => Verdict::PastEnd(answer.size),
        _ if answer.status.is_redirection() || answer.region.is_some() || is_of_region(code) => {
            Verdict::Refused(region(provider, answer))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Verdict::Refused(forbidden(provider, verb, answer))
        }
        StatusCode::NOT_IMPLEMENTED if verb == Verb::Create => Verdict::Refused(format!(
            "the store cannot create an object only if there is none ({}); a pool needs that",
            shown(answer)
        )),
        StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => {
            Verdict::Refused(shown(answer))
        }
        StatusCode::INSUFFICIENT_STORAGE => {
            Verdict::Unanswered(format!("the store is full ({})", shown(answer)))
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            Verdict::Unanswered(shown(answer))
        }
        status if status.is_server_error() => Verdict::Unanswered(shown(answer)),
        _ if is_of_transmission(code) => Verdict::Unanswered(shown(answer)),
        _ => Verdict::Refused(shown(answer)),
    }
}

/// Codes that are about the bucket or the account, and not about an object.
fn is_of_bucket(code: &str) -> bool {
    code.contains("Bucket")
        || code.starts_with("Container")
        || code.starts_with("Account")
        || code == "ResourceNotFound"
}

fn is_of_region(code: &str) -> bool {
    matches!(
        code,
        "AuthorizationHeaderMalformed"
            | "IllegalLocationConstraintException"
            | "PermanentRedirect"
            | "TemporaryRedirect"
    )
}

/// Codes with status 400 that are about what the network did to a request.
fn is_of_transmission(code: &str) -> bool {
    matches!(
        code,
        "RequestTimeout"
            | "IncompleteBody"
            | "BadDigest"
            | "Md5Mismatch"
            | "XAmzContentSHA256Mismatch"
            | "ServerBusy"
            | "SlowDown"
    )
}

fn region(provider: StoreProvider, answer: &StatusAnswer) -> String {
    match (&answer.region, provider) {
        (Some(region), StoreProvider::S3) => {
            format!("the bucket is in the region {region}; set AWS_REGION={region}")
        }
        (None, StoreProvider::S3) => format!(
            "the bucket is in another region or at another server ({}); set AWS_REGION or AWS_ENDPOINT_URL",
            shown(answer)
        ),
        _ => format!("the store is at another server ({})", shown(answer)),
    }
}

/// The reason of a refusal, and the way out. Nothing of the credentials is in it.
fn forbidden(provider: StoreProvider, verb: Verb, answer: &StatusAnswer) -> String {
    let code = answer.code.as_str();
    let advice = match code {
        "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "InvalidToken"
        | "InvalidClientTokenId"
        | "AuthenticationFailed"
        | "InvalidAuthenticationInfo"
        | "InvalidSecurity" => {
            "the credentials are wrong; correct them, and start the daemon again"
        }
        "ExpiredToken" | "TokenRefreshRequired" | "RequestExpired" => {
            "the credentials have expired; get new ones, and start the daemon again"
        }
        "RequestTimeTooSkewed" => "the clock of this machine or of the store is wrong; correct it",
        "InvalidObjectState" | "BlobArchived" => {
            "the object was moved to an archive; restore it, and end the lifecycle rule that moved it"
        }
        _ if code.contains("Quota") => "the quota of the bucket is used up; raise it",
        _ => {
            let right = verb.right(provider);
            return format!(
                "the credentials need the right {right} ({})",
                status_and_code(answer)
            );
        }
    };
    format!("{advice} ({})", status_and_code(answer))
}

/// Messages about credentials can repeat them, so those answers are shown without.
fn status_and_code(answer: &StatusAnswer) -> String {
    let status = answer.status.as_u16();
    match answer.code.as_str() {
        "" => format!("status {status}"),
        code => format!("status {status}, {code}"),
    }
}

fn shown(answer: &StatusAnswer) -> String {
    let status = status_and_code(answer);
    match answer.message.as_str() {
        "" => status,
        message => format!("{status}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, code: &str) -> StatusAnswer {
        StatusAnswer {
            status: StatusCode::from_u16(status).unwrap(),
            code: code.into(),
            message: "words of the store".into(),
            ..StatusAnswer::default()
        }
    }

    fn word(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Exists => "exists",
            Verdict::Missing => "missing",
            Verdict::PastEnd(_) => "past end",
            Verdict::Unanswered(_) => "unanswered",
            Verdict::Refused(_) => "refused",
        }
    }

    #[test]
    fn each_status_has_its_meaning() {
        use StoreProvider::{Azure, Gcs, S3};
        use Verb::{Create, Delete, Get, List, Replace};
        for (provider, verb, status_number, code, meaning) in [
            (S3, Create, 412, "PreconditionFailed", "exists"),
            (S3, Create, 409, "ConditionalRequestConflict", "exists"),
            (S3, Create, 409, "OperationAborted", "exists"),
            (Gcs, Create, 412, "PreconditionFailed", "exists"),
            (Azure, Create, 409, "BlobAlreadyExists", "exists"),
            (Azure, Create, 412, "LeaseIdMissing", "exists"),
            (Azure, Create, 409, "ContainerBeingDeleted", "refused"),
            (S3, Replace, 412, "PreconditionFailed", "refused"),
            (S3, Get, 404, "NoSuchKey", "missing"),
            (S3, Get, 404, "", "missing"),
            (S3, Delete, 404, "NoSuchKey", "missing"),
            (S3, Get, 404, "NoSuchBucket", "refused"),
            (Azure, Get, 404, "BlobNotFound", "missing"),
            (Azure, Get, 404, "ContainerNotFound", "refused"),
            (S3, List, 404, "NoSuchBucket", "refused"),
            (S3, Create, 404, "", "refused"),
            (S3, Get, 416, "InvalidRange", "past end"),
            (S3, Create, 403, "AccessDenied", "refused"),
            (S3, Get, 401, "", "refused"),
            (S3, Get, 403, "RequestTimeTooSkewed", "refused"),
            (S3, List, 301, "PermanentRedirect", "refused"),
            (S3, List, 307, "", "refused"),
            (S3, List, 400, "AuthorizationHeaderMalformed", "refused"),
            (S3, Create, 400, "RequestTimeout", "unanswered"),
            (S3, Create, 400, "BadDigest", "unanswered"),
            (S3, Create, 400, "InvalidRequest", "refused"),
            (S3, Create, 405, "MethodNotAllowed", "refused"),
            (S3, Create, 408, "", "unanswered"),
            (S3, Create, 429, "", "unanswered"),
            (S3, Create, 500, "InternalError", "unanswered"),
            (S3, Create, 501, "NotImplemented", "refused"),
            (S3, Create, 502, "", "unanswered"),
            (S3, Create, 503, "SlowDown", "unanswered"),
            (S3, Create, 507, "XMinioStorageFull", "unanswered"),
            (S3, Create, 418, "", "refused"),
        ] {
            let verdict = status(provider, verb, &answer(status_number, code));
            assert_eq!(
                word(&verdict),
                meaning,
                "{provider:?} {verb:?} {status_number} {code}"
            );
        }
    }

    #[test]
    fn refusals_say_what_to_do() {
        for (verb, right) in [
            (Verb::Create, "s3:PutObject"),
            (Verb::Get, "s3:GetObject"),
            (Verb::List, "s3:ListBucket"),
            (Verb::Delete, "s3:DeleteObject"),
        ] {
            let Verdict::Refused(reason) =
                status(StoreProvider::S3, verb, &answer(403, "AccessDenied"))
            else {
                panic!();
            };
            assert!(reason.contains(right), "{reason}");
        }
        let mut elsewhere = answer(301, "PermanentRedirect");
        elsewhere.region = Some("eu-west-1".into());
        let reason = format!("{:?}", status(StoreProvider::S3, Verb::List, &elsewhere));
        assert!(reason.contains("AWS_REGION=eu-west-1"), "{reason}");
        // The store repeats the key.
        let mut wrong = answer(403, "InvalidAccessKeyId");
        wrong.message = "no key AKIASECRET".into();
        let reason = format!("{:?}", status(StoreProvider::S3, Verb::List, &wrong));
        assert!(!reason.contains("AKIASECRET"), "{reason}");
    }
}
