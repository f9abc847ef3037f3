//! Measurements by the program `openssl`.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// The program, and what a run of it costs that does nothing.
pub(super) struct OpenSsl {
    /// The version that it prints.
    pub(super) version: String,
    start: Duration,
}

impl OpenSsl {
    /// The program, if there is one.
    pub(super) fn find() -> Option<OpenSsl> {
        let (version, start) = run(Command::new("openssl").arg("version"))?;
        Some(OpenSsl {
            version: version.trim().to_owned(),
            start: start.unwrap_or_default(),
        })
    }

    /// MB/s of `openssl speed` in a second; none if it does not have the algorithm.
    ///
    /// It divides by its user time, which is cut to hundredths of a second and lacks what the kernel did:
    /// up to some percent more than the same code gets by [`super::measure`]. So its calls are divided by
    /// the time of the processor here, as there.
    pub(super) fn speed(&self, algorithm: &[&str], size: usize) -> Option<f64> {
        let mut command = Command::new("openssl");
        command
            .args(["speed", "-mr", "-seconds", "1", "-bytes"])
            .arg(size.to_string())
            .arg("-evp")
            .args(algorithm);
        let (text, took) = run(&mut command)?;
        match took {
            Some(took) => rate(&text, size, took.checked_sub(self.start)?),
            None => own_rate(&text),
        }
    }
}

/// The output of a command, standard output and error. Also the time that it had a processor, if the kernel counts it.
fn run(command: &mut Command) -> Option<(String, Option<Duration>)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let text = output(&mut child);
    // What has ended is still there to be asked, until it is waited for.
    let id = WaitId::Pid(Pid::from_child(&child));
    let ended = waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok();
    let took = ended.and_then(|_| processor_time(&child));
    let is_done = child.wait().is_ok_and(|status| status.success());
    Some((text.filter(|_| is_done)?, took))
}

/// Reads both outputs, which are shorter than a pipe.
fn output(child: &mut Child) -> Option<String> {
    let mut text = String::new();
    child.stdout.take()?.read_to_string(&mut text).ok()?;
    child.stderr.take()?.read_to_string(&mut text).ok()?;
    Some(text)
}

fn processor_time(child: &Child) -> Option<Duration> {
    let counted = std::fs::read_to_string(format!("/proc/{}/schedstat", child.id())).ok()?;
    let nanos: u64 = counted.split(' ').next()?.parse().ok()?;
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

/// MB/s, from a line `+R:calls:name:seconds` and the time that they took.
fn rate(text: &str, size: usize, took: Duration) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("+R:"))?;
    let calls: f64 = line.split(':').next()?.parse().ok()?;
    (calls > 0.0).then(|| calls * size as f64 / took.as_secs_f64() / 1e6)
}

/// MB/s, from a line `+F:number:name:bytes a second`.
fn own_rate(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("+F:"))?;
    let bytes: f64 = line.rsplit(':').next()?.trim().parse().ok()?;
    (bytes > 0.0).then_some(bytes / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_output_is_read() {
        let text = "+H:131072\n+F:25:AES-128-CBC:5936906240.00\n+DT:AES-128-CBC:1:131072\n+R:60969:AES-128-CBC:0.670000\n";
        assert_eq!(own_rate(text), Some(5936.90624));
        let second = Duration::from_secs(1);
        assert_eq!(rate(text, 1000, second), Some(60.969));
        assert_eq!(rate(text, 1000, second / 2), Some(2.0 * 60.969));
        for text in [
            "",
            "+H:131072\n",
            "+F:25:AES-128-CBC:x\n+R:x:",
            "+F:25:AES-128-CBC:0.00\n+R:0:AES-128-CBC:1.0",
        ] {
            assert_eq!(own_rate(text), None);
            assert_eq!(rate(text, 1000, second), None);
        }
    }

    #[test]
    fn what_a_command_prints_and_costs() {
        let (text, took) = run(Command::new("sh").args(["-c", "echo out; echo err >&2"])).unwrap();
        assert_eq!(text, "out\nerr\n");
        // Where the kernel counts, even this takes some.
        assert!(took.is_none_or(|took| took > Duration::ZERO));
        assert!(run(Command::new("sh").args(["-c", "exit 3"])).is_none());
        assert!(run(&mut Command::new("/nonexistent/openssl")).is_none());
    }
}
