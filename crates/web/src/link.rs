//! The login by a link: `strongroom web open` prints it, and a browser of the same user opens it once.
//!
//! The code of the link is in the fragment, which a browser does not send. The page sends it in a body, and gets a
//! cookie. The site serves one session: when that ends, or the link is not opened in time, the site ends too.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use secret::Secret;
use serde::Deserialize;

use crate::api::{LockedText, parse};
use crate::http::{ANSWER_TIME, Problem, Request};
use crate::session::{self, SessionTimes};

/// The time in which the link has to be opened.
pub(crate) const LINK_TIME: Duration = Duration::from_secs(60);
/// The number of wrong codes after which no code is right.
const GUESSES_MAX: u32 = 10;

/// The one session of a site that is opened by a link.
pub(crate) struct LinkLogin {
    /// Browsers send a cookie to each port of a host, so its name has the port.
    cookie_name: String,
    state: Mutex<LinkState>,
    changed: Condvar,
}

enum LinkState {
    Waiting {
        code: String,
        until: Instant,
        guesses: u32,
    },
    Open {
        cookie: String,
        times: SessionTimes,
    },
    /// The process goes on until then, so that the last answer gets out.
    Over {
        end: LinkEnd,
        until: Instant,
    },
}

impl LinkState {
    fn over(end: LinkEnd) -> LinkState {
        let until = Instant::now() + ANSWER_TIME;
        LinkState::Over { end, until }
    }
}

/// The end of a site that is opened by a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    /// The end of a session.
    Used,
    /// The end of a page that was not opened in time, or for which wrong codes came.
    Unused,
}

impl LinkLogin {
    /// A login at a port, and the code for it.
    pub(crate) fn new(port: u16) -> Result<(LinkLogin, String), Problem> {
        let code = session::random_text()?;
        let state = LinkState::Waiting {
            code: code.clone(),
            until: Instant::now() + LINK_TIME,
            guesses: 0,
        };
        let login = LinkLogin {
            cookie_name: format!("strongroom-{port}"),
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        Ok((login, code))
    }

    /// Begins the session, if the body of a request has the code. A code is right once.
    pub(crate) fn redeem(&self, request: &Request) -> Result<(), Problem> {
        let given = code_in_body(request)?;
        let mut state = self.state();
        let gone = "the link was used already, or is too old; run 'strongroom web open' again";
        let LinkState::Waiting {
            code,
            until,
            guesses,
        } = &mut *state
        else {
            return Err(Problem::Login(gone.into()));
        };
        if Instant::now() >= *until {
            return Err(Problem::Login(gone.into()));
        }
        if !is_same(given.expose(), code.as_bytes()) {
            *guesses += 1;
            if *guesses >= GUESSES_MAX {
                *state = LinkState::over(LinkEnd::Unused);
                self.changed.notify_all();
            }
            let why = "this is not the code of the link that 'strongroom web open' printed";
            return Err(Problem::Login(why.into()));
        }
        *state = LinkState::Open {
            cookie: session::random_text()?,
            times: SessionTimes::begin(),
        };
        self.changed.notify_all();
        Ok(())
    }

    /// The header that gives the cookie of the session to the browser, or takes it away.
    pub(crate) fn set_cookie(&self) -> String {
        let (value, age) = match &*self.state() {
            LinkState::Open { cookie, .. } => (cookie.clone(), session::LONGEST.as_secs()),
            _ => (String::new(), 0),
        };
        let name = &self.cookie_name;
        format!("{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict")
    }

    /// Refuses a request that does not belong to the session.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Problem> {
        match &mut *self.state() {
            LinkState::Open { cookie, times } if self.has_cookie(request, cookie) => {
                match times.is_open() {
                    true => times.use_now(),
                    false => return Err(Problem::Login("the session is over".into())),
                }
                Ok(())
            }
            _ => Err(Problem::Login(
                "this page is opened by the link that 'strongroom web open' prints".into(),
            )),
        }
    }

    /// Returns whether the session of a request goes on. This does not count as a use of it.
    pub(crate) fn lasts(&self, request: &Request) -> bool {
        match &*self.state() {
            LinkState::Open { cookie, times } => {
                times.is_open() && self.has_cookie(request, cookie)
            }
            _ => false,
        }
    }

