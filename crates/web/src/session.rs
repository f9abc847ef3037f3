//! Sessions of browsers, and the tokens of the site on the network.
//!
//! A browser shows its token once and gets a cookie for it. The cookie is another secret, which is forgotten soon, so
//! that the token is in no browser's store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use admission::ClientSource;
use protocol::client::BAD_TOKEN;
use protocol::wire::TOKEN_MAX;
use rustix::rand::{GetRandomFlags, getrandom};
use secret::Secret;
use serde::Deserialize;

use crate::api::{LockedText, parse};
use crate::http::{Problem, Request};
use crate::memory::User;

/// A session ends after this time.
pub(crate) const LONGEST: Duration = Duration::from_secs(12 * 3600);
/// The time without a request after which a session ends early.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// The number of open sessions of a user; one more ends the user's oldest.
const SESSIONS_EACH_MAX: usize = 16;
/// The number of wrong tokens that may come from an address in [`FAILURE_TIME`].
const FAILURES_MAX: u32 = 10;
const FAILURE_TIME: Duration = Duration::from_secs(60);
/// The number of addresses whose failures are remembered.
const ADDRESSES_MAX: usize = 10_000;

/// A browser drops it if it does not come over TLS, or for other than this host and `/`.
const COOKIE: &str = "__Host-strongroom";
const RANDOM_BYTES: usize = 32;

/// A browser that has logged in.
struct LoginSession {
    user: User,
    token: Arc<Secret>,
    times: SessionTimes,
}

/// The times by which a session ends.
#[derive(Clone, Copy)]
pub(crate) struct SessionTimes {
    begun: Instant,
    used: Instant,
}

/// Wrong tokens from an address.
struct Failures {
    count: u32,
    since: Instant,
}

/// The sessions and failures that the site on the network remembers.
pub(crate) struct SiteLogins {
    // The hashes of a `HashMap` have a key: how long a look takes tells nothing of the cookies.
    sessions: Mutex<HashMap<String, LoginSession>>,
    failures: Mutex<HashMap<ClientSource, Failures>>,
}

/// The way in which a caller is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    Socket,
    Token,
    Session,
    Link,
}

impl SiteLogins {
    pub(crate) fn new() -> SiteLogins {
        SiteLogins {
            sessions: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// The token that comes with a request, or whose session it belongs to.
    pub(crate) fn token_of(&self, request: &Request) -> Result<(Arc<Secret>, Via), Problem> {
        if let Some(token) = &request.bearer {
            return Ok((Arc::new(short(copy(token)?)?), Via::Token));
        }
        let absent =
            "log in: send 'Authorization: Bearer TOKEN'; 'strongroom web token create' makes one";
        let Some(cookie) = cookies(request, COOKIE).next() else {
            return Err(Problem::Login(absent.into()));
        };
        let mut sessions = locked(&self.sessions);
        sessions.retain(|_, session| session.times.is_open());
        match sessions.get_mut(cookie) {
            Some(session) => {
                session.times.use_now();
                Ok((Arc::clone(&session.token), Via::Session))
            }
            None => Err(Problem::Login("the session is over; log in again".into())),
        }
    }

    /// Begins a session, and returns its cookie.
    pub(crate) fn begin(&self, user: User, token: Arc<Secret>) -> Result<String, Problem> {
        let cookie = random_text()?;
        let mut sessions = locked(&self.sessions);
        sessions.retain(|_, session| session.times.is_open());
        let of_user = || sessions.iter().filter(|(_, session)| session.user == user);
        if of_user().count() >= SESSIONS_EACH_MAX {
            let oldest = of_user().min_by_key(|(_, session)| session.times.used);
            if let Some(oldest) = oldest.map(|(cookie, _)| cookie.clone()) {
                sessions.remove(&oldest);
            }
        }
        let times = SessionTimes::begin();
        let session = LoginSession { user, token, times };
        sessions.insert(cookie.clone(), session);
        Ok(cookie)
    }

    pub(crate) fn end(&self, request: &Request) {
        if let Some(cookie) = cookies(request, COOKIE).next() {
            locked(&self.sessions).remove(cookie);
        }
    }

    /// Returns whether the caller of a request is still authenticated. This does not count as a use of the session.
    pub(crate) fn lasts(&self, request: &Request) -> bool {
        let open = |cookie| {
            locked(&self.sessions)
                .get(cookie)
                .map(|session| session.times.is_open())
        };
        // A token is checked by the daemon.
        request.bearer.is_some()
            || cookies(request, COOKIE)
                .next()
                .and_then(open)
                .unwrap_or(false)
    }

    /// Notes a wrong token, and says what to answer. A right one is never refused: with 256 random bits it is not
    /// found by guesses.
    pub(crate) fn failed(&self, from: &ClientSource, why: String) -> Problem {
        let mut failures = locked(&self.failures);
        failures.retain(|_, found| found.is_recent());
        if failures.len() >= ADDRESSES_MAX {
            return Problem::Login(why);
        }
        let since = Instant::now();
        let found = failures
            .entry(from.clone())
            .or_insert(Failures { count: 0, since });
        found.count = found.count.saturating_add(1);
        if found.count <= FAILURES_MAX {
            return Problem::Login(why);
        }
        let left = FAILURE_TIME.saturating_sub(found.since.elapsed());
        let why = "too many wrong tokens came from this address; try again later";
        Problem::TooMany(why.into(), left.as_secs() + 1)
    }
}

impl SessionTimes {
    /// The times of a session that begins now.
    pub(crate) fn begin() -> SessionTimes {
        let now = Instant::now();
        SessionTimes {
            begun: now,
            used: now,
        }
    }

    /// Notes a request of the session.
    pub(crate) fn use_now(&mut self) {
        self.used = Instant::now();
    }

    /// Returns whether the session goes on.
    pub(crate) fn is_open(&self) -> bool {
        !self.left().is_zero()
    }

    /// The time that is left without a request.
    pub(crate) fn left(&self) -> Duration {
        let whole = LONGEST.saturating_sub(self.begun.elapsed());
        whole.min(IDLE.saturating_sub(self.used.elapsed()))
    }
}

/// A text that is not found by guesses: 256 random bits. They are from the kernel itself, so two copies of this process
/// give out different ones.
pub(crate) fn random_text() -> Result<String, Problem> {
    let mut bytes = [0; RANDOM_BYTES];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty());
    match filled.is_ok_and(|len| len == RANDOM_BYTES) {
        true => Ok(encoding::hex(&bytes)),
        false => Err(Problem::TooMany("there are no random numbers".into(), 1)),
    }
}

impl Failures {
    fn is_recent(&self) -> bool {
        self.since.elapsed() < FAILURE_TIME
    }
}

/// The token in the body of a login.
pub(crate) fn token_in_body(request: &Request) -> Result<Arc<Secret>, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Login {
        token: LockedText,
    }
    let login: Login = parse(&request.body)?;
    short(login.token.0).map(Arc::new)
}

