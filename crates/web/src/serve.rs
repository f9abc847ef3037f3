//! A connection: requests, one after the other, and their responses.

use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use admission::ClientSource;
use protocol::api::CallerReport;
use rustix::event::PollFlags;
use secret::Secret;

use crate::api::{self, ApiAnswer, ApiCaller};
use crate::assets;
use crate::door::{self, SiteDoor};
use crate::guard::{self, SiteNames};
use crate::http::{ANSWER_TIME, ClientStream, Method, Problem, Request, RequestReader, linger};
use crate::memory::{MemoryShare, RequestMemory};
use crate::session::Via;

/// After this many requests a connection is closed.
const REQUESTS_MAX: usize = 10_000;

/// The memory that each byte of a body takes: itself, and the most that is made of it, which is a list of empty texts.
const BODY_COST: usize = 20;

/// The daemon, names and sessions that connections are served with.
pub(crate) struct SiteContext {
    pub(crate) names: SiteNames,
    /// The daemon's.
    pub(crate) socket: PathBuf,
    pub(crate) door: SiteDoor,
    pub(crate) memory: Arc<RequestMemory>,
}

/// A guard that counts a stream until it is dropped.
pub(crate) type StreamGuard = Box<dyn Any>;

/// A connection, and where it comes from.
pub(crate) struct Visitor<'a> {
    /// On the network.
    pub(crate) source: Option<ClientSource>,
    /// The descriptor of the client, and the events by which its end shows.
    pub(crate) client: (Arc<OwnedFd>, PollFlags),
    /// The time that the connection is kept without a request.
    pub(crate) idle: &'a dyn Fn() -> Duration,
    /// Is told a caller that the daemon knows.
    pub(crate) admit: &'a dyn Fn(&CallerReport),
    /// Begins one more stream of events of this caller, if there are not too many.
    pub(crate) begin_stream: &'a dyn Fn(&ApiCaller) -> Result<StreamGuard, Problem>,
    /// The variant of `begin_stream` for a stream of data.
    pub(crate) begin_transfer: &'a dyn Fn(&ApiCaller) -> Result<StreamGuard, Problem>,
}

/// Serves a connection to its end.
pub(crate) fn connection<S: ClientStream>(
    stream: &mut S,
    site: &SiteContext,
    from: &Visitor<'_>,
) -> io::Result<()> {
    let mut reader = RequestReader::new();
    for _ in 0..REQUESTS_MAX {
        let request = match reader.next(stream, (from.idle)(), &|head, len| {
            admit(head, len, site, from)
        })? {
            None => return Ok(()),
            Some(Ok(request)) => request,
            Some(Err(problem)) => {
                // What follows is not known to be a request.
                stream.end_in(ANSWER_TIME);
                return problem.response().send(stream, true, false);
            }
        };
        let result = answer(&request, site, from);
        // Its share of the memory, until the client has the answer.
        let _share;
        let response = match result {
            Ok((ApiAnswer::Response(response), caller)) => {
                _share = caller.share.take().map(|mut share| {
                    share.shrink(response.len());
                    share
                });
                response
            }
            Ok((ApiAnswer::Events(events), caller)) => match (from.begin_stream)(&caller) {
                Ok(_counted) => {
                    let lasts = || site.door.lasts(&request);
                    return events.send(stream, &caller, &lasts);
                }
                Err(problem) => problem.response(),
            },
            Ok((ApiAnswer::Transfer(transfer), caller)) => match (from.begin_transfer)(&caller) {
                Ok(_counted) => match transfer.run(stream, &mut reader, &request, &caller)? {
                    true => continue,
                    false => return Ok(()),
                },
                Err(problem) => counted(problem, request.bearer.is_some(), site, from).response(),
            },
            Err(problem) => problem.response(),
        };
        stream.end_in(ANSWER_TIME);
        // The body was not read.
        let stays = request.stays && !request.has_stream();
        let sent = response.send(stream, request.method != Method::Head, stays);
        site.door.answered();
        sent?;
        if request.has_stream() {
            linger(stream);
        }
        if !stays {
            return Ok(());
        }
    }
    Ok(())
}

fn answer(
    request: &Request,
    site: &SiteContext,
    from: &Visitor<'_>,
) -> Result<(ApiAnswer, ApiCaller), Problem> {
    guard::check(request, &site.names, site.door.is_secure())?;
    if !guard::is_api(&request.path) {
        let file = assets::response(request).filter(|_| request.method.is_safe());
        let file = file.ok_or_else(|| Problem::no_such(&request.path))?;
        return Ok((ApiAnswer::Response(file), caller_with(None, site, from)));
    }
    let is_session = request.path == "/v1/session";
    let is_login = is_session && request.method == Method::Post;
    let result = caller(request, site, from, is_login).and_then(|(caller, via)| {
        let answer = match is_session {
            true => door::answer(request, &site.door, &caller, via).map(ApiAnswer::Response)?,
            false => {
                // Also where the answer needs nothing of the daemon.
                caller.known()?;
                api::answer(request, &caller)?
            }
        };
        if let Some(report) = caller.report.get() {
            (from.admit)(report);
        }
        Ok((answer, caller))
    });
    result.map_err(|problem| counted(problem, request.bearer.is_some() || is_login, site, from))
}

/// The memory for a long body, and for the command that it is read into: of callers that the daemon knows only.
fn admit(
    head: &Request,
    len: usize,
    site: &SiteContext,
    from: &Visitor<'_>,
) -> Result<MemoryShare, Problem> {
    let taken = guard::check(head, &site.names, site.door.is_secure())
        .and_then(|()| caller(head, site, from, false))
        .and_then(|(caller, _)| caller.reserve(len * BODY_COST));
    taken.map_err(|problem| counted(problem, head.bearer.is_some(), site, from))
}

/// The response to an unknown caller. It counts as a failure if a token was shown.
fn counted(problem: Problem, has_token: bool, site: &SiteContext, from: &Visitor<'_>) -> Problem {
    match (problem, &site.door, &from.source) {
        (Problem::Login(why), SiteDoor::Network(logins), Some(source)) if has_token => {
            logins.failed(source, why)
        }
        (problem, ..) => problem,
    }
}

fn caller(
    request: &Request,
    site: &SiteContext,
    from: &Visitor<'_>,
    is_login: bool,
) -> Result<(ApiCaller, Via), Problem> {
    let (token, via) = site.door.caller(request, is_login)?;
    Ok((caller_with(token, site, from), via))
}

fn caller_with(token: Option<Arc<Secret>>, site: &SiteContext, from: &Visitor<'_>) -> ApiCaller {
    ApiCaller {
        socket: site.socket.clone(),
        token,
        client: from.client.clone(),
        memory: Arc::clone(&site.memory),
        share: RefCell::default(),
        report: OnceCell::new(),
    }
}