    /// Ends the session, and with it the site after the next answer.
    pub(crate) fn end(&self) {
        *self.state() = LinkState::over(LinkEnd::Used);
        self.changed.notify_all();
    }

    /// Notes that an answer was sent.
    pub(crate) fn answered(&self) {
        if let LinkState::Over { until, .. } = &mut *self.state() {
            *until = Instant::now();
            self.changed.notify_all();
        }
    }

    /// Waits until the site is of no more use.
    pub(crate) fn wait(&self) -> LinkEnd {
        let mut state = self.state();
        loop {
            let (left, end) = match &*state {
                LinkState::Waiting { until, .. } => (
                    until.saturating_duration_since(Instant::now()),
                    LinkEnd::Unused,
                ),
                LinkState::Open { times, .. } => (times.left(), LinkEnd::Used),
                LinkState::Over { end, until } => {
                    (until.saturating_duration_since(Instant::now()), *end)
                }
            };
            if left.is_zero() {
                *state = LinkState::over(end);
                return end;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn has_cookie(&self, request: &Request, cookie: &str) -> bool {
        session::cookies(request, &self.cookie_name)
            .any(|given| is_same(given.as_bytes(), cookie.as_bytes()))
    }

    /// The state. A thread that panicked with it left it whole: it changes in single steps.
    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn code_in_body(request: &Request) -> Result<Secret, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct LinkCode {
        code: LockedText,
    }
    let body: LinkCode = parse(&request.body)?;
    Ok(body.code.0)
}

/// Compares texts in a time that does not depend on where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(code: &str) -> Request {
        let mut request = Request::for_tests("POST /v1/session HTTP/1.1\r\n\r\n");
        let body = format!("{{\"code\": \"{code}\"}}");
        request.body = Secret::from_slice(body.as_bytes()).unwrap();
        request
    }

    fn with(cookie: &str) -> Request {
        Request::for_tests(&format!("GET / HTTP/1.1\r\nCookie: {cookie}\r\n\r\n"))
    }

    /// The cookie that the login gives out.
    fn cookie(login: &LinkLogin) -> String {
        login.set_cookie().split(';').next().unwrap().to_owned()
    }

    #[test]
    fn a_code_is_right_once() {
        let (login, right) = LinkLogin::new(80).unwrap();
        assert!(login.check(&with("strongroom-80=")).is_err());
        assert!(login.redeem(&code("wrong")).is_err());
        login.redeem(&code(&right)).unwrap();
        assert!(login.redeem(&code(&right)).is_err());
        let own = cookie(&login);
        login.check(&with(&own)).unwrap();
        assert!(login.lasts(&with(&own)));
        assert!(login.check(&with("strongroom-80=0")).is_err());
        let beside_another = format!("strongroom-80=0; {own}");
        assert!(login.check(&with(&beside_another)).is_ok());
        assert!(
            login
                .check(&with(&own.replace("strongroom-80", "strongroom-81")))
                .is_err()
        );
        login.end();
        assert!(login.check(&with(&own)).is_err() && !login.lasts(&with(&own)));
        assert!(login.check(&with("strongroom-80=")).is_err());
        assert!(login.set_cookie().contains("Max-Age=0"));
    }

    #[test]
    fn guesses_end_the_link() {
        let (login, right) = LinkLogin::new(80).unwrap();
        for _ in 0..GUESSES_MAX {
            assert!(login.redeem(&code(&right[1..])).is_err());
        }
        assert!(login.redeem(&code(&right)).is_err());
        login.answered();
        assert_eq!(login.wait(), LinkEnd::Unused);
    }

    #[test]
    fn an_old_code_is_wrong() {
        let (login, right) = LinkLogin::new(80).unwrap();
        if let LinkState::Waiting { until, .. } = &mut *login.state() {
            *until = Instant::now();
        }
        assert!(login.redeem(&code(&right)).is_err());
        assert_eq!(login.wait(), LinkEnd::Unused);
    }

    #[test]
    fn the_site_ends_with_its_session() {
        let (login, right) = LinkLogin::new(80).unwrap();
        login.redeem(&code(&right)).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| login.wait());
            login.answered();
            assert!(
                login.lasts(&with(&cookie(&login))),
                "an answer ends nothing"
            );
            login.end();
            login.answered();
            assert_eq!(waits.join().unwrap(), LinkEnd::Used);
        });
    }
}
