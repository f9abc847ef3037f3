//! `GET /v1/events` as a stream: events of pools, and which resources have changed.
//!
//! The daemon is asked again and again, by the rights of the caller. The pause is longer if the answers take long, so
//! that many snapshots do not keep the daemon busy.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::time::{Duration, Instant};

use protocol::api::{Command, EventRow, PoolReport, Reply, command};
use serde_json::{Value as Json, json};

use super::daemon::ApiCaller;
use super::jobs;
use crate::http::{ClientStream, Problem, Request, Response};

/// The shortest time between two looks.
const PAUSE: Duration = Duration::from_secs(2);
/// Looks take at most one part of so many of the time.
const SHARE: u32 = 20;
/// The longest time between two looks.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// A comment is sent at least so often: without one the end of the client is not noticed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// A stream ends after this time, and the client opens the next one. So a token that was revoked ends it too.
const LONGEST: Duration = Duration::from_secs(600);
/// The time for the client to read what was sent.
const PATIENCE: Duration = Duration::from_secs(10);

/// The kinds of state that are compared, which are the names of events.
const WATCHED: [&str; 7] = [
    "pools", "datasets", "keys", "mounts", "exports", "jobs", "copies",
];

/// A stream of events.
pub(crate) struct EventFeed {
    /// The number of the last event that the client has.
    last: u64,
    seen: [Option<u64>; WATCHED.len()],
}

impl EventFeed {
    /// Begins with what the client has not seen, or with what comes from now on.
    pub(super) fn begin(request: &Request, caller: &ApiCaller) -> Result<EventFeed, Problem> {
        request.query.only(&["after"])?;
        let last = request.last_event_id.as_ref();
        let last = match last.and_then(|text| text.parse().ok()) {
            Some(last) => Some(last),
            None => request.query.number("after")?,
        };
        let mut events = EventFeed {
            last: last.unwrap_or(0),
            seen: Default::default(),
        };
        if last.is_none() {
            let rows = events.newer(caller)?;
            events.last = rows.last().map_or(0, |row| row.id);
        }
        events.changed(caller)?;
        caller.share.take();
        Ok(events)
    }

    /// Sends events until the client has gone, its session does not last, or it was long enough.
    pub(crate) fn send<S: ClientStream>(
        mut self,
        stream: &mut S,
        caller: &ApiCaller,
        lasts: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let mut head = Response::empty(200);
        head.header("Content-Type", "text/event-stream");
        head.header("Cache-Control", "no-store");
        stream.end_in(PATIENCE);
        head.send_head(stream)?;
        // Where to go on if nothing happens before the end.
        let mut out = format!("retry: 2000\nid: {}\n: begin\n\n", self.last);
        let end = Instant::now() + LONGEST;
        let (mut sent, mut pause) = (Instant::now(), PAUSE);
        while Instant::now() < end {
            if sent.elapsed() >= SIGN_OF_LIFE {
                out += ": alive\n\n";
            }
            if !out.is_empty() {
                stream.end_in(PATIENCE);
                stream.write_all(out.as_bytes())?;
                stream.flush()?;
                sent = Instant::now();
            }
            std::thread::sleep(pause);
            if !lasts() {
                return Ok(());
            }
            let begin = Instant::now();
            let looked = self.look(caller);
            caller.share.take();
            match looked {
                Ok(news) => out = news,
                // The client comes again, and hears why not.
                Err(_) => return Ok(()),
            }
            pause = (begin.elapsed() * SHARE).clamp(PAUSE, PAUSE_MAX);
        }
        Ok(())
    }

    /// The new events, as text for the client.
    fn look(&mut self, caller: &ApiCaller) -> Result<String, Problem> {
        let mut out = String::new();
        for row in self.newer(caller)? {
            self.last = row.id;
            out += &message("event", Some(row.id), &json!(row));
        }
        let changed = self.changed(caller)?;
        if !changed.is_empty() {
            out += &message("changed", None, &json!({ "what": changed }));
        }
        Ok(out)
    }

    fn newer(&self, caller: &ApiCaller) -> Result<Vec<EventRow>, Problem> {
        let (after, clear) = (self.last, false);
        match asked(caller, command::PoolEvents { after, clear })? {
            Some(Reply::Events(rows)) => Ok(rows),
            _ => Ok(Vec::new()),
        }
    }

    /// The kinds of state that differ from the last look.
    fn changed(&mut self, caller: &ApiCaller) -> Result<Vec<&'static str>, Problem> {
        let pools = asked(caller, command::PoolStatus::default())?;
        let (pools, jobs) = match pools {
            Some(Reply::Pools(pools)) => (of_pools(&pools), Some(jobs::of_pools(&pools))),
            _ => (Json::Null, None),
        };
        // Of a long answer only the hash is kept.
        let asked = |command: Command| asked(caller, command).map(|reply| hash(&json!(reply)));
        let get = |snapshots, props: &[&str]| command::Get {
            snapshots,
            bookmarks: snapshots,
            props: props.iter().map(|name| name.to_string()).collect(),
            ..command::Get::default()
        };
        let heads = asked(get(false, &["guid", "used", "available"]).into())?;
        let all = asked(get(true, &["guid"]).into())?;
        let keys = asked(command::KeyStatus { names: Vec::new() }.into())?;
        let mounts = asked(Command::Mounts)?;
        let exports = [
            Command::NbdExports,
            Command::UblkDevices,
            Command::IscsiExports,
        ];
        let [nbd, ublk, iscsi] = exports.map(asked);
        let copies = asked(command::ReplicateList { names: Vec::new() }.into())?;
        let now = [
            pools,
            json!([heads, all]),
            json!(keys),
            json!(mounts),
            json!([nbd?, ublk?, iscsi?]),
            json!(jobs),
            json!(copies),
        ]
        .map(|json| Some(hash(&json)));
        let pairs = WATCHED.iter().zip(self.seen.iter().zip(&now));
        let differs = pairs.filter(|(_, (old, new))| old.is_some() && old != new);
        let changed = differs.map(|(name, _)| *name).collect();
        self.seen = now;
        Ok(changed)
    }
}

/// Returns the reply of [`ApiCaller::ask`]; nothing if this caller may not see it, or if it is too long.
fn asked(caller: &ApiCaller, command: impl Into<Command>) -> Result<Option<Reply>, Problem> {
    match caller.ask(command) {
        Ok(reply) => Ok(Some(reply)),
        Err(Problem::Refused(413, _)) => Ok(None),
        Err(Problem::Failed(failure)) if failure.kind == protocol::api::FailureKind::Permission => {
            Ok(None)
        }
        Err(problem) => Err(problem),
    }
}

fn hash(json: &Json) -> u64 {
    let mut hasher = DefaultHasher::new();
    json.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Pools without what changes with every commit, and with every step of a job.
fn of_pools(pools: &[PoolReport]) -> Json {
    let mut json = json!(pools);
    for pool in json.as_array_mut().into_iter().flatten() {
        for name in ["txg", "scrub", "resilver", "removal", "trim", "initialize"] {
            pool[name] = Json::Null;
        }
    }
    json
}

/// A message of the stream. JSON has no line breaks.
fn message(event: &str, id: Option<u64>, data: &Json) -> String {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    format!("{id}event: {event}\ndata: {data}\n\n")
}
