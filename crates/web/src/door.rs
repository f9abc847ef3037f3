//! The caller of a request: at the unix socket and with a link the user of this process, on the network the user of a
//! token.

use std::sync::Arc;
use std::time::Duration;

use protocol::api::CallerReport;
use secret::Secret;
use serde_json::json;

use crate::api::ApiCaller;
use crate::http::{Method, Problem, Request, Response};
use crate::link::LinkLogin;
use crate::session::{LONGEST, SiteLogins, Via, set_cookie, token_in_body};

/// The way in which a site knows its callers.
pub(crate) enum SiteDoor {
    /// The caller is the user of this process.
    Socket,
    /// The caller shows a token, or the cookie of a session.
    Network(SiteLogins),
    /// The caller is the user of this process, and has opened the link.
    Link(Arc<LinkLogin>),
}

impl SiteDoor {
    /// Returns whether callers come over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        matches!(self, SiteDoor::Network(_))
    }

    /// Returns whether the caller of a request is still authenticated.
    pub(crate) fn lasts(&self, request: &Request) -> bool {
        match self {
            SiteDoor::Socket => true,
            SiteDoor::Network(logins) => logins.lasts(request),
            SiteDoor::Link(link) => link.lasts(request),
        }
    }

    /// Notes that an answer was sent. With the answer to a logout, a site that was opened by a link ends.
    pub(crate) fn answered(&self) {
        if let SiteDoor::Link(link) = self {
            link.answered();
        }
    }

    /// The token of the caller, where there are tokens. `is_login` says that the body of the request has the secret.
    pub(crate) fn caller(
        &self,
        request: &Request,
        is_login: bool,
    ) -> Result<(Option<Arc<Secret>>, Via), Problem> {
        match self {
            SiteDoor::Socket => Ok((None, Via::Socket)),
            SiteDoor::Network(_) if is_login => Ok((Some(token_in_body(request)?), Via::Session)),
            SiteDoor::Network(logins) => {
                let (token, via) = logins.token_of(request)?;
                Ok((Some(token), via))
            }
            SiteDoor::Link(link) => {
                // The code of a login is looked at when the daemon has answered: it is right only once.
                if !is_login {
                    link.check(request)?;
                }
                Ok((None, Via::Link))
            }
        }
    }
}

/// `/v1/session`: who the caller is; log in and out.
pub(crate) fn answer(
    request: &Request,
    door: &SiteDoor,
    caller: &ApiCaller,
    via: Via,
) -> Result<Response, Problem> {
    let is_login = match request.method {
        Method::Get | Method::Head => return Ok(shown(caller.known()?, via)),
        Method::Post => true,
        Method::Delete => false,
    };
    let mut response = match is_login {
        true => shown(caller.known()?, via),
        false => Response::json(&json!({})),
    };
    let cookie = match (door, &caller.token) {
        (SiteDoor::Network(logins), Some(token)) if is_login => {
            let report = caller.known()?;
            let user = (report.uid, report.zone.clone());
            set_cookie(&logins.begin(user, Arc::clone(token))?, LONGEST)
        }
        (SiteDoor::Network(logins), _) => {
            logins.end(request);
            set_cookie("", Duration::ZERO)
        }
        (SiteDoor::Link(link), _) => {
            match is_login {
                true => link.redeem(request)?,
                false => link.end(),
            }
            link.set_cookie()
        }
        (SiteDoor::Socket, _) => {
            let why = "nobody logs in at the unix socket: it knows the user";
            return Err(Problem::Refused(405, why.into()));
        }
    };
    response.header("Set-Cookie", cookie);
    Ok(response)
}

fn shown(report: &CallerReport, via: Via) -> Response {
    let via = match via {
        Via::Socket => "socket",
        Via::Token => "token",
        Via::Session => "session",
        Via::Link => "link",
    };
    Response::json(&json!({
        "user": report.user,
        "uid": report.uid,
        "admin": report.admin,
        "zone": report.zone,
        "token": report.token,
        "expires": report.expires,
        "via": via,
        "version": env!("CARGO_PKG_VERSION"),
    }))
}
