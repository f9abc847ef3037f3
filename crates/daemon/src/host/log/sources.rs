//! A limit for the lines of each source, because users and clients on the network can cause lines.
//!
//! The source of a line is, in this order:
//!
//! 1. the field `from` or `source` of the line, or of a span around it: the address of a client on the network. A host has a whole
//!    IPv6 network of 64 bits;
//! 2. the user whose command runs on this thread ([`log_for`]);
//! 3. the place in the program that writes the line.
//!
//! Each source has a few lines at once, and then a few in a second. The number of lines that were left out is written
//! with the next line of the source. Commands of root have no limit.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{self, Debug, Write as _};
use std::io::Write as _;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::output::LogOutput;

/// The lines that a source writes at once.
const AT_ONCE: u32 = 100;
/// The time after which a source may write one more line.
const PERIOD: Duration = Duration::from_millis(200);
/// The most sources that are counted one by one. All others share a limit.
const SOURCES_MAX: usize = 1024;
/// The time between two looks for sources that write no more.
const SWEEP: Duration = Duration::from_secs(60);

thread_local! {
    static COMMAND_OF: RefCell<Option<LineSource>> = const { RefCell::new(None) };
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum LineSource {
    /// Root, or the user who runs the daemon.
    Root,
    /// A user or tenant, for people.
    User(String),
    Address(IpAddr),
    /// A place in the program.
    Place(Identifier, &'static str),
    /// All sources that found the table full.
    Rest,
}

impl fmt::Display for LineSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineSource::Root => f.write_str("root"),
            LineSource::User(name) => f.write_str(name),
            LineSource::Address(address) => fmt::Display::fmt(address, f),
            LineSource::Place(_, target) => f.write_str(target),
            LineSource::Rest => f.write_str("many sources"),
        }
    }
}

/// A command of a user runs on this thread while this exists.
pub(crate) struct LogScope(Option<LineSource>);

impl Drop for LogScope {
    fn drop(&mut self) {
        COMMAND_OF.set(self.0.take());
    }
}

/// Counts the lines of this thread for a user or tenant; `None` for root.
pub(crate) fn log_for(user: Option<String>) -> LogScope {
    let source = user.map_or(LineSource::Root, LineSource::User);
    LogScope(COMMAND_OF.replace(Some(source)))
}

struct LineBucket {
    /// The time at which all lines are forgotten: each line moves it by [`PERIOD`].
    until: Instant,
    left_out: u64,
}

#[derive(Default)]
struct LineBuckets {
    all: HashMap<LineSource, LineBucket>,
    swept: Option<Instant>,
}

/// A source, and how many of its lines were left out.
type LinesLeftOut = (LineSource, u64);

impl LineBuckets {
    /// Returns whether a source may write a line, and the lines that were left out before.
    fn take(&mut self, source: LineSource, now: Instant) -> (bool, Vec<LinesLeftOut>) {
        let mut told = self.sweep(now);
        if source == LineSource::Root {
            return (true, told);
        }
        let is_new = !self.all.contains_key(&source);
        let source = match is_new && self.all.len() >= SOURCES_MAX {
            true => LineSource::Rest,
            false => source,
        };
        let fresh = || LineBucket {
            until: now,
            left_out: 0,
        };
        let bucket = self.all.entry(source.clone()).or_insert_with(fresh);
        if bucket.until > now + PERIOD * (AT_ONCE - 1) {
            bucket.left_out += 1;
            return (false, told);
        }
        bucket.until = bucket.until.max(now) + PERIOD;
        let left_out = std::mem::take(&mut bucket.left_out);
        told.extend((left_out > 0).then_some((source, left_out)));
        (true, told)
    }

    /// Forgets sources that write no more.
    fn sweep(&mut self, now: Instant) -> Vec<LinesLeftOut> {
        let swept = *self.swept.get_or_insert(now);
        if now.saturating_duration_since(swept) < SWEEP {
            return Vec::new();
        }
        self.swept = Some(now);
        let ended = self.all.extract_if(|_, bucket| bucket.until <= now);
        let told = ended.filter(|(_, bucket)| bucket.left_out > 0);
        told.map(|(source, bucket)| (source, bucket.left_out))
            .collect()
    }
}

/// Leaves out lines of sources that write too many.
pub(super) struct SourceLimits {
    buckets: Mutex<LineBuckets>,
    output: LogOutput,
}

impl SourceLimits {
    pub(super) fn new(output: LogOutput) -> SourceLimits {
        SourceLimits {
            buckets: Mutex::default(),
            output,
        }
    }

    fn tell(&self, (source, lines): LinesLeftOut) {
        let mut line = String::new();
        let _ = SystemTime.format_time(&mut Writer::new(&mut line));
        let _ = writeln!(line, "  WARN {lines} lines of {source} were left out");
        let _ = self.output.clone().write_all(line.as_bytes());
    }
}

/// The fields that have the address of a client.
const FIELDS: [&str; 2] = ["from", "source"];

/// Looks for the address of a client.
#[derive(Default)]
struct FromField(Option<IpAddr>);

impl Visit for FromField {
    fn record_str(&mut self, field: &Field, value: &str) {
        if FIELDS.contains(&field.name()) {
            self.0 = address_in(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if FIELDS.contains(&field.name()) {
            self.0 = address_in(&format!("{value:?}"));
        }
    }
}

/// The address, or the network, that a limit is for.
fn address_in(text: &str) -> Option<IpAddr> {
    let text = text.split('/').next()?;
    let socket = || text.parse().map(|socket: SocketAddr| socket.ip());
    let address: IpAddr = text.parse().or_else(|_| socket()).ok()?;
    Some(match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    })
}

impl<S> Layer<S> for SourceLimits
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut from = FromField::default();
        attributes.record(&mut from);
        if let (Some(address), Some(span)) = (from.0, context.span(id)) {
            span.extensions_mut().insert(LineSource::Address(address));
        }
    }

    fn event_enabled(&self, event: &Event<'_>, context: Context<'_, S>) -> bool {
        let mut from = FromField::default();
        event.record(&mut from);
        let of_span = || {
            let mut spans = context.event_scope(event)?;
            spans.find_map(|span| span.extensions().get::<LineSource>().cloned())
        };
        let metadata = event.metadata();
        let source = from.0.map(LineSource::Address).or_else(of_span);
        let source = source.or_else(|| COMMAND_OF.with_borrow(Option::clone));
        let source =
            source.unwrap_or_else(|| LineSource::Place(metadata.callsite(), metadata.target()));
        let (may, left_out) = self.buckets.lock().take(source, Instant::now());
        left_out.into_iter().for_each(|each| self.tell(each));
        may
    }
}

#[cfg(test)]
mod tests;
