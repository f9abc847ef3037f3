//! Sending and receiving: the standard output and input, and the daemon between them.

use std::io::{IsTerminal, Read};

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, answer, other, usage};
use console::show::json;
use console::show::properties::canonical;
use console::terminal::input_is_data;
use protocol::api::{Failure, ReceiveName, SendScope, command};
use protocol::client::Data;
use rustix::io::Errno;

use crate::cmd::send::args::{Receive, Send};
use crate::cmd::send::progress::{StreamProgress, estimates};

pub(crate) fn send(args: Send, session: &mut Session) -> Result {
    let mut command = command::Send {
        what: what(&args),
        raw: args.raw,
        props: args.props || args.replicate,
        estimate: true,
    };
    let is_told = args.verbose || args.parsable;
    if args.dry_run {
        let streams = answer!(session.call(command)?, Streams)?;
        return Ok(match (session.json, is_told) {
            (true, _) => Outcome::text(json::show(&streams)),
            (false, true) => Outcome::text(estimates(&streams, args.parsable)),
            (false, false) => Outcome::done(),
        });
    }
    if std::io::stdout().is_terminal() {
        return Err(usage(
            "a stream is not for a terminal; send the standard output to a file or a pipe",
        ));
    }
    let progress = match is_told {
        false => StreamProgress::quiet(),
        true => {
            let streams = answer!(session.call(command.clone())?, Streams)?;
            eprint!("{}", estimates(&streams, args.parsable));
            StreamProgress::of(streams, args.parsable)
        }
    };
    command.estimate = false;
    let mut output = StreamOutput { progress };
    session.call_with_data(command, &mut output)?;
    if args.verbose && !args.parsable {
        output.progress.report("sent");
    }
    Ok(Outcome::done())
}

fn what(args: &Send) -> SendScope {
    match (&args.token, &args.snapshot) {
        (Some(token), _) => SendScope::Rest {
            token: token.clone(),
            of: args.snapshot.clone(),
        },
        (None, snapshot) => SendScope::Snapshot {
            name: snapshot.clone().unwrap_or_default(),
            all: args.all_from.is_some(),
            replicate: args.replicate,
            from: args.from.clone().or(args.all_from.clone()),
        },
    }
}

pub(crate) fn receive(args: Receive, session: &mut Session) -> Result {
    let target = args.target;
    if args.abandon {
        return call_quiet(session, command::ReceiveAbandon { target });
    }
    if std::io::stdin().is_terminal() {
        return Err(usage(
            "a stream does not come from a terminal; give it a file or a pipe as standard input",
        ));
    }
    input_is_data();
    let exclude = args.exclude.iter().map(|name| canonical(name).into());
    let command = command::Receive {
        target,
        naming: match (args.path, args.last) {
            (true, _) => ReceiveName::Path,
            (false, true) => ReceiveName::Last,
            (false, false) => ReceiveName::Exact,
        },
        force: args.force,
        resumable: args.resumable,
        no_mount: args.no_mount,
        dry_run: args.dry_run,
        props: args.props,
        exclude: exclude.collect(),
    };
    let progress = match args.verbose {
        true => StreamProgress::unknown(),
        false => StreamProgress::quiet(),
    };
    let mut input = Input { progress };
    let reply = session.call_with_data(command, &mut input)?;
    let names = answer!(reply, Names)?;
    let done = match args.dry_run {
        true => "would receive",
        false => "received",
    };
    if args.verbose {
        for name in &names {
            eprintln!("{done} {name}");
        }
        input.progress.report("read");
    }
    match session.json {
        true => Ok(Outcome::text(json::show(&names))),
        false => Ok(Outcome::done()),
    }
}

/// The standard output takes what the daemon sends.
struct StreamOutput {
    progress: StreamProgress,
}

impl Data for StreamOutput {
    fn take(&mut self, piece: &[u8]) -> std::result::Result<(), Failure> {
        self.progress.add(piece.len());
        // Without the buffer of lines that it has otherwise.
        let mut rest = piece;
        while !rest.is_empty() {
            match rustix::io::write(rustix::stdio::stdout(), rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(other(format!("the stream cannot be written: {error}"))),
            }
        }
        Ok(())
    }

    fn give(&mut self, _: &mut [u8]) -> std::result::Result<usize, Failure> {
        Ok(0)
    }
}

/// The standard input gives what the daemon is to have.
struct Input {
    progress: StreamProgress,
}

impl Data for Input {
    fn take(&mut self, _: &[u8]) -> std::result::Result<(), Failure> {
        Ok(())
    }

    fn give(&mut self, piece: &mut [u8]) -> std::result::Result<usize, Failure> {
        loop {
            match std::io::stdin().lock().read(piece) {
                Ok(read) => {
                    self.progress.add(read);
                    return Ok(read);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(other(format!("the stream cannot be read: {error}"))),
            }
        }
    }
}
