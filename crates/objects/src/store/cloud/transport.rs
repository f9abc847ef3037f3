//! HTTP requests to stores.
//!
//! Connections stay open for the next request, and no timer watches them: a process that does nothing is not woken.
//! No request is sent again, and no redirection is followed: a signed request is only good for its own server.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_RANGE, RANGE, USER_AGENT};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::TokioExecutor;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use rustls::ClientConfig;

use crate::store::cloud::answer::{
    FailureCause, FailureOrigin, StatusAnswer, StoreFailure, connection_cause,
};

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A connection on which the other side confirms nothing for so long is given up.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Stores close connections without requests after 20 seconds or more.
const IDLE_MAX: Duration = Duration::from_secs(18);
/// The most connections that wait: those of a full window, and some for reads.
const IDLE_CONNECTIONS_MAX: usize = 96;
/// The longest answer that is read, if the request does not say how much it wants: a list of 1,000 names.
const ANSWER_MAX: usize = 16 << 20;
/// The longest document about an error.
const DOCUMENT_MAX: usize = 16 << 10;

/// Makes the connections to a store, and to the servers that give credentials for it.
#[derive(Clone)]
pub(super) struct StoreConnector {
    tls: ClientConfig,
    /// True after the first success of a server of credentials.
    has_credentials: Arc<AtomicBool>,
}

impl StoreConnector {
    pub(super) fn new(tls: ClientConfig) -> StoreConnector {
        StoreConnector {
            tls,
            has_credentials: Arc::default(),
        }
    }
}

impl fmt::Debug for StoreConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreConnector")
    }
}

impl HttpConnector for StoreConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut tcp = TcpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_MAX));
        tcp.set_tcp_user_timeout(Some(SILENCE_MAX));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(self.tls.clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(connector);
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        Ok(HttpClient::new(StoreTransport {
            client,
            allows_http: allows_http.as_deref() == Some("true"),
            has_credentials: Arc::clone(&self.has_credentials),
        }))
    }
}

/// The connections to a server.
struct StoreTransport {
    client: Client<HttpsConnector<TcpConnector>, HttpRequestBody>,
    allows_http: bool,
    has_credentials: Arc<AtomicBool>,
}

impl fmt::Debug for StoreTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreTransport")
    }
}

#[async_trait::async_trait]
impl HttpService for StoreTransport {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let server = self.server(request.uri());
        if !self.allows_http && request.uri().scheme_str() != Some("https") {
            return Err(server.fails(FailureCause::PlainHttp));
        }
        let agent = HeaderValue::from_static(concat!("strongroom/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, agent);
        let wanted = range_size(request.headers()).unwrap_or(ANSWER_MAX);
        let list = list_element(request.uri());
        let is_batch = is_batch(request.uri());
        let answered = self.client.request(request).await;
        let (head, body) = answered
            .map_err(|error| server.fails(connection_cause(&error)))?
            .into_parts();
        if head.status.is_success() {
            if let Some(size) = size_before_range(&head.headers) {
                let answer = StatusAnswer {
                    status: StatusCode::RANGE_NOT_SATISFIABLE,
                    size: Some(size),
                    ..StatusAnswer::default()
                };
                return Err(server.fails(FailureCause::Status(answer)));
            }
            if !has_sound_range(&head.headers) {
                return Err(server.fails(FailureCause::Connection("a range that cannot be".into())));
            }
            if matches!(server.origin, FailureOrigin::Credentials { .. }) {
                self.has_credentials.store(true, Ordering::Relaxed);
            }
            if is_batch {
                let whole = Limited::new(body, DOCUMENT_MAX).collect().await;
                let whole = whole
                    .map_err(|error| server.fails(connection_cause(error.as_ref())))?
                    .to_bytes();
                return match refusal_in_batch(&whole) {
                    Some(answer) => Err(server.fails(FailureCause::Status(answer))),
                    None => Ok(HttpResponse::from_parts(head, whole.into())),
                };
            }
            let body = server.body(body, wanted);
            let body = match list {
                Some(element) => whole_list(body.bytes().await?, element)?.into(),
                None => body,
            };
            return Ok(HttpResponse::from_parts(head, body));
        }
        // Half a document is as good as none.
        let document = Limited::new(body, DOCUMENT_MAX).collect().await;
        let document = document.map(|body| body.to_bytes()).unwrap_or_default();
        let answer = StatusAnswer::read(head.status, &head.headers, &document);
        Err(server.fails(FailureCause::Status(answer)))
    }
}

impl StoreTransport {
    fn server(&self, uri: &Uri) -> RequestServer {
        let is_new = !self.has_credentials.load(Ordering::Relaxed);
        RequestServer {
            host: host_and_port(uri),
            origin: match gives_credentials(uri.host().unwrap_or_default()) {
                true => FailureOrigin::Credentials { is_new },
                false => FailureOrigin::Store,
            },
        }
    }
}

/// The server of a request.
struct RequestServer {
    host: String,
    origin: FailureOrigin,
}

impl RequestServer {
    /// The body of a success, of at most `size` bytes.
    fn body(self, body: Incoming, size: usize) -> HttpResponseBody {
        let failed =
            move |error: Box<dyn Error + Send + Sync>| self.fails(connection_cause(error.as_ref()));
        HttpResponseBody::new(Limited::new(body, size).map_err(failed))
    }

