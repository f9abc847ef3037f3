//! `pool events`: what happened to pools.

use std::time::Duration;

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, answer, other};
use console::show::{json, text, time};
use protocol::api::{EventRow, command};

use crate::cmd::pool::args::PoolEventsArgs;

const POLL: Duration = Duration::from_millis(500);

pub(super) fn run(args: PoolEventsArgs, session: &mut Session) -> Result {
    if args.clear {
        let (after, clear) = (0, true);
        return call_quiet(session, command::PoolEvents { after, clear });
    }
    let is_wanted = |event: &EventRow| args.pool.as_ref().is_none_or(|pool| *pool == event.pool);
    let clear = false;
    let first = command::PoolEvents { after: 0, clear };
    let mut events = answer!(session.call(first)?, Events)?;
    if !args.follow {
        events.retain(is_wanted);
        return Ok(Outcome::text(match session.json {
            true => json::show(&events),
            false => header(&args) + &lines(&events, &args),
        }));
    }
    let mut last = 0;
    if !session.json && !show(&header(&args))? {
        return Ok(Outcome::done());
    }
    loop {
        let mut out = String::new();
        let first = events.first().map_or(0, |event| event.id);
        if last > 0 && first > last + 1 {
            eprintln!(
                "strongroom: {} events are not shown: there were too many at once",
                first - last - 1
            );
        }
        last = events.last().map_or(last, |event| event.id);
        events.retain(is_wanted);
        match session.json {
            true => {
                for event in &events {
                    // An object without line breaks in it.
                    out +=
                        &serde_json::to_string(event).map_err(|error| other(error.to_string()))?;
                    out += "\n";
                }
            }
            false => out = lines(&events, &args),
        }
        // A reader that has seen enough, like `head`, is no error.
        if !show(&out)? {
            return Ok(Outcome::done());
        }
        std::thread::sleep(POLL);
        events = newer(last, session)?;
    }
}

fn newer(after: u64, session: &mut Session) -> Result<Vec<EventRow>> {
    let clear = false;
    answer!(
        session.call_running(command::PoolEvents { after, clear })?,
        Events
    )
}

/// Prints at once. False if the reader is gone.
fn show(out: &str) -> Result<bool> {
    match text::print(out) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            let text = format!("cannot write to the standard output: {error}");
            Err(other(text))
        }
    }
}

fn header(args: &PoolEventsArgs) -> String {
    match args.script {
        true => String::new(),
        false => format!("{:<19}  {:<15}  POOL\n", "TIME", "CLASS"),
    }
}

fn lines(events: &[EventRow], args: &PoolEventsArgs) -> String {
    let line = |event: &EventRow| {
        let (pool, what) = (text::in_a_cell(&event.pool), text::in_a_cell(&event.text));
        let (when, class) = (time::history(event.time), &event.class);
        match (args.script, args.verbose) {
            (true, false) => format!("{when}\t{class}\t{pool}\n"),
            (true, true) => format!("{when}\t{class}\t{pool}\t{what}\n"),
            (false, false) => format!("{when:<19}  {class:<15}  {pool}\n"),
            (false, true) => format!("{when:<19}  {class:<15}  {pool}\n\t{what}\n"),
        }
    };
    events.iter().map(line).collect()
}
