//! `/metrics`: what the daemon says at its own socket for metrics.

use protocol::api::{Command, Reply};

use super::daemon::ApiCaller;
use crate::http::{Problem, Response};

/// The page of metrics. The daemon shows it to root and its own user.
pub(super) fn fetch(caller: &ApiCaller) -> Result<Response, Problem> {
    let text = match caller.ask(Command::Metrics)? {
        Reply::Metrics(text) => text,
        _ => String::new(),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let mut response = Response::body(kind, text.into_bytes());
    response.header("Cache-Control", "no-store");
    Ok(response)
}
