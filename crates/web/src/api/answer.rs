//! Chooses the part of the API that answers a request.

use super::commands::CommandResult;
use super::daemon::ApiCaller;
use super::events::EventFeed;
use super::streams::Transfer;
use super::{commands, metrics, openapi, resources};
use crate::http::{Method, Problem, Request, Response};

/// The result of a request.
pub(crate) enum ApiAnswer {
    Response(Response),
    /// A stream of events, from what the caller has seen on.
    Events(EventFeed),
    /// A command with a stream.
    Transfer(Transfer),
}

/// Answers a request for the API.
pub(crate) fn answer(request: &Request, caller: &ApiCaller) -> Result<ApiAnswer, Problem> {
    let path = request.path.as_str();
    if let Some(name) = path.strip_prefix("/v1/commands/") {
        return match request.method {
            Method::Post if request.has_stream() => {
                Transfer::receive(&request.query).map(ApiAnswer::Transfer)
            }
            Method::Post => match commands::run(name, request, caller)? {
                CommandResult::Done(response) => Ok(ApiAnswer::Response(response)),
                CommandResult::Send(call) => {
                    Transfer::send(*call, request).map(ApiAnswer::Transfer)
                }
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
        "/metrics" => return metrics::fetch(caller).map(ApiAnswer::Response),
        "/v1/events" if is_stream => {
            return EventFeed::begin(request, caller).map(ApiAnswer::Events);
        }
        "/v1/openapi.json" => return Ok(ApiAnswer::Response(openapi::response())),
        _ => resources::get(path, &request.query, caller)?,
    };
    Ok(ApiAnswer::Response(Response::json(&json)))
}

fn only(method: &str) -> Problem {
    Problem::Refused(405, format!("use {method}"))
}
