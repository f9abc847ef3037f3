//! The progress of a stream, and how large it will be, in the words of `zfs send -v` and `-P`.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use console::show::size::human;
use console::show::time;
use console::terminal::{bar, counter};
use indicatif::ProgressBar;
use protocol::api::StreamRow;

/// A line says how far a stream is, so often.
const EACH: Duration = Duration::from_secs(1);

/// The bytes that went through, since when, and how it is told.
pub(crate) struct StreamProgress {
    begin: Instant,
    bytes: u64,
    form: ProgressForm,
}

/// The form of reports.
enum ProgressForm {
    /// No report is printed.
    Quiet,
    /// By a bar on the terminal.
    Bar(ProgressBar),
    /// By lines, for these streams.
    Lines {
        streams: Vec<StreamRow>,
        is_parsable: bool,
        last: Instant,
    },
}

impl StreamProgress {
    fn new(form: ProgressForm) -> StreamProgress {
        StreamProgress {
            begin: Instant::now(),
            bytes: 0,
            form,
        }
    }

    /// Says nothing.
    pub(crate) fn quiet() -> StreamProgress {
        StreamProgress::new(ProgressForm::Quiet)
    }

    /// Reports streams that are sent.
    pub(crate) fn of(streams: Vec<StreamRow>, is_parsable: bool) -> StreamProgress {
        if !is_parsable && std::io::stderr().is_terminal() {
            let bar = bar("send");
            bar.set_length(streams.iter().map(|row| row.size).sum());
            return StreamProgress::new(ProgressForm::Bar(bar));
        }
        if let (Some(first), false) = (streams.first(), is_parsable) {
            eprintln!("TIME        SENT   SNAPSHOT {}", first.name);
        }
        StreamProgress::new(ProgressForm::Lines {
            streams,
            is_parsable,
            last: Instant::now(),
        })
    }

    /// Reports streams whose size is unknown.
    pub(crate) fn unknown() -> StreamProgress {
        match std::io::stderr().is_terminal() {
            true => StreamProgress::new(ProgressForm::Bar(counter("receive"))),
            false => StreamProgress::quiet(),
        }
    }

    /// Counts bytes that went through.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        match &mut self.form {
            ProgressForm::Quiet => {}
            ProgressForm::Bar(bar) => bar.set_position(self.bytes),
            ProgressForm::Lines {
                streams,
                is_parsable,
                last,
            } => {
                if last.elapsed() >= EACH {
                    *last = Instant::now();
                    let now = time::of_day();
                    let (name, done) = reached(streams, self.bytes);
                    match is_parsable {
                        true => eprintln!("{now}\t{done}\t{name}"),
                        false => eprintln!("{now}   {:>5}   {name}", human(done)),
                    }
                }
            }
        }
    }

    /// Says how much went through, and how fast.
    pub(crate) fn report(self, what: &str) {
        drop(self.form);
        let seconds = self.begin.elapsed().as_secs_f64();
        let speed = self.bytes as f64 / seconds.max(0.001);
        let (amount, speed) = (human(self.bytes), human(speed as u64));
        eprintln!("{what} {amount} in {seconds:.1} s, {speed} in each");
    }
}

/// The stream that is on its way after so many bytes of all, and how many of them are its own.
fn reached(streams: &[StreamRow], bytes: u64) -> (&str, u64) {
    let mut before = 0;
    for row in streams {
        if bytes <= before + row.size {
            return (&row.name, bytes - before);
        }
        before += row.size;
    }
    let last = streams.last().map_or("", |row| row.name.as_str());
    (last, bytes - before)
}

/// The streams that will be sent, one line for each stream, and one for all.
pub(crate) fn estimates(streams: &[StreamRow], is_parsable: bool) -> String {
    let mut lines = String::new();
    for StreamRow { name, from, size } in streams {
        let dataset = |name: &str| name.split(['@', '#']).next().map(str::to_owned);
        let from = from
            .as_ref()
            .map(|from| match dataset(from) == dataset(name) {
                // As zfs: the name without the dataset.
                true => from.trim_start_matches(|c| c != '@' && c != '#'),
                false => from,
            });
        lines += &match (is_parsable, from) {
            (true, Some(from)) => {
                let from = from.strip_prefix('@').unwrap_or(from);
                format!("incremental\t{from}\t{name}\t{size}\n")
            }
            (true, None) => format!("full\t{name}\t{size}\n"),
            (false, Some(from)) => {
                let size = human(*size);
                format!("send from {from} to {name} estimated size is {size}\n")
            }
            (false, None) => format!("full send of {name} estimated size is {}\n", human(*size)),
        };
    }
    let total = streams.iter().map(|row| row.size).sum();
    lines += &match is_parsable {
        true => format!("size\t{total}\n"),
        false => format!("total estimated size is {}\n", human(total)),
    };
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, from: Option<&str>, size: u64) -> StreamRow {
        StreamRow {
            name: name.into(),
            from: from.map(str::to_owned),
            size,
        }
    }

    #[test]
    fn lines_are_those_of_zfs() {
        let streams = [
            row("tank/a@1", None, 5 << 20),
            row("tank/a@2", Some("tank/a@1"), 1536),
            row("tank/c@1", Some("tank/a@2"), 600),
        ];
        assert_eq!(
            estimates(&streams, true),
            "full\ttank/a@1\t5242880\nincremental\t1\ttank/a@2\t1536\n\
             incremental\ttank/a@2\ttank/c@1\t600\nsize\t5245016\n"
        );
        assert_eq!(
            estimates(&streams, false),
            "full send of tank/a@1 estimated size is 5M\n\
             send from @1 to tank/a@2 estimated size is 1.50K\n\
             send from tank/a@2 to tank/c@1 estimated size is 600B\n\
             total estimated size is 5.00M\n"
        );
    }

    #[test]
    fn the_stream_on_its_way_is_found() {
        let streams = [row("a@1", None, 100), row("a@2", None, 50)];
        assert_eq!(reached(&streams, 0), ("a@1", 0));
        assert_eq!(reached(&streams, 100), ("a@1", 100));
        assert_eq!(reached(&streams, 120), ("a@2", 20));
        assert_eq!(reached(&streams, 150), ("a@2", 50));
        assert_eq!(reached(&[], 7), ("", 7));
    }
}
