//! The progress of a re-encryption, as a bar on a terminal, or as lines.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use console::terminal::bar;
use indicatif::ProgressBar;
use luks::ReencryptionProgress;
use serde_json::json;

/// The number of times that a line is printed if it is not said.
const USUAL: Duration = Duration::from_millis(500);

/// Shows progress.
pub(crate) struct Reporter {
    device: String,
    form: ReportForm,
    begun: Instant,
    /// The first that was shown: what was done before does not count for the rate.
    first: Option<ReencryptionProgress>,
    last: Option<ReencryptionProgress>,
    printed: Option<Instant>,
}

enum ReportForm {
    Nothing,
    Bar(ProgressBar),
    Lines { every: Duration, as_json: bool },
}

impl Reporter {
    /// Reports by lines of text or JSON if that is asked for, or else as a bar if there is a terminal.
    pub(crate) fn new(device: &Path, frequency: Option<u64>, as_json: bool) -> Reporter {
        let every = frequency.map(Duration::from_secs);
        let form = match (every, as_json) {
            (None, false) if std::io::stderr().is_terminal() => ReportForm::Bar(bar("re-encrypt")),
            (None, false) => ReportForm::Nothing,
            (every, as_json) => ReportForm::Lines {
                every: every.unwrap_or(USUAL),
                as_json,
            },
        };
        Reporter {
            device: device.display().to_string(),
            form,
            begun: Instant::now(),
            first: None,
            last: None,
            printed: None,
        }
    }

    pub(crate) fn show(&mut self, progress: ReencryptionProgress) {
        self.last = Some(progress);
        let is_first = self.first.is_none();
        let first = *self.first.get_or_insert(progress);
        match &self.form {
            ReportForm::Nothing => {}
            ReportForm::Bar(bar) => {
                bar.set_length(progress.total);
                bar.set_position(progress.done);
                if is_first {
                    bar.reset_eta();
                }
            }
            ReportForm::Lines { every, as_json } => {
                let since = self.printed.unwrap_or(self.begun);
                if since.elapsed() >= *every {
                    self.printed = Some(Instant::now());
                    print(
                        &self.device,
                        progress,
                        first,
                        self.begun.elapsed(),
                        *as_json,
                    );
                }
            }
        }
    }

    /// All is done: the last line says so.
    pub(crate) fn end(self) {
        let (ReportForm::Lines { as_json, .. }, Some(first), Some(last)) =
            (&self.form, self.first, self.last)
        else {
            return;
        };
        let all = ReencryptionProgress {
            done: last.total,
            ..last
        };
        print(&self.device, all, first, self.begun.elapsed(), *as_json);
    }
}

/// Prints a line. That nothing reads it is no reason to stop.
fn print(
    device: &str,
    now: ReencryptionProgress,
    first: ReencryptionProgress,
    time: Duration,
    as_json: bool,
) {
    let line = match as_json {
        true => json_line(device, now, first, time),
        false => text_line(now, first, time),
    };
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Bytes in a second, and the time that is left.
fn rate(now: ReencryptionProgress, first: ReencryptionProgress, time: Duration) -> (f64, Duration) {
    let rate = (now.done - first.done) as f64 / time.as_secs_f64().max(1e-6);
    let left = (now.total - now.done) as f64 / rate.max(1.0);
    (
        rate,
        Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX),
    )
}

/// A line as cryptsetup prints it.
fn json_line(
    device: &str,
    now: ReencryptionProgress,
    first: ReencryptionProgress,
    time: Duration,
) -> String {
    let (rate, left) = rate(now, first, time);
    let line = json!({
        "device": device,
        "device_bytes": now.done.to_string(),
        "device_size": now.total.to_string(),
        "speed": (rate as u64).to_string(),
        "eta_ms": left.as_millis().to_string(),
        "time_ms": time.as_millis().to_string(),
    });
    line.to_string()
}

fn text_line(now: ReencryptionProgress, first: ReencryptionProgress, time: Duration) -> String {
    let (rate, left) = rate(now, first, time);
    let percent = now.done as f64 * 100.0 / now.total.max(1) as f64;
    let (minutes, seconds) = (left.as_secs() / 60, left.as_secs() % 60);
    format!(
        "{percent:.1}%, {} of {} MiB, {:.1} MiB/s, {minutes}m{seconds:02}s to go",
        now.done >> 20,
        now.total >> 20,
        rate / f64::from(1 << 20)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_before_does_not_count_for_the_rate() {
        let at = |mib: u64| ReencryptionProgress {
            done: mib << 20,
            total: 400 << 20,
        };
        let time = Duration::from_secs(10);
        assert_eq!(
            text_line(at(200), at(100), time),
            "50.0%, 200 of 400 MiB, 10.0 MiB/s, 0m20s to go"
        );
        let line: serde_json::Value =
            serde_json::from_str(&json_line("/dev/x", at(200), at(100), time)).unwrap();
        assert_eq!(line["speed"], "10485760");
        assert_eq!(line["eta_ms"], "20000");
        assert_eq!(line["device_bytes"], "209715200");
    }
}
