//! Chooses the part of the API that answers a request.

use super::commands::Run;
use super::daemon::Caller;
use super::events::Events;
use super::streams::Transfer;
use super::{commands, metrics, openapi, resources};
use crate::http::{Method, Problem, Request, Response};

/// The result of a request.
pub(crate) enum Answer {
    Response(Response),
    /// A stream of events, from what the caller has seen on.
    Events(Events),
    /// A command with a stream.
    Transfer(Transfer),
}

/// Answers a request for the API.
pub(crate) fn answer(request: &Request, caller: &Caller) -> Result<Answer, Problem> {
    let path = request.path.as_str();
    if let Some(name) = path.strip_prefix("/v1/commands/") {
        return match request.method {
            Method::Post if request.has_stream() => {
                Transfer::receive(&request.query).map(Answer::Transfer)
            }
            Method::Post => match commands::run(name, request, caller)? {
                Run::Done(response) => Ok(Answer::Response(response)),
                Run::Send(call) => Transfer::send(*call, request).map(Answer::Transfer),
            },
            _ => Err(only("POST")),
        };
    }
    if !request.method.is_safe() {
        return Err(match resources::exists(path) {
            true => only("GET"),
            false => Problem::no_such(path),
        });
    }
    let is_stream = request.method == Method::Get && request.accept.contains("text/event-stream");
    let json = match path {
        "/metrics" => return metrics::fetch(caller).map(Answer::Response),
        "/v1/events" if is_stream => {
            return Events::begin(request, caller).map(Answer::Events);
        }
        "/v1/openapi.json" => return Ok(Answer::Response(openapi::response())),
        _ => resources::get(path, &request.query, caller)?,
    };
    Ok(Answer::Response(Response::json(&json)))
}

fn only(method: &str) -> Problem {
    Problem::Refused(405, format!("use {method}"))
}
