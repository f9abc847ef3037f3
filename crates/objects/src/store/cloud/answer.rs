//! The reasons why a request has no success. They pass through the library `object_store` as sources of its errors.

use std::error::Error;
use std::io;

use http::StatusCode;

/// The longest message of a store that is shown, in characters.
const MESSAGE_MAX: usize = 200;

/// The server that did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureOrigin {
    /// The store.
    Store,
    /// The server that gives credentials to this machine. `is_new`: it never gave any to this process.
    Credentials { is_new: bool },
}

/// The reason why a request has no success.
#[derive(Debug, thiserror::Error)]
#[error("{host}: {kind}")]
pub(super) struct StoreFailure {
    /// The server.
    pub(super) origin: FailureOrigin,
    /// The name and port of the server.
    pub(super) host: String,
    /// The kind of failure.
    #[source]
    pub(super) kind: FailureCause,
}

/// The kind of a failure.
#[derive(Debug, thiserror::Error)]
pub(super) enum FailureCause {
    /// The server answered with another status than success.
    #[error("status {}", .0.status)]
    Status(StatusAnswer),
    /// No whole answer came.
    #[error("{0}")]
    Connection(String),
    /// The server is not the right one, or its certificate says nothing.
    #[error("its certificate is not trusted: {0}")]
    Certificate(String),
    /// The address has no TLS, and nobody allowed that.
    #[error("http has no encryption")]
    PlainHttp,
}

/// An answer without success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StatusAnswer {
    /// The status of HTTP.
    pub(super) status: StatusCode,
    /// The code of the store, such as `AccessDenied`. Often empty.
    pub(super) code: String,
    /// The message of the store. Often empty.
    pub(super) message: String,
    /// The region in which the bucket is.
    pub(super) region: Option<String>,
    /// The size of the object, if the range lies behind its end.
    pub(super) size: Option<u64>,
}

impl StatusAnswer {
    /// An answer with the document that describes it, which may be anything.
    pub(super) fn read(status: StatusCode, headers: &http::HeaderMap, body: &[u8]) -> StatusAnswer {
        let body = String::from_utf8_lossy(body);
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let code = element(&body, "Code").or_else(|| header("x-ms-error-code").map(clean));
        let region = header("x-amz-bucket-region").map(clean);
        StatusAnswer {
            status,
            code: code.unwrap_or_default(),
            message: element(&body, "Message").unwrap_or_default(),
            region: region.or_else(|| element(&body, "Region")),
            size: header("content-range")
                .and_then(size_of_range)
                .or_else(|| element(&body, "ActualObjectSize")?.parse().ok()),
        }
    }
}

/// The text of the first element of a name in an XML document.
fn element(document: &str, name: &str) -> Option<String> {
    let (_, rest) = document.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(clean(text)).filter(|text| !text.is_empty())
}

/// A text of a server as part of a line.
fn clean(text: &str) -> String {
    let words: Vec<_> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    let line = ["&quot;\"", "&apos;'", "&lt;<", "&gt;>", "&amp;&"]
        .iter()
        .fold(line, |line, entity| {
            let (name, sign) = entity.split_at(entity.len() - 1);
            line.replace(name, sign)
        });
    line.chars().take(MESSAGE_MAX).collect()
}

/// The size in `bytes */SIZE`.
fn size_of_range(value: &str) -> Option<u64> {
    value.strip_prefix("bytes */")?.parse().ok()
}

/// The last cause of an error, and the TLS error among its causes.
pub(super) fn connection_cause(error: &(dyn Error + 'static)) -> FailureCause {
    let mut cause = error;
    loop {
        if let Some(tls) = tls_error(cause) {
            return match tls {
                rustls::Error::InvalidCertificate(why) => {
                    FailureCause::Certificate(why.to_string())
                }
                other => FailureCause::Connection(other.to_string()),
            };
        }
        match cause.source() {
            Some(source) => cause = source,
            None => return FailureCause::Connection(clean(&cause.to_string())),
        }
    }
}

/// The TLS error inside an error, however many errors of the system are around it.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    match error.downcast_ref::<io::Error>() {
        Some(outer) => tls_error(outer.get_ref()?),
        None => error.downcast_ref(),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn answers_are_read() {
        let body = b"<?xml?><Error><Code>Access\nDenied</Code><Message>a &lt;b&gt; &amp;lt;\x07</Message></Error>";
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-bucket-region", "eu-west-1".parse().unwrap());
        headers.insert("content-range", "bytes */17".parse().unwrap());
        let answer = StatusAnswer::read(StatusCode::FORBIDDEN, &headers, body);
        assert_eq!(answer.code, "Access Denied");
        assert_eq!(answer.message, "a <b> &lt;");
        assert_eq!(answer.region.as_deref(), Some("eu-west-1"));
        assert_eq!(answer.size, Some(17));
    }

    #[test]
    fn no_document_is_too_strange() {
        for body in [
            &b""[..],
            b"<Code>",
            b"</Code><Code>",
            b"\xff<Code>\xff</Code>",
            b"<Code></Code>",
        ] {
            let answer = StatusAnswer::read(StatusCode::BAD_REQUEST, &HeaderMap::new(), body);
            assert!(answer.code.chars().count() <= 1, "{answer:?}");
        }
        let long = format!("<Code>{}</Code>", "ä".repeat(9_999));
        let answer = StatusAnswer::read(StatusCode::OK, &HeaderMap::new(), long.as_bytes());
        assert_eq!(answer.code.chars().count(), MESSAGE_MAX);
        assert_eq!(size_of_range("bytes 0-1/2"), None);
    }
}
