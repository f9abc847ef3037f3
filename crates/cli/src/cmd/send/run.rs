//! Sending and receiving: the standard output and input, and the daemon between them.

use std::io::{IsTerminal, Read};
use std::time::Instant;

use protocol::api::{Failure, SendWhat, command};
use protocol::client::Data;
use rustix::io::Errno;

use crate::cmd::send::args::{Receive, Send};
use crate::outcome::{Outcome, Result, call_quiet};
use crate::session::{Session, answer, other, usage};
use crate::show::json;
use crate::show::properties::canonical;
use crate::show::size::human;
use crate::terminal::input_is_data;

pub(crate) fn send(args: Send, session: &mut Session) -> Result {
    if std::io::stdout().is_terminal() {
        return Err(usage(
            "a stream is not for a terminal; send the standard output to a file or a pipe",
        ));
    }
    let what = match (args.token, args.snapshot) {
        (Some(token), _) => SendWhat::Rest { token },
        (None, snapshot) => SendWhat::Snapshot {
            name: snapshot.unwrap_or_default(),
            all: args.all_from.is_some(),
            from: args.from.or(args.all_from),
        },
    };
    let command = command::Send {
        what,
        raw: args.raw,
        props: args.props,
    };
    let mut output = Output {
        amount: Amount::new(),
    };
    session.call_with_data(command, &mut output)?;
    output.amount.report("sent", args.verbose);
    Ok(Outcome::done())
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
        force: args.force,
        resumable: args.resumable,
        props: args.props,
        exclude: exclude.collect(),
    };
    let mut input = Input {
        amount: Amount::new(),
    };
    let reply = session.call_with_data(command, &mut input)?;
    let names = answer!(reply, Names)?;
    if args.verbose {
        for name in &names {
            eprintln!("received {name}");
        }
    }
    input.amount.report("received", args.verbose);
    match session.json {
        true => Ok(Outcome::text(json::show(&names))),
        false => Ok(Outcome::done()),
    }
}

/// How much went through, since when.
struct Amount {
    begin: Instant,
    bytes: u64,
}

impl Amount {
    fn new() -> Amount {
        Amount {
            begin: Instant::now(),
            bytes: 0,
        }
    }

    fn report(&self, what: &str, is_wanted: bool) {
        if is_wanted {
            let seconds = self.begin.elapsed().as_secs_f64();
            let speed = self.bytes as f64 / seconds.max(0.001);
            let (amount, speed) = (human(self.bytes), human(speed as u64));
            eprintln!("{what} {amount} in {seconds:.1} s, {speed} in each");
        }
    }
}

/// The standard output takes what the daemon sends.
struct Output {
    amount: Amount,
}

impl Data for Output {
    fn take(&mut self, piece: &[u8]) -> std::result::Result<(), Failure> {
        self.amount.bytes += piece.len() as u64;
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
    amount: Amount,
}

impl Data for Input {
    fn take(&mut self, _: &[u8]) -> std::result::Result<(), Failure> {
        Ok(())
    }

    fn give(&mut self, piece: &mut [u8]) -> std::result::Result<usize, Failure> {
        loop {
            match std::io::stdin().lock().read(piece) {
                Ok(read) => {
                    self.amount.bytes += read as u64;
                    return Ok(read);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(other(format!("the stream cannot be read: {error}"))),
            }
        }
    }
}