    fn fails(&self, kind: FailureCause) -> HttpError {
        let failure = StoreFailure {
            origin: self.origin,
            host: self.host.clone(),
            kind,
        };
        // The kind decides about repetitions, and there are none.
        HttpError::new(HttpErrorKind::Unknown, failure)
    }
}

/// The name and port of a server, without a user and password before it.
fn host_and_port(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    match uri.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// The servers of machines and of providers that hand out credentials.
fn gives_credentials(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.starts_with("169.254.")
        || host.starts_with("fd00:ec2:")
        || host.starts_with("metadata.google.")
        || host.starts_with("sts.")
        || host == "oauth2.googleapis.com"
        || host == "login.microsoftonline.com"
}

/// The element that the answer to a list has.
fn list_element(uri: &Uri) -> Option<&'static str> {
    let query = uri.query()?;
    match query.contains("list-type=2") {
        true => Some("ListBucketResult"),
        false => query.contains("comp=list").then_some("EnumerationResults"),
    }
}

/// Returns whether a request has requests in it: the library removes each object of Azure that way.
fn is_batch(uri: &Uri) -> bool {
    uri.query()
        .is_some_and(|query| query.contains("comp=batch"))
}

/// The answer without success in the answer to a batch of one request.
fn refusal_in_batch(document: &[u8]) -> Option<StatusAnswer> {
    let text = String::from_utf8_lossy(document);
    let (_, answer) = text.split_once("HTTP/1.1 ")?;
    let status: StatusCode = answer.get(..3)?.parse().ok()?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let headers = lines
        .filter_map(|(name, value)| Some((name.parse().ok()?, value.trim().parse().ok()?)))
        .collect();
    (!status.is_success()).then(|| StatusAnswer::read(status, &headers, body.as_bytes()))
}

/// Refuses a document that is no whole list. The library takes every document without names for an empty list, as the
/// page of a hotel that wants a password.
fn whole_list(document: Bytes, element: &str) -> Result<Bytes, HttpError> {
    let text = String::from_utf8_lossy(&document);
    let is_whole = text.contains(&format!("<{element}")) && text.contains(&format!("</{element}>"));
    match is_whole {
        true => Ok(document),
        false => Err(HttpError::new(
            HttpErrorKind::Decode,
            std::io::Error::other("it is no list of objects"),
        )),
    }
}

/// The range of an answer, if it has one, lies inside its object. The library computes with it without a check.
fn has_sound_range(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_RANGE).is_none_or(|value| {
        content_range(value).is_some_and(|(first, last, size)| {
            0 <= first && first <= last && last < size && size <= i128::from(u64::MAX)
        })
    })
}

/// The size of the object, if a range without bytes begins at its end: `bytes 10-9/10`, or `bytes 0--1/0`. Azurite calls
/// this a success, Azure does not.
fn size_before_range(headers: &HeaderMap) -> Option<u64> {
    let (first, last, size) = content_range(headers.get(CONTENT_RANGE)?)?;
    let is_at_end = first == size && last.checked_add(1) == Some(size);
    size.try_into().ok().filter(|_| is_at_end)
}

/// First byte, last byte and size in `bytes FIRST-LAST/SIZE`.
fn content_range(value: &HeaderValue) -> Option<(i128, i128, i128)> {
    let (range, size) = value
        .to_str()
        .ok()?
        .strip_prefix("bytes ")?
        .split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| text.trim().parse::<i128>().ok();
    Some((number(first)?, number(last)?, number(size)?))
}

/// The number of bytes in `Range: bytes=FIRST-LAST`.
fn range_size(headers: &HeaderMap) -> Option<usize> {
    let value = headers.get(RANGE)?.to_str().ok()?;
    let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
    last.checked_sub(first)?.checked_add(1)
}
