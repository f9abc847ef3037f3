//! The reasons for which a request is refused or fails, and their status codes.

use protocol::api::{Ask, Failure, FailureKind};
use serde_json::{Value as Json, json};

use super::response::Response;

/// The reason for which there is no answer.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The daemon, or the request itself.
    Failed(Failure),
    /// The daemon asked for a secret that was not given.
    SecretNeeded(Failure, Ask),
    /// The request has no token, or a wrong one.
    Login(String),
    /// Too many requests, connections or streams; try again after so many seconds.
    TooMany(String, u64),
    /// A request that HTTP or this site does not allow.
    Refused(u16, String),
}

impl Problem {
    /// The request makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Problem {
        Problem::Failed(Failure::usage(message))
    }

    /// The problem of a path that does not exist.
    pub(crate) fn no_such(path: &str) -> Problem {
        Problem::Failed(Failure::new(
            FailureKind::NotFound,
            format!("there is no '{path}'; /v1/openapi.json says what there is"),
        ))
    }

    /// The response to the caller.
    pub(crate) fn response(self) -> Response {
        let status = match &self {
            Problem::Failed(failure) => status_of(failure.kind),
            Problem::SecretNeeded(..) => 428,
            Problem::Login(_) => 401,
            Problem::TooMany(..) => 429,
            Problem::Refused(status, _) => *status,
        };
        let mut response = Response::empty(status);
        match &self {
            Problem::Login(_) => response.header("WWW-Authenticate", "Bearer"),
            Problem::TooMany(_, seconds) => response.header("Retry-After", seconds.to_string()),
            _ => {}
        }
        response.with_json(&json!({ "error": self.error() }))
    }

    /// The body of the response. `type` is the address of the page of the guide about it, if there is one.
    fn error(&self) -> Json {
        let of = |failure: &Failure| {
            let kind = failure.kind;
            let mut error =
                json!({"kind": kind, "message": failure.message, "exit_code": kind.exit_code()});
            if let Some(page) = protocol::pages::page_url(kind) {
                error["type"] = page.into();
            }
            error
        };
        let other = |kind: &str, message: &str, like: FailureKind| json!({"kind": kind, "message": message, "exit_code": like.exit_code()});
        match self {
            Problem::Failed(failure) => of(failure),
            Problem::SecretNeeded(failure, ask) => {
                let mut error = of(failure);
                error["kind"] = "secret-needed".into();
                error["ask"] = json!(ask);
                error
            }
            Problem::Login(message) => other("login", message, FailureKind::Permission),
            Problem::TooMany(message, _) => other("too-many", message, FailureKind::Busy),
            Problem::Refused(403, message) => other("permission", message, FailureKind::Permission),
            Problem::Refused(_, message) => other("usage", message, FailureKind::Usage),
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        Problem::Failed(failure)
    }
}

fn status_of(kind: FailureKind) -> u16 {
    match kind {
        FailureKind::Usage => 400,
        FailureKind::Permission => 403,
        FailureKind::NotFound => 404,
        FailureKind::Exists | FailureKind::Busy | FailureKind::NoKey => 409,
        FailureKind::WrongKey => 422,
        FailureKind::Other | FailureKind::Damaged | FailureKind::ForeignLog => 500,
        FailureKind::TooNew => 501,
        FailureKind::Device => 502,
        FailureKind::NoDaemon => 503,
        FailureKind::NoSpace => 507,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: FailureKind) -> Json {
        Problem::from(Failure::new(kind, "why")).error()
    }

    #[test]
    fn a_failure_names_the_page_about_it() {
        let damaged = error(FailureKind::Damaged);
        let page = damaged["type"].as_str().expect("an address");
        assert!(
            page.starts_with("https://") && page.ends_with("/wrong/data-damaged.md"),
            "{page}"
        );
        assert_eq!(damaged["exit_code"], 9);
        assert_eq!(error(FailureKind::Usage).get("type"), None);
    }
}