/// The token, if the daemon reads one that is so long.
fn short(token: Secret) -> Result<Secret, Problem> {
    match token.len() <= TOKEN_MAX as usize {
        true => Ok(token),
        false => Err(Problem::Login(BAD_TOKEN.into())),
    }
}

/// The cookies of this name. A page at another port of the host can add one, with a longer path.
pub(crate) fn cookies<'a>(request: &'a Request, wanted: &'a str) -> impl Iterator<Item = &'a str> {
    let all = request.cookie.as_ref().map(|text| text.expose());
    let all = all.and_then(|text| std::str::from_utf8(text).ok());
    let pairs = all.unwrap_or_default().split(';');
    let pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs
        .filter(move |(name, _)| *name == wanted)
        .map(|pair| pair.1)
}

pub(crate) fn set_cookie(value: &str, age: Duration) -> String {
    let age = age.as_secs();
    format!("{COOKIE}={value}; Path=/; Max-Age={age}; Secure; HttpOnly; SameSite=Strict")
}

fn copy(secret: &Secret) -> Result<Secret, Problem> {
    let no_memory = |error: secret::Error| Problem::TooMany(error.to_string(), 1);
    secret.try_clone().map_err(no_memory)
}

/// A table. A thread that panicked with it left it whole: it changes in single steps.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logins() -> SiteLogins {
        SiteLogins::new()
    }

    fn with_cookie(cookie: &str) -> Request {
        let head = format!("GET / HTTP/1.1\r\nCookie: a=b; {COOKIE}={cookie}\r\n\r\n");
        Request::for_tests(&head)
    }

    #[test]
    fn a_cookie_leads_to_the_token() {
        let logins = logins();
        let token = Arc::new(Secret::from_slice(b"srt_1").unwrap());
        let begin = |user: &User| logins.begin(user.clone(), Arc::clone(&token)).unwrap();
        let (ann, tenant) = ((1, None), (1, Some("web".to_owned())));
        let cookie = begin(&ann);
        let (found, via) = logins.token_of(&with_cookie(&cookie)).ok().unwrap();
        assert_eq!((found.expose(), via), (token.expose(), Via::Session));
        assert!(logins.token_of(&with_cookie("0")).is_err());
        logins.end(&with_cookie(&cookie));
        assert!(logins.token_of(&with_cookie(&cookie)).is_err());
        assert!(!logins.lasts(&with_cookie(&cookie)));
        // Many logins end the sessions of nobody else.
        let other = begin(&ann);
        let own: Vec<String> = (0..=SESSIONS_EACH_MAX).map(|_| begin(&tenant)).collect();
        let lasts = |cookie: &String| logins.lasts(&with_cookie(cookie));
        assert!(lasts(&other) && !lasts(&own[0]) && own[1..].iter().all(lasts));
    }

    #[test]
    fn an_address_guesses_a_few_times() {
        let logins = logins();
        let [here, there] =
            ["192.0.2.1", "192.0.2.2"].map(|text| ClientSource::address(text.parse().unwrap()));
        let failed = |from: &ClientSource| logins.failed(from, String::new()).response().status;
        for _ in 0..FAILURES_MAX {
            assert_eq!(failed(&here), 401);
        }
        assert_eq!((failed(&here), failed(&there)), (429, 401));
    }
}
