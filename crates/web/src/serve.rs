//! One connection: requests, one after the other, and their answers.

use std::any::Any;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::api::{self, Answer, Caller};
use crate::assets;
use crate::guard::{self, Names};
use crate::http::{Method, Problem, Reader, Request, Stream};
use crate::session::{self, Logins, Via};

/// The time for a client to take an answer.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// After this many requests a connection is closed.
const REQUESTS_MAX: usize = 10_000;

/// What connections are served with.
pub(crate) struct Site {
    pub(crate) names: Names,
    /// The daemon's.
    pub(crate) socket: PathBuf,
    /// On the network. Without them the caller is the user of this process.
    pub(crate) logins: Option<Logins>,
}

/// A connection, and where it comes from.
pub(crate) struct Visitor<'a> {
    /// On the network.
    pub(crate) address: Option<IpAddr>,
    /// How long the connection is kept without a request.
    pub(crate) idle: &'a dyn Fn() -> Duration,
    /// Whether one more stream of events may begin: it counts until the answer is dropped.
    pub(crate) begin_stream: &'a dyn Fn() -> Option<Box<dyn Any>>,
}

/// Serves a connection to its end.
pub(crate) fn connection<S: Stream>(
    stream: &mut S,
    site: &Site,
    from: &Visitor<'_>,
) -> io::Result<()> {
    let mut reader = Reader::new(site.logins.is_some());
    for _ in 0..REQUESTS_MAX {
        let request = match reader.next(stream, (from.idle)())? {
            None => return Ok(()),
            Some(Ok(request)) => request,
            Some(Err(problem)) => {
                // What follows is not known to be a request.
                stream.end_in(ANSWER_TIME);
                return problem.response().send(stream, true, false);
            }
        };
        let response = match answer(&request, site, from) {
            Ok((Answer::Response(response), _)) => response,
            Ok((Answer::Events(events), caller)) => match (from.begin_stream)() {
                Some(_counted) => return events.send(stream, &caller),
                None => {
                    Problem::TooMany("too many streams of events are open".into(), 10).response()
                }
            },
            Err(problem) => problem.response(),
        };
        stream.end_in(ANSWER_TIME);
        response.send(stream, request.method != Method::Head, request.stays)?;
        if !request.stays {
            return Ok(());
        }
    }
    Ok(())
}

fn answer(request: &Request, site: &Site, from: &Visitor<'_>) -> Result<(Answer, Caller), Problem> {
    guard::check(request, &site.names, site.logins.is_some())?;
    let nobody = || Caller {
        socket: site.socket.clone(),
        token: None,
    };
    let is_api = request.path.starts_with("/v1/") || request.path == "/metrics";
    if !is_api {
        let file = assets::response(request).filter(|_| request.method.is_safe());
        let file = file.ok_or_else(|| Problem::no_such(&request.path))?;
        return Ok((Answer::Response(file), nobody()));
    }
    let is_session = request.path == "/v1/session";
    let is_login = is_session && request.method == Method::Post;
    let result = caller(request, site, from, is_login).and_then(|(caller, via)| {
        let answer = match is_session {
            true => session::answer(request, site.logins.as_ref(), &caller, via)
                .map(Answer::Response)?,
            false => api::answer(request, &caller)?,
        };
        Ok((answer, caller))
    });
    if let (Err(Problem::Login(_)), Some(logins), Some(address)) =
        (&result, &site.logins, from.address)
        && (request.bearer.is_some() || is_login)
    {
        logins.note_failure(address);
    }
    result
}

/// The caller of a request.
fn caller(
    request: &Request,
    site: &Site,
    from: &Visitor<'_>,
    is_login: bool,
) -> Result<(Caller, Via), Problem> {
    let socket = site.socket.clone();
    let Some(logins) = &site.logins else {
        return Ok((
            Caller {
                socket,
                token: None,
            },
            Via::Socket,
        ));
    };
    if let Some(address) = from.address
        && (request.bearer.is_some() || is_login)
    {
        logins.check(address)?;
    }
    let (token, via) = match is_login {
        true => (session::token_in_body(request)?, Via::Session),
        false => logins.token_of(request)?,
    };
    let token = Some(token);
    Ok((Caller { socket, token }, via))
}
